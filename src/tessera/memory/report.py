"""Memory on paper: what a device's banks hold, as tables that people read.

Three CSV files, as TT-NN users know them: a summary of every kind of memory, the L1 cores one by one, and every block with what lives in it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tessera.memory.config import BufferType
from tessera.memory.layout import pages

if TYPE_CHECKING:
    from tessera.memory.allocator import DeviceMemory

__all__ = ["REPORT_FOLDER", "BufferPage", "BufferRow", "buffer_pages", "buffers", "write_report"]

REPORT_FOLDER = Path("generated/reports")
KINDS = (BufferType.DRAM, BufferType.L1, BufferType.L1_SMALL, BufferType.TRACE)


@dataclass(frozen=True)
class BufferRow:
    """A live buffer."""

    buffer_type: BufferType
    address: int
    size_per_bank: int
    page_size: int
    num_pages: int
    num_banks: int
    layout: str
    """Name of its memory layout; empty for what is not a tensor."""
    shape: tuple[int, ...]
    dtype: str
    unique_id: int


@dataclass(frozen=True)
class BufferPage:
    """Where one page of a live buffer lies."""

    buffer_type: BufferType
    address: int
    page: int
    bank: int
    core: tuple[int, int]
    page_address: int
    page_size: int


def buffers(memory: DeviceMemory, kinds: Iterable[BufferType] = KINDS) -> list[BufferRow]:
    """Every live buffer, by kind of memory and address."""
    rows = []
    for kind in kinds:
        for a in memory.allocations(kind):
            owner = a.owner() if a.owner is not None else None
            spec = getattr(owner, "spec", None)
            rows.append(
                BufferRow(
                    kind,
                    a.address,
                    a.size,
                    a.aligned_page_size,
                    a.num_pages,
                    a.num_banks,
                    spec.memory_config.memory_layout.name if spec is not None else "",
                    spec.dims if spec is not None else (),
                    spec.dtype.name if spec is not None else "",
                    getattr(owner, "unique_id", -1),
                )
            )
    return rows


def buffer_pages(memory: DeviceMemory, kinds: Iterable[BufferType] = (BufferType.L1, BufferType.L1_SMALL)) -> list[BufferPage]:
    """Every page of every live tensor: long for DRAM, which is why the default leaves it out."""
    rows = []
    for kind in kinds:
        for a in memory.allocations(kind):
            owner = a.owner() if a.owner is not None else None
            if owner is None:
                continue
            for p in pages(owner.spec, a.plan, memory.board):
                rows.append(BufferPage(kind, a.address, p.page, p.bank, p.core, a.address + p.offset, a.aligned_page_size))
    return rows


def write_report(memory: DeviceMemory, prefix: str = "", folder: Path | None = None) -> list[Path]:
    """Write the three tables; the files written. Earlier ones of the same prefix are replaced."""
    folder = REPORT_FOLDER if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    summary, cores, detail = (
        folder / f"{prefix}{name}.csv" for name in ("memory_usage_summary", "l1_usage_summary", "detailed_memory_usage")
    )
    with summary.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(
            [
                "memory",
                "banks",
                "bank size (B)",
                "allocated per bank (B)",
                "free per bank (B)",
                "largest free block (B)",
                "peak per bank (B)",
                "buffers",
            ]
        )
        for kind in KINDS:
            view, use = memory.view(kind), memory.use(kind)
            if view.total_bytes_per_bank:
                table.writerow(
                    [
                        kind.name,
                        view.num_banks,
                        view.total_bytes_per_bank,
                        view.total_bytes_allocated_per_bank,
                        view.total_bytes_free_per_bank,
                        view.largest_contiguous_bytes_free_per_bank,
                        use.peak_per_bank,
                        use.buffers,
                    ]
                )
    with cores.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["core", "pages", "used by pages (B)", "allocated (B)", "free (B)"])
        used: dict[tuple[int, int], tuple[int, int]] = {}
        for p in buffer_pages(memory, (BufferType.L1,)):
            count, size = used.get(p.core, (0, 0))
            used[p.core] = (count + 1, size + p.page_size)
        use = memory.use(BufferType.L1)
        width, height = memory.board.compute_grid
        for y in range(height):
            for x in range(width):
                count, size = used.get((x, y), (0, 0))
                table.writerow([f"{x}-{y}", count, size, use.allocated_per_bank, use.bytes_per_bank - use.allocated_per_bank])
    with detail.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["memory", "address", "size per bank (B)", "allocated", "shape", "dtype", "layout", "pages", "page size (B)"])
        for kind in KINDS:
            rows = {row.address: row for row in buffers(memory, (kind,))}
            for address, size, taken in memory.region(kind).blocks():
                row = rows.get(address) if taken else None
                known = ["x".join(map(str, row.shape)), row.dtype, row.layout, row.num_pages, row.page_size] if row else [""] * 5
                table.writerow([kind.name, address, size, "yes" if taken else "no", *known])
    return [summary, cores, detail]
