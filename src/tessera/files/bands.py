"""The values of a packed image a few rows at a time.

Whoever only passes over a tensor (a sum, statistics, a checksum of values) needs no second copy of it: a band of rows is a run of
bytes of the image, is unpacked into room that stays in the cache, and is gone again when the next one comes: keep a copy of what must stay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from tessera import native
from tessera.formats.dtype import FORMATS, Layout
from tessera.formats.packing import unpack, unpack_tiles
from tessera.formats.shape import Shape
from tessera.memory.spec import TensorSpec

#: Elements of a band: small enough for the caches, large enough to make a step of Python cost nothing.
ELEMENTS = 1 << 20


def bands(image: torch.Tensor, spec: TensorSpec, elements: int = ELEMENTS) -> Iterator[torch.Tensor]:
    """The values of `image`, folded to a matrix, as consecutive bands of its rows. Padding is left out."""
    dims, padded = spec.dims, spec.padded_dims
    if len(dims) < 2 or len(padded) != len(dims) or padded[:-2] != dims[:-2] or not spec.volume:
        yield unpack(image, spec).reshape(-1, dims[-1] if dims else 1) if spec.volume else unpack(image, spec).reshape(0, 1)
        return
    height, width = padded[-2:]
    count, inside = math.prod(dims[:-2]), dims[-2]
    if height == inside:  # no padding between matrices: they are one
        count, height, inside = 1, count * height, count * inside
    unit = spec.tile.height if spec.layout is Layout.TILE else 1
    step = max(unit, elements // width // unit * unit)
    size = spec.image_size // (count * height)  # bytes of a row; rows of a band are whole tiles
    room = torch.empty(step, width, dtype=FORMATS[spec.dtype].values) if FORMATS[spec.dtype].is_block else None
    for matrix in range(count):
        for top in range(0, inside, step):
            rows = min(step, height - top)
            start = (matrix * height + top) * size
            piece = image[start : start + rows * size]
            if room is not None:
                values = unpack_tiles(piece, (rows, width), spec.dtype, spec.tile, out=room[:rows])
            else:
                values = unpack(piece, TensorSpec.of(Shape.of((rows, width)), spec.dtype, spec.layout, tile=spec.tile))
            yield values[: min(rows, inside - top), : dims[-1]]


def unordered(image: torch.Tensor, spec: TensorSpec, elements: int = ELEMENTS) -> Iterator[torch.Tensor]:
    """The values of `image` for whoever does not care about their order: as they lie, where they lie unpadded and in the dtype of values."""
    row = FORMATS[spec.dtype]
    if spec.padded_dims != spec.dims or not spec.volume:
        yield from bands(image, spec, elements)
    elif row.is_block:  # tile after tile, as one narrow matrix: rows that lie close together are written fastest
        height, width = spec.tile.height, spec.tile.width
        size, step = row.bytes_for(height * width), max(1, elements // (height * width))
        room = torch.empty(step * height, width, dtype=row.values)
        for piece in image.split(step * size):
            rows = piece.numel() // size * height
            yield unpack_tiles(piece, (rows, width), spec.dtype, spec.tile, out=room[:rows])
    elif row.bits == 8 * row.values.itemsize and not image.data_ptr() % row.values.itemsize:
        yield from image.view(row.values).split(16 * elements)  # views: nothing has to stay in a cache
    else:
        yield from bands(image, spec, elements)


def total(image: torch.Tensor, spec: TensorSpec) -> float:
    """The sum of the values. Block floats are added up as they lie packed, and are not even unpacked by the band."""
    row, module = FORMATS[spec.dtype], native.MODULE
    if module is not None and row.is_block and row.exponent == 8 and spec.padded_dims == spec.dims and native.takes(image):
        elements = spec.tile.height * spec.tile.width
        found: float = module.sum_blocks(
            image.data_ptr(), image.numel() // row.bytes_for(elements), elements, row.mantissa, native.threads()
        )
        if not math.isnan(found):
            return found
    return math.fsum(float(band.sum()) for band in unordered(image, spec))
