"""Traces: operations recorded once and run again on the same buffers.

While a device captures, `launch` plans and allocates as always but hands its record to a `Capture` instead of computing. A trace does not
keep tensors alive: as on the chip it knows *places*. When it runs, each place is looked up: the buffer it was, if that still lives; else whatever
tensor of the same size now lives at the same address (programs free an input inside a trace and put the next one there); and what the trace
itself made and let go on the way lives only while it runs. Running is nothing but computing the recorded launches in order.
"""

from __future__ import annotations

import itertools
import math
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tessera.memory.config import BufferType
from tessera.runtime.buffer import Buffer
from tessera.runtime.events import check_queue
from tessera.runtime.fusion import Chain, fused
from tessera.runtime.launch import Launch, run
from tessera.runtime.tensor import Tensor

if TYPE_CHECKING:
    from tessera.memory.allocator import Allocation
    from tessera.memory.mesh import TensorTopology
    from tessera.memory.spec import TensorSpec
    from tessera.runtime.device import Device

__all__ = ["Capture", "Place", "Step", "Trace", "begin", "end", "execute", "is_capturing", "refuse_while_capturing", "release"]

#: What a recorded program takes of the trace region. The chip's own figure depends on its kernels and lies between 1 and 10 KiB.
BYTES_PER_PROGRAM = 2048

_ids = itertools.count(0)


class Place:
    """Where a recorded launch reads or writes: one buffer, known by itself while it lives and by its address afterwards."""

    __slots__ = ("_buffer", "address", "buffer_type", "made_here", "parts", "size", "spec")

    def __init__(self, buffer: Buffer, made_here: bool) -> None:
        self._buffer = weakref.ref(buffer)
        self.spec = buffer.spec
        self.parts = len(buffer.values)
        self.made_here = made_here
        """Written by the trace before it is read: its content need not outlive a run."""
        allocation = buffer.allocation
        self.address = allocation.address if allocation is not None else 0
        self.size = allocation.size if allocation is not None else 0
        self.buffer_type = allocation.buffer_type if allocation is not None else BufferType.DRAM

    @property
    def is_alive(self) -> bool:
        """Whether a tensor outside still shows this buffer."""
        found = self._buffer()
        return found is not None and found.allocated

    def buffer(self, device: Device) -> Buffer:
        """The buffer to use in one run."""
        found = self._buffer()
        if found is not None and found.allocated:
            return found
        if self.made_here:
            return Buffer(self.spec, [None] * self.parts)
        here = device.memory.at(self.buffer_type, self.address)
        owner = here.owner() if here is not None and here.size == self.size and here.owner is not None else None
        if owner is None or not owner.allocated or owner.spec.dims != self.spec.dims or owner.spec.dtype is not self.spec.dtype:
            raise RuntimeError(
                f"execute_trace: an input of shape {list(self.spec.dims)} at {self.buffer_type.name} address {self.address} was deallocated "
                "after the capture, and no tensor of the same kind lives there now; keep the inputs of a trace, or allocate them anew at the same address"
            )
        return owner  # type: ignore[no-any-return]


View = tuple[Place, "TensorSpec", "TensorTopology | None"]


class Step:
    """One recorded launch: what to compute, from which places into which."""

    __slots__ = ("inputs", "last_uses", "launch", "outputs")

    def __init__(self, launch: Launch, inputs: tuple[View, ...], outputs: tuple[View, ...]) -> None:
        self.launch = launch
        self.inputs = inputs
        self.outputs = outputs
        self.last_uses: list[Place] = []
        """Places that no later step touches."""


class Capture:
    """What a device's `trace` is while it captures: takes the records of `launch`."""

    def __init__(self, device: Device, trace_id: int, cq_id: int) -> None:
        self.device = device
        self.trace_id = trace_id
        self.cq_id = cq_id
        self.steps: list[Step] = []
        self.places: dict[int, Place] = {}

    def append(self, record: Launch) -> None:
        if not record.is_program_hit:
            raise RuntimeError(
                f"Cannot load new binaries during trace capture. {record.name} has no program for these arguments yet: run the operations once before capturing them"
            )
        inputs = tuple(self._view(t, False) for t in record.inputs)
        outputs = tuple(self._view(t, not (record.mutates and i == 0)) for i, t in enumerate(record.outputs))
        self.steps.append(Step(replace(record, inputs=(), outputs=(), notes={}), inputs, outputs))

    def _view(self, tensor: Tensor, written: bool) -> View:
        buffer = tensor.buffer
        place = self.places.get(buffer.unique_id)
        if place is None:
            place = self.places[buffer.unique_id] = Place(buffer, written)
        return place, tensor.spec, tensor.topology


class Trace:
    """A captured program: steps in order, ready to run again and again."""

    def __init__(self, capture: Capture, allocation: Allocation | None) -> None:
        self.trace_id = capture.trace_id
        self.device = weakref.ref(capture.device)
        self.steps = tuple(capture.steps)
        self.places = tuple(capture.places.values())
        self.allocation = allocation
        last: dict[int, Step] = {}
        for step in self.steps:
            for place, _, _ in (*step.inputs, *step.outputs):
                last[id(place)] = step
        for place in self.places:
            last[id(place)].last_uses.append(place)
        self.program = fused(self.steps)

    @property
    def programs(self) -> int:
        return sum(step.launch.programs for step in self.steps)

    def run(self, device: Device) -> None:
        # Every place is found before anything runs: a trace runs whole or not at all.
        buffers = {id(place): place.buffer(device) for place in self.places}
        for step in self.program:
            if isinstance(step, Chain):
                step.run(buffers, device)
                continue
            of = step.launch
            inputs = tuple([_view(buffers[id(p)], spec, topology) for p, spec, topology in step.inputs])
            outputs = tuple([_view(buffers[id(p)], spec, topology) for p, spec, topology in step.outputs])
            run(Launch(of.name, of.compute, inputs, outputs, of.attributes, of.across, of.mutates, True, of.programs, device))
            for place in step.last_uses:
                del buffers[id(place)]


_new = object.__new__


def _view(buffer: Buffer, spec: TensorSpec, topology: TensorTopology | None) -> Tensor:
    """A tensor that no one outside sees: it takes no number from the public counter."""
    made = _new(Tensor)
    made.spec, made.buffer, made.topology, made.tensor_id = spec, buffer, topology, -1
    return made


def is_capturing(device: Device) -> bool:
    return device.trace is not None


def refuse_while_capturing(device: Device | None, what: str, call: str) -> None:
    """`what` is "Writes" or "Reads": the host may do neither in the middle of a capture."""
    if device is not None and device.trace is not None:
        raise RuntimeError(
            f"{what} are not supported during trace capture. {call} was called between begin_trace_capture and end_trace_capture"
        )


def begin(device: Device, cq_id: Any = None) -> int:
    """Start to record what is launched on a device; the number of the trace to be."""
    device.require_open("begin_trace_capture")
    queue = check_queue(device, cq_id, "begin_trace_capture")
    if device.trace is not None:
        raise RuntimeError("begin_trace_capture: the device is capturing a trace already; end that capture first")
    trace_id = next(_ids)
    device.trace = Capture(device, trace_id, queue)
    return trace_id


def end(device: Device, trace_id: int, cq_id: Any = None) -> Trace:
    """Stop recording and keep the trace. Its buffers must fit the trace region, if the device was opened with one."""
    device.require_open("end_trace_capture")
    queue = check_queue(device, cq_id, "end_trace_capture")
    capture = device.trace
    if not isinstance(capture, Capture):
        raise RuntimeError("end_trace_capture: the device captures no trace; begin_trace_capture starts one")
    if capture.trace_id != trace_id:
        raise RuntimeError(f"end_trace_capture: trace_id={trace_id}: the device is capturing trace {capture.trace_id}")
    if capture.cq_id != queue:
        raise RuntimeError(f"end_trace_capture: cq_id={queue}: the capture was begun on command queue {capture.cq_id}")
    device.trace = None
    allocation = None
    programs = sum(step.launch.programs for step in capture.steps)
    if device.trace_region_size and programs:
        size = programs * BYTES_PER_PROGRAM
        region = device.memory.use(BufferType.TRACE)
        banks = region.num_banks
        try:
            allocation = device.memory.allocate_bytes(BufferType.TRACE, math.ceil(size / banks))
        except RuntimeError:
            raise RuntimeError(
                f"Creating trace buffers of size {size}B on MeshDevice {device.mesh_id}, but only {device.trace_region_size}B is allocated for trace region "
                f"({region.allocated_per_bank * banks}B of it in use); open the device with a larger trace_region_size, or with 0 for one that grows"
            ) from None
    trace = Trace(capture, allocation)
    device.traces[trace_id] = trace
    return trace


def execute(device: Device, trace_id: int, cq_id: Any = None) -> None:
    """Run a trace again: its launches in order, on the buffers they were recorded on."""
    device.require_open("execute_trace")
    check_queue(device, cq_id, "execute_trace")
    if device.trace is not None:
        raise RuntimeError("execute_trace: a trace cannot run while the device captures one")
    _find(device, trace_id, "execute_trace").run(device)


def release(device: Device, trace_id: int) -> None:
    """Forget a trace and give its room in the trace region back."""
    device.require_open("release_trace")
    trace = _find(device, trace_id, "release_trace")
    del device.traces[trace_id]
    if trace.allocation is not None:
        device.memory.free(trace.allocation)


def _find(device: Device, trace_id: int, call: str) -> Trace:
    found = device.traces.get(trace_id)
    if found is None:
        known = ", ".join(map(str, device.traces)) or "none"
        raise RuntimeError(f"{call}: trace_id={trace_id}: the device has no such trace (it has: {known})")
    return found  # type: ignore[no-any-return]
