"""Boards as data: what was measured, what follows from it, and the ways to ask."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from tessera.silicon import board
from tessera.silicon.board import Dispatch, Xy
from tessera.silicon.cluster import Cluster

KNOWN = ("e75", "e150", "e300", "n150", "n300", "t3000", "galaxy", "p100", "p150", "p300")


def test_ten_boards_are_known() -> None:
    assert board.names() == KNOWN


@pytest.mark.parametrize("name", KNOWN)
def test_every_board_is_whole(name: str) -> None:
    b = board.get(name)
    assert b is board.get(name)
    grid, workers = b.compute_grid, b.worker_grid
    assert grid.x <= workers.x
    assert grid.y <= workers.y
    assert len(b.harvested) == b.num_chips
    assert len(b.dram.cores) == b.dram.banks
    for noc in (0, 1):
        assert len(b.optimal_workers.on(noc)) == b.dram.banks
        assert all(x < workers.x and y < workers.y for x, y in b.optimal_workers.on(noc))
    assert 0 < b.l1.base < b.l1.size
    assert b.l1.size - b.l1.max_unreserved < b.l1.base
    assert b.l1.base % b.dram.alignment == 0
    assert b.dram.base % b.dram.alignment == 0
    for grid in b.grids.values():
        assert b.worker_core_from_logical_core(grid.x - 1, grid.y - 1)


@pytest.mark.parametrize(
    ("name", "grid", "banks", "dram", "l1", "unreserved", "core"),
    [
        ("n150", (8, 8), 12, 1072693184, 1393312, 1463968, (18, 18)),
        ("n300", (8, 8), 12, 1072693184, 1393312, 1463968, (18, 18)),
        ("p150", (13, 10), 8, 4277141376, 1461120, 1531776, (1, 2)),
        ("p100", (11, 10), 8, 4277141376, 1461120, 1531776, (1, 2)),
    ],
)
def test_measured_figures(name: str, grid: Xy, banks: int, dram: int, l1: int, unreserved: int, core: Xy) -> None:
    b = board.get(name)
    assert (b.compute_grid, b.dram.banks, b.dram.bytes_per_bank) == (grid, banks, dram)
    assert (b.l1_bytes_per_bank, b.l1.max_unreserved) == (l1, unreserved)
    assert b.worker_core_from_logical_core(0, 0) == core


def test_peak_rates_of_the_public_tables() -> None:
    assert [round(board.get("n150").peak_flops(f) / 1e12, 1) for f in ("LoFi", "HiFi2", "HiFi3", "HiFi4")] == [262.1, 131.1, 87.4, 65.5]
    assert round(board.get("p150").peak_flops() / 1e12) == 719
    assert round(board.get("p100").peak_flops() / 1e12) == 608
    assert round(board.get("e150").core_flops() * 120 / 1e12) == 332
    with pytest.raises(ValueError, match="HiFi9"):
        board.get("n150").peak_flops("HiFi9")


@pytest.mark.parametrize("name", KNOWN)
def test_core_translation_goes_both_ways(name: str) -> None:
    b = board.get(name)
    seen = set()
    for y in range(b.worker_grid.y):
        for x in range(b.worker_grid.x):
            there = b.worker_core_from_logical_core(x, y)
            assert b.logical_core_from_worker_core(*there) == (x, y)
            seen.add(there)
    assert len(seen) == b.worker_grid.x * b.worker_grid.y
    with pytest.raises(ValueError, match="outside"):
        b.worker_core_from_logical_core(b.worker_grid.x, 0)
    with pytest.raises(ValueError, match="not a worker core"):
        b.logical_core_from_worker_core(99, 99)
    with pytest.raises(ValueError, match="banks 0-0"):
        b.dram_core_from_logical_core(b.dram.banks)


def test_dispatch_chooses_the_grid() -> None:
    b = board.get("n150")
    assert b.with_dispatch(b.dispatch) is b
    assert b.with_dispatch(Dispatch("worker", "col")).compute_grid == (7, 9)
    assert board.get("n300").with_dispatch(Dispatch("worker", "row")).compute_grid == (8, 7)
    with pytest.raises(ValueError, match="p150 has core maps for"):
        board.get("p150").with_dispatch(Dispatch("eth", "row"))


def test_the_environment_names_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TESSERA_BOARD", raising=False)
    assert board.current().name == "n150"
    monkeypatch.setenv("TESSERA_BOARD", "galaxy")
    assert board.current().num_chips == 32
    monkeypatch.setenv("TESSERA_BOARD", "n151")
    with pytest.raises(ValueError, match=r"'n151'.*n150, n300"):
        board.current()


def test_boards_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        board.get("n150").name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "links", "neighbours", "mmio"),
    [("n150", 0, (), (0,)), ("n300", 1, (1,), (0,)), ("t3000", 10, (1, 4), (0, 2, 4, 6)), ("galaxy", 64, (1, 3, 4, 28), tuple(range(32)))],
)
def test_clusters(name: str, links: int, neighbours: tuple[int, ...], mmio: tuple[int, ...]) -> None:
    c = Cluster(board.get(name))
    assert len(c.links) == links
    assert c.neighbours(0) == neighbours
    assert c.mmio_chips == mmio
    assert all(c.chip(*c.coordinate(i)) == i for i in range(len(c)))
    for chip in range(len(c)):
        assert all(chip in c.neighbours(other) for other in c.neighbours(chip))
    with pytest.raises(ValueError, match="chips 0 to"):
        c.coordinate(len(c))
    with pytest.raises(ValueError, match="outside"):
        c.chip(99, 0)


def test_asking_for_a_board_imports_no_torch() -> None:
    code = "import sys, tessera.silicon.board as b, tessera.runtime.telemetry as t; b.current(); t.read_all(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
