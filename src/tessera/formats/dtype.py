"""What a number can be: the one table of formats.

Each row says how a format is stored and which torch dtype carries its values while they are computed with. The TT-NN
dtypes are rows with a `dtype`; PyBuda's further formats are rows with a name only. To add a format is to add a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tessera.formats.enums import OfficialEnum

TILE_SIZE = 32
BLOCK = 16
"""Elements that share one exponent in a block float."""


class DataType(OfficialEnum):
    BFLOAT16 = 0
    FLOAT32 = 1
    UINT32 = 2
    BFLOAT8_B = 3
    BFLOAT4_B = 4
    UINT8 = 5
    UINT16 = 6
    INT32 = 7
    FP8_E4M3 = 8
    INT8 = 9
    INVALID = 10


class Layout(OfficialEnum):
    ROW_MAJOR = 0
    TILE = 1
    INVALID = 2


@dataclass(frozen=True, slots=True)
class Format:
    """One row: `bits` are those of an element (a block float's shared exponents come on top)."""

    name: str
    kind: str
    values: torch.dtype
    bits: int
    exponent: int = 0
    mantissa: int = 0
    low: int = 0
    high: int = 0
    dtype: DataType | None = None

    @property
    def is_float(self) -> bool:
        return self.kind != "int"

    @property
    def is_block(self) -> bool:
        return self.kind == "block"

    @property
    def element_size(self) -> int:
        """Bytes of an element in ROW_MAJOR, where a block float can only stand as float32."""
        return 4 if self.kind == "block" else self.bits // 8

    def bytes_for(self, elements: int) -> int:
        """Bytes of one tile of `elements`: the shared exponents are padded to 16 bytes."""
        exponents = -(-elements // (BLOCK * 16)) * 16 if self.kind == "block" else 0
        return exponents + elements * self.bits // 8


def _float(name: str, values: torch.dtype, bits: int, exponent: int, mantissa: int, dtype: DataType | None = None) -> Format:
    return Format(name, "float", values, bits, exponent, mantissa, dtype=dtype)


def _block(name: str, values: torch.dtype, bits: int, exponent: int, dtype: DataType | None = None) -> Format:
    return Format(name, "block", values, bits, exponent, bits - 1, dtype=dtype)


def _int(name: str, values: torch.dtype, bits: int, signed: bool, dtype: DataType | None = None) -> Format:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return Format(name, "int", values, bits, low=low, high=high, dtype=dtype)


TABLE: tuple[Format, ...] = (
    _float("Float16_b", torch.bfloat16, 16, 8, 7, DataType.BFLOAT16),
    _float("Float32", torch.float32, 32, 8, 23, DataType.FLOAT32),
    _int("UInt32", torch.int64, 32, False, DataType.UINT32),
    _block("Bfp8_b", torch.bfloat16, 8, 8, DataType.BFLOAT8_B),
    _block("Bfp4_b", torch.bfloat16, 4, 8, DataType.BFLOAT4_B),
    _int("UInt8", torch.uint8, 8, False, DataType.UINT8),
    _int("UInt16", torch.int32, 16, False, DataType.UINT16),
    _int("Int32", torch.int32, 32, True, DataType.INT32),
    _float("Fp8_e4m3", torch.bfloat16, 8, 4, 3, DataType.FP8_E4M3),
    _int("Int8", torch.int8, 8, True, DataType.INT8),
    _float("Float16", torch.float16, 16, 5, 10),
    _block("Bfp8", torch.float32, 8, 5),
    _block("Bfp4", torch.float32, 4, 5),
    _block("Bfp2", torch.float32, 2, 5),
    _block("Bfp2_b", torch.bfloat16, 2, 8),
    _float("Lf8", torch.float32, 8, 5, 2),
    _float("Tf32", torch.float32, 32, 8, 10),
    _int("RawUInt8", torch.uint8, 8, False),
    _int("RawUInt16", torch.int32, 16, False),
    _int("RawUInt32", torch.int64, 32, False),
)

FORMATS: dict[DataType, Format] = {row.dtype: row for row in TABLE if row.dtype is not None}
FORMATS_BY_NAME: dict[str, Format] = {row.name: row for row in TABLE}
BLOCK_FLOATS = frozenset(dtype for dtype, row in FORMATS.items() if row.is_block)
