"""Command queues, events and traces: TT-NN's words for `tessera.runtime.events` and `tessera.runtime.trace`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tessera.runtime import events, trace
from tessera.runtime.device import Device
from tessera.runtime.events import MeshEvent, check_queue
from ttnn.decorators import get_current_command_queue_id_for_thread
from ttnn.types import MeshTraceId

__all__ = [
    "MeshEvent",
    "begin_trace_capture",
    "end_trace_capture",
    "event_synchronize",
    "execute_trace",
    "get_current_command_queue_id_for_thread",
    "is_trace_capture_active",
    "record_event",
    "release_trace",
    "synchronize_device",
    "wait_for_event",
]


def _queue(cq_id: Any) -> Any:
    """The queue that was named, else that of the block this thread is in."""
    return get_current_command_queue_id_for_thread() if cq_id is None else cq_id


def synchronize_device(device: Device, cq_id: Any = None, sub_device_ids: Sequence[Any] = ()) -> None:
    """Wait until a device (one queue of it, some of its sub-devices) has done its work. Here, work is done when its call returns."""
    device.require_open("synchronize_device")
    check_queue(device, cq_id, "synchronize_device")
    device.sub_devices.check([int(one) for one in sub_device_ids], "synchronize_device")
    if device.trace is not None:
        raise RuntimeError("Event Synchronization is not supported during trace capture. synchronize_device was called while capturing")


def record_event(mesh_device: Device, cq_id: Any = None, sub_device_ids: Sequence[Any] = (), device_range: Any = None) -> MeshEvent:
    """An event that has happened once everything put into the queue so far is done."""
    mesh_device.sub_devices.check([int(one) for one in sub_device_ids], "record_event")
    return events.record_event(mesh_device, _queue(cq_id), device_range)


def wait_for_event(cq_id: Any = None, mesh_event: MeshEvent | None = None) -> None:
    """Make a queue wait for an event."""
    if not isinstance(mesh_event, MeshEvent):
        raise TypeError(f"wait_for_event(): incompatible function arguments: mesh_event={mesh_event!r} is not a MeshEvent")
    events.wait_for_event(_queue(cq_id), mesh_event)


def event_synchronize(mesh_event: MeshEvent) -> None:
    """Wait on the host for an event."""
    events.event_synchronize(mesh_event)


def begin_trace_capture(mesh_device: Device, *, cq_id: Any = None) -> MeshTraceId:
    """Record the operations that follow instead of running them."""
    return MeshTraceId(trace.begin(mesh_device, _queue(cq_id)))


def end_trace_capture(mesh_device: Device, trace_id: MeshTraceId, *, cq_id: Any = None) -> None:
    """Stop recording: the trace may now be executed."""
    trace.end(mesh_device, int(trace_id), _queue(cq_id))


def execute_trace(mesh_device: Device, trace_id: MeshTraceId, *, cq_id: Any = None, blocking: bool = True) -> None:
    """Run a recorded trace again on the buffers it was recorded on."""
    trace.execute(mesh_device, int(trace_id), _queue(cq_id))


def release_trace(mesh_device: Device, trace_id: MeshTraceId) -> None:
    """Forget a trace."""
    trace.release(mesh_device, int(trace_id))


def is_trace_capture_active(device: Device) -> bool:
    """True between `begin_trace_capture` and `end_trace_capture`."""
    return trace.is_capturing(device)


_ttnn_execute_trace = execute_trace
