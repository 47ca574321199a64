"""Reading a value's bits as another dtype's, and throwing values away at random."""

from __future__ import annotations

import torch
from torch import Tensor

from tessera.engine.choice import engine_function
from tessera.engine.unary import flushed
from tessera.formats.dtype import FORMATS, DataType, Format
from tessera.formats.rounding import to_grid


def _bits(values: Tensor, row: Format) -> tuple[Tensor, int]:
    """The stored bits of each element as int64, and how many there are. Block floats show the bfloat16 they decode to."""
    if row.kind == "int":
        return values.to(torch.int64) & row.high if row.low == 0 else values.to(torch.int64) & ((1 << row.bits) - 1), row.bits
    if row.dtype == DataType.FLOAT32:
        return values.contiguous().view(torch.int32).to(torch.int64) & 0xFFFFFFFF, 32
    if row.dtype == DataType.FP8_E4M3:
        return values.to(torch.float8_e4m3fn).view(torch.uint8).to(torch.int64), 8
    return values.to(torch.bfloat16).contiguous().view(torch.int16).to(torch.int64) & 0xFFFF, 16


def _value(bits: Tensor, row: Format) -> Tensor:
    if row.kind == "int":
        return to_grid(bits & ((1 << row.bits) - 1), row)
    if row.dtype == DataType.FLOAT32:
        return to_grid(bits & 0xFFFFFFFF, FORMATS[DataType.INT32]).view(torch.float32)
    if row.dtype == DataType.FP8_E4M3:
        return (bits & 0xFF).to(torch.uint8).view(torch.float8_e4m3fn).to(torch.bfloat16)
    return (((bits & 0xFFFF) ^ 0x8000) - 0x8000).to(torch.int16).view(torch.bfloat16)


@engine_function
def bitcast(x: Tensor, *, source: str, target: str) -> Tensor:
    """The bits of `source` read as `target`; where one is wider, the upper bits are kept, as they lie in the chip's registers."""
    given, wanted = FORMATS[DataType[source]], FORMATS[DataType[target]]
    bits, width = _bits(x, given)
    shift = (16 if wanted.is_block else wanted.bits) - width
    return _value(bits << shift if shift >= 0 else bits >> -shift, wanted)


@engine_function
def dropout(x: Tensor, *, probability: float, scale: float, seed: int) -> Tensor:
    """Each element is zero with the given probability, else scaled; equal seeds drop the same elements."""
    generator = torch.Generator(device=x.device).manual_seed(seed & 0x7FFFFFFF)
    kept = torch.rand(x.shape, generator=generator, device=x.device) >= probability
    return flushed(torch.where(kept, x.to(torch.float32) * scale, torch.zeros((), dtype=torch.float32)))


@engine_function
def isin(elements: Tensor, candidates: Tensor, *, invert: bool = False) -> Tensor:
    """0xFFFFFFFF where an element is one of the candidates (or is none of them when inverted), else 0."""
    return torch.isin(elements, candidates, invert=invert).to(torch.int64) * 0xFFFFFFFF


@engine_function
def complex_multiply(a_real: Tensor, a_imag: Tensor, b_real: Tensor, b_imag: Tensor) -> tuple[Tensor, Tensor]:
    """(a + ib)(c + id), both parts rounded once."""
    a, b, c, d = (t.to(torch.float64) for t in (a_real, a_imag, b_real, b_imag))
    return (a * c - b * d).to(torch.float32), (a * d + b * c).to(torch.float32)
