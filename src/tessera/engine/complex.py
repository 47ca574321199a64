"""Complex numbers as pairs of real tensors: what each operation computes of the two parts, in fp64 and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tessera.engine.choice import engine_function
from tessera.engine.unary import flushed


def _join(real: Tensor, imag: Tensor) -> Tensor:
    return torch.complex(real.to(torch.float64), imag.to(torch.float64))


def _parts(z: Tensor) -> tuple[Tensor, Tensor]:
    return flushed(z.real.to(torch.float32)), flushed(z.imag.to(torch.float32))


@dataclass(frozen=True, slots=True)
class ComplexStep:
    """One row: a function of a complex tensor; `real` if its result is real."""

    compute: Callable[[Tensor], Tensor]
    real: bool = False


STEPS: dict[str, ComplexStep] = {
    "abs": ComplexStep(torch.abs, real=True),
    "angle": ComplexStep(torch.angle, real=True),
    "conj": ComplexStep(lambda z: torch.conj(z).resolve_conj()),
    "reciprocal": ComplexStep(torch.reciprocal),
    "polar": ComplexStep(lambda z: torch.polar(z.real.contiguous(), z.imag.contiguous())),
    "real": ComplexStep(lambda z: z.real, real=True),
    "imag": ComplexStep(lambda z: z.imag, real=True),
}


@engine_function
def complex_unary(real: Tensor, imag: Tensor, *, op: str) -> Tensor | tuple[Tensor, Tensor]:
    """A row on one complex operand."""
    row = STEPS[op]
    result = row.compute(_join(real, imag))
    return flushed(result.to(torch.float32)) if row.real else _parts(result)


@engine_function
def is_zero(part: Tensor) -> Tensor:
    return (part == 0).to(torch.float32)


def _gradient(forward: Callable[..., Tensor], grad: Tensor, operands: list[Tensor]) -> list[Tensor]:
    leaves = [o.detach().requires_grad_() for o in operands]
    with torch.enable_grad():
        out = forward(*leaves)
        return list(torch.autograd.grad(out, leaves, grad.to(out.dtype), allow_unused=False))


@engine_function
def complex_unary_backward(*parts: Tensor, op: str) -> tuple[Tensor, Tensor]:
    """The gradient of a row: parts of the gradient (one if the row's result is real), then of the operand."""
    row = STEPS[op]
    grad = parts[0].to(torch.float64) if row.real else _join(parts[0], parts[1])
    return _parts(_gradient(row.compute, grad, [_join(*parts[-2:])])[0])


@engine_function
def complex_product_backward(*parts: Tensor, divide: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of a product or a quotient for both operands: parts of the gradient, of the first, of the second operand."""
    grad, a, b = (_join(parts[i], parts[i + 1]) for i in (0, 2, 4))
    first, second = _gradient(torch.div if divide else torch.mul, grad, [a, b])
    return (*_parts(first), *_parts(second))
