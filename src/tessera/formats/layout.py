"""Row-major matrices to tiles and back, for elements of any size.

A tile is cut into faces 16 wide, and each face is stored whole: the unit that the matrix engine reads. A transposed
tile stores its faces in column-major order and each face transposed. Edge tiles are filled up with a pad value; the
way back leaves the padding behind. This is the layout alone: block floats get their exponents in `packing`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from tessera import native
from tessera.formats.dtype import BLOCK
from tessera.formats.tile import DEFAULT_TILE, FACE, Tile

__all__ = ["flat", "matrices", "tilize", "tilized_shape", "untilize"]

SAME_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def flat(values: torch.Tensor) -> torch.Tensor:
    """All elements on one line, fit to be seen as bytes (a lone element may have kept the stride of where it came from)."""
    line = values.contiguous().reshape(-1)
    return line if line.stride(0) == 1 else line.as_strided(line.shape, (1,))


def matrices(dims: Sequence[int]) -> tuple[int, int, int]:
    """Any shape as a stack of matrices: (how many, rows, columns). A vector is one row, a scalar one element."""
    if len(dims) < 2:
        return 1, 1, dims[0] if dims else 1
    return math.prod(dims[:-2]), dims[-2], dims[-1]


def tilized_shape(dims: Sequence[int], tile: Tile = DEFAULT_TILE) -> tuple[int, int, int]:
    """(matrices, rows of tiles in one matrix, tiles in a row)."""
    count, rows, columns = matrices(dims)
    return count, -(-rows // tile.height), -(-columns // tile.width)


def _faces(dims: Sequence[int], tile: Tile) -> tuple[int, ...]:
    """The seven dimensions of a padded stack of matrices: row-major elements seen as (matrix, tile row, face row, row, tile column, face column, column)."""
    count, down, across = tilized_shape(dims, tile)
    face_height = tile.face_shape[0]
    return count, down, tile.height // face_height, face_height, across, tile.width // FACE, FACE


def _order(tile: Tile) -> tuple[int, ...]:
    """How those seven are ordered in tiles."""
    faces = (5, 2) if tile.transpose_of_faces else (2, 5)
    elements = (6, 3) if tile.transpose_within_face else (3, 6)
    return 0, 1, 4, *faces, *elements


def tilize(values: torch.Tensor, tile: Tile = DEFAULT_TILE, pad: float = 0) -> torch.Tensor:
    """The elements of `values` in tile order: one-dimensional, of the same dtype, edge tiles filled with `pad`."""
    count, down, across = tilized_shape(values.shape, tile)
    size = count * down * across * tile.height * tile.width
    _, rows, columns = matrices(values.shape)
    module = native.MODULE
    if module is not None and native.takes(values) and values.element_size() in SAME_SIZE:
        out = torch.empty(size, dtype=values.dtype)
        filler = torch.full((1,), pad, dtype=values.dtype).view(SAME_SIZE[values.element_size()]).item() if pad else 0
        module.tilize(
            values.data_ptr(), out.data_ptr(), values.element_size(), count, rows, columns,
            tile.height, tile.width, tile.transpose_of_faces, tile.transpose_within_face,
            int(filler) % (1 << 64), native.threads(),
        )  # fmt: skip
        return out
    stack = values.reshape(count, rows, columns)
    below, beside = down * tile.height - rows, across * tile.width - columns
    if below or beside:
        stack = F.pad(stack, (0, beside, 0, below), value=pad)
    return stack.reshape(_faces(values.shape, tile)).permute(_order(tile)).reshape(size)


def untilize(tiles: torch.Tensor, dims: Sequence[int], tile: Tile = DEFAULT_TILE) -> torch.Tensor:
    """The row-major tensor of shape `dims` whose elements lie in `tiles`."""
    count, down, across = tilized_shape(dims, tile)
    size = count * down * across * tile.height * tile.width
    if tiles.numel() != size:
        raise RuntimeError(
            f"untilize: tiles holds {tiles.numel()} elements, but shape {list(dims)} in {tile.height}x{tile.width} tiles has {size}"
        )
    _, rows, columns = matrices(dims)
    module = native.MODULE
    if module is not None and native.takes(tiles) and tiles.element_size() in SAME_SIZE:
        out = torch.empty(tuple(dims), dtype=tiles.dtype)
        module.untilize(
            tiles.data_ptr(), out.data_ptr(), tiles.element_size(), count, rows, columns,
            tile.height, tile.width, tile.transpose_of_faces, tile.transpose_within_face, native.threads(),
        )  # fmt: skip
        return out
    seven, order = _faces(dims, tile), _order(tile)
    stack = tiles.reshape([seven[axis] for axis in order]).permute([order.index(axis) for axis in range(7)])
    stack = stack.reshape(count, down * tile.height, across * tile.width)
    return stack[:, :rows, :columns].reshape(tuple(dims)).contiguous()


assert BLOCK == FACE, "a block of a block float is one row of a face"
