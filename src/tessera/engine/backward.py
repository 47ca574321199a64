"""Gradients: vector-Jacobian products of the forward rows, taken by torch's autograd in fp64.

Nothing here is a second formula: the derivative of a step is the derivative of the row that computes it. Gradients are not summed over broadcast
dimensions, because TT-NN does not. For bfloat16 operands a step's derivative is tabulated, as its value is in the forward direction.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tessera.engine.binary import PAIRS
from tessera.engine.choice import engine_function
from tessera.engine.steps import STEPS
from tessera.engine.ternary import TRIPLES
from tessera.engine.unary import BLOCK, TABLE_PAYS, Program, apply, flushed

Forward = Callable[..., Tensor]


def gradients(forward: Forward, grad: Tensor, operands: Sequence[Tensor], wanted: Sequence[bool]) -> list[Tensor]:
    """The gradients of the wanted operands, each in the common broadcast shape."""
    expanded = torch.broadcast_tensors(grad.to(torch.float64), *(o.to(torch.float64) for o in operands))
    upstream, leaves = expanded[0], [e.detach().clone().requires_grad_(w) for e, w in zip(expanded[1:], wanted)]
    chosen = [leaf for leaf, w in zip(leaves, wanted) if w]
    with torch.enable_grad():
        out = forward(*leaves)
        found = torch.autograd.grad(out, chosen, upstream, allow_unused=True) if out.requires_grad else [None] * len(chosen)
    return [torch.zeros_like(upstream) if g is None else g for g in found]


def rounded_gradients(forward: Forward, grad: Tensor, operands: Sequence[Tensor], wanted: Sequence[bool]) -> tuple[Tensor, ...]:
    """`gradients` in fp32; block by block for many elements, so that what autograd keeps stays in the caches."""
    step, count = BLOCK * max(1, torch.get_num_threads()), grad.numel()
    if count <= 2 * BLOCK or any(o.shape != grad.shape for o in operands):
        return tuple(_rounded(g) for g in gradients(forward, grad, operands, wanted))
    flat = [o.reshape(-1) for o in (grad, *operands)]
    made = [torch.empty(count, dtype=torch.float32, device=grad.device) for w in wanted if w]
    for start in range(0, count, step):
        block = [f[start : start + step] for f in flat]
        for out, found in zip(made, gradients(forward, block[0], block[1:], wanted)):
            out[start : start + step] = _rounded(found)
    return tuple(out.reshape(grad.shape) for out in made)


def _rounded(values: Tensor) -> Tensor:
    return flushed(values.to(torch.float32))


@functools.lru_cache(maxsize=64)
def slopes(program: Program) -> Tensor:
    """The derivative of a program at each bfloat16 value, by its bits, in fp64."""
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    return gradients(lambda x: apply(x, program), torch.ones(()), [every], [True])[0]


@engine_function
def unary_backward(grad: Tensor, x: Tensor, *, program: Program) -> Tensor:
    """The gradient of a program of steps."""
    if x.dtype is torch.bfloat16 and x.numel() >= TABLE_PAYS and all(STEPS[name].local for name, _ in program):
        index = x.contiguous().view(torch.uint16).reshape(-1).to(torch.int32)
        return _rounded(grad.to(torch.float64) * slopes(program).to(x.device).index_select(0, index).reshape(x.shape))
    return rounded_gradients(lambda v: apply(v, program), grad, [x], [True])[0]


@engine_function
def pair_backward(
    grad: Tensor, a: Tensor, b: Tensor, *, op: str, params: tuple[float, ...] = (), wanted: tuple[bool, ...] = (True, True)
) -> tuple[Tensor, ...]:
    """The gradients of a pair, those wanted."""
    row = PAIRS[op]
    return rounded_gradients(lambda x, y: row.compute(x, y, *params), grad, [a, b], wanted)


@engine_function
def triple_backward(
    grad: Tensor, a: Tensor, b: Tensor, c: Tensor, *, op: str, params: tuple[float, ...] = (), wanted: tuple[bool, ...] = (True, True, True)
) -> tuple[Tensor, ...]:
    """The gradients of a triple, those wanted."""
    row = TRIPLES[op]
    return rounded_gradients(lambda x, y, z: row.compute(x, y, z, *params), grad, [a, b, c], wanted)


@engine_function
def lerp_backward(
    grad: Tensor, a: Tensor, b: Tensor, *, op: str, params: tuple[float, ...], wanted: tuple[bool, ...] = (True, True)
) -> tuple[Tensor, ...]:
    """The gradients of lerp by a constant weight."""
    weight = params[0]
    sides = (grad.to(torch.float64) * (1 - weight), grad.to(torch.float64) * weight)
    shape = torch.broadcast_shapes(grad.shape, a.shape, b.shape)
    return tuple(_rounded(side.expand(shape)) for side, w in zip(sides, wanted) if w)


@engine_function
def where_backward(
    grad: Tensor, condition: Tensor, *, op: str = "where", params: tuple[float, ...] = (), wanted: tuple[bool, ...] = (True, True)
) -> tuple[Tensor, ...]:
    """The gradient goes to the side that was chosen."""
    zero = torch.zeros((), dtype=grad.dtype)
    sides = (torch.where(condition != 0, grad, zero), torch.where(condition == 0, grad, zero))
    return tuple(side for side, w in zip(sides, wanted) if w)


@engine_function
def clamp_backward(grad: Tensor, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The gradient where the value was left as it is."""
    return torch.where((x >= low) & (x <= high), grad, torch.zeros((), dtype=grad.dtype))


@engine_function
def prod_backward(grad: Tensor, x: Tensor, *, dim: int | None = None) -> Tensor:
    """The gradient of a product over all elements or one dimension, right also where elements are zero. A gradient that does not broadcast to the
    operand gives its first element, as a product over everything has but one."""
    if any(g not in (1, d) for g, d in zip(reversed(grad.shape), reversed(x.shape))):
        grad = grad.reshape(-1)[0]
    wide = x.to(torch.float64).requires_grad_()
    with torch.enable_grad():
        out = wide.prod() if dim is None else wide.prod(dim, keepdim=True)
        found = torch.autograd.grad(out, wide, torch.ones_like(out))[0]
    return _rounded(grad.to(torch.float64) * found)


@engine_function
def repeat_backward(grad: Tensor, *, dim: int, count: int) -> Tensor:
    """The sum of the gradients of all repetitions along one dimension."""
    return _rounded(grad.to(torch.float64).unflatten(dim, (count, -1)).sum(dim))


@engine_function
def slice_backward(grad: Tensor, *, begin: tuple[int, ...], dims: tuple[int, ...]) -> Tensor:
    """The part of a gradient that starts at `begin`; zero where it ends early."""
    part = grad[tuple(slice(b, b + d) for b, d in zip(begin, dims))]
    if tuple(part.shape) == tuple(dims):
        return part
    return torch.nn.functional.pad(part, [n for have, want in zip(reversed(part.shape), reversed(dims)) for n in (0, want - have)])


@engine_function
def zeros(grad: Tensor) -> Tensor:
    """The gradient of what does not move when its operand does."""
    return torch.zeros_like(grad)
