"""Cores on the grid: a place, a rectangle, a set of rectangles, and ways of handing out work over them.

A set keeps its rectangles in the order they were given: two sets with the same cores but other rectangles differ, and
sharded data follow that order. Rectangles of one set never overlap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tessera.formats.arguments import UINT64, expect, refuse, uint


class CoreCoord:
    """A core: column `x`, row `y`. `(x, y)` stands for it wherever one is expected."""

    __slots__ = ("x", "y")
    x: int
    y: int

    def __init__(self, *args: Any) -> None:
        pair = args[0] if len(args) == 1 else args
        if isinstance(pair, CoreCoord):
            pair = (pair.x, pair.y)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            refuse("__init__", "arguments", args, "must be x, y")
        object.__setattr__(self, "x", uint("__init__", "x", pair[0], UINT64))
        object.__setattr__(self, "y", uint("__init__", "y", pair[1], UINT64))

    @classmethod
    def of(cls, value: Any, call: str = "__init__", argument: str = "core") -> CoreCoord:
        """`value` as a core; a pair converts."""
        if isinstance(value, CoreCoord):
            return value
        if isinstance(value, (tuple, list)) and len(value) == 2:
            return cls(*value)
        refuse(call, argument, value, "must be a CoreCoord or (x, y)")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"can't set attribute '{name}' of {self!r}: a CoreCoord does not change")

    def as_json(self) -> dict[str, int]:
        return {"x": self.x, "y": self.y}

    def to_json(self) -> str:
        return json.dumps(self.as_json(), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> CoreCoord:
        return _coord(json.loads(text))

    def __eq__(self, other: object) -> bool:
        if type(other) is CoreCoord:
            return self.x == other.x and self.y == other.y
        return isinstance(other, (tuple, list)) and (self.x, self.y) == tuple(other)

    def __hash__(self) -> int:
        return hash((self.x, self.y))

    def __repr__(self) -> str:
        return f"{self.x}-{self.y}"

    def __reduce__(self) -> tuple[Any, ...]:
        return CoreCoord, (self.x, self.y)


class CoreRange:
    """A rectangle of cores, both corners included."""

    __slots__ = ("end", "start")
    start: CoreCoord
    end: CoreCoord

    def __init__(self, start: Any, end: Any) -> None:
        first, last = CoreCoord.of(start, argument="start"), CoreCoord.of(end, argument="end")
        if first.x > last.x or first.y > last.y:
            raise RuntimeError(f"Invalid core range for start_coord: {first}, end_coord: {last}: the end lies before the start")
        object.__setattr__(self, "start", first)
        object.__setattr__(self, "end", last)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"can't set attribute '{name}' of {self!r}: a CoreRange does not change")

    @property
    def box(self) -> tuple[int, int, int, int]:
        """(x0, y0, x1, y1), all included."""
        return self.start.x, self.start.y, self.end.x, self.end.y

    @property
    def num_cores(self) -> int:
        x0, y0, x1, y1 = self.box
        return (x1 - x0 + 1) * (y1 - y0 + 1)

    def grid_size(self) -> CoreCoord:
        x0, y0, x1, y1 = self.box
        return CoreCoord(x1 - x0 + 1, y1 - y0 + 1)

    def cores(self, row_wise: bool = False) -> Iterator[CoreCoord]:
        """Its cores, down each column first unless `row_wise`."""
        x0, y0, x1, y1 = self.box
        if row_wise:
            return (CoreCoord(x, y) for y in range(y0, y1 + 1) for x in range(x0, x1 + 1))
        return (CoreCoord(x, y) for x in range(x0, x1 + 1) for y in range(y0, y1 + 1))

    def contains(self, other: Any) -> bool:
        """Whether a core, a rectangle or every rectangle of a set lies inside."""
        if isinstance(other, CoreRangeSet):
            return all(self.contains(r) for r in other.ranges())
        x0, y0, x1, y1 = self.box
        if isinstance(other, CoreRange):
            a0, b0, a1, b1 = other.box
        else:
            core = CoreCoord.of(other, "contains")
            a0, b0, a1, b1 = core.x, core.y, core.x, core.y
        return x0 <= a0 and y0 <= b0 and a1 <= x1 and b1 <= y1

    def overlap(self, other: CoreRange) -> CoreRange | None:
        """The rectangle that two rectangles share."""
        x0, y0 = max(self.start.x, other.start.x), max(self.start.y, other.start.y)
        x1, y1 = min(self.end.x, other.end.x), min(self.end.y, other.end.y)
        return rectangle(x0, y0, x1, y1) if x0 <= x1 and y0 <= y1 else None

    def without(self, other: CoreRange) -> list[CoreRange]:
        """What is left when `other` is cut out: left, right, above, below."""
        shared = self.overlap(other)
        if shared is None:
            return [self]
        x0, y0, x1, y1 = self.box
        a0, b0, a1, b1 = shared.box
        rest = []
        if x0 < a0:
            rest.append(rectangle(x0, y0, a0 - 1, y1))
        if a1 < x1:
            rest.append(rectangle(a1 + 1, y0, x1, y1))
        if y0 < b0:
            rest.append(rectangle(a0, y0, a1, b0 - 1))
        if b1 < y1:
            rest.append(rectangle(a0, b1 + 1, a1, y1))
        return rest

    def as_json(self) -> dict[str, dict[str, int]]:
        return {"end": self.end.as_json(), "start": self.start.as_json()}

    def to_json(self) -> str:
        return json.dumps(self.as_json(), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> CoreRange:
        return _range(json.loads(text))

    def __eq__(self, other: object) -> bool:
        return type(other) is CoreRange and self.start == other.start and self.end == other.end

    def __hash__(self) -> int:
        return hash(self.box)

    def __repr__(self) -> str:
        return f"[{self.start} - {self.end}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return CoreRange, (self.start, self.end)


def rectangle(x0: int, y0: int, x1: int, y1: int) -> CoreRange:
    return CoreRange(CoreCoord(x0, y0), CoreCoord(x1, y1))


class CoreRangeSet:
    """Rectangles that do not overlap, in order."""

    __slots__ = ("_ranges",)
    _ranges: tuple[CoreRange, ...]

    def __init__(self, core_ranges: Any) -> None:
        if not isinstance(core_ranges, (list, tuple, set, frozenset)):
            refuse("__init__", "core_ranges", core_ranges, "must be a sequence or a set of CoreRange")
        for r in core_ranges:
            expect("__init__", "core_ranges", r, CoreRange)
        ranges = tuple(core_ranges) if not isinstance(core_ranges, (set, frozenset)) else tuple(sorted(core_ranges, key=_by_start))
        for i, later in enumerate(ranges):
            for earlier in ranges[:i]:
                if earlier.overlap(later) is not None:
                    raise RuntimeError(
                        f"Cannot create CoreRangeSet with specified core ranges because core ranges {earlier} and {later} overlap!"
                    )
        object.__setattr__(self, "_ranges", ranges)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"can't set attribute '{name}' of {self!r}: a CoreRangeSet does not change")

    def ranges(self) -> list[CoreRange]:
        return list(self._ranges)

    def size(self) -> int:
        """How many rectangles."""
        return len(self._ranges)

    def empty(self) -> bool:
        return not self._ranges

    def num_cores(self) -> int:
        return sum(r.num_cores for r in self._ranges)

    def cores(self, row_wise: bool = False) -> list[CoreCoord]:
        """All cores, rectangle by rectangle."""
        return [c for r in self._ranges for c in r.cores(row_wise)]

    def bounding_box(self) -> CoreRange:
        if not self._ranges:
            raise RuntimeError("Cannot get bounding_box of an empty CoreRangeSet!")
        boxes = [r.box for r in self._ranges]
        return rectangle(min(b[0] for b in boxes), min(b[1] for b in boxes), max(b[2] for b in boxes), max(b[3] for b in boxes))

    def contains(self, other: Any) -> bool:
        """Whether a core, a rectangle or every rectangle of a set lies in the set."""
        if isinstance(other, CoreRangeSet):
            return all(self.contains(r) for r in other._ranges)
        target = other if isinstance(other, CoreRange) else CoreRange(other, other)
        return not subtract([target], self._ranges)

    def merge(self, other: CoreRangeSet) -> CoreRangeSet:
        """The union as few rectangles: runs of each row, joined downwards where equal, in order of their start."""
        expect("merge", "other", other, CoreRangeSet)
        cells = {(c.x, c.y) for r in (*self._ranges, *other._ranges) for c in r.cores()}
        open_runs: dict[tuple[int, int], int] = {}
        done: list[CoreRange] = []
        last = max((y for _, y in cells), default=-1)
        for y in range(last + 2):
            runs = set(_runs(sorted(x for x, row in cells if row == y)))
            for run in [r for r in open_runs if r not in runs]:
                done.append(rectangle(run[0], open_runs.pop(run), run[1], y - 1))
            for run in runs:
                open_runs.setdefault(run, y)
        return CoreRangeSet(sorted(done, key=_by_start))

    def subtract(self, other: CoreRangeSet, /) -> CoreRangeSet:
        """The cores of this set that are not in `other`."""
        expect("subtract", "other", other, CoreRangeSet)
        return CoreRangeSet(joined(subtract(self._ranges, other._ranges)))

    def as_json(self) -> list[dict[str, dict[str, int]]]:
        return [r.as_json() for r in self._ranges]

    def to_json(self) -> str:
        return json.dumps(self.as_json(), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> CoreRangeSet:
        return set_from_json(json.loads(text))

    def __eq__(self, other: object) -> bool:
        return type(other) is CoreRangeSet and self._ranges == other._ranges

    def __hash__(self) -> int:
        return hash(self._ranges)

    def __repr__(self) -> str:
        return "{" + ", ".join(map(repr, self._ranges)) + "}"

    def __reduce__(self) -> tuple[Any, ...]:
        return CoreRangeSet, (self._ranges,)


class CoreGrid:
    """A grid of `x` by `y` cores from the origin. Official TT-NN compares grids by identity, and so does this class."""

    __slots__ = ("x", "y")
    x: int
    y: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or set(kwargs) != {"x", "y"}:
            refuse("__init__", "arguments", (args, kwargs), "must be x=..., y=...")
        object.__setattr__(self, "x", uint("__init__", "x", kwargs["x"], UINT64))
        object.__setattr__(self, "y", uint("__init__", "y", kwargs["y"], UINT64))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"can't set attribute '{name}' of {self!r}: a CoreGrid does not change")

    @property
    def num_cores(self) -> int:
        return self.x * self.y

    @property
    def key(self) -> tuple[int, int]:
        """What makes two grids the same."""
        return self.x, self.y

    def __repr__(self) -> str:
        return f"ttnn.CoreGrid(x={self.x}, y={self.y})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _core_grid, (self.x, self.y)


def _core_grid(x: int, y: int) -> CoreGrid:
    return CoreGrid(x=x, y=y)


def _by_start(r: CoreRange) -> tuple[int, int]:
    return r.start.x, r.start.y


def _runs(sorted_numbers: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of consecutive numbers."""
    first = previous = None
    for n in sorted_numbers:
        if first is None or previous is None or n != previous + 1:
            if first is not None and previous is not None:
                yield first, previous
            first = n
        previous = n
    if first is not None and previous is not None:
        yield first, previous


def subtract(ranges: Iterable[CoreRange], holes: Iterable[CoreRange]) -> list[CoreRange]:
    """`ranges` with `holes` cut out."""
    left = list(ranges)
    for hole in holes:
        left = [piece for r in left for piece in r.without(hole)]
    return left


def joined(ranges: list[CoreRange]) -> list[CoreRange]:
    """`ranges` with neighbours that form one rectangle put together, in place of the earlier one."""
    ranges = list(ranges)
    again = True
    while again:
        again = False
        for i, a in enumerate(ranges):
            for j in range(i + 1, len(ranges)):
                whole = _union(a, ranges[j])
                if whole is not None:
                    ranges[i] = whole
                    del ranges[j]
                    again = True
                    break
            if again:
                break
    return ranges


def _union(a: CoreRange, b: CoreRange) -> CoreRange | None:
    ax0, ay0, ax1, ay1 = a.box
    bx0, by0, bx1, by1 = b.box
    if (ax0, ax1) == (bx0, bx1) and (ay1 + 1 == by0 or by1 + 1 == ay0):
        return rectangle(ax0, min(ay0, by0), ax1, max(ay1, by1))
    if (ay0, ay1) == (by0, by1) and (ax1 + 1 == bx0 or bx1 + 1 == ax0):
        return rectangle(min(ax0, bx0), ay0, max(ax1, bx1), ay1)
    return None


def _coord(j: dict[str, int]) -> CoreCoord:
    return CoreCoord(j["x"], j["y"])


def _range(j: dict[str, dict[str, int]]) -> CoreRange:
    return CoreRange(_coord(j["start"]), _coord(j["end"]))


def set_from_json(j: list[dict[str, dict[str, int]]]) -> CoreRangeSet:
    return CoreRangeSet([_range(r) for r in j])
