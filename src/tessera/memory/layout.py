"""Where the pages of a tensor lie: how many there are, how large, on which banks, and how much of each bank they take.

All banks that hold a tensor give it the same addresses, so one number, the bytes in the fullest bank, is all that an allocator needs
(`BankPlan`). Which page lies where exactly (`pages`) is only asked by reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

from tessera.formats.dtype import Layout
from tessera.memory.config import BufferType, ShardDistributionStrategy, ShardOrientation, TensorMemoryLayout
from tessera.memory.sharding import round_up

if TYPE_CHECKING:
    from tessera.memory.config import MemoryConfig
    from tessera.memory.spec import TensorSpec
    from tessera.silicon.board import Board

__all__ = ["BankPlan", "PageAt", "bank_plan", "bank_type", "pages", "shard_cores"]

_IN_DRAM = (BufferType.DRAM, BufferType.TRACE)


def bank_type(buffer_type: BufferType) -> BufferType:
    """The kind of bank that holds this kind of buffer: DRAM or L1."""
    return BufferType.DRAM if buffer_type in _IN_DRAM else BufferType.L1


@dataclass(frozen=True, slots=True)
class BankPlan:
    """What one tensor spec asks of each bank."""

    buffer_type: BufferType
    page_size: int
    aligned_page_size: int
    num_pages: int
    num_banks: int
    """Banks that may hold a page: all of them when interleaved, the cores of the grid when sharded."""
    size_per_bank: int
    cores: tuple[tuple[int, int], ...] = ()
    """Logical cores of a sharded tensor in the order in which they receive shards."""

    @property
    def total_size(self) -> int:
        return self.aligned_page_size * self.num_pages


class PageAt(NamedTuple):
    page: int
    bank: int
    core: tuple[int, int]
    offset: int
    """From the buffer's address."""


def bank_plan(spec: TensorSpec, board: Board) -> BankPlan:
    """Page arithmetic of a spec on a board; RuntimeError when its shard grid names a core without a bank."""
    config = spec.memory_config
    buffer_type = config.buffer_type
    in_dram = buffer_type in _IN_DRAM
    alignment = board.dram.alignment if in_dram else board.l1.alignment
    page, count = spec.page_size, spec.num_pages
    aligned = round_up(page, alignment)
    if not spec.is_sharded or (config.shard_spec is None and config.nd_shard_spec is None):
        if buffer_type is BufferType.L1_SMALL:
            raise RuntimeError("L1_SMALL only supports sharded allocations: memory_config is interleaved; give it a shard spec")
        banks = board.dram.banks if in_dram else board.compute_cores
        return BankPlan(buffer_type, page, aligned, count, banks, _aligned(ceil(count / banks) * aligned, board))
    cores = _cores(config)
    _check_cores(cores, in_dram, board)
    shard, counts = _shards(spec)
    per_core = _shards_per_core(config, counts, cores) if count else 0
    size = per_core * _pages_per_shard(spec, shard) * aligned
    return BankPlan(buffer_type, page, aligned, count, len(cores), _aligned(size, board), cores)


def _aligned(size: int, board: Board) -> int:
    """Blocks of every bank start at the alignment of DRAM, which the chip uses for L1 too."""
    return round_up(size, board.dram.alignment)


def _cores(config: MemoryConfig) -> tuple[tuple[int, int], ...]:
    spec = config.nd_shard_spec if config.shard_spec is None or config.created_with_nd_shard_spec else config.shard_spec
    assert spec is not None
    by_rows = spec.orientation is ShardOrientation.ROW_MAJOR
    found: list[tuple[int, int]] = []
    for r in spec.grid.ranges():
        xs, ys = range(r.start.x, r.end.x + 1), range(r.start.y, r.end.y + 1)
        found += [(x, y) for y in ys for x in xs] if by_rows else [(x, y) for x in xs for y in ys]
    return tuple(found)


def _check_cores(cores: Sequence[tuple[int, int]], in_dram: bool, board: Board) -> None:
    if in_dram:
        for x, y in cores:
            if y != 0:
                raise RuntimeError(
                    f"Invalid DRAM shard grid: shard core ({x}, {y}) is not on row 0. "
                    f"A DRAM bank is named by x alone, so a shard grid in DRAM lies between (0, 0) and ({board.dram.banks - 1}, 0)"
                )
    width, height = (board.dram.banks, 1) if in_dram else board.compute_grid
    kind, banks = ("DRAM", width) if in_dram else ("L1", width * height)
    for x, y in cores:
        if x >= width or y >= height:
            ask = "dram_grid_size()" if in_dram else "compute_with_storage_grid_size()"
            raise RuntimeError(
                f"Invalid shard grid: shard core ({x}, {y}) has no {kind} bank: {board.name} has {banks} of them, "
                f"up to core ({width - 1}, {height - 1}). Take the grid from the device's {ask}"
            )


def _shards(spec: TensorSpec) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape of a shard, number of shards along each of its dimensions), over physical elements."""
    config = spec.memory_config
    if config.shard_spec is not None and not config.created_with_nd_shard_spec:
        shard = config.shard_spec.shard
        return shard, tuple(ceil(p / s) for p, s in zip(spec.physical_shape, shard))
    nd = config.nd_shard_spec
    assert nd is not None
    shard = nd.shard_shape.dims
    whole = spec.padded_dims
    rank = max(len(shard), 2)
    whole = (1,) * (rank - len(whole)) + whole
    shard = (1,) * (rank - len(shard)) + shard
    folded = (prod(whole[: len(whole) - rank + 1]), *whole[len(whole) - rank + 1 :])
    return shard, tuple(ceil(w / s) for w, s in zip(folded, shard))


def _pages_per_shard(spec: TensorSpec, shard: Sequence[int]) -> int:
    if spec.layout is Layout.TILE:
        tile_h, tile_w = spec.tile.height, spec.tile.width
        return prod(shard[:-2]) * ceil(shard[-2] / tile_h) * ceil(shard[-1] / tile_w)
    return prod(shard[:-1])


def _shards_per_core(config: MemoryConfig, counts: Sequence[int], cores: Sequence[tuple[int, int]]) -> int:
    if config.shard_spec is not None and not config.created_with_nd_shard_spec:
        return 1  # the spec has checked that there are no more shards than cores
    nd = config.nd_shard_spec
    if nd is not None and nd.shard_distribution_strategy is ShardDistributionStrategy.GRID_2D:
        width, height = len({x for x, _ in cores}), len({y for _, y in cores})
        if nd.orientation is not ShardOrientation.ROW_MAJOR:
            width, height = height, width
        return ceil(prod(counts[:-1]) / height) * ceil(counts[-1] / width)
    return ceil(prod(counts) / len(cores))


def pages(spec: TensorSpec, plan: BankPlan, board: Board) -> Iterator[PageAt]:
    """Every page of a tensor with its bank, core and offset, in the order of the pages."""
    if not plan.cores:
        in_dram = plan.buffer_type in _IN_DRAM
        width = board.dram.banks if in_dram else board.compute_grid[0]
        for page in range(plan.num_pages):
            row, bank = divmod(page, plan.num_banks)
            yield PageAt(page, bank, (bank % width, bank // width), row * plan.aligned_page_size)
        return
    shard, counts = _shards(spec)
    unit = (*(1,) * (len(shard) - 2), *((spec.tile.height, spec.tile.width) if spec.layout is Layout.TILE else (1, shard[-1])))
    per_shard = [ceil(s / u) for s, u in zip(shard, unit)]
    config = spec.memory_config
    if config.shard_spec is not None and not config.created_with_nd_shard_spec:
        whole: Sequence[int] = spec.physical_shape
    else:
        padded = spec.padded_dims
        padded = (1,) * (len(shard) - len(padded)) + padded
        whole = (prod(padded[: len(padded) - len(shard) + 1]), *padded[len(padded) - len(shard) + 1 :])
    in_whole = [ceil(w / u) for w, u in zip(whole, unit)]
    width = board.compute_grid[0] if plan.buffer_type not in _IN_DRAM else board.dram.banks
    size = prod(per_shard) * plan.aligned_page_size
    deal = _dealer(config, counts, plan.cores)
    for page, place in enumerate(product(*map(range, in_whole))):
        shard_at = tuple(at // inside for at, inside in zip(place, per_shard))
        slot = 0
        for at, inside in zip(place, per_shard):
            slot = slot * inside + at % inside
        (x, y), turn = deal(shard_at)
        yield PageAt(page, y * width + x, (x, y), turn * size + slot * plan.aligned_page_size)


def shard_cores(spec: TensorSpec, plan: BankPlan) -> list[tuple[int, int]]:
    """The cores that really hold a shard, in the order of the shards."""
    _, counts = _shards(spec)
    deal = _dealer(spec.memory_config, counts, plan.cores)
    return list(dict.fromkeys(deal(place)[0] for place in product(*map(range, counts))))


def _dealer(
    config: MemoryConfig, counts: Sequence[int], cores: Sequence[tuple[int, int]]
) -> Callable[[tuple[int, ...]], tuple[tuple[int, int], int]]:
    """Who gets which shard: from a shard's place among shards to its core, and how many shards lie before it there."""
    nd = config.nd_shard_spec
    strategy = nd.shard_distribution_strategy if nd is not None and config.created_with_nd_shard_spec else None

    def index(place: tuple[int, ...]) -> int:
        found = 0
        for at, count in zip(place, counts):
            found = found * count + at
        return found

    if config.memory_layout is TensorMemoryLayout.BLOCK_SHARDED or strategy is ShardDistributionStrategy.GRID_2D:
        xs, ys = sorted({x for x, _ in cores}), sorted({y for _, y in cores})
        by_rows = (config.shard_spec or nd).orientation is ShardOrientation.ROW_MAJOR  # type: ignore[union-attr]
        down, across = (len(ys), len(xs)) if by_rows else (len(xs), len(ys))

        def on_grid(place: tuple[int, ...]) -> tuple[tuple[int, int], int]:
            row, column = index((*place[:-1], 0)) // counts[-1], place[-1]
            (over, i), (beyond, j) = divmod(row, down), divmod(column, across)
            core = (xs[j], ys[i]) if by_rows else (xs[i], ys[j])
            return core, over * ceil(counts[-1] / across) + beyond

        return on_grid
    if strategy is ShardDistributionStrategy.CONTIGUOUS_1D:
        per_core = ceil(prod(counts) / len(cores))
        return lambda place: (cores[index(place) // per_core], index(place) % per_core)
    return lambda place: (cores[index(place) % len(cores)], index(place) // len(cores))
