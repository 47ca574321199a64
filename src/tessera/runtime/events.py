"""Command queues and the events between them.

A device has one or two queues, each in order. The software device has done an operation when the call returns, so whatever a queue would wait
for has happened by then: an event is a receipt. What remains of queues are their rules: which numbers exist, which device an event belongs
to, and that nobody waits on the host while a trace is captured.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from tessera.memory.mesh import MeshCoordinateRange

if TYPE_CHECKING:
    from tessera.runtime.device import Device

__all__ = ["MeshEvent", "check_queue", "event_synchronize", "record_event", "wait_for_event"]


class MeshEvent:
    """A point in the order of one queue of one device."""

    __slots__ = ("_device", "cq_id", "device_id", "device_range", "event_id")

    def __init__(self, device: Device, cq_id: int, device_range: MeshCoordinateRange | None = None) -> None:
        self._device = weakref.ref(device)
        self.cq_id = cq_id
        self.device_id = device.mesh_id
        self.device_range = MeshCoordinateRange(device.mesh_shape) if device_range is None else device_range
        self.event_id = device.events_recorded
        device.events_recorded += 1

    @property
    def device(self) -> Device:
        found = self._device()
        if found is None or not found.is_open:
            raise RuntimeError(f"{self!r}: the device on which it was recorded was closed")
        return found

    def __repr__(self) -> str:
        return f"MeshEvent(id={self.event_id}, device_id={self.device_id}, mesh_cq_id={self.cq_id}, device_range={self.device_range!r})"


def check_queue(device: Device, cq_id: Any, call: str) -> int:
    """A queue's number; RuntimeError if the device was not opened with that many queues."""
    number = 0 if cq_id is None else int(cq_id)
    if not 0 <= number < device.command_queues:
        raise RuntimeError(
            f"{call}: cq_id {number} is out of range: the device was opened with {device.command_queues} command queue(s); open it with num_command_queues=2 for a second one"
        )
    return number


def record_event(device: Device, cq_id: Any = None, device_range: MeshCoordinateRange | None = None) -> MeshEvent:
    """A receipt for all that was put into a queue so far."""
    device.require_open("record_event")
    queue = check_queue(device, cq_id, "record_event")
    if device.trace is not None:
        raise RuntimeError("Event Synchronization is not supported during trace capture. record_event was called while capturing")
    return MeshEvent(device, queue, device_range)


def wait_for_event(cq_id: Any, event: MeshEvent) -> None:
    """Makes a queue wait for an event, most often one of the other queue."""
    device = event.device
    check_queue(device, cq_id, "wait_for_event")
    if device.trace is not None:
        raise RuntimeError("Event Synchronization is not supported during trace capture. wait_for_event was called while capturing")


def event_synchronize(event: MeshEvent) -> None:
    """Waits on the host until an event has happened."""
    if event.device.trace is not None:
        raise RuntimeError("Event Synchronization is not supported during trace capture. event_synchronize was called while capturing")
