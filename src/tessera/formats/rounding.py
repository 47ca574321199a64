"""Onto a format's grid: every number that a narrow tensor holds is one that its bytes can hold.

`to_grid` is what `launch` ends with. `host_convert` is TT-NN's rule for data that arrives from outside in another dtype, where
integers saturate or fall back to the odd results of its converter rather than wrap.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tessera import native
from tessera.formats import blocks
from tessera.formats.blocks import Rounding
from tessera.formats.dtype import BLOCK, FORMATS, DataType, Format
from tessera.formats.tile import Tile

__all__ = ["host_convert", "to_grid"]

FP8_MAX = 448.0
NATIVE_KINDS = {torch.float32: 0, torch.bfloat16: 1}


def _row(dtype: DataType | Format) -> Format:
    if isinstance(dtype, Format):
        return dtype
    if dtype not in FORMATS:
        raise RuntimeError(f"dtype={dtype!r} is no storage format")
    return FORMATS[dtype]


def to_grid(values: torch.Tensor, dtype: DataType | Format, tile: Tile | None = None, rounding: Rounding = "host") -> torch.Tensor:
    """The values face of `dtype` nearest to `values`; the same object where nothing has to change.

    Floats round to nearest even and keep infinities and NaN, except fp8_e4m3, which has no infinity and saturates at 448.
    Integers wrap into their range; floats are cut towards zero first. Block floats share an exponent over 16 consecutive
    elements of the last dimension, of dimension -2 when `tile` is transposed; `rounding` says whose rule rounds them.
    """
    row = _row(dtype)
    if row.kind == "block":
        return _block_grid(values, row, tile, rounding)
    if row.kind == "int":
        return _wrap(values, row)
    return _float_grid(values, row)


def _float_grid(values: torch.Tensor, row: Format) -> torch.Tensor:
    if row.name == "Tf32":
        bits = values.to(torch.float32).contiguous().view(torch.int32)
        drop = 23 - row.mantissa
        rounded = (bits + ((1 << (drop - 1)) - 1) + ((bits >> drop) & 1)) & -(1 << drop)
        finite = (bits & 0x7FFFFFFF) < 0x7F800000
        return torch.where(finite, rounded, bits).view(torch.float32)
    if row.name == "Fp8_e4m3":
        return values.to(torch.float32).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn).to(row.values)
    if row.name == "Lf8":
        return values.to(torch.float32).to(torch.float8_e5m2).to(row.values)
    return values.to(row.values).contiguous()


def _wrap(values: torch.Tensor, row: Format) -> torch.Tensor:
    if values.dtype == row.values and torch.iinfo(row.values).bits == row.bits:
        return values.contiguous()
    if values.is_floating_point():
        values = torch.nan_to_num(values.double(), nan=0.0, posinf=0.0, neginf=0.0).to(torch.int64)
    elif values.dtype == torch.bool:
        values = values.to(torch.uint8)
    if torch.iinfo(row.values).bits == row.bits:
        return values.to(row.values).contiguous()
    if values.dtype in (torch.uint16, torch.uint32, torch.uint64) or torch.iinfo(values.dtype).bits <= row.bits:
        values = values.to(torch.int64)
    return (values & row.high).to(row.values).contiguous()


def _block_grid(values: torch.Tensor, row: Format, tile: Tile | None, rounding: Rounding) -> torch.Tensor:
    if values.dtype not in NATIVE_KINDS:
        values = values.to(torch.float32)
    if tile is not None and tile.transposed:
        if values.dim() < 2:  # a vector is one row: each element is a block of its own
            return _block_grid(values.unsqueeze(-1), row, None, rounding).squeeze(-1)
        return _block_grid(values.transpose(-1, -2), row, None, rounding).transpose(-1, -2).contiguous()
    values = values.contiguous()
    if values.numel() == 0:
        return values.to(row.values)
    module = native.MODULE
    if module is not None and row.exponent == 8 and native.takes(values):
        out = torch.empty(values.shape, dtype=row.values)
        columns = values.shape[-1] if values.dim() else 1
        module.quantize_blocks(
            values.data_ptr(), NATIVE_KINDS[values.dtype], out.data_ptr(), NATIVE_KINDS[out.dtype],
            values.numel() // columns, columns, row.mantissa, rounding == "device", native.threads(),
        )  # fmt: skip
        return out
    wide = values.reshape(values.shape or (1,)).to(torch.float32)
    columns = wide.shape[-1]
    padded = F.pad(wide, (0, -columns % BLOCK)).unflatten(-1, (-1, BLOCK))
    grid = blocks.decode(*blocks.encode(padded, row, rounding), row).flatten(-2)[..., :columns]
    return grid.reshape(values.shape).contiguous()


def host_convert(values: torch.Tensor, dtype: DataType | Format, tile: Tile | None = None) -> torch.Tensor:
    """`values` as official TT-NN's host library converts them into `dtype`: the values face.

    Floats go to an integer as the processor does it: cut towards zero into 32 bits, with 0x80000000 for whatever does not
    fit (NaN and infinities too); negative numbers wrap in uint32. The narrower integers then saturate. Without tiles they wrap in what
    is left over after whole groups of 8 elements (4 for 16 bits), where TT-NN's loop is not vectorized. Integers to integers wrap;
    to floats, they round.
    """
    row = _row(dtype)
    if row.kind != "int" or not values.is_floating_point():
        grid = to_grid(values, row, tile)
        if grid.dtype is torch.bfloat16 and values.dtype is torch.float32 and row.kind == "float" and grid.sum().isnan():
            # A NaN keeps its upper bits; torch's vectorized conversion makes all of them 0xFFFF. The sum, which is one pass over half of the
            # bytes, is NaN wherever one may be.
            nan = values.isnan()
            grid.view(torch.int16)[nan] = (values.contiguous().view(torch.int32)[nan] >> 16).to(torch.int16) | 0x40
        return grid
    low, high = -(1 << 31), (1 << 32) if row.bits == 32 and row.low == 0 else (1 << 31)
    cut = values.double().trunc()
    fits = (cut >= low) & (cut < high)
    whole = torch.where(fits, cut, float(low)).to(torch.int64)
    if row.bits < 32:
        flat = whole.reshape(-1)
        rest = 0 if tile is not None else flat.numel() % (64 // row.bits)
        flat[: flat.numel() - rest].clamp_(row.low, row.high)
        whole = flat.reshape(whole.shape)
    return _wrap(whole, row)
