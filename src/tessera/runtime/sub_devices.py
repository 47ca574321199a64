"""Sub-devices: a device's cores split into groups that work side by side.

A manager is one way to split; a device has at most one loaded, and without one it is a single group of all its cores. On the software device
groups share one order of work, so what matters is what a program can see: which splits are refused, that a manager may keep the lower part of L1
for the groups' own buffers, and which groups a synchronisation waits for.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tessera.formats.arguments import expect, refuse
from tessera.memory.config import BufferType
from tessera.memory.geometry import CoreRangeSet

if TYPE_CHECKING:
    from tessera.runtime.device import Device

__all__ = ["SubDevice", "SubDeviceId", "SubDeviceManagerId", "SubDevices"]

_manager_ids = itertools.count(1)


class SubDevice:
    """A group of cores: worker cores first, Ethernet cores second if any."""

    __slots__ = ("cores",)

    def __init__(self, cores: Sequence[CoreRangeSet]) -> None:
        if isinstance(cores, CoreRangeSet) or not all(isinstance(c, CoreRangeSet) for c in cores):
            refuse("__init__", "cores", cores, "must be a list of CoreRangeSet")
        if not 1 <= len(cores) <= 2:
            raise RuntimeError(f"SubDevice: cores has {len(cores)} sets; expected worker cores, and at most Ethernet cores after them")
        self.cores = tuple(cores)

    @property
    def workers(self) -> frozenset[tuple[int, int]]:
        return frozenset(
            (x, y) for r in self.cores[0].ranges() for x in range(r.start.x, r.end.x + 1) for y in range(r.start.y, r.end.y + 1)
        )


class SubDeviceId:
    """A group's number in the loaded manager."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        expect("__init__", "id", id, int)
        self.id = id

    def __eq__(self, other: object) -> bool:
        return type(other) is SubDeviceId and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"SubDeviceId({self.id})"


class SubDeviceManagerId:
    """The number of a split."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def __eq__(self, other: object) -> bool:
        return type(other) is SubDeviceManagerId and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"SubDeviceManagerId({self.id})"


class SubDevices:
    """The splits of one device: those made, the one loaded, and the groups that stall a queue."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.managers: dict[SubDeviceManagerId, tuple[tuple[SubDevice, ...], int]] = {}
        self.loaded: SubDeviceManagerId | None = None
        self._stall: tuple[SubDeviceId, ...] | None = None

    @property
    def ids(self) -> tuple[SubDeviceId, ...]:
        """The groups there are now."""
        count = len(self.managers[self.loaded][0]) if self.loaded is not None else 1
        return tuple(SubDeviceId(i) for i in range(count))

    @property
    def stall_group(self) -> tuple[SubDeviceId, ...]:
        return self.ids if self._stall is None else self._stall

    def create(self, groups: Sequence[SubDevice], local_l1_size: int) -> SubDeviceManagerId:
        self.device.require_open("create_sub_device_manager")
        if not groups:
            raise RuntimeError("create_sub_device_manager: sub_devices is empty; a manager has at least one group")
        grid = self.device.grid
        seen: dict[tuple[int, int], int] = {}
        for i, group in enumerate(groups):
            for x, y in sorted(group.workers):
                if x >= grid.x or y >= grid.y:
                    raise RuntimeError(
                        f"create_sub_device_manager: sub_devices[{i}] has core {x}-{y}, which is outside the {grid.x}x{grid.y} worker grid"
                    )
                if (x, y) in seen:
                    raise RuntimeError(
                        f"create_sub_device_manager: SubDevices must not overlap: core {x}-{y} is in sub_devices[{seen[x, y]}] and [{i}]"
                    )
                seen[x, y] = i
        step = self.device.board.dram.alignment
        local = -(-int(local_l1_size) // step) * step
        room = self.device.memory.use(BufferType.L1).bytes_per_bank
        if not 0 <= local_l1_size <= room:
            raise RuntimeError(f"create_sub_device_manager: local_l1_size={local_l1_size}: expected 0 to {room}, the L1 of a bank")
        made = SubDeviceManagerId(next(_manager_ids))
        self.managers[made] = (tuple(groups), local)
        return made

    def load(self, manager: SubDeviceManagerId) -> None:
        _, local = self._known(manager, "load_sub_device_manager")
        if self.device.trace is not None:
            raise RuntimeError("load_sub_device_manager: cannot change sub-devices while a trace is captured")
        self._reserve(local, f"load_sub_device_manager: local_l1_size={local}")
        self.loaded, self._stall = manager, None

    def clear(self) -> None:
        """Back to one group of all cores."""
        self.device.require_open("clear_loaded_sub_device_manager")
        self._reserve(0, "clear_loaded_sub_device_manager")
        self.loaded = self._stall = None

    def remove(self, manager: SubDeviceManagerId) -> None:
        self._known(manager, "remove_sub_device_manager")
        if manager == self.loaded:
            raise RuntimeError(f"remove_sub_device_manager: Cannot remove active sub-device manager {manager.id}; clear it first")
        del self.managers[manager]

    def set_stall_group(self, ids: Sequence[SubDeviceId]) -> None:
        if not ids:
            raise RuntimeError("set_sub_device_stall_group: sub_device_ids is empty; reset_sub_device_stall_group brings all groups back")
        self.check(ids, "set_sub_device_stall_group")
        self._stall = tuple(ids)

    def reset_stall_group(self) -> None:
        self._stall = None

    def check(self, ids: Sequence[Any], call: str) -> None:
        """RuntimeError if a group is named that the loaded manager does not have."""
        known = self.ids
        for one in ids:
            if one not in known:
                raise RuntimeError(f"{call}: {one!r}: the device has {len(known)} sub-device(s) now, numbered from 0")

    def _known(self, manager: SubDeviceManagerId, call: str) -> tuple[tuple[SubDevice, ...], int]:
        self.device.require_open(call)
        found = self.managers.get(manager)
        if found is None:
            raise RuntimeError(f"{call}: {manager!r}: the device has no such sub-device manager")
        return found

    def _reserve(self, local: int, what: str) -> None:
        memory = self.device.memory
        base = memory.base_address(BufferType.L1) + local
        if not memory.region(BufferType.L1).shrink_to(base):
            lowest = memory.lowest_occupied(BufferType.L1)
            raise RuntimeError(
                f"{what}: the lower {local} B of L1 are wanted for sub-devices, but a buffer lives at address {lowest}; deallocate it first"
            )
