"""What the training operations compute: reductions that keep matrices, norms with their moments, losses, optimizers, and gradients.

Gradients are autograd's of the forward function in fp64 wherever the forward is a function of its operands; sums over dimensions run in fp64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tessera.engine.choice import engine_function


def _wide(values: Tensor) -> Tensor:
    return values.to(torch.float64)


def _unlike_zero(number: float) -> float:
    return number if number != 0.0 else math.nan


def vjp(forward: Callable[..., Tensor], grad: Tensor, operands: Sequence[Tensor], wanted: Sequence[bool]) -> tuple[Tensor, ...]:
    """Gradients of the wanted operands, each in its own shape."""
    leaves = [_wide(o).detach().clone().requires_grad_(w) for o, w in zip(operands, wanted)]
    chosen = [leaf for leaf, w in zip(leaves, wanted) if w]
    with torch.enable_grad():
        out = forward(*leaves)
        return torch.autograd.grad(out, chosen, _wide(grad).reshape(out.shape))


# -- reductions


@engine_function
def reduced(values: Tensor, *, dims: Sequence[int], shape: Sequence[int], mean: bool = False) -> Tensor:
    """The sum or mean over dimensions. Whole numbers stay whole."""
    wide = _wide(values) if values.is_floating_point() else values.to(torch.int64)
    found = wide.sum(tuple(dims)) if dims else wide
    if mean:
        found = found / math.prod(values.shape[d] for d in dims)
    return found.reshape(tuple(shape))


@engine_function
def powered(values: Tensor, *, p: float) -> Tensor:
    """|x|^p."""
    found = _wide(values).abs().pow(p)
    return found if values.is_floating_point() else found.trunc()


def norm_of(values: Tensor, p: float, dims: Sequence[int]) -> Tensor:
    return torch.linalg.vector_norm(values, p, tuple(dims), keepdim=True) if dims else values.abs()


@engine_function
def norm(values: Tensor, *, p: float, dims: Sequence[int], shape: Sequence[int]) -> Tensor:
    """The p-norm over dimensions."""
    found = norm_of(_wide(values), p, dims).reshape(tuple(shape))
    return found if values.is_floating_point() else found.trunc()


@engine_function
def norm_backward(values: Tensor, output: Tensor, grad: Tensor, *, p: float, dims: Sequence[int]) -> Tensor:
    """The gradient of the p-norm: sign(x) |x|^(p-1) / y^(p-1), times the upstream one; zero where the norm is."""
    x, y, up = _wide(values), _kept(output, values.shape, dims), _kept(grad, values.shape, dims)
    if p == 0.0:
        return torch.zeros_like(x)
    if math.isinf(p):
        at = (x.abs() == y).to(x.dtype)
        return x.sign() * at / at.sum(tuple(dims), keepdim=True) * up
    slope = x.sign() * (x.abs() / y).pow(p - 1.0) * up
    return torch.where(y == 0.0, 0.0, slope)


def _kept(values: Tensor, shape: Sequence[int], dims: Sequence[int]) -> Tensor:
    """Values of a reduced tensor, each reduced dimension of extent one; a tensor of the whole shape is taken as it is."""
    wide = _wide(values)
    small = tuple(1 if k in dims else d for k, d in enumerate(shape))
    if wide.numel() == math.prod(small):
        return wide.reshape(small)
    for k in dims:
        if k < wide.dim() and wide.shape[k] not in (1, shape[k]):
            wide = wide.narrow(k, 0, 1)
    return wide


@engine_function
def spread(grad: Tensor, *, dims: Sequence[int], shape: Sequence[int], mean: bool = False) -> Tensor:
    """The gradient of a sum or mean: each element gets its group's."""
    found = _kept(grad, shape, dims).expand(tuple(shape))
    return found / math.prod(shape[d] for d in dims) if mean else found


@engine_function
def total_norm(*values: Tensor, p: float) -> Tensor:
    """The norm of all tensors together."""
    if math.isinf(p):
        return torch.stack([_wide(v).abs().max() for v in values]).max().reshape(1, 1)
    return sum((_wide(v).abs().pow(p).sum() for v in values), torch.zeros((), dtype=torch.float64)).pow(1.0 / p).reshape(1, 1)


@engine_function
def clipped(values: Tensor, total: Tensor, *, limit: float) -> Tensor:
    """Scaled down so that the total norm is at most the limit."""
    return _wide(values) * (limit / (_wide(total) + 1e-6)).clamp_max(1.0).reshape(())


# -- the softmax family

_SOFT: dict[str, Callable[[Tensor, int], Tensor]] = {
    "SOFTMAX": lambda x, dim: torch.softmax(x, dim),
    "SOFTMIN": lambda x, dim: torch.softmax(-x, dim),
    "LOGSOFTMAX": lambda x, dim: torch.log_softmax(x, dim),
}


@engine_function
def soft(values: Tensor, *, dim: int, op: str) -> Tensor:
    return _SOFT[op](values.to(torch.float32), dim)


@engine_function
def soft_backward(output: Tensor, grad: Tensor, *, dim: int, op: str) -> Tensor:
    """The gradient, from the output: y (g - sum(y g)), negated for softmin; g - exp(y) sum(g) for log-softmax."""
    y, up = _wide(output), _wide(grad)
    if op == "LOGSOFTMAX":
        return up - y.exp() * up.sum(dim, keepdim=True)
    found = y * (up - (y * up).sum(dim, keepdim=True))
    return -found if op == "SOFTMIN" else found


# -- norms with moments


def _picked(answers: Sequence[Tensor], wanted: Sequence[int]) -> tuple[Tensor, ...]:
    """Of all answers those that were asked for, by their places; none named means all."""
    return tuple(answers[i] for i in wanted) if wanted else tuple(answers)


def _moments(x: Tensor, dims: tuple[int, ...], epsilon: float) -> tuple[Tensor, Tensor]:
    var, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
    return mean, torch.rsqrt(var + epsilon)


def _affine(x: Tensor, further: dict[str, Tensor], shape: Sequence[int]) -> Tensor:
    if "gamma" in further:
        x = x * _wide(further["gamma"]).reshape(tuple(shape))
    return x + _wide(further["beta"]).reshape(tuple(shape)) if "beta" in further else x


@engine_function
def layer_norm(
    values: Tensor, *gamma_beta: Tensor, count: int, epsilon: float, roles: Sequence[str] = (), wanted: Sequence[int] = ()
) -> tuple[Tensor, ...]:
    """Normalised over the last `count` dimensions, with the mean and the inverse deviation."""
    x, dims = _wide(values), tuple(range(values.dim() - count, values.dim()))
    mean, rstd = _moments(x, dims, epsilon)
    found = _affine((x - mean) * rstd, dict(zip(roles, gamma_beta)), values.shape[-count:])
    return _picked((found, mean, rstd), wanted)


@engine_function
def layer_norm_input_grad(grad: Tensor, values: Tensor, mean: Tensor, rstd: Tensor, gamma: Tensor | None = None, *, count: int) -> Tensor:
    """From the moments of the forward pass."""
    dims, shape = tuple(range(values.dim() - count, values.dim())), (*values.shape[:-count], *(1,) * count)
    scale = _wide(rstd).reshape(shape)
    normal = (_wide(values) - _wide(mean).reshape(shape)) * scale
    up = _wide(grad) if gamma is None else _wide(grad) * _wide(gamma).reshape(tuple(values.shape[-count:]))
    return (up - up.mean(dims, keepdim=True) - normal * (up * normal).mean(dims, keepdim=True)) * scale


@engine_function
def layer_norm_affine_grads(
    grad: Tensor, values: Tensor, mean: Tensor, rstd: Tensor, *, count: int, wanted: Sequence[int] = ()
) -> tuple[Tensor, ...]:
    shape = (*values.shape[:-count], *(1,) * count)
    normal = (_wide(values) - _wide(mean).reshape(shape)) * _wide(rstd).reshape(shape)
    inner = tuple(values.shape[-count:])
    return _picked(((_wide(grad) * normal).reshape(-1, *inner).sum(0), _wide(grad).reshape(-1, *inner).sum(0)), wanted)


def _per_channel(values: Tensor) -> tuple[int, ...]:
    return (1, values.shape[1], *(1,) * (values.dim() - 2))


@engine_function
def group_norm(
    values: Tensor, *gamma_beta: Tensor, groups: int, epsilon: float, roles: Sequence[str] = (), wanted: Sequence[int] = ()
) -> tuple[Tensor, ...]:
    """Normalised over groups of the second dimension, with the mean and the inverse deviation of each."""
    x = _wide(values).reshape(values.shape[0], groups, -1)
    mean, rstd = _moments(x, (2,), epsilon)
    normal = ((x - mean) * rstd).reshape(values.shape)
    found = _affine(normal, dict(zip(roles, gamma_beta)), _per_channel(values))
    return _picked((found, mean, rstd), wanted)


@engine_function
def group_norm_input_grad(grad: Tensor, values: Tensor, mean: Tensor, rstd: Tensor, gamma: Tensor | None = None, *, groups: int) -> Tensor:
    n = values.shape[0]
    scale = _wide(rstd).reshape(n, groups, 1)
    normal = (_wide(values).reshape(n, groups, -1) - _wide(mean).reshape(n, groups, 1)) * scale
    up = _wide(grad) if gamma is None else _wide(grad) * _wide(gamma).reshape(_per_channel(values))
    up = up.reshape(n, groups, -1)
    found = (up - up.mean(2, keepdim=True) - normal * (up * normal).mean(2, keepdim=True)) * scale
    return found.reshape(values.shape)


@engine_function
def group_norm_affine_grads(
    grad: Tensor, values: Tensor, mean: Tensor, rstd: Tensor, *, groups: int, wanted: Sequence[int] = ()
) -> tuple[Tensor, ...]:
    n = values.shape[0]
    normal = (_wide(values).reshape(n, groups, -1) - _wide(mean).reshape(n, groups, 1)) * _wide(rstd).reshape(n, groups, 1)
    dims = (0, *range(2, values.dim()))
    return _picked(((_wide(grad) * normal.reshape(values.shape)).sum(dims), _wide(grad).sum(dims)), wanted)


# -- products


@engine_function
def turned_matmul(a: Tensor, b: Tensor, bias: Tensor | None = None, *, turn_a: bool = False, turn_b: bool = False) -> Tensor:
    left, right = a.to(torch.float32), b.to(torch.float32)
    found = (left.mT if turn_a else left) @ (right.mT if turn_b else right)
    return found if bias is None else found + bias.to(torch.float32).reshape(-1)


@engine_function
def matmul_grad(grad: Tensor, a: Tensor, b: Tensor, *, of: int, turn_b: bool = False) -> Tensor:
    """The gradient of one operand, summed over what was broadcast."""
    return vjp(lambda x, y: x @ (y.mT if turn_b else y), grad, [a, b], [of == 0, of == 1])[0]


@engine_function
def bias_grad(grad: Tensor, *, shape: Sequence[int]) -> Tensor:
    wide = _wide(grad)
    return (wide.sum() if math.prod(shape) == 1 else wide.reshape(-1, wide.shape[-1]).sum(0)).reshape(tuple(shape))


@engine_function
def dot(a: Tensor, b: Tensor) -> Tensor:
    return (_wide(a) * _wide(b)).sum().reshape(1, 1, 1, 1)


@engine_function
def dot_backward(grad: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    up = _wide(grad).reshape(-1)[0]
    return up * _wide(b), up * _wide(a)


# -- optimizers


@engine_function
def adam(
    param: Tensor,
    grad: Tensor,
    first: Tensor,
    second: Tensor,
    largest: Tensor | None = None,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    amsgrad: bool,
    decoupled: bool,
) -> tuple[Tensor, ...]:
    """One step of Adam or, decoupled, of AdamW: the parameter, both averages and with `amsgrad` the largest second one."""
    x, g = _wide(param), _wide(grad)
    if decoupled:
        x = x * (1.0 - lr * weight_decay)
    else:
        g = g + weight_decay * x
    first, second = beta1 * _wide(first) + (1.0 - beta1) * g, beta2 * _wide(second) + (1.0 - beta2) * g * g
    scale = second
    if amsgrad:
        scale = second if largest is None else torch.maximum(_wide(largest), second)
    root = scale.sqrt() / math.sqrt(_unlike_zero(1.0 - beta2**step)) + eps
    moved = x - lr / _unlike_zero(1.0 - beta1**step) * first / root
    return (moved, first, second, scale) if amsgrad else (moved, first, second)


@engine_function
def sgd(
    param: Tensor,
    grad: Tensor,
    buffer: Tensor | None = None,
    *,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
) -> tuple[Tensor, ...]:
    """One step of gradient descent, with the new momentum where there is one."""
    x = _wide(param)
    g = _wide(grad) + weight_decay * x
    if momentum == 0.0:
        return (x - lr * g,)
    moving = g if buffer is None else momentum * _wide(buffer) + (1.0 - dampening) * g
    return x - lr * (g + momentum * moving if nesterov else moving), moving


# -- the negative log likelihood


def _weights(target: Tensor, weight: Tensor | None, classes: int, ignore: int) -> tuple[Tensor, Tensor]:
    """For each target: its class (0 where it counts for nothing) and its weight."""
    counts = (target != ignore) & (target >= 0) & (target < classes)
    index = torch.where(counts, target, 0).to(torch.int64)
    w = torch.ones(index.shape, dtype=torch.float64) if weight is None else _wide(weight).reshape(-1)[index]
    return index, torch.where(counts, w, 0.0)


@engine_function
def nll_loss(
    values: Tensor, target: Tensor, *weight: Tensor, ignore: int, reduction: str, shape: Sequence[int]
) -> Tensor | tuple[Tensor, Tensor]:
    """-w[t] x[t] for each target; summed, or over the sum of weights, which is answered too."""
    index, w = _weights(target, weight[0] if weight else None, values.shape[1], ignore)
    picked = _wide(values).gather(1, index.unsqueeze(1)).squeeze(1)
    each = -w * picked
    if reduction == "mean":
        return (each.sum() / w.sum()).reshape(tuple(shape)), w.sum()
    return (each.sum() if reduction == "sum" else each).reshape(tuple(shape))


@engine_function
def nll_loss_backward(target: Tensor, grad: Tensor, *further: Tensor, roles: Sequence[str], ignore: int, shape: Sequence[int]) -> Tensor:
    """-w[t] times the upstream gradient at each target, over the divisor if one is given."""
    named = dict(zip(roles, further))
    index, w = _weights(target, named.get("weight"), shape[1], ignore)
    up = _wide(grad)
    each = -w * (up.reshape(index.shape) if up.numel() == index.numel() else up.reshape(-1)[0])
    if "divisor" in named:
        each = each / _wide(named["divisor"]).reshape(-1)[0]
    return torch.zeros(tuple(shape), dtype=torch.float64).scatter(1, index.unsqueeze(1), each.unsqueeze(1))


# -- making and picking


def ramp(*, start: float, end: float, step: float, whole: bool) -> Tensor:
    """Numbers from start by steps, before end."""
    found = start + step * torch.arange(max(0, math.ceil((end - start) / step)), dtype=torch.float64)
    return found.to(torch.int64) if whole else found


def full(*, shape: Sequence[int], value: float, whole: bool) -> Tensor:
    return torch.full(tuple(shape), value, dtype=torch.int64 if whole else torch.float64)


@engine_function
def getitem(values: Tensor, *indices: Tensor, dims: Sequence[int]) -> Tensor:
    """Elements by lists of numbers along dimensions."""
    place: list[slice | Tensor] = [slice(None)] * values.dim()
    for dim, index in zip(dims, indices):
        place[dim] = index.reshape(-1).to(torch.int64)
    return values[tuple(place)]


@engine_function
def fold(
    values: Tensor, *, size: Sequence[int], kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Tensor:
    """Columns of patches summed back into a picture."""
    fold_ = torch.nn.functional.fold
    return fold_(_wide(values), tuple(size), tuple(kernel), tuple(dilation), tuple(padding), tuple(stride))
