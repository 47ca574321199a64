"""A queue in DRAM between two operations."""

from __future__ import annotations

from pybuda.op.common import make
from pybuda.tensor import Tensor


def DRAMQueue(name: str, operandA: Tensor, *, num_entries: int) -> Tensor:
    return make("dram_queue", name, operandA, num_entries=num_entries)
