"""The number formats a graph speaks, as one table.

A graph's formats are the names a netlist uses (`Float16_b`, `Bfp8_b`, ...): more than TT-NN's dtypes, because the chip also has
formats with a five-bit exponent. Each row says which torch dtype holds its values, how wide it is, and what a 32x32 tile of it
costs in memory; `quantize` is the only place where a graph rounds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import torch
from torch import Tensor

from tessera.formats.dtype import FORMATS_BY_NAME
from tessera.formats.rounding import to_grid


class DataFormat(enum.Enum):
    Float32 = 0
    Float16 = 1
    Bfp8 = 2
    Bfp4 = 3
    Float16_b = 5
    Bfp8_b = 6
    Bfp4_b = 7
    Int32 = 8
    Lf8 = 10
    Bfp2 = 11
    UInt16 = 12
    Int8 = 14
    Bfp2_b = 15
    RawUInt8 = 0xF0
    RawUInt16 = 0xF1
    RawUInt32 = 0xF2
    Invalid = 0xFF

    def to_json(self) -> str:
        return self.name

    @classmethod
    def from_json(cls, text: str) -> DataFormat:
        return cls[text.rsplit(".", 1)[-1]]


class MathFidelity(enum.Enum):
    LoFi = 0
    HiFi2 = 2
    HiFi3 = 3
    HiFi4 = 4
    Invalid = 0xFF

    def to_json(self) -> str:
        return self.name

    @classmethod
    def from_json(cls, text: str) -> MathFidelity:
        return cls[text.rsplit(".", 1)[-1]]


@dataclass(frozen=True, slots=True)
class FormatRow:
    """What one format is: the torch dtype that holds its values, its family, and the payload of a tile in bytes."""

    values: torch.dtype
    kind: str  # "float", "block" or "int"
    family: str  # "a": five exponent bits, "b": eight, "": not a float, or fp32
    magnitude_bits: int  # block floats: bits of magnitude, the leading one included
    tile_payload: int


TILE = 32
BLOCK = 16
TILE_HEADER = 16
_EXPONENTS = TILE * TILE // BLOCK

F = DataFormat
FORMATS: dict[DataFormat, FormatRow] = {
    F.Float32: FormatRow(torch.float32, "float", "", 0, 4096),
    F.Float16: FormatRow(torch.float16, "float", "a", 0, 2048),
    F.Float16_b: FormatRow(torch.bfloat16, "float", "b", 0, 2048),
    F.Bfp8: FormatRow(torch.float16, "block", "a", 7, 1024 + _EXPONENTS),
    F.Bfp4: FormatRow(torch.float16, "block", "a", 3, 512 + _EXPONENTS),
    F.Bfp2: FormatRow(torch.float16, "block", "a", 1, 256 + _EXPONENTS),
    F.Bfp8_b: FormatRow(torch.bfloat16, "block", "b", 7, 1024 + _EXPONENTS),
    F.Bfp4_b: FormatRow(torch.bfloat16, "block", "b", 3, 512 + _EXPONENTS),
    F.Bfp2_b: FormatRow(torch.bfloat16, "block", "b", 1, 256 + _EXPONENTS),
    F.Lf8: FormatRow(torch.float16, "float", "a", 0, 1024),
    F.UInt16: FormatRow(torch.int32, "int", "", 0, 2048),
    F.Int8: FormatRow(torch.int8, "int", "", 0, 1024),
    F.Int32: FormatRow(torch.int32, "int", "", 0, 4096),
    F.RawUInt8: FormatRow(torch.uint8, "int", "", 0, 1024),
    F.RawUInt16: FormatRow(torch.int32, "int", "", 0, 2048),
    F.RawUInt32: FormatRow(torch.int64, "int", "", 0, 4096),
}

# Which format a torch dtype gets when nobody asked for another one.
OF_DTYPE: dict[torch.dtype, DataFormat] = {
    torch.float64: F.Float32,
    torch.float32: F.Float32,
    torch.float16: F.Float16,
    torch.bfloat16: F.Float16_b,
    torch.int8: F.Int8,
    torch.uint8: F.RawUInt8,
    torch.int16: F.Int32,
    torch.int32: F.Int32,
    torch.int64: F.Int32,
    torch.bool: F.RawUInt8,
}

_TO_A = {F.Float16_b: F.Float16, F.Bfp8_b: F.Bfp8, F.Bfp4_b: F.Bfp4, F.Bfp2_b: F.Bfp2}
_TO_B = {a: b for b, a in _TO_A.items()}


def is_float(fmt: DataFormat) -> bool:
    return fmt in FORMATS and FORMATS[fmt].kind != "int"


def width(fmt: DataFormat) -> int:
    """Bits of one element, the shared exponent left out."""
    return {"block": FORMATS[fmt].magnitude_bits + 1}.get(FORMATS[fmt].kind, FORMATS[fmt].tile_payload * 8 // (TILE * TILE))


def in_family(fmt: DataFormat, family: str) -> DataFormat:
    """The same width with the exponent of the other family; formats without a family stay what they are."""
    return (_TO_A if family == "a" else _TO_B).get(fmt, fmt)


def tile_bytes(fmt: DataFormat) -> int:
    """A tilized tile in memory: payload and header, rounded up to 32 bytes."""
    return (FORMATS[fmt].tile_payload + TILE_HEADER + 31) // 32 * 32


def quantize(values: Tensor, fmt: DataFormat) -> Tensor:
    """`values` rounded to `fmt`, in the torch dtype that holds the format. Integers and booleans pass as they are."""
    if not values.is_floating_point():
        return values
    row = FORMATS[fmt]
    if row.kind == "int":
        return values
    if row.kind == "block" or fmt is F.Lf8:
        return to_grid(values, FORMATS_BY_NAME[fmt.name]).to(row.values)
    return values.to(row.values)
