"""The one pair of functions between a tensor's two faces: `pack` (values to bytes) and `unpack` (bytes to values).

The image is exactly what the chip and a `.tensorbin` hold: every matrix padded by itself, then rows (ROW_MAJOR) or tiles with
faces inside, block floats as their exponents followed by their codes, tile by tile. A spec is planned once: shapes become
a few integers, and each call after that is a dictionary hit and a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
import torch.nn.functional as F

from tessera import native
from tessera.formats import blocks, layout
from tessera.formats.blocks import Rounding
from tessera.formats.dtype import BLOCK, FORMATS, DataType, Format, Layout
from tessera.formats.rounding import NATIVE_KINDS, to_grid
from tessera.formats.tile import DEFAULT_TILE, Tile

__all__ = ["image_size", "pack", "pack_tiles", "unpack", "unpack_tiles"]

# How the values face of a format is stored, where torch's dtype for computing is not the one of the bytes.
STORED: dict[str, torch.dtype] = {
    "UInt16": torch.int16,
    "UInt32": torch.int32,
    "RawUInt16": torch.int16,
    "RawUInt32": torch.int32,
    "Fp8_e4m3": torch.float8_e4m3fn,
    "Lf8": torch.float8_e5m2,
}


class Spec(Protocol):
    """What packing needs to know of a TensorSpec (rooms above may not be imported here)."""

    @property
    def dims(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> DataType: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def tile(self) -> Tile: ...
    @property
    def padded_shape(self) -> Iterable[int]: ...
    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """`full` are the logical dims, as many as the padded ones; `outer` what to pad them to first, where that is more than filling up tiles."""

    row: Format
    dims: tuple[int, ...]
    full: tuple[int, ...]
    outer: tuple[int, ...]
    tile: Tile | None
    size: int


@lru_cache(maxsize=4096)
def _plan(spec: Spec) -> Plan:
    row, dims, padded = FORMATS[spec.dtype], tuple(spec.dims), tuple(spec.padded_shape)
    full = (1,) * (len(padded) - len(dims)) + dims
    if len(full) != len(padded) or any(size > room for size, room in zip(full, padded)):
        raise RuntimeError(f"padded_shape={list(padded)} has no room for shape={list(dims)}")
    if spec.layout != Layout.TILE:
        return Plan(row, dims, full, padded, None, math.prod(padded) * row.element_size)
    tile = spec.tile
    sides = (tile.height, tile.width)[-len(full) :] if full else ()
    filled = tuple(-(-size // side) * side for size, side in zip(full[-2:], sides))  # what tilize does by itself
    outer = full if padded == full[:-2] + filled else padded
    return Plan(row, dims, full, outer, tile, math.prod(layout.tilized_shape(outer, tile)) * row.bytes_for(tile.height * tile.width))


def image_size(spec: Spec) -> int:
    """Bytes of the image of `spec`."""
    return _plan(spec).size


def pack(values: torch.Tensor, spec: Spec, pad: float = 0.0, rounding: Rounding = "host") -> torch.Tensor:
    """The bytes of `values` under `spec`: one-dimensional `torch.uint8`; shares memory with `values` where the bytes are the same.

    `values` is the values face; for block floats any floating tensor will do: it is rounded on the way.
    """
    plan = _plan(spec)
    if tuple(values.shape) != plan.dims:
        raise RuntimeError(f"pack: values have shape {list(values.shape)}, but the spec says {list(plan.dims)}")
    if plan.outer != plan.full:
        margins = [margin for size, room in zip(reversed(plan.full), reversed(plan.outer)) for margin in (0, room - size)]
        values = F.pad(values.reshape(plan.full), margins, value=pad)
    if plan.tile is not None:
        return pack_tiles(values, plan.row, plan.tile, pad, rounding)
    return layout.flat(_stored(values, plan.row)).view(torch.uint8)


def unpack(image: torch.Tensor, spec: Spec, dtype: torch.dtype | None = None) -> torch.Tensor:
    """The values face of `image` under `spec`; shares memory with `image` where the bytes are the same.

    Block floats that are wanted as another `dtype` are unpacked to it at once where a kernel can; other formats keep theirs.
    """
    plan = _plan(spec)
    if image.dtype != torch.uint8 or image.dim() != 1 or image.numel() != plan.size:
        raise RuntimeError(
            f"unpack: image must be {plan.size} bytes (one-dimensional uint8) for shape {list(plan.dims)}, got {image.dtype} {list(image.shape)}"
        )
    if plan.tile is not None:
        direct = plan.row.kind == "block" and dtype in NATIVE_KINDS
        values = unpack_tiles(image, plan.outer, plan.row, plan.tile, torch.empty(plan.outer, dtype=dtype) if direct else None)
    else:
        values = _loaded(_typed(image, _stored_dtype(plan.row)), plan.row).reshape(plan.outer)
    if plan.outer != plan.full:
        values = values[tuple(slice(size) for size in plan.full)].contiguous()
    return values.reshape(plan.dims)


def pack_tiles(
    values: torch.Tensor, dtype: DataType | Format, tile: Tile = DEFAULT_TILE, pad: float = 0.0, rounding: Rounding = "host"
) -> torch.Tensor:
    """The image of `values` as tiles of `dtype`, which may also be one of PyBuda's formats."""
    row = dtype if isinstance(dtype, Format) else FORMATS[dtype]
    if row.kind == "block":
        return _pack_blocks(values, row, tile, pad, rounding)
    stored = _stored(values, row)
    if stored.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        filler = torch.full((), pad).to(stored.dtype).view(torch.uint8).item()
        return layout.tilize(stored.view(torch.uint8), tile, filler)
    return layout.tilize(stored, tile, pad).view(torch.uint8)


def unpack_tiles(
    image: torch.Tensor, dims: Sequence[int], dtype: DataType | Format, tile: Tile = DEFAULT_TILE, out: torch.Tensor | None = None
) -> torch.Tensor:
    """The values face, of shape `dims`, of an image made by `pack_tiles`. `out`, contiguous and of the same shape, bfloat16 or float32, is room
    that may be used for block floats."""
    row = dtype if isinstance(dtype, Format) else FORMATS[dtype]
    if row.kind == "block":
        return _unpack_blocks(image, dims, row, tile, out)
    return _loaded(layout.untilize(_typed(image, _stored_dtype(row)), dims, tile), row)


def _stored_dtype(row: Format) -> torch.dtype:
    return torch.float32 if row.kind == "block" else STORED.get(row.name, row.values)


def _stored(values: torch.Tensor, row: Format) -> torch.Tensor:
    """The values in the dtype of their bytes."""
    if row.kind == "block":  # in ROW_MAJOR a block float can only stand as float32
        return to_grid(values, row).to(torch.float32)
    return values.to(row.values).to(_stored_dtype(row)).contiguous()


def _loaded(stored: torch.Tensor, row: Format) -> torch.Tensor:
    if row.kind == "int" and stored.dtype != row.values:
        return stored.to(row.values) & row.high
    return stored.to(row.values)


def _typed(image: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The bytes as elements; copied only if they do not start on a boundary of that element."""
    image = image.contiguous()
    if image.storage_offset() % dtype.itemsize or image.data_ptr() % dtype.itemsize:
        image = image.clone()
    return image.view(dtype)


def _pack_blocks(values: torch.Tensor, row: Format, tile: Tile, pad: float, rounding: Rounding) -> torch.Tensor:
    if values.dtype not in NATIVE_KINDS:
        values = values.to(torch.float32)
    values = values.contiguous()
    count, down, across = layout.tilized_shape(values.shape, tile)
    tiles, elements = count * down * across, tile.height * tile.width
    size = row.bytes_for(elements)
    module = native.MODULE
    if module is not None and row.exponent == 8 and native.takes(values):
        image = torch.empty(tiles * size, dtype=torch.uint8)
        _, rows, columns = layout.matrices(values.shape)
        module.pack_blocks(
            values.data_ptr(), NATIVE_KINDS[values.dtype], image.data_ptr(), count, rows, columns,
            tile.height, tile.width, tile.transpose_of_faces, tile.transpose_within_face,
            row.mantissa, rounding == "device", pad, native.threads(),
        )  # fmt: skip
        return image
    groups = layout.tilize(values.to(torch.float32), tile, pad).reshape(tiles, elements // BLOCK, BLOCK)
    exponents, codes = blocks.encode(groups, row, rounding)
    packed = blocks.pack_codes(codes.reshape(tiles, elements), row)
    section = F.pad(exponents, (0, size - packed.shape[-1] - exponents.shape[-1])).to(torch.uint8)
    return torch.cat([section, packed], dim=-1).reshape(-1)


def _unpack_blocks(image: torch.Tensor, dims: Sequence[int], row: Format, tile: Tile, out: torch.Tensor | None = None) -> torch.Tensor:
    count, down, across = layout.tilized_shape(dims, tile)
    tiles, elements = count * down * across, tile.height * tile.width
    if image.numel() != tiles * row.bytes_for(elements):
        raise RuntimeError(f"unpack_tiles: image holds {image.numel()} bytes, shape {list(dims)} needs {tiles * row.bytes_for(elements)}")
    module = native.MODULE
    if module is not None and row.exponent == 8 and native.takes(image):
        values = torch.empty(tuple(dims), dtype=row.values) if out is None else out
        _, rows, columns = layout.matrices(dims)
        module.unpack_blocks(
            image.data_ptr(), values.data_ptr(), NATIVE_KINDS[values.dtype], count, rows, columns,
            tile.height, tile.width, tile.transpose_of_faces, tile.transpose_within_face,
            row.mantissa, native.threads(),
        )  # fmt: skip
        return values
    by_tile = image.reshape(tiles, row.bytes_for(elements))
    codes_size = elements * row.bits // 8
    exponents = by_tile[:, : elements // BLOCK]
    codes = blocks.unpack_codes(by_tile[:, by_tile.shape[1] - codes_size :], row)
    groups = blocks.decode(exponents, codes.reshape(tiles, elements // BLOCK, BLOCK), row)
    return layout.untilize(groups.reshape(-1), dims, tile)
