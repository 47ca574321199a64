"""A captured graph as a file: the graph, the devices it speaks of, when and how long. What Python noted and what was compared stand in files beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tessera import __version__
from tessera.memory.config import BufferType
from tessera.memory.report import buffer_pages
from tessera.runtime.device import Device
from ttnn.graph.capture import Capture

VERSION = 1


def describe(device: Device) -> list[dict[str, Any]]:
    """The chips of a device, as the report lists them."""
    board, memory = device.board, device.memory
    grid, view = board.compute_grid, memory.view(BufferType.L1)
    cores, size = grid[0] * grid[1], board.l1.size
    workers = board.worker_grid
    bank = view.total_bytes_per_bank
    return [
        {
            "address_at_first_l1_bank": 0,
            "address_at_first_l1_cb_buffer": memory.l1_base,
            "arch": board.arch.upper(),
            "cb_limit": bank,
            "device_id": chip,
            "dram_size_per_channel": board.dram.bytes_per_bank,
            "l1_bank_size": bank,
            "l1_num_banks": view.num_banks,
            "num_banks_per_storage_core": 1,
            "num_compute_cores": cores,
            "num_dram_channels": memory.num_banks(BufferType.DRAM),
            "num_storage_cores": 0,
            "num_x_compute_cores": grid[0],
            "num_x_cores": workers[0],
            "num_y_compute_cores": grid[1],
            "num_y_cores": workers[1],
            "total_l1_for_interleaved_buffers": bank * view.num_banks,
            "total_l1_for_sharded_buffers": bank * view.num_banks,
            "total_l1_for_tensors": 0,
            "total_l1_memory": size * cores,
            "worker_l1_size": size,
        }
        for chip in device.chips
    ]


def pages(device: Device) -> list[dict[str, Any]]:
    """Where every page of what is in L1 lies."""
    return [
        {
            "address": page.address,
            "bank_id": page.bank,
            "buffer_type": page.buffer_type.value,
            "core_x": page.core[0],
            "core_y": page.core[1],
            "device_id": device.mesh_id,
            "page_address": page.page_address,
            "page_index": page.page,
            "page_size": page.page_size,
        }
        for page in buffer_pages(device.memory, (BufferType.L1,))
    ]


def report_of(capture: Capture, detailed: bool) -> dict[str, Any]:
    nodes = capture.nodes
    open_devices = [d for d in capture.devices.values() if d.is_open]
    report: dict[str, Any] = {
        "version": VERSION,
        "graph": nodes,
        "devices": [chip for device in open_devices for chip in describe(device)],
        "metadata": {
            "capture_timestamp_ns": capture.began_at,
            "total_duration_ns": nodes[-1].get("duration_ns", 0),
            "rank": 0,
            "world_size": 1,
            "version": __version__,
        },
    }
    if detailed:
        report["buffer_pages"] = [page for device in open_devices for page in pages(device)]
    return report


def write(capture: Capture, path: Path, *, detailed: bool = False) -> dict[str, Any]:
    """Write the report, and the files beside it where there is something to say; answers the report."""
    from ttnn import graph

    report = report_of(capture, detailed)
    path.parent.mkdir(parents=True, exist_ok=True)
    _put(path, report)
    if capture.records is not None:
        _put(path.with_suffix(".python_io.json"), capture.records)
    if graph.has_comparison_records():
        _put(path.with_suffix(".comparison_records.json"), graph.comparison_records())
    return report


def _put(path: Path, data: Any) -> None:
    scratch = path.with_name(f".{path.name}.part")
    scratch.write_text(json.dumps(data, indent=2, default=str))
    scratch.replace(path)
