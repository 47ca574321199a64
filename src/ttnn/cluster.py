"""What the machine is made of, as official TT-NN's `ttnn.cluster` tells it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tessera.runtime.device import Device
from tessera.silicon.board import current
from tessera.silicon.cluster import Cluster
from ttnn.enums import ClusterType  # type: ignore[attr-defined]


def get_cluster_type() -> Any:
    """The kind of the current board."""
    return ClusterType[current().cluster]


def get_dram_bank_table(device_id: int) -> list[dict[str, int]]:
    """The banks of a chip's DRAM: the core that reaches each, and where in its channel it begins."""
    board = current()
    if not 0 <= device_id < board.num_chips:
        raise RuntimeError(f"get_dram_bank_table: device_id={device_id} is not on this machine, which has {board.num_chips} chips")
    dram = board.dram
    return [
        {
            "bank_id": bank,
            "noc_x": core.x,
            "noc_y": core.y,
            "base_addr": bank % dram.banks_per_channel * dram.bank_size,
            "bank_size": dram.bank_size,
        }
        for bank, core in enumerate(dram.cores)
    ]


def get_chip_unique_id_from_fabric_node_id(mesh_device: Device, mesh_id: int, chip_id: int) -> int:
    """A chip's serial number: the board's product code, and the chip's place on the machine."""
    mesh_device.require_open("get_chip_unique_id_from_fabric_node_id")
    board = mesh_device.board
    if mesh_id != 0 or not 0 <= chip_id < board.num_chips:
        raise RuntimeError(
            f"get_chip_unique_id_from_fabric_node_id: mesh_id={mesh_id}, chip_id={chip_id}: there is mesh 0 with {board.num_chips} chip(s)"
        )
    return board.board_type << 36 | chip_id


def serialize_cluster_descriptor() -> str:
    """Write the cluster as YAML, in the form in which the driver describes it, to a new temporary file; its path."""
    import yaml

    board = current()
    joined = Cluster(board)
    chips = range(len(joined))
    lanes = [
        [{"chip": link.first, "chan": 2 * lane}, {"chip": link.second, "chan": 2 * lane + 1}]
        for link in joined.links
        for lane in range(link.lanes)
    ]
    masks = [sum(1 << board.chip.noc_index(line) for line in off) for off in board.harvested]
    described = {
        "arch": dict.fromkeys(chips, board.arch),
        "chips": {chip: [*reversed(joined.coordinate(chip)), 0, 0] for chip in chips},
        "ethernet_connections": lanes,
        "chips_with_mmio": [{chip: chip} for chip in joined.mmio_chips],
        "harvesting": {chip: {"noc_translation": board.arch != "grayskull", "harvest_mask": masks[chip]} for chip in chips},
        "boards": [
            [{"board_id": board.board_type << 36 | chip}, {"board_type": board.name}, {"chips": [chip]}] for chip in joined.mmio_chips
        ],
    }
    path = Path(tempfile.mkdtemp(prefix="tessera-cluster-")) / "cluster_descriptor.yaml"
    path.write_text(yaml.safe_dump(described, sort_keys=False))
    return str(path)


__all__ = [
    "ClusterType",
    "get_chip_unique_id_from_fabric_node_id",
    "get_cluster_type",
    "get_dram_bank_table",
    "serialize_cluster_descriptor",
]
