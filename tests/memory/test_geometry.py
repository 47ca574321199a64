"""Cores, rectangles and sets of them: algebra against plain Python sets of places, and handing out work."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.memory.geometry import CoreCoord, CoreGrid, CoreRange, CoreRangeSet, rectangle, subtract
from tessera.memory.work import (
    corerange_to_cores,
    grid_to_cores,
    num_cores_to_corerangeset,
    num_cores_to_corerangeset_in_subcoregrids,
    split_work_to_cores,
)

coordinates = st.integers(0, 9)


@st.composite
def rectangles(draw) -> CoreRange:
    x0, y0 = draw(coordinates), draw(coordinates)
    return rectangle(x0, y0, x0 + draw(st.integers(0, 4)), y0 + draw(st.integers(0, 4)))


@st.composite
def sets(draw) -> CoreRangeSet:
    kept: list[CoreRange] = []
    for r in draw(st.lists(rectangles(), max_size=5)):
        kept += subtract([r], kept)
    return CoreRangeSet(kept)


def places(cores: CoreRangeSet) -> set[tuple[int, int]]:
    return {(c.x, c.y) for c in cores.cores()}


class TestCoreCoord:
    def test_pairs_stand_for_it(self) -> None:
        assert CoreCoord(1, 2) == CoreCoord((1, 2)) == (1, 2)
        assert hash(CoreCoord(1, 2)) == hash((1, 2))
        assert CoreRange((0, 0), [1, 1]) == CoreRange(CoreCoord(0, 0), CoreCoord(1, 1))
        assert repr(CoreCoord(1, 2)) == "1-2"

    @pytest.mark.parametrize("args", [(), (1,), (-1, 0), (1.5, 2), ("a", "b"), (1, 2, 3)])
    def test_refuses(self, args) -> None:
        with pytest.raises(TypeError, match="incompatible function arguments"):
            CoreCoord(*args)

    def test_does_not_change(self) -> None:
        with pytest.raises(AttributeError):
            CoreCoord(1, 2).x = 3

    def test_json(self) -> None:
        assert CoreCoord(1, 2).to_json() == '{"x":1,"y":2}'
        assert CoreCoord.from_json('{"x":3,"y":4}') == (3, 4)


class TestCoreRange:
    def test_start_before_end(self) -> None:
        with pytest.raises(RuntimeError, match="Invalid core range for start_coord: 3-0, end_coord: 0-0"):
            CoreRange((3, 0), (0, 0))

    @given(rectangles(), rectangles())
    def test_cutting_out_leaves_the_difference(self, a: CoreRange, b: CoreRange) -> None:
        rest = a.without(b)
        assert places(CoreRangeSet(rest)) == {(c.x, c.y) for c in a.cores()} - {(c.x, c.y) for c in b.cores()}
        assert (a.overlap(b) is None) == (rest == [a])

    @given(rectangles())
    def test_json_round_trips(self, r: CoreRange) -> None:
        assert CoreRange.from_json(r.to_json()) == r == copy.deepcopy(r)
        assert r.grid_size().x * r.grid_size().y == r.num_cores == len(list(r.cores()))


class TestCoreRangeSet:
    def test_refuses_overlap_and_non_ranges(self) -> None:
        with pytest.raises(RuntimeError, match=r"core ranges \[0-0 - 1-1\] and \[1-1 - 2-2\] overlap!"):
            CoreRangeSet([rectangle(0, 0, 1, 1), rectangle(1, 1, 2, 2)])
        for bad in (rectangle(0, 0, 1, 1), 5, [((0, 0), (1, 1))]):
            with pytest.raises(TypeError):
                CoreRangeSet(bad)
        with pytest.raises(RuntimeError, match="Cannot get bounding_box of an empty CoreRangeSet!"):
            CoreRangeSet([]).bounding_box()

    def test_order_counts(self) -> None:
        a, b = rectangle(0, 0, 1, 1), rectangle(2, 0, 3, 1)
        assert CoreRangeSet([a, b]) != CoreRangeSet([b, a])
        assert CoreRangeSet({b, a}).ranges() == [a, b]

    @settings(max_examples=60)
    @given(sets(), sets())
    def test_algebra(self, a: CoreRangeSet, b: CoreRangeSet) -> None:
        merged, left = a.merge(b), a.subtract(b)
        assert places(merged) == places(a) | places(b)
        assert places(left) == places(a) - places(b)
        assert merged.num_cores() == len(places(merged))
        assert a.contains(b) == (places(b) <= places(a))
        assert all(a.contains(c) for c in a.cores())
        assert CoreRangeSet.from_json(a.to_json()) == a
        if not merged.empty():
            assert merged.bounding_box().contains(merged)

    @pytest.mark.parametrize(
        ("a", "b", "merged"),
        [
            ([(3, 0, 4, 4), (0, 0, 1, 4)], [(2, 1, 2, 3)], "{[0-0 - 1-0], [0-1 - 4-3], [0-4 - 1-4], [3-0 - 4-0], [3-4 - 4-4]}"),
            ([(0, 0, 1, 1), (0, 2, 1, 3), (2, 0, 3, 3)], [], "{[0-0 - 3-3]}"),
        ],
    )
    def test_merges_into_the_official_rectangles(self, a, b, merged: str) -> None:
        one, other = (CoreRangeSet([rectangle(*r) for r in side]) for side in (a, b))
        assert repr(one.merge(other)) == merged


class TestCoreGrid:
    def test_is_compared_by_identity_and_keyed_by_extent(self) -> None:
        grid = CoreGrid(x=8, y=7)
        assert grid != CoreGrid(x=8, y=7)
        assert grid.key == CoreGrid(x=8, y=7).key
        assert (grid.num_cores, repr(grid)) == (56, "ttnn.CoreGrid(x=8, y=7)")

    @pytest.mark.parametrize(("args", "words"), [((8, 8), {}), ((), {"x": 8}), ((), {"x": -1, "y": 2}), ((), {"x": 1.0, "y": 2})])
    def test_refuses(self, args, words) -> None:
        with pytest.raises(TypeError):
            CoreGrid(*args, **words)


class TestWork:
    @given(st.integers(1, 13), st.integers(1, 10), st.integers(0, 130), st.booleans())
    def test_first_cores_of_a_grid(self, x: int, y: int, count: int, row_wise: bool) -> None:
        if count > x * y:
            with pytest.raises(RuntimeError, match="is greater than total number of available cores"):
                num_cores_to_corerangeset(count, (x, y), row_wise)
            return
        taken = num_cores_to_corerangeset(count, (x, y), row_wise)
        assert taken.size() <= 2
        assert taken.cores(row_wise) == list(rectangle(0, 0, x - 1, y - 1).cores(row_wise))[:count]

    @given(st.integers(1, 13), st.integers(1, 10), st.integers(0, 5000), st.booleans())
    def test_work_is_split_evenly(self, x: int, y: int, units: int, row_wise: bool) -> None:
        cores, used, more, fewer, each_more, each = split_work_to_cores((x, y), units, row_wise)
        assert used.num_cores() == cores == min(units, x * y)
        assert more.num_cores() * each_more + fewer.num_cores() * each == units
        assert places(more) | places(fewer) == places(used)
        assert fewer.empty() or each_more == each + 1

    def test_from_a_core_inside_rectangles(self) -> None:
        areas = CoreRangeSet([rectangle(1, 0, 3, 7), rectangle(5, 0, 6, 7)])
        assert repr(num_cores_to_corerangeset_in_subcoregrids((2, 3), 13, areas, True)) == "{[2-3 - 3-3], [1-4 - 3-6], [1-7 - 2-7]}"
        assert repr(num_cores_to_corerangeset_in_subcoregrids((2, 3), 20, areas)) == "{[2-3 - 2-7], [3-0 - 3-7], [5-0 - 5-6]}"
        for start, count in (((5, 3), 20), ((0, 0), 1), ((1, 0), 41), ((1, 0), 0)):
            with pytest.raises(RuntimeError):
                num_cores_to_corerangeset_in_subcoregrids(start, count, areas)

    def test_cores_in_order(self) -> None:
        areas = CoreRangeSet([rectangle(5, 5, 6, 6), rectangle(0, 0, 1, 1)])
        assert list(map(str, corerange_to_cores(areas))) == ["5-5", "5-6", "6-5", "6-6", "0-0", "0-1", "1-0", "1-1"]
        assert list(map(str, corerange_to_cores(areas, 3, True))) == ["5-5", "6-5", "5-6"]
        assert list(map(str, grid_to_cores(4, 2, 8, True))) == ["0-0", "1-0", "0-1", "1-1"]
        assert list(map(str, grid_to_cores(CoreCoord(1, 1), CoreCoord(2, 2)))) == ["1-1", "1-2", "2-1", "2-2"]
