"""Elementwise work natively: one step over bfloat16 operands, or a table look-up for any program of steps on one of them.

A single step with a kernel of its own is computed; every other program of steps that look at one element is a table of 65,536 values, made once
by the torch form. Small operands are looked up only if the table is there already.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tessera import _native
from tessera.engine.binary import PAIRS
from tessera.engine.steps import STEPS
from tessera.engine.unary import TABLE_PAYS, Program, apply, is_local, is_single, needs_flush, table

_BF16, _FP32 = torch.bfloat16, torch.float32
_empty_like, _empty = torch.empty_like, torch.empty
_threads = torch.get_num_threads

#: Names of steps in `engine.steps` and `engine.binary` that differ from the kernels' own.
_RENAMED = {"identity": "copy", "subtract": "sub", "multiply": "mul", "divide": "div"}
_KERNELS = _native.UNARY_STEPS
#: A table is faster than this kernel, which is for fp32 operands.
_TABLED = {"gelu"}
OF_FLOAT: dict[str, int] = {name: _KERNELS[_RENAMED.get(name, name)] for name in STEPS if _RENAMED.get(name, name) in _KERNELS}
UNARY: dict[str, int] = {name: step for name, step in OF_FLOAT.items() if name not in _TABLED}
_PAIRS = _native.BINARY_STEPS
BINARY: dict[str, int] = {name: _PAIRS[_RENAMED.get(name, name)] for name in PAIRS if _RENAMED.get(name, name) in _PAIRS}

#: Steps that are correctly rounded in fp32.
EXACT = {name: OF_FLOAT[name] for name in ("identity", "neg", "abs", "relu", "square", "sqrt", "reciprocal", "sign")}
#: Pairs that round more than once: not for results in fp32.
TWICE = {"squared_difference"}
#: Pairs that wrap in 32 bits as the device does, without widening. (Sixteen-bit numbers are held in 32 bits, too.)
WHOLE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
}

_known: dict[Program, Tensor] = {}
_asked: dict[Program, int] = {}
#: Small operands get a table when the same program comes this often.
OFTEN = 16
#: Tables kept: a program whose constant changes with every call must not fill the memory.
MOST_TABLES = 128
#: A table of 65,536 results for a program with constants of its own must be worth making.
CONSTANT_PAYS = 8 * TABLE_PAYS


def _table(program: Program, count: int) -> Tensor | None:
    found = _known.get(program)
    if found is None:
        if len(_asked) > MOST_TABLES:
            _asked.clear()
        asked = _asked[program] = _asked.get(program, 0) + 1
        pays = CONSTANT_PAYS if any(params for _, params in program) else TABLE_PAYS
        if (count < pays and asked < OFTEN) or not is_local(program):
            return None
        if len(_known) >= MOST_TABLES:
            _known.clear()
        found = _known[program] = table(program)
    return found


def elementwise_unary(x: Tensor, *, program: Program, wide: bool = False) -> Any:
    if wide or x.dtype is _FP32:
        return _unary_wide(x, program)
    if x.dtype is not _BF16 or not program or not x.is_contiguous() or x.device.type != "cpu":
        return NotImplemented
    step = UNARY.get(program[0][0]) if len(program) == 1 else None
    if step is not None:
        out = _empty_like(x)
        count = x.numel()
        _native.unary(step, x.data_ptr(), out.data_ptr(), count, _threads())
        return out
    count = x.numel()
    values = _table(program, count)
    if values is None:
        return NotImplemented
    out = _empty_like(x)
    _native.table(values.data_ptr(), x.data_ptr(), out.data_ptr(), count, _threads())
    return out


@functools.lru_cache(maxsize=1024)
def _broadcast(*shapes: torch.Size) -> torch.Size:
    return torch.broadcast_shapes(*shapes)


def _plain(x: Tensor) -> bool:
    return x.dtype is _BF16 and x.is_contiguous() and x.device.type == "cpu"


def _float(x: Tensor) -> bool:
    return (x.dtype is _BF16 or x.dtype is _FP32) and x.is_contiguous() and x.device.type == "cpu"


def _single(x: Tensor, program: Program) -> Any:
    """Steps that torch computes well enough in fp32, and one pass in place that flushes subnormal results."""
    if not is_single(program) or not is_local(program) or x.requires_grad:
        return NotImplemented
    result = apply(x, program)
    if result.dtype is not _FP32 or not result.is_contiguous() or result.data_ptr() == x.data_ptr():
        return NotImplemented
    if needs_flush(program):
        _native.unary_wide(EXACT["identity"], result.data_ptr(), True, 0, result.data_ptr(), result.numel(), _threads())
    return result


def _unary_wide(x: Tensor, program: Program) -> Any:
    """An fp32 result: exact steps on either float, any other program on bfloat16 by a table in fp32."""
    if not program or not _float(x):
        return NotImplemented
    step, address = EXACT.get(program[0][0]) if len(program) == 1 else None, 0
    if step is None:
        if x.dtype is _FP32:
            return _single(x, program)
        if x.numel() < CONSTANT_PAYS or not is_local(program):
            return NotImplemented
        values = table(program, True)
        step, address = 0, values.data_ptr()
    out = _empty_like(x, dtype=_FP32)
    _native.unary_wide(step, x.data_ptr(), x.dtype is _FP32, address, out.data_ptr(), x.numel(), _threads())
    return out


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
) -> Any:
    step = BINARY.get(op)
    if step is None or params or a_program or b_program or program:
        return NotImplemented
    if a.dtype is torch.int32:
        whole = WHOLE.get(op)
        return NotImplemented if whole is None or b.dtype is not torch.int32 else whole(a, b)
    if wide or not _plain(a) or not _plain(b):
        if not _float(a) or not _float(b) or op in TWICE:
            return NotImplemented
        shape = a.shape if a.shape == b.shape else _broadcast(a.shape, b.shape)
        out = _empty(shape, dtype=_FP32)
        _native.binary_wide(
            step,
            a.data_ptr(),
            a.dtype is _FP32,
            0.0,
            a.shape,
            b.data_ptr(),
            b.dtype is _FP32,
            0.0,
            b.shape,
            out.data_ptr(),
            shape,
            _threads(),
        )
        return out
    if a.shape == b.shape:
        out = _empty_like(a)
        _native.binary_flat(step, a.data_ptr(), b.data_ptr(), out.data_ptr(), a.numel(), _threads())
        return out
    shape = _broadcast(a.shape, b.shape)
    out = _empty(shape, dtype=_BF16)
    _native.binary(step, a.data_ptr(), 0.0, a.shape, b.data_ptr(), 0.0, b.shape, out.data_ptr(), shape, _threads())
    return out


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
) -> Any:
    step = BINARY.get(op)
    if step is None or params or a_program or b_program or program:
        return NotImplemented
    if wide or not _plain(a):
        # fp32 operands meet the constant in fp64 in the torch form, which differs where the constant is not an fp32 number.
        if not _float(a) or op in TWICE or (a.dtype is _FP32 and struct.unpack("f", struct.pack("f", scalar))[0] != scalar):
            return NotImplemented
        out = _empty_like(a, dtype=_FP32)
        row = (a.data_ptr(), a.dtype is _FP32, 0.0, a.shape)
        number = (0, False, float(scalar), ())
        if reflected:
            _native.binary_wide(step, *number, *row, out.data_ptr(), a.shape, _threads())
        else:
            _native.binary_wide(step, *row, *number, out.data_ptr(), a.shape, _threads())
        return out
    out = _empty_like(a)
    _native.binary_scalar(step, a.data_ptr(), float(scalar), reflected, out.data_ptr(), a.numel(), _threads())
    return out


def where(condition: Tensor, *rest: Tensor, true_value: float | None = None, false_value: float | None = None) -> Any:
    tensors = list(rest)
    if not _plain(condition) or not all(map(_plain, tensors)) or not tensors:
        return NotImplemented
    shape = _broadcast(condition.shape, *(t.shape for t in tensors))
    yes = tensors.pop(0) if true_value is None else None
    no = tensors.pop(0) if false_value is None else None
    out = _empty(shape, dtype=_BF16)
    operands: list[Any] = [condition.data_ptr(), condition.shape]
    for tensor, number in ((yes, true_value), (no, false_value)):
        operands += [0, float(number or 0.0), ()] if tensor is None else [tensor.data_ptr(), 0.0, tensor.shape]
    operands += [out.data_ptr(), shape, _threads()]
    _native.where(*operands)
    return out
