"""What a `ttnn` says of a board, as JSON: run with the official library and with ours, the answers must be the same.

Run by `test_device.py`, with the Python that has the `ttnn` to be asked.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import ttnn


def box(*corners: int) -> Any:
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(*corners[:2]), ttnn.CoreCoord(*corners[2:]))])


def place(device: Any, shape: list[int], dtype: Any, layout: Any, config: Any) -> Any:
    return ttnn.allocate_tensor_on_device(ttnn.Shape(shape), dtype, layout, device, config)


def view(device: Any, kind: Any) -> dict[str, Any]:
    seen = ttnn.get_memory_view(device, kind)
    names = ("num_banks", "total_bytes_per_bank", "total_bytes_allocated_per_bank", "total_bytes_free_per_bank")
    facts: dict[str, Any] = {name: getattr(seen, name) for name in (*names, "largest_contiguous_bytes_free_per_bank")}
    # Numbers of blocks are the allocator's own; where blocks lie and which are taken is everybody's.
    return facts | {"blocks": sorted([int(b["address"]), int(b["size"]), b["allocated"]] for b in seen.block_table)}


def identity(device: Any) -> dict[str, Any]:
    banks = device.dram_grid_size().x
    grid = device.compute_with_storage_grid_size()
    corners = [(0, 0), (grid.x - 1, 0), (0, grid.y - 1), (grid.x - 1, grid.y - 1)]
    return {
        "arch": [str(device.arch()), ttnn.get_arch_name()],
        "grids": [str(grid), str(device.dram_grid_size()), str(device.core_grid)],
        "workers": [str(device.worker_core_from_logical_core(ttnn.CoreCoord(*c))) for c in corners],
        "dram": [str(device.dram_core_from_logical_core(ttnn.CoreCoord(bank, 0))) for bank in range(banks)],
        "nearest": [
            [str(c) for c in device.get_optimal_dram_bank_to_logical_worker_assignment(n)] for n in (ttnn.NOC.NOC_0, ttnn.NOC.NOC_1)
        ],
        "banks": ttnn.cluster.get_dram_bank_table(0),
        "cluster": [str(ttnn.cluster.get_cluster_type()), ttnn.get_device_ids(), ttnn.get_pcie_device_ids(), ttnn.get_num_devices()],
        "mesh": {str(k): v for k, v in ttnn.get_physical_mesh_shapes().items()},
        "links": ttnn.get_num_links(device),
        "sfpu": [device.sfpu_eps(), device.sfpu_nan(), device.sfpu_inf()],
        "sizes": [ttnn.get_dram_alignment(), ttnn.get_l1_alignment(), ttnn.get_max_worker_l1_unreserved_size()],
        "bases": [ttnn.get_allocator_base_address(device, k) for k in (ttnn.BufferType.DRAM, ttnn.BufferType.L1, ttnn.BufferType.L1_SMALL)],
        "axis": str(ttnn.device.get_dispatch_core_axis(device)),
        "event": str(ttnn.record_event(device)).replace(f"device_id={device.id()}", "device_id=?"),
    }


def allocations(device: Any, seed: int, steps: int) -> list[Any]:
    """A random walk over tensors of many kinds, with its addresses, and the banks along the way."""
    rng, live, trail = random.Random(seed), [], []
    sharded = ttnn.TensorMemoryLayout
    in_l1, rows = ttnn.BufferType.L1, ttnn.ShardOrientation.ROW_MAJOR
    small = ttnn.MemoryConfig(sharded.HEIGHT_SHARDED, ttnn.BufferType.L1_SMALL, ttnn.ShardSpec(box(0, 0, 3, 0), [32, 64], rows))
    height = ttnn.MemoryConfig(sharded.HEIGHT_SHARDED, in_l1, ttnn.ShardSpec(box(0, 0, 7, 0), [32, 64], rows))
    block = ttnn.MemoryConfig(sharded.BLOCK_SHARDED, in_l1, ttnn.ShardSpec(box(0, 0, 3, 3), [64, 64], rows))
    nd = ttnn.MemoryConfig(ttnn.BufferType.DRAM, ttnn.NdShardSpec(ttnn.Shape([1, 32, 32]), box(0, 0, 6, 0), rows))
    tile, flat = ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT
    kinds = [
        lambda: ([rng.randrange(1, 300), rng.randrange(1, 300)], ttnn.bfloat16, tile, ttnn.L1_MEMORY_CONFIG),
        lambda: ([rng.randrange(1, 900), rng.randrange(1, 900)], ttnn.bfloat8_b, tile, ttnn.DRAM_MEMORY_CONFIG),
        lambda: ([rng.randrange(1, 3000), rng.randrange(1, 40)], ttnn.uint16, flat, ttnn.L1_MEMORY_CONFIG),
        lambda: ([rng.randrange(1, 3000), rng.randrange(1, 40)], ttnn.float32, flat, ttnn.DRAM_MEMORY_CONFIG),
        lambda: ([32 * rng.randrange(1, 9), 64], ttnn.bfloat16, tile, height),
        lambda: ([64 * rng.randrange(1, 5), 64 * rng.randrange(1, 5)], ttnn.float32, tile, block),
        lambda: ([rng.randrange(1, 9), 64, 96], ttnn.bfloat16, tile, nd),
        lambda: ([128, 64], ttnn.bfloat16, tile, small),
    ]
    for step in range(steps):
        if live and rng.random() < 0.45:
            ttnn.deallocate(live.pop(rng.randrange(len(live))))
            continue
        try:
            live.append(place(device, *rng.choice(kinds)()))
            trail.append(live[-1].buffer_address())
        except RuntimeError as refusal:
            trail.append("Out of Memory" if "Out of Memory" in str(refusal) else "refused")
        if step % 50 == 49:
            trail.append([view(device, k) for k in (ttnn.BufferType.DRAM, in_l1, ttnn.BufferType.L1_SMALL)])
    for tensor in live:
        ttnn.deallocate(tensor)
    return trail


def main() -> None:
    meshed = sys.argv[1] == "n300"
    shape = {"mesh_shape": ttnn.MeshShape(1, 2)} if meshed else {}
    opening = ttnn.open_mesh_device if meshed else lambda **options: ttnn.open_device(device_id=0, **options)
    facts: dict[str, Any] = {}
    device = opening(**shape)
    facts["identity"] = identity(device)
    ttnn.close_mesh_device(device)
    options = [
        {"l1_small_size": 16384},
        {"l1_small_size": 1000, "trace_region_size": 8193},
        {"worker_l1_size": 1000001, "l1_small_size": 4096},
    ]
    for seed, option in enumerate(options):
        device = opening(**shape, **option)
        facts[f"walk {option}"] = allocations(device, seed, 400)
        facts[f"trace {option}"] = view(device, ttnn.BufferType.TRACE)
        ttnn.close_mesh_device(device)
    print("\x01" + json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
