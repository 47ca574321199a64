"""`Shape`: the extent of a tensor along each dimension.

A shape remembers four dimensions even when it has fewer: a short shape is padded with ones in front, so a negative
index down to -4 always answers. It is not a list: no slices, no arithmetic, no ordering.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tessera.formats.arguments import refuse, uint, uints

REMEMBERED = 4


class Shape:
    """An immutable sequence of unsigned 32-bit extents."""

    __slots__ = ("dims",)
    dims: tuple[int, ...]

    def __new__(cls, shape: Any) -> Shape:
        self = object.__new__(cls)
        object.__setattr__(self, "dims", shape.dims if type(shape) is Shape else uints("__init__", "shape", shape))
        return self

    @classmethod
    def of(cls, dims: tuple[int, ...]) -> Shape:
        """A shape from extents that are known to be good."""
        self = object.__new__(cls)
        object.__setattr__(self, "dims", dims)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"can't set attribute '{name}' of {self!r}: a Shape does not change")

    @property
    def rank(self) -> int:
        return len(self.dims)

    def to_rank(self, rank: int, /) -> Shape:
        """The same extents with ones added or taken away in front."""
        rank = uint("to_rank", "rank", rank)
        surplus = len(self.dims) - rank
        if surplus > 0 and any(d != 1 for d in self.dims[:surplus]):
            raise RuntimeError(
                f"Can't convert shape rank: {self!r} does not fit in rank={rank}, its first {surplus} dimensions are not all 1"
            )
        return Shape.of(self.dims[surplus:] if surplus > 0 else (1,) * -surplus + self.dims)

    def __len__(self) -> int:
        return len(self.dims)

    def __iter__(self) -> Iterator[int]:
        return iter(self.dims)

    def __getitem__(self, index: int, /) -> int:
        try:
            number = index.__index__()
        except AttributeError:
            refuse("__getitem__", "index", index, "must be an integer")
        rank = len(self.dims)
        first = -max(rank, REMEMBERED)
        if not first <= number < rank:
            raise RuntimeError(f"ShapeBase[] index out of range. {number} not in [{first}, {rank})")
        return self.dims[number] if number >= -rank else 1

    def __eq__(self, other: object) -> bool:
        if type(other) is Shape:
            return self.dims == other.dims
        if isinstance(other, type) or not hasattr(other, "__len__") or isinstance(other, (str, bytes)):
            return False
        try:
            return self.dims == uints("__eq__", "other", other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.dims)

    def __repr__(self) -> str:
        return f"Shape({list(self.dims)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Shape, (self.dims,)


def volume(dims: tuple[int, ...]) -> int:
    """How many elements `dims` hold."""
    n = 1
    for d in dims:
        n *= d
    return n
