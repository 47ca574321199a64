"""Handing out work over cores: the first so many cores of a grid, and an even split of units among them.

Cores are taken along columns (or along rows), and what was taken is told as few rectangles: the rest of a started
line, the full lines, the begun line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tessera.formats.arguments import expect, refuse, uint
from tessera.memory.geometry import CoreCoord, CoreRange, CoreRangeSet, rectangle


def take(area: CoreRange, skip: int, count: int, row_wise: bool) -> list[CoreRange]:
    """Rectangles that cover `count` cores of `area` after the first `skip`, along rows or columns."""
    x0, y0, x1, y1 = area.box
    length = x1 - x0 + 1 if row_wise else y1 - y0 + 1

    def lines(first: int, last: int, start: int, stop: int) -> CoreRange:
        if row_wise:
            return rectangle(x0 + start, y0 + first, x0 + stop, y0 + last)
        return rectangle(x0 + first, y0 + start, x0 + last, y0 + stop)

    pieces = []
    line, offset = divmod(skip, length)
    if offset and count:
        n = min(count, length - offset)
        pieces.append(lines(line, line, offset, offset + n - 1))
        count -= n
        line += 1
    full, rest = divmod(count, length)
    if full:
        pieces.append(lines(line, line + full - 1, 0, length - 1))
    if rest:
        pieces.append(lines(line + full, line + full, 0, rest - 1))
    return pieces


def take_from(areas: list[CoreRange], skip: int, count: int, row_wise: bool) -> CoreRangeSet:
    """`count` cores after the first `skip`, area by area."""
    pieces: list[CoreRange] = []
    for area in areas:
        n = min(max(area.num_cores - skip, 0), count)
        pieces += take(area, skip, n, row_wise)
        skip, count = max(skip - area.num_cores, 0), count - n
    return CoreRangeSet(pieces)


def num_cores_to_corerangeset(target_num_cores: Any, grid_size: Any, row_wise: bool = False) -> CoreRangeSet:
    """The first `target_num_cores` of a grid."""
    call = "num_cores_to_corerangeset"
    count, size = uint(call, "target_num_cores", target_num_cores), CoreCoord.of(grid_size, call, "grid_size")
    if count > size.x * size.y:
        raise RuntimeError(f"Target number of cores {count} is greater than total number of available cores {size.x * size.y}")
    return take_from([rectangle(0, 0, size.x - 1, size.y - 1)], 0, count, row_wise) if count else CoreRangeSet([])


def num_cores_to_corerangeset_in_subcoregrids(
    start_core: Any, target_num_cores: Any, sub_core_grids: Any, row_wise: bool = False
) -> CoreRangeSet:
    """`target_num_cores` of a set of rectangles, from `start_core` on."""
    call = "num_cores_to_corerangeset_in_subcoregrids"
    start = CoreCoord.of(start_core, call, "start_core")
    count = uint(call, "target_num_cores", target_num_cores)
    expect(call, "sub_core_grids", sub_core_grids, CoreRangeSet)
    if not count:
        raise RuntimeError("Target number of cores must be greater than 0, got target_num_cores=0")
    if count > sub_core_grids.num_cores():
        raise RuntimeError(f"Target number of cores {count} is greater than total available cores {sub_core_grids.num_cores()}")
    if not sub_core_grids.contains(start):
        raise RuntimeError(f"Start core must be inside sub_core_grids, start_core={start} is not in {sub_core_grids}")
    areas = sub_core_grids.ranges()
    while not areas[0].contains(start):
        del areas[0]
    x0, y0, _, _ = areas[0].box
    size = areas[0].grid_size()
    skip = (start.y - y0) * size.x + start.x - x0 if row_wise else (start.x - x0) * size.y + start.y - y0
    left = sum(a.num_cores for a in areas) - skip
    if count > left:
        raise RuntimeError(f"Target number of cores {count} is greater than the {left} cores available from start_core={start} on")
    return take_from(areas, skip, count, row_wise)


def split_work_to_cores(
    grid: Any, units_to_divide: Any, row_wise: bool = False
) -> tuple[int, CoreRangeSet, CoreRangeSet, CoreRangeSet, int, int]:
    """Units over cores: (cores used, all of them, those with one unit more, the others, units of the former, of the latter)."""
    call = "split_work_to_cores"
    units = uint(call, "units_to_divide", units_to_divide)
    none = CoreRangeSet([])
    if isinstance(grid, CoreRangeSet):
        areas = grid.ranges()
    else:
        size = CoreCoord.of(grid, call, "grid_size")
        areas = [rectangle(0, 0, size.x - 1, size.y - 1)] if size.x and size.y else []
    cores = min(units, sum(a.num_cores for a in areas))
    if not cores:
        return 0, none, none, none, 0, 0
    used = take_from(areas, 0, cores, row_wise)
    each, more = divmod(units, cores)
    if not more:
        return cores, used, used, none, each, 0
    return cores, used, take_from(areas, 0, more, row_wise), take_from(areas, more, cores - more, row_wise), each + 1, each


def corerange_to_cores(range_set: Any, max_cores: int | None = None, row_wise: bool = False) -> list[CoreCoord]:
    """The cores of a set, rectangle by rectangle, at most `max_cores`."""
    expect("corerange_to_cores", "range_set", range_set, CoreRangeSet)
    cores: list[CoreCoord] = range_set.cores(row_wise)
    return cores if max_cores is None else cores[: uint("corerange_to_cores", "max_cores", max_cores)]


def grid_to_cores(*args: Any, row_wise: bool = False) -> list[CoreCoord]:
    """`(num_cores, grid_size_x, grid_size_y)` or `(start, end)`: the cores of a grid, along columns unless `row_wise`."""
    call = "grid_to_cores"
    if args and isinstance(args[0], CoreCoord):
        if len(args) == 3:
            row_wise = args[2]
        elif len(args) != 2:
            refuse(call, "arguments", args, "must be start, end[, row_wise]")
        return list(CoreRange(args[0], args[1]).cores(row_wise))
    if len(args) == 4:
        row_wise = args[3]
    elif len(args) != 3:
        refuse(call, "arguments", args, "must be num_cores, grid_size_x, grid_size_y[, row_wise]")
    count, x, y = (uint(call, name, a) for name, a in zip(("num_cores", "grid_size_x", "grid_size_y"), args))

    def along() -> Iterator[CoreCoord]:
        for i in range(count):
            yield CoreCoord(i % x, i // x) if row_wise else CoreCoord(i // y, i % y)

    return list(along())
