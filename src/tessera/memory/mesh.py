"""Meshes of chips: their shape, the places in them, and how a tensor is laid over them.

Files, devices and tensors all speak of these, so they live below all three.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


def _whole_numbers(name: str, given: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    """The dimensions of `Name(1, 2)` or `Name([1, 2])`."""
    flat: Sequence[object] = given[0] if len(given) == 1 and not isinstance(given[0], int) else given  # type: ignore[assignment]
    if not given or not all(isinstance(d, int) and d >= 0 for d in flat):
        raise TypeError(f"{name}(): incompatible function arguments. It takes non-negative integers or one sequence of them, got {given}")
    return tuple(flat)  # type: ignore[arg-type]


class MeshShape:
    """The extent of a mesh in each of its dimensions; ordinary meshes have two."""

    __slots__ = ("_dims",)

    def __init__(self, *dims: int | Sequence[int]) -> None:
        self._dims = _whole_numbers("MeshShape", dims)
        if not self._dims:
            raise RuntimeError("MeshShape cannot have 0 dimension. It needs at least one extent, got an empty sequence")

    def dims(self) -> int:
        return len(self._dims)

    def mesh_size(self) -> int:
        return math.prod(self._dims)

    def __getitem__(self, index: int) -> int:
        if not isinstance(index, int):
            raise TypeError(f"MeshShape indices are integers, got {type(index).__name__}")
        # Storage has room for four dimensions, ones in front, so -4 is always within.
        low = -max(4, len(self._dims))
        if not low <= index < len(self._dims):
            raise RuntimeError(f"ShapeBase[] index out of range. {index} not in [{low}, {len(self._dims)})")
        return self._dims[index] if index >= -len(self._dims) else 1

    def __iter__(self) -> Iterator[int]:
        return iter(self._dims)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MeshShape):
            raise TypeError(f"a MeshShape compares with a MeshShape, got {type(other).__name__}")
        return self._dims == other._dims

    def __hash__(self) -> int:
        return hash(("MeshShape", self._dims))

    def __repr__(self) -> str:
        return f"MeshShape({list(self._dims)})"


class MeshCoordinate:
    """The place of one chip in a mesh."""

    __slots__ = ("_coords",)

    def __init__(self, *coords: int | Sequence[int]) -> None:
        self._coords = _whole_numbers("MeshCoordinate", coords)

    def dims(self) -> int:
        return len(self._coords)

    def __getitem__(self, index: int) -> int:
        if not isinstance(index, int):
            raise TypeError(f"MeshCoordinate indices are integers, got {type(index).__name__}")
        if not -len(self._coords) <= index < len(self._coords):
            raise RuntimeError(f"Index out of bounds: {index} not in [{-len(self._coords)}, {len(self._coords)})")
        return self._coords[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._coords)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MeshCoordinate):
            raise TypeError(f"a MeshCoordinate compares with a MeshCoordinate, got {type(other).__name__}")
        return self._coords == other._coords

    def __hash__(self) -> int:
        return hash(("MeshCoordinate", self._coords))

    def __repr__(self) -> str:
        return f"MeshCoordinate({list(self._coords)})"


class MeshCoordinateRange:
    """A box of places, both ends included."""

    __slots__ = ("end", "start")

    def __init__(self, start: MeshCoordinate | MeshShape, end: MeshCoordinate | None = None) -> None:
        if isinstance(start, MeshShape):
            start, end = MeshCoordinate([0] * start.dims()), MeshCoordinate([d - 1 for d in start])
        if end is None or start.dims() != end.dims() or any(a > b for a, b in zip(start, end)):
            raise RuntimeError(f"a MeshCoordinateRange needs a start that does not lie behind its end, got {start} and {end}")
        self.start: MeshCoordinate = start
        self.end: MeshCoordinate = end

    def __iter__(self) -> Iterator[MeshCoordinate]:
        return (MeshCoordinate(list(c)) for c in itertools.product(*(range(a, b + 1) for a, b in zip(self.start, self.end))))

    def __contains__(self, place: MeshCoordinate) -> bool:
        return place.dims() == self.start.dims() and all(a <= c <= b for a, c, b in zip(self.start, place, self.end))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MeshCoordinateRange):
            return self.start == other.start and self.end == other.end
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __repr__(self) -> str:
        return f"MeshCoordinateRange(start={self.start}, end={self.end})"


@dataclass(frozen=True, slots=True)
class PlacementReplicate:
    """Every chip along this mesh dimension holds the same part."""

    def __repr__(self) -> str:
        return "PlacementReplicate()"


@dataclass(frozen=True, slots=True)
class PlacementShard:
    """The chips along this mesh dimension hold slices of tensor dimension `dim`."""

    dim: int

    def __repr__(self) -> str:
        return f"PlacementShard({self.dim})"


Placement = PlacementReplicate | PlacementShard


@dataclass(frozen=True, slots=True)
class TensorTopology:
    """How a tensor is laid over a mesh: the mesh it was distributed on, a placement per dimension, and the place of each part."""

    shape: MeshShape
    placed: tuple[Placement, ...]
    coords: tuple[MeshCoordinate, ...]

    def distribution_shape(self) -> MeshShape:
        return self.shape

    def placements(self) -> list[Placement]:
        return list(self.placed)

    def mesh_coords(self) -> list[MeshCoordinate]:
        return list(self.coords)

    def __repr__(self) -> str:
        placed = ", ".join(map(repr, self.placed))
        coords = ", ".join(map(repr, self.coords))
        return f"TensorTopology(distribution_shape={self.shape}, placements=SmallVector([{placed}]), mesh_coords={coords})"


#: What a tensor that was never laid over a mesh answers.
SINGLE = TensorTopology(MeshShape(1), (PlacementReplicate(),), (MeshCoordinate(0, 0),))
