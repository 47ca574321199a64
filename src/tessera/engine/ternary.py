"""Elementwise work on three operands, any of the last two of which may be a constant.

Whole numbers are exact in int64, floats are computed in fp32 where one rounding suffices and in fp64 elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tessera.engine.choice import engine_function
from tessera.engine.unary import flushed, in_blocks, pays_in_blocks

Operand = Tensor | float | int
Form = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Triple:
    """One row: a form on floats and, where whole numbers are taken exactly, on int64. `one_product`: of bfloat16 operands fp32 holds the product exactly, so that
    it rounds but once."""

    compute: Form
    integer: Form | None = None
    one_product: bool = False


def _lerp(start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    return start + weight * (end - start)


def _clamp(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(x, low), high)


def _snake_beta(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return x + torch.sin(alpha * x).square() / (beta + 1e-9)


TRIPLES: dict[str, Triple] = {
    "addcmul": Triple(lambda a, b, c, value=1.0: a + value * b * c, lambda a, b, c, value=1: a + int(value) * b * c, True),
    "addcdiv": Triple(lambda a, b, c, value=1.0: a + value * b / c),
    "lerp": Triple(_lerp),
    "mac": Triple(lambda a, b, c: a * b + c, lambda a, b, c: a * b + c, True),
    "clamp": Triple(_clamp, _clamp),
    "snake_beta": Triple(_snake_beta),
}


def _computed(op: str, a: Tensor, b: Operand, c: Operand, params: tuple[float, ...]) -> Tensor:
    row = TRIPLES[op]
    operands = (a, b, c)
    whole = row.integer is not None and not any(o.is_floating_point() if isinstance(o, Tensor) else isinstance(o, float) for o in operands)
    form = row.integer if whole and row.integer is not None else row.compute
    given = [o if isinstance(o, Tensor) else torch.tensor(o, dtype=torch.int64 if whole else torch.float64) for o in operands]
    if whole:
        return form(*(o.to(torch.int64) for o in given), *params)
    short = row.one_product and params in ((), (1.0,)) and all(o.dtype is torch.bfloat16 for o in given)
    dtype = torch.float32 if short else torch.float64

    def compute(*parts: Tensor) -> Tensor:
        return flushed(form(*parts, *params).to(torch.float32))

    if pays_in_blocks(dtype, *given):
        return in_blocks(compute, *given, dtype=dtype)
    return compute(*(o.to(dtype) for o in given))


@engine_function
def elementwise_ternary(
    a: Tensor, *rest: Tensor, op: str, b: float | None = None, c: float | None = None, params: tuple[float, ...] = ()
) -> Tensor:
    """A row on three operands; `b` and `c` are given as numbers where they are constants."""
    tensors = iter(rest)
    second: Operand = next(tensors) if b is None else b
    third: Operand = next(tensors) if c is None else c
    return _computed(op, a, second, third, params)


@engine_function
def where(condition: Tensor, *rest: Tensor, true_value: float | None = None, false_value: float | None = None) -> Tensor:
    """The second operand where the first is not zero, the third elsewhere; both chosen values keep all their bits."""
    tensors = iter(rest)
    yes: Operand = next(tensors) if true_value is None else true_value
    no: Operand = next(tensors) if false_value is None else false_value
    chosen = condition != 0
    if isinstance(yes, Tensor) and isinstance(no, Tensor):
        return torch.where(chosen, yes, no)
    wide = (
        torch.float64 if any(o.is_floating_point() if isinstance(o, Tensor) else isinstance(o, float) for o in (yes, no)) else torch.int64
    )
    like = yes if isinstance(yes, Tensor) else no
    dtype = (
        like.dtype
        if isinstance(like, Tensor) and (like.is_floating_point() or wide is torch.int64)
        else wide
        if wide is torch.int64
        else torch.float32
    )
    first, second = (o if isinstance(o, Tensor) else torch.tensor(o, dtype=dtype) for o in (yes, no))
    return torch.where(chosen, first, second)


@engine_function
def channel_prelu(x: Tensor, weight: Tensor) -> Tensor:
    """x where positive, else x times its channel's slope (dimension 1)."""
    slope = weight.reshape(-1).to(torch.float32)
    if slope.numel() > 1:
        slope = slope.reshape(-1, *(1,) * (x.dim() - 2))
    wide = x.to(torch.float32)
    return flushed(torch.where(wide < 0, wide * slope, wide))
