"""`Tile`: the rectangle in which a TILE tensor is stored, and the 16-wide faces inside it.

The hardware knows twelve sizes. A tile may be stored transposed (faces swapped, and each face transposed); equality
ignores that, as with official TT-NN, so whatever must tell the two apart compares `key`.
"""

from __future__ import annotations

from typing import Any

from tessera.formats.arguments import uints
from tessera.formats.dtype import FORMATS, TILE_SIZE, DataType

HEIGHTS = (32, 16, 8, 4, 2, 1)
WIDTHS = (32, 16)
FACE = 16


class Tile:
    """Immutable; made from `(height, width)`."""

    __slots__ = ("height", "transposed", "width")
    height: int
    width: int
    transposed: bool

    def __init__(self, tile_shape: Any = None, transpose_tile: bool = False) -> None:
        height, width = uints("__init__", "tile_shape", tile_shape, length=2)
        if height not in HEIGHTS or width not in WIDTHS:
            raise RuntimeError(
                f"Tile size is not valid for our hardware: tile_shape=({height}, {width}), heights are {HEIGHTS} and widths are {WIDTHS}"
            )
        if transpose_tile and height < FACE:
            raise RuntimeError(f"Tile height must equal 16 or 32 in transpose mode, tile_shape=({height}, {width})")
        object.__setattr__(self, "height", height)
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "transposed", bool(transpose_tile))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"can't set attribute '{name}' of {self!r}: a Tile does not change")

    @property
    def key(self) -> tuple[int, int, bool]:
        return self.height, self.width, self.transposed

    @property
    def tile_shape(self) -> list[int]:
        return [self.height, self.width]

    @property
    def face_shape(self) -> list[int]:
        return [min(self.height, FACE), FACE]

    @property
    def num_faces(self) -> int:
        return max(self.height // FACE, 1) * (self.width // FACE)

    @property
    def partial_face(self) -> int:
        """1 when the tile is less than 32 high."""
        return int(self.height < TILE_SIZE)

    @property
    def narrow_tile(self) -> int:
        """1 when the tile is less than 32 wide."""
        return int(self.width < TILE_SIZE)

    @property
    def transpose_within_face(self) -> bool:
        return self.transposed

    @property
    def transpose_of_faces(self) -> bool:
        return self.transposed

    def get_tile_size(self, dtype: DataType) -> int:
        """Bytes of one such tile of `dtype`."""
        if dtype not in FORMATS:
            raise RuntimeError(f"get_tile_size: dtype={dtype!r} is not a dtype that tensors can have")
        return FORMATS[dtype].bytes_for(self.height * self.width)

    def __eq__(self, other: object) -> bool:
        return type(other) is Tile and self.height == other.height and self.width == other.width

    def __hash__(self) -> int:
        return hash((self.height, self.width))

    def __repr__(self) -> str:
        return f"Tile with shape: [{self.height}, {self.width}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return Tile, ((self.height, self.width), self.transposed)


DEFAULT_TILE = Tile((TILE_SIZE, TILE_SIZE))
