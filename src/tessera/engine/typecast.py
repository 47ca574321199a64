"""From one dtype to another as the chip does it, pair by pair.

Floats become whole numbers by cutting towards zero, save in uint16, which rounds (halves away from zero); 16- and 32-bit targets saturate, 8-bit targets keep the low
bits. Whole numbers become bfloat16 by rounding halves away from zero, and block floats by way of bfloat16. Block floats are rounded as the chip's packer
does it, not as the host library. Everything here agrees bit for bit with typecasts observed on a simulated chip.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tessera.engine.choice import engine_function
from tessera.engine.unary import flushed
from tessera.formats.dtype import FORMATS, DataType, Format
from tessera.formats.rounding import to_grid


def _half_away(values: Tensor) -> Tensor:
    """fp32 to bfloat16, halves away from zero."""
    bits = values.to(torch.float32).contiguous().view(torch.int32)
    finite = (bits & 0x7FFFFFFF) < 0x7F800000
    return torch.where(finite, (bits + 0x8000) & -0x10000, bits).view(torch.float32).to(torch.bfloat16)


def _to_whole(values: Tensor, row: Format) -> Tensor:
    wide = values.to(torch.float64)
    if row.bits == 8:
        cut = torch.nan_to_num(wide, nan=0.0, posinf=0.0, neginf=0.0).trunc().clamp(-(2.0**62), 2.0**62)
        return cut.to(torch.int64)  # the store keeps the low bits
    if row.bits == 16:
        wide = torch.copysign(torch.floor(wide.abs() + 0.5), wide)
    wide = torch.nan_to_num(wide, nan=float(row.high), posinf=float(row.high), neginf=float(row.low))
    return wide.trunc().clamp(row.low, row.high).to(torch.int64)


def _from_whole(values: Tensor, row: Format) -> Tensor:
    if row.kind == "int":
        wide = values.to(torch.int64)
        return wide.clamp(row.low, row.high) if row.bits == 16 else wide
    if row.dtype == DataType.FLOAT32:
        return values.to(torch.float32)
    narrow = _half_away(values)
    return to_grid(narrow.to(torch.float32), row, rounding="device") if row.is_block else narrow


@engine_function
def typecast(x: Tensor, *, target: str) -> Tensor:
    """The values in the format of this name, rounded or saturated by the rule of the pair."""
    row = FORMATS[DataType[target]]
    if not x.is_floating_point():
        return _from_whole(x, row)
    if row.kind == "int":
        return _to_whole(x, row)
    if row.is_block:
        return to_grid(x if x.dtype is torch.float32 else x.to(torch.float32), row, rounding="device")
    return flushed(x)
