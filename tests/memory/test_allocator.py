"""Device memory: the observed addresses, the regions, and what it says when it refuses."""

from __future__ import annotations

import gc
import json
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.allocator import Allocation, DeviceMemory
from tessera.memory.config import (
    L1,
    BufferType,
    MemoryConfig,
    NdShardSpec,
    ShardDistributionStrategy,
    ShardOrientation,
    ShardSpec,
    TensorMemoryLayout,
)
from tessera.memory.geometry import CoreCoord, CoreRange, CoreRangeSet
from tessera.memory.layout import bank_plan, pages
from tessera.memory.spec import TensorSpec
from tessera.silicon import board

SMALL = {"layout": "HEIGHT_SHARDED", "grid": [[0, 0, 0, 0]], "shape": [32, 32], "buffer": "L1_SMALL"}
SAMPLE = Path(__file__).parents[1] / "data/behaviour/allocator.jsonl"
WHOLE = Path(__file__).parents[3] / "shared/reference/behaviour/allocator.dev.jsonl"
OBSERVED = ("address", "page_size", "aligned_page_size", "num_pages")


def grid(ranges: list[list[int]]) -> CoreRangeSet:
    return CoreRangeSet([CoreRange(CoreCoord(a, b), CoreCoord(c, d)) for a, b, c, d in ranges])


def config(words: Any) -> MemoryConfig:
    if isinstance(words, str):
        return MemoryConfig(buffer_type=BufferType[words])
    buffer = BufferType[words.get("buffer", "L1")]
    if nd := words.get("nd"):
        strategy = ShardDistributionStrategy[nd.get("distribution", "ROUND_ROBIN_1D")]
        orientation = ShardOrientation[nd.get("orientation", "ROW_MAJOR")]
        return MemoryConfig(buffer, NdShardSpec(nd["shape"], grid(nd["grid"]), orientation, strategy))
    shard = ShardSpec(grid(words["grid"]), words["shape"], ShardOrientation[words.get("orientation", "ROW_MAJOR")])
    return MemoryConfig(TensorMemoryLayout[words["layout"]], buffer, shard)


def spec(shape: list[int], dtype: str = "BFLOAT16", layout: str = "TILE", where: Any = "L1") -> TensorSpec:
    return TensorSpec.of(Shape(shape), DataType[dtype], Layout[layout], config(where))


def replay(row: dict[str, Any]) -> str:
    """What differs between a row and this machine; empty if nothing."""
    memory = DeviceMemory(board.get(row["arch"]), **row["device"])
    live: dict[int, Allocation] = {}
    for step in row["steps"]:
        if step["op"] == "free":
            if step["id"] in live:
                memory.free(live.pop(step["id"]))
            continue
        t = step["tensor"]
        try:
            got = live[step["id"]] = memory.allocate(spec(t["shape"], t["dtype"], t["layout"], t["memory_config"]))
        except RuntimeError as refusal:
            if "error" not in step:
                return f"{t} was refused: {refusal}"
            continue
        if "error" in step:
            return f"{t} was not refused"
        if any(getattr(got, key) != step[key] for key in OBSERVED):
            return f"{t}: {[(key, getattr(got, key), step[key]) for key in OBSERVED]}"
    for kind, after in row.get("after", {}).items():  # the committed sample holds the steps only
        view = memory.view(BufferType[kind])
        want = (after["allocated_per_bank"], after["free_per_bank"], after["largest_free_per_bank"])
        if (view.total_bytes_allocated_per_bank, view.total_bytes_free_per_bank, view.largest_contiguous_bytes_free_per_bank) != want:
            return f"{kind} afterwards: {view}, observed {want}"
        if [view.num_banks, view.total_bytes_per_bank] != list(row["banks"][kind].values()):
            return f"{kind} banks: {view}, observed {row['banks'][kind]}"
    return ""


def failures(path: Path) -> list[str]:
    return [f"row {i}: {why}" for i, line in enumerate(path.read_text().splitlines()) if (why := replay(json.loads(line)))]


def test_observed_sequences() -> None:
    assert failures(SAMPLE) == []


@pytest.mark.whole
@pytest.mark.skipif(not WHOLE.exists(), reason="needs the reference data")
def test_all_observed_sequences() -> None:
    assert failures(WHOLE) == []


def n150(**options: int) -> DeviceMemory:
    return DeviceMemory(board.get("n150"), **options)


def test_regions_of_a_device_opened_with_options() -> None:
    memory = n150(l1_small_size=16384, trace_region_size=200000)
    seen = {kind: memory.use(kind) for kind in BufferType}
    assert (seen[BufferType.L1].num_banks, seen[BufferType.L1].bytes_per_bank) == (64, 1376928)
    assert (seen[BufferType.L1_SMALL].num_banks, seen[BufferType.L1_SMALL].bytes_per_bank) == (64, 16384)
    assert (seen[BufferType.DRAM].num_banks, seen[BufferType.DRAM].bytes_per_bank) == (12, 1072668608)
    assert (seen[BufferType.TRACE].num_banks, seen[BufferType.TRACE].bytes_per_bank) == (12, 24576)
    small = memory.allocate(spec([32, 32], where=SMALL))
    assert small.address == 1499136 - 2048
    assert memory.allocate_bytes(BufferType.TRACE, 24576).address == 1073741824 - 24576
    assert memory.allocate(spec([32, 32])).address == 1499136 - 16384 - 2048


def test_worker_l1_size_moves_the_base() -> None:
    memory = n150(worker_l1_size=1_000_000)
    assert memory.base_address(BufferType.L1) == 1499136 - 1_000_000
    assert memory.view(BufferType.L1).total_bytes_per_bank == 1_000_000
    for option in ({"worker_l1_size": 1463969}, {"l1_small_size": 1_400_000}, {"trace_region_size": 1 << 40}):
        with pytest.raises(RuntimeError, match=next(iter(option))):
            n150(**option)
    with pytest.raises(ValueError, match="l1_small_size=-1"):
        n150(l1_small_size=-1)


def test_out_of_memory_says_what_was_asked_and_what_is_left() -> None:
    memory = n150()
    memory.allocate(spec([1024, 1024]))
    with pytest.raises(RuntimeError) as refusal:
        memory.allocate(spec([8192, 8192]))
    text = str(refusal.value)
    assert text.startswith("Out of Memory: Not enough space to allocate 134217728 B L1 buffer across 64 banks")
    for number in ("2097152 B", "1393312 B", "allocated: 32768 B", "1360544 B free", "largest free block: 1360544 B"):
        assert number in text
    with pytest.raises(RuntimeError, match=r"L1_SMALL buffer across 1 banks.*l1_small_size large enough"):
        memory.allocate(spec([32, 32], where=SMALL))
    with pytest.raises(RuntimeError, match="L1_SMALL only supports sharded allocations"):
        memory.allocate(spec([32, 32], where="L1_SMALL"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"layout": "HEIGHT_SHARDED", "grid": [[0, 0, 19, 0]], "shape": [32, 64]}, r"shard core \(8, 0\) has no L1 bank.*64"),
        ({"layout": "HEIGHT_SHARDED", "grid": [[0, 0, 19, 0]], "shape": [32, 64], "buffer": "DRAM"}, r"\(12, 0\) has no DRAM bank.*12"),
        (
            {"nd": {"grid": [[0, 0, 3, 3]], "shape": [32, 64]}, "buffer": "DRAM"},
            r"Invalid DRAM shard grid: shard core \(0, 1\) is not on row 0",
        ),
    ],
)
def test_shard_grids_beyond_the_board_are_refused(words: Any, why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        n150().allocate(spec([256, 64], where=words))


def test_freeing_twice_is_an_error_and_clearing_is_final() -> None:
    memory = n150()
    first, second = memory.allocate(spec([32, 32])), memory.allocate(spec([32, 32]))
    memory.free(first)
    with pytest.raises(RuntimeError, match="freed twice"):
        memory.free(first)
    memory.clear()
    third = memory.allocate(spec([32, 32]))
    memory.free(second)
    assert memory.use(BufferType.L1).buffers == 1
    assert third.address == first.address


def test_a_tensor_without_elements_takes_nothing() -> None:
    memory = n150()
    empty = memory.allocate(spec([0, 32]))
    assert (empty.address, empty.num_pages, empty.page_size, empty.size) == (0, 0, 2048, 0)
    memory.free(empty)
    assert memory.use(BufferType.L1).buffers == 0


def test_peaks_and_the_block_table() -> None:
    memory = n150()
    a, b = memory.allocate(spec([32, 32])), memory.allocate(spec([64, 64, 32]))
    memory.free(b)
    assert memory.use(BufferType.L1).peak_per_bank == a.size + b.size
    memory.reset_peaks()
    assert memory.use(BufferType.L1).peak_per_bank == a.size
    table = memory.view(BufferType.L1).block_table
    none = "18446744073709551615"
    assert table == [
        {"blockID": "0", "address": "1391264", "size": "2048", "prevID": "1", "nextID": none, "allocated": "yes"},
        {"blockID": "1", "address": "0", "size": "1391264", "prevID": none, "nextID": "0", "allocated": "no"},
    ]
    assert memory.lowest_occupied(BufferType.L1) == a.address
    assert memory.lowest_occupied(BufferType.DRAM) is None


SPECS = [
    spec([1, 1, 64, 96], where="L1"),
    spec([33, 65], "FLOAT32", "ROW_MAJOR", "DRAM"),
    spec([256, 64], "BFLOAT8_B", "TILE", "DRAM"),
    spec([700, 1000], where="L1"),
    spec([256, 64], where={"layout": "HEIGHT_SHARDED", "grid": [[0, 0, 7, 0]], "shape": [32, 64]}),
    spec([3, 5, 64, 96], where={"nd": {"grid": [[0, 0, 3, 3]], "shape": [1, 2, 32, 32]}}),
    spec([3, 5, 64, 96], where={"nd": {"grid": [[0, 0, 7, 0]], "shape": [1, 2, 32, 32]}, "buffer": "DRAM"}),
    spec([1, 1, 32, 32], where=SMALL),
]


def test_a_hundred_thousand_steps_of_tensors_never_overlap_or_leak() -> None:
    rng, memory = random.Random(7), n150(l1_small_size=32768)
    live: list[Allocation] = []
    refused = 0
    for step in range(100_000):
        if live and rng.random() < 0.48:
            i = rng.randrange(len(live))
            live[i], live[-1] = live[-1], live[i]
            memory.free(live.pop())
        else:
            try:
                live.append(memory.allocate(rng.choice(SPECS)))
            except RuntimeError:
                refused += 1
        if step % 5000 == 0:
            for kind in (BufferType.DRAM, BufferType.L1, BufferType.L1_SMALL):
                base = memory.base_address(kind)
                mine = sorted((a.address, a.size) for a in live if a.buffer_type is kind)
                table = [(base + int(b["address"]), int(b["size"])) for b in memory.view(kind).block_table if b["allocated"] == "yes"]
                assert sorted(table) == mine
                assert all(x + size <= y for (x, size), (y, _) in pairwise(mine))
    assert refused
    for allocation in live:
        memory.free(allocation)
    for kind in BufferType:
        assert memory.use(kind).allocated_per_bank == 0
        assert memory.view(kind).largest_contiguous_bytes_free_per_bank == memory.use(kind).bytes_per_bank


def test_threads_and_finalizers_share_a_device() -> None:
    memory = n150()

    class Holder:
        def __init__(self) -> None:
            self.allocation = memory.allocate(SPECS[0])
            self.me = self  # only the cycle collector frees this

        def __del__(self) -> None:
            memory.free(self.allocation)

    def work() -> None:
        for _ in range(150):  # four threads make fewer than the 680 that a bank holds, should the collector not come at all
            Holder()

    with ThreadPoolExecutor(4) as pool:
        for _ in range(12):
            for done in [pool.submit(work) for _ in range(4)]:
                done.result()
            gc.collect()
    gc.collect()
    assert memory.use(BufferType.L1).allocated_per_bank == 0


@pytest.mark.parametrize("case", SPECS[:7], ids=lambda s: f"{s.memory_config.memory_layout.name}-{s.memory_config.buffer_type.name}")
def test_every_page_lies_inside_its_buffer_and_alone(case: TensorSpec) -> None:
    b = board.get("n150")
    plan = bank_plan(case, b)
    found = list(pages(case, plan, b))
    assert [p.page for p in found] == list(range(case.num_pages))
    assert len({(p.bank, p.offset) for p in found}) == len(found)
    assert all(0 <= p.offset <= plan.size_per_bank - plan.aligned_page_size for p in found)
    banks = plan.num_banks if not plan.cores else len(plan.cores)
    assert len({p.core for p in found}) <= banks


def test_contiguous_shards_fill_one_core_before_the_next() -> None:
    words = {"nd": {"grid": [[0, 0, 1, 0]], "shape": [32, 32], "distribution": "CONTIGUOUS_1D"}}
    case, b = spec([32, 32 * 4], where=words), board.get("n150")
    assert [p.core for p in pages(case, bank_plan(case, b), b)] == [(0, 0), (0, 0), (1, 0), (1, 0)]
    assert L1.buffer_type is BufferType.L1


@pytest.mark.parametrize(("orientation", "third"), [("ROW_MAJOR", (0, 1)), ("COL_MAJOR", (1, 0))])
def test_blocks_keep_their_place_on_a_grid_that_is_wider_than_the_tensor(orientation: str, third: tuple[int, int]) -> None:
    words = {"layout": "BLOCK_SHARDED", "grid": [[0, 0, 3, 3]], "shape": [32, 32], "orientation": orientation}
    case, b = spec([96, 64], where=words), board.get("n150")
    found = [p.core for p in pages(case, bank_plan(case, b), b)]
    assert found[0] == (0, 0)
    assert found[2] == third
    assert len(set(found)) == 6
