"""What the machine is made of, as official TT-NN's `ttnn.cluster` tells it."""

from __future__ import annotations

from typing import Any

from tessera.silicon.board import current
from ttnn.enums import ClusterType  # type: ignore[attr-defined]


def get_cluster_type() -> Any:
    """The kind of the current board."""
    return ClusterType[current().cluster]


def get_dram_bank_table(device_id: int) -> list[tuple[int, int, int]]:
    """The banks of a chip's DRAM: (bank, x, y of the core that reaches it)."""
    board = current()
    if not 0 <= device_id < board.num_chips:
        raise RuntimeError(f"get_dram_bank_table: device_id={device_id} is not on this machine, which has {board.num_chips} chips")
    return [(bank, *core) for bank, core in enumerate(board.dram.cores)]


__all__ = ["ClusterType", "get_cluster_type", "get_dram_bank_table"]
