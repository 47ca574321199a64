"""Circular buffers: the scratch room that a program takes from the low end of every core's L1.

Tensors fill L1 from its high end, so a program fits when its circular buffers end below the lowest tensor. Only operations whose block sizes are the
caller's choice check it: those that choose for themselves choose what fits.
"""

from __future__ import annotations

from tessera.memory.config import BufferType
from tessera.memory.geometry import CoreCoord
from tessera.runtime.device import Device


def require_circular_room(what: str, device: Device, cores: CoreCoord, size: int) -> None:
    """Refuse a program whose circular buffers take `size` bytes of each core when they do not fit beside what is in L1 now."""
    end = device.memory.l1_base + size
    area = f"[0-0 - {cores.x - 1}-{cores.y - 1}]"
    if end > device.board.l1.size:
        raise RuntimeError(
            f"{what}: Statically allocated circular buffers on core range {area} grow to {end} B which is beyond max L1 size of "
            f"{device.board.l1.size} B; smaller blocks in the program config need less"
        )
    lowest = device.memory.lowest_occupied(BufferType.L1)
    if lowest is not None and end > lowest:
        raise RuntimeError(
            f"{what}: Statically allocated circular buffers clash with L1 buffers on core range {area}. L1 buffer allocated at {lowest} and "
            f"static circular buffer region ends at {end}"
        )
