"""Elementwise work on two operands, one of which may be a constant.

A row says what a pair computes on floats and, where whole numbers are taken exactly, on int64. Around it stand programs of steps for either
operand and for the result: fused activations are not a case of their own. Broadcasting is torch's; which shapes the chip takes is the operations' business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tessera.engine.choice import engine_function
from tessera.engine.steps import STEPS
from tessera.engine.unary import Program, apply, flushed, in_blocks, is_local, is_single, needs_flush, pays_in_blocks

Form = Callable[..., Tensor]
Operand = Tensor | float | int


@dataclass(frozen=True, slots=True)
class Pair:
    """One row; the flags mean what they mean for `steps.Step`. `brief`: fp32 is enough for a bfloat16 result of bfloat16 operands."""

    compute: Form
    integer: Form | None = None
    single: bool = False
    narrow: bool = False
    flush: bool = True
    brief: bool = False


def _flag(test: Callable[[Tensor, Tensor], Tensor]) -> Form:
    return lambda a, b: test(a, b).to(torch.float32 if a.is_floating_point() else torch.int64)


def _question(test: Callable[[Tensor, Tensor], Tensor]) -> Pair:
    form = _flag(test)
    return Pair(form, form, single=True, flush=False)


def _divided(mode: str) -> Form:
    """Whole division; a zero divisor, for which processors trap, answers zero."""

    def divide(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(b == 0, 0, torch.div(a, torch.where(b == 0, 1, b), rounding_mode=mode))

    return divide


def _modulo(operation: Callable[[Tensor, Tensor], Tensor]) -> Form:
    def modulo(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(b == 0, 0, operation(a, torch.where(b == 0, 1, b)))

    return modulo


def _ldexp(a: Tensor, b: Tensor) -> Tensor:
    return a * torch.exp2(b)


def _left_shift(a: Tensor, b: Tensor) -> Tensor:
    return torch.where((b >= 0) & (b < 32), a << b.clamp(0, 31), 0)


def _right_shift(a: Tensor, b: Tensor) -> Tensor:
    return a >> torch.where((b >= 0) & (b < 32), b, 31)


def _logical_right_shift(a: Tensor, b: Tensor) -> Tensor:
    return torch.where((b >= 0) & (b < 32), (a & 0xFFFFFFFF) >> b.clamp(0, 31), 0)


def _isclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: float = 0.0) -> Tensor:
    a, b = torch.broadcast_tensors(a.to(torch.float64), b.to(torch.float64))
    return torch.isclose(a, b, rtol, atol, bool(equal_nan)).to(torch.float32)


def _div_no_nan(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(b == 0, torch.zeros_like(b), a / b)


def _gelu(x: Tensor) -> Tensor:
    return STEPS["gelu"].compute(x)


def _clamped_silu_glu(gate: Tensor, up: Tensor, limit: float) -> Tensor:
    gate = gate.clamp(max=limit)
    return gate * torch.sigmoid(gate) * up.clamp(-limit, limit)


def _situ_glu(gate: Tensor, up: Tensor, beta1: float, beta2: float) -> Tensor:
    """A soft-capped gate under its sigmoid, times a soft-capped other half."""
    return beta1 * torch.tanh(gate / beta1) * torch.sigmoid(gate) * (beta2 * torch.tanh(up / beta2))


def _rows() -> dict[str, Pair]:
    plain: dict[str, Any] = {"single": True, "narrow": True}
    return {
        "add": Pair(torch.add, torch.add, **plain),
        "subtract": Pair(torch.sub, torch.sub, **plain),
        "rsub": Pair(lambda a, b: b - a, lambda a, b: b - a, **plain),
        "multiply": Pair(torch.mul, torch.mul, **plain),
        "divide": Pair(torch.div, **plain),
        "div_floor": Pair(lambda a, b: torch.div(a, b, rounding_mode="floor"), _divided("floor")),
        "div_floor_float": Pair(lambda a, b: torch.div(a, b, rounding_mode="floor")),
        "div_trunc": Pair(lambda a, b: torch.div(a, b, rounding_mode="trunc"), _divided("trunc")),
        "div_no_nan": Pair(_div_no_nan, single=True),
        "squared_difference": Pair(lambda a, b: torch.square(a - b), lambda a, b: torch.square(a - b), brief=True),
        "addalpha": Pair(lambda a, b, alpha=1.0: a + b * alpha, lambda a, b, alpha=1.0: a + b * int(alpha)),
        "subalpha": Pair(lambda a, b, alpha=1.0: a - b * alpha, lambda a, b, alpha=1.0: a - b * int(alpha)),
        "remainder": Pair(torch.remainder, _modulo(torch.remainder)),
        "fmod": Pair(torch.fmod, _modulo(torch.fmod)),
        "pow": Pair(torch.pow, single=True),
        "maximum": Pair(torch.maximum, torch.maximum, single=True, narrow=True),
        "minimum": Pair(torch.minimum, torch.minimum, single=True, narrow=True),
        "eq": _question(torch.eq),
        "ne": _question(torch.ne),
        "gt": _question(torch.gt),
        "lt": _question(torch.lt),
        "ge": _question(torch.ge),
        "le": _question(torch.le),
        "logical_and": _question(torch.logical_and),
        "logical_or": _question(torch.logical_or),
        "logical_xor": _question(torch.logical_xor),
        "isclose": Pair(_isclose, flush=False),
        "bitwise_and": Pair(lambda a, b: a, torch.bitwise_and),
        "bitwise_or": Pair(lambda a, b: a, torch.bitwise_or),
        "bitwise_xor": Pair(lambda a, b: a, torch.bitwise_xor),
        "left_shift": Pair(lambda a, b: a, _left_shift),
        "right_shift": Pair(lambda a, b: a, _right_shift),
        "logical_right_shift": Pair(lambda a, b: a, _logical_right_shift),
        "gcd": Pair(lambda a, b: a, torch.gcd),
        "lcm": Pair(lambda a, b: a, torch.lcm),
        "ldexp": Pair(_ldexp),
        "logaddexp": Pair(torch.logaddexp),
        "logaddexp2": Pair(torch.logaddexp2),
        "xlogy": Pair(torch.xlogy, brief=True),
        "atan2": Pair(torch.atan2, single=True),
        "hypot": Pair(torch.hypot, single=True),
        "nextafter": Pair(torch.nextafter),
        "bias_gelu": Pair(lambda a, b: _gelu(a + b)),
        "bias_gelu_tanh": Pair(lambda a, b: STEPS["gelu_tanh"].compute(a + b)),
        "prelu": Pair(lambda a, b: torch.where(a < 0, a * b, a), single=True),
        "clamped_silu_glu": Pair(_clamped_silu_glu),
        "situ_glu": Pair(_situ_glu),
    }


PAIRS: dict[str, Pair] = _rows()

#: Pairs that look at the bits of their operands, so that widening would change what they answer.
AS_STORED = frozenset({"nextafter"})


def _operands(a: Tensor, b: Tensor, row: Pair, programs: Program, op: str, wide: bool) -> tuple[Tensor, Tensor]:
    """Both operands in the dtype that the pair is computed in."""
    if not a.is_floating_point() and not b.is_floating_point() and row.integer is not None:
        return a.to(torch.int64), b.to(torch.int64)
    if op in AS_STORED:
        return a, b
    dtype = _dtype(a, b, row, programs, wide)
    return a.to(dtype), b.to(dtype)


def _dtype(a: Tensor, b: Tensor, row: Pair, programs: Program, wide: bool) -> torch.dtype:
    """fp32 where that is enough, else fp64."""
    enough = row.single or (row.brief and not wide and a.dtype is b.dtype is torch.bfloat16)
    return torch.float32 if enough and a.is_floating_point() and b.is_floating_point() and is_single(programs) else torch.float64


def combine(a: Tensor, b: Tensor, op: str, params: tuple[float, ...]) -> Tensor:
    row = PAIRS[op]
    if not a.is_floating_point() and not b.is_floating_point() and row.integer is not None:
        return row.integer(a, b, *params)
    return row.compute(a, b, *params)


def _narrow(a: Tensor, b: Operand, op: str, reflected: bool) -> Tensor | None:
    """The pair by torch's own bfloat16 kernel, where that computes in fp32 and rounds once; None where it does not."""
    if a.dtype is not torch.bfloat16 or not PAIRS[op].narrow:
        return None
    if isinstance(b, Tensor):
        return PAIRS[op].compute(a, b) if b.dtype is torch.bfloat16 else None
    return SCALAR_NARROW[op](a, b, reflected) if op in SCALAR_NARROW else None


def _run(
    a: Tensor,
    b: Operand,
    op: str,
    params: tuple[float, ...],
    a_program: Program,
    b_program: Program,
    program: Program,
    wide: bool,
    reflected: bool = False,
) -> Tensor:
    row = PAIRS[op]
    if not (wide or params or a_program or b_program or program):
        narrow = _narrow(a, b, op, reflected)
        if narrow is not None:
            return flushed(narrow) if row.flush else narrow
    if not isinstance(b, Tensor):
        b = torch.tensor(b, dtype=torch.int64 if isinstance(b, int) and not a.is_floating_point() else torch.float64)

    def compute(x: Tensor, y: Tensor) -> Tensor:
        x, y = apply(x, a_program), apply(y, b_program)
        result = apply(combine(y, x, op, params) if reflected else combine(x, y, op, params), program)
        if result.is_floating_point() and (row.flush or needs_flush(program)):
            result = flushed(result if result.dtype is torch.bfloat16 else result.to(torch.float32))
        return result

    programs = a_program + b_program + program
    dtype = _dtype(a, b, row, programs, wide)
    if op not in AS_STORED and is_local(programs) and pays_in_blocks(dtype, a, b):
        out = torch.bfloat16 if a.dtype is torch.bfloat16 and not wide else torch.float32
        return in_blocks(compute, a, b, dtype=dtype, out=out)
    return compute(*_operands(a, b, row, programs, op, wide))


SCALAR_NARROW: dict[str, Callable[[Tensor, float, bool], Tensor]] = {
    "add": lambda a, v, _: torch.add(a, v),
    "subtract": lambda a, v, reflected: torch.rsub(a, v) if reflected else torch.sub(a, v),
    "rsub": lambda a, v, reflected: torch.sub(a, v) if reflected else torch.rsub(a, v),
    "multiply": lambda a, v, _: torch.mul(a, v),
    "maximum": lambda a, v, _: torch.clamp(a.float(), min=v),
    "minimum": lambda a, v, _: torch.clamp(a.float(), max=v),
}
"""bfloat16 with a constant: torch computes these in fp32 and rounds once (a division it would turn into a multiplication)."""


@engine_function
def elementwise_binary(
    a: Tensor,
    b: Tensor,
    *,
    op: str,
    params: tuple[float, ...] = (),
    a_program: Program = (),
    b_program: Program = (),
    program: Program = (),
    wide: bool = False,
) -> Tensor:
    """Two tensors, each after its own program, and a program on the result. Whole numbers come back as int64. `wide` as for one operand."""
    return _run(a, b, op, params, a_program, b_program, program, wide)


@engine_function
def elementwise_scalar(
    a: Tensor,
    *,
    op: str,
    scalar: float,
    reflected: bool = False,
    params: tuple[float, ...] = (),
    a_program: Program = (),
    b_program: Program = (),
    program: Program = (),
    wide: bool = False,
) -> Tensor:
    """A tensor and a constant (the first operand when `reflected`)."""
    return _run(a, scalar, op, params, a_program, b_program, program, wide, reflected)
