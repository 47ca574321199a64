"""Global semaphores: a word at one L1 address of many cores, which programs of several chips wait on.

On the software device operations are done when they return, so nobody waits; the word has its address, its room in L1 and its value.
"""

from __future__ import annotations

from tessera.memory.config import BufferType
from tessera.memory.geometry import CoreRangeSet
from tessera.runtime.device import Device

__all__ = ["GlobalSemaphore", "create_global_semaphore", "get_global_semaphore_address", "reset_global_semaphore_value"]


class GlobalSemaphore:
    """One word of L1 on each of some cores."""

    __slots__ = ("_allocation", "_device", "cores", "value")

    def __init__(self, device: Device, cores: CoreRangeSet, value: int, buffer_type: BufferType) -> None:
        self._device = device
        self._allocation = device.memory.allocate_bytes(buffer_type, 4)
        self.cores = cores
        self.value = value

    @property
    def address(self) -> int:
        return self._allocation.address

    def __del__(self) -> None:
        allocation = getattr(self, "_allocation", None)
        if allocation is not None and self._device.is_open:
            self._device.memory.free(allocation)


def create_global_semaphore(
    mesh_device: Device, cores: CoreRangeSet, initial_value: int, buffer_type: BufferType = BufferType.L1
) -> GlobalSemaphore:
    """A semaphore on cores of every chip of a mesh."""
    mesh_device.require_open("create_global_semaphore")
    if buffer_type not in (BufferType.L1, BufferType.L1_SMALL):
        raise RuntimeError(f"create_global_semaphore: buffer_type={buffer_type} must be L1 or L1_SMALL")
    return GlobalSemaphore(mesh_device, cores, initial_value, buffer_type)


def get_global_semaphore_address(global_semaphore: GlobalSemaphore) -> int:
    return global_semaphore.address


def reset_global_semaphore_value(global_semaphore: GlobalSemaphore, reset_value: int) -> None:
    global_semaphore.value = reset_value
