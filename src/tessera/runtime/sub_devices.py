"""Sub-devices: a device's cores split into groups that work side by side.

A manager is one way to split; a device has at most one loaded, and without one it is a single group of all its cores. On the software device
groups share one order of work, so what matters is what a program can see: which splits are refused, that a manager may keep the lower part of L1
for the groups' own buffers, and which groups a synchronisation waits for. Groups and managers are numbers here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tessera.memory.config import BufferType

if TYPE_CHECKING:
    from tessera.memory.geometry import CoreRangeSet
    from tessera.runtime.device import Device

__all__ = ["SubDevices"]

_manager_ids = itertools.count(1)


class SubDevices:
    """The splits of one device: those made, the one loaded, and the groups that a queue waits for."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.managers: dict[int, tuple[int, int]] = {}  # manager -> (groups, L1 bytes kept for them)
        self.loaded: int | None = None
        self._stall: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """How many groups there are now."""
        return self.managers[self.loaded][0] if self.loaded is not None else 1

    @property
    def stall_group(self) -> tuple[int, ...]:
        """The groups that a synchronisation waits for when none are named."""
        return tuple(range(self.count)) if self._stall is None else self._stall

    def create(self, groups: Sequence[Sequence[CoreRangeSet]], local_l1_size: int) -> int:
        """A new split. Each group is its worker cores, and its Ethernet cores after them if it has any."""
        if not groups:
            raise RuntimeError("create_sub_device_manager: sub_devices is empty; a manager has at least one group")
        grid = self.device.grid
        owner: dict[tuple[int, int], int] = {}
        for i, group in enumerate(groups):
            if len(group) > 2:
                raise RuntimeError(
                    f"create_sub_device_manager: sub_devices[{i}] has {len(group)} core sets; expected at most worker cores and Ethernet cores"
                )
            for r in group[0].ranges() if group else ():
                if r.end.x >= grid.x or r.end.y >= grid.y:
                    raise RuntimeError(
                        f"create_sub_device_manager: sub_devices[{i}] has {r}, which lies outside the {grid.x}x{grid.y} worker cores"
                    )
                for core in ((x, y) for y in range(r.start.y, r.end.y + 1) for x in range(r.start.x, r.end.x + 1)):
                    if core in owner:
                        raise RuntimeError(
                            f"create_sub_device_manager: sub-devices must not share cores: {core[0]}-{core[1]} is in sub_devices[{owner[core]}] and [{i}]"
                        )
                    owner[core] = i
        step = self.device.board.dram.alignment
        room = self.device.memory.l1_end - self.device.memory.l1_base
        if not 0 <= local_l1_size <= room:
            raise RuntimeError(
                f"create_sub_device_manager: local_l1_size={local_l1_size}: expected 0 to {room}, the L1 that a core has for tensors"
            )
        made = next(_manager_ids)
        self.managers[made] = (len(groups), -(-local_l1_size // step) * step)
        return made

    def load(self, manager: int) -> None:
        _, local = self._known(manager, "load_sub_device_manager")
        if self.device.trace is not None:
            raise RuntimeError("load_sub_device_manager: sub-devices cannot change while a trace is captured")
        self._keep(local, "load_sub_device_manager")
        self.loaded, self._stall = manager, None

    def clear(self) -> None:
        """Back to one group of all cores."""
        self._keep(0, "clear_loaded_sub_device_manager")
        self.loaded = self._stall = None

    def remove(self, manager: int) -> None:
        self._known(manager, "remove_sub_device_manager")
        if manager == self.loaded:
            raise RuntimeError(f"remove_sub_device_manager: sub-device manager {manager} is loaded; clear it before removing it")
        del self.managers[manager]

    def set_stall_group(self, groups: Sequence[int]) -> None:
        if not groups:
            raise RuntimeError("set_sub_device_stall_group: sub_device_ids is empty; reset_sub_device_stall_group brings all of them back")
        self.check(groups, "set_sub_device_stall_group")
        self._stall = tuple(groups)

    def reset_stall_group(self) -> None:
        self._stall = None

    def check(self, groups: Sequence[int], call: str) -> None:
        """RuntimeError if a group is named that the loaded manager does not have."""
        for one in groups:
            if not 0 <= one < self.count:
                raise RuntimeError(f"{call}: sub-device {one}: the device has {self.count} sub-device(s) now, numbered from 0")

    def _known(self, manager: int, call: str) -> tuple[int, int]:
        found = self.managers.get(manager)
        if found is None:
            known = ", ".join(map(str, self.managers)) or "none"
            raise RuntimeError(f"{call}: the device has no sub-device manager {manager} (it has: {known})")
        return found

    def _keep(self, local: int, call: str) -> None:
        memory = self.device.memory
        if not memory.move_l1_base(memory.l1_base + local):
            lowest = memory.lowest_occupied(BufferType.L1)
            raise RuntimeError(
                f"{call}: the lower {local} B of L1 are wanted for sub-devices, but a buffer lives at address {lowest}; deallocate it first"
            )
