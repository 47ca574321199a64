"""Elementwise work on one operand: load, steps, store.

Load widens any format (or keeps whole numbers whole), each step is a row of `tessera.engine.steps`, store flushes subnormal results as the
chip's packer does; rounding into the output format is `launch`'s. A program is data: a tuple of (step name, parameters).

What a bfloat16 operand can be is 65,536 values, so a program of steps that torch has no good bfloat16 kernel for is tabulated once in fp64, and large
operands are looked up in that table: correctly rounded, and faster than computing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from tessera.engine.choice import engine_function
from tessera.engine.steps import STEPS

Program = tuple[tuple[str, tuple[float, ...]], ...]

#: The largest subnormal numbers: what is not beyond them is stored as zero.
SUBNORMAL = {
    torch.float32: 2.0**-126 - 2.0**-149,
    torch.float64: 2.0**-126 - 2.0**-149,
    torch.bfloat16: 127 * 2.0**-133,
    torch.float16: 2.0**-14 - 2.0**-24,
}

#: Elements of a block (for each thread) that is computed while it stays in the caches.
BLOCK = 32768

#: Operands below this many elements are computed rather than looked up.
TABLE_PAYS = 16384


def flushed(values: Tensor) -> Tensor:
    """Subnormal results are zero (with their sign), as the chip packs them."""
    if not values.is_floating_point():
        return values
    return F.hardshrink(values, SUBNORMAL[values.dtype]).copysign_(values)


def apply(values: Tensor, program: Program) -> Tensor:
    """The steps on an operand of any working dtype: int64 where all steps so far are exact, else a float."""
    for name, params in program:
        step = STEPS[name]
        if not values.is_floating_point():
            if step.integer is not None:
                values = step.integer(values, *params)
                continue
            values = values.to(torch.float64)
        values = step.compute(values, *params)
    return values


def needs_flush(program: Program) -> bool:
    return any(STEPS[name].flush for name, _ in program)


def is_single(program: Program) -> bool:
    """Whether fp32 is enough to compute every step."""
    return all(STEPS[name].single for name, _ in program)


def is_local(program: Program) -> bool:
    """Whether every element of the result depends on its own operand only."""
    return all(STEPS[name].local for name, _ in program)


def _stored(result: Tensor, program: Program) -> Tensor:
    return flushed(result.to(torch.float32)) if result.is_floating_point() and needs_flush(program) else result


def working(values: Tensor, program: Program) -> Tensor:
    """The operand in the dtype that the program is computed in."""
    if not values.is_floating_point():
        return values.to(torch.int64)
    if is_single(program):
        return values.to(torch.float32)
    return values.to(torch.float64)


def in_blocks(compute: Callable[..., Tensor], *operands: Tensor, dtype: torch.dtype, out: torch.dtype = torch.float32) -> Tensor:
    """A computation in `dtype` on operands of one shape (or of one element), block by block: what it makes on the way stays in the caches."""
    shape = next(o.shape for o in operands if o.dim())
    flat = [o.reshape(-1) if o.dim() else o.to(dtype) for o in operands]
    made = torch.empty(shape.numel(), dtype=out, device=flat[0].device)
    step = BLOCK * max(1, torch.get_num_threads())
    for start in range(0, made.numel(), step):
        made[start : start + step] = compute(*(f[start : start + step].to(dtype) if f.dim() else f for f in flat))
    return made.reshape(shape)


def pays_in_blocks(dtype: torch.dtype, *operands: Tensor) -> bool:
    """Whether computing in `dtype` on these operands is better done in blocks: they are many floats of one shape, and have to be widened."""
    shapes = {o.shape for o in operands if o.dim()}
    many = len(shapes) == 1 and next(iter(shapes)).numel() > 2 * BLOCK and all(o.is_floating_point() for o in operands)
    return many and any(o.dtype is not dtype for o in operands if o.dim())


@functools.lru_cache(maxsize=128)
def table(program: Program, wide: bool = False) -> Tensor:
    """A program's result for each of the 65,536 bfloat16 values, by their bits; in fp32 when `wide`."""
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    result = apply(every.to(torch.float64), program).to(torch.float32)
    result = flushed(result) if needs_flush(program) else result
    return result if wide else result.to(torch.bfloat16)


def look_up(values: Tensor, program: Program, wide: bool = False) -> Tensor:
    index = values.contiguous().view(torch.uint16).reshape(-1).to(torch.int32)
    return table(program, wide).to(values.device).index_select(0, index).reshape(values.shape)


@engine_function
def elementwise_unary(x: Tensor, *, program: Program, wide: bool = False) -> Tensor:
    """A program of steps on one operand. Whole numbers come back as int64; `launch` wraps them into their format. `wide`: the result is stored in
    another format than bfloat16, and must not be rounded to that on the way."""
    if x.dtype is torch.bfloat16:
        if not wide and len(program) == 1 and not program[0][1]:
            step = STEPS[program[0][0]]
            if step.narrow:
                result = step.compute(x)
                return flushed(result) if step.flush else result
        if x.numel() >= TABLE_PAYS and is_local(program) and not (wide and is_single(program)):
            return look_up(x, program, wide)
    dtype = torch.float32 if is_single(program) else torch.float64
    if pays_in_blocks(dtype, x) and is_local(program):
        out = x.dtype if x.dtype is torch.bfloat16 and not wide else torch.float32
        return in_blocks(lambda block: _stored(apply(block, program), program), x, dtype=dtype, out=out)
    return _stored(apply(working(x, program), program), program)
