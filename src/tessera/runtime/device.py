"""A chip, or a mesh of chips, that is open and at work.

One class serves both: a single chip is a 1x1 mesh, as in TT-NN, where every device is a mesh device. The chips of a mesh work in lockstep: one
allocator stands for all of them, and a buffer has one part for each chip.
"""

from __future__ import annotations

import atexit
import itertools
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tessera.formats.dtype import DataType
from tessera.memory.allocator import Allocation, DeviceMemory
from tessera.memory.geometry import CoreCoord
from tessera.memory.mesh import MeshCoordinate, MeshCoordinateRange, MeshShape
from tessera.runtime import hosts, telemetry
from tessera.runtime.buffer import Buffer
from tessera.runtime.launcher import Gate
from tessera.runtime.observers import OBSERVERS, dispatching, notify
from tessera.runtime.programs import ProgramCache
from tessera.runtime.sub_devices import SubDevices
from tessera.silicon import board as boards

if TYPE_CHECKING:
    from tessera.memory.spec import TensorSpec
    from tessera.silicon.board import Board

_mesh_ids = itertools.count()
#: Every device now open, oldest first. Nothing is opened by importing.
OPEN: list[Device] = []


class Device:
    """An open chip or mesh. `ttnn.MeshDevice` hangs its methods on this class."""

    def __init__(
        self,
        board: Board,
        chips: Sequence[int],
        shape: MeshShape,
        *,
        l1_small_size: int = 0,
        trace_region_size: int = 0,
        worker_l1_size: int = 0,
        command_queues: int = 1,
        parent: Device | None = None,
        dispatch: Any = None,
    ) -> None:
        self.board = board
        self.chips = tuple(chips)
        self.mesh_shape = shape
        self.mesh_id = next(_mesh_ids)
        self.l1_small_size = l1_small_size
        self.trace_region_size = trace_region_size
        self.command_queues = command_queues
        self.dispatch = dispatch
        self.parent = parent
        #: The places of the mesh whose chips this process drives; None when it drives them all (runtime.hosts).
        self.mine: frozenset[int] | None = None
        self.children: weakref.WeakSet[Device] = weakref.WeakSet()
        # Chips of a submesh are chips of its parent: their banks are the same banks.
        self.memory: DeviceMemory = (
            parent.memory
            if parent
            else DeviceMemory(board, l1_small_size=l1_small_size, trace_region_size=trace_region_size, worker_l1_size=worker_l1_size)
        )
        self.programs = ProgramCache()
        self.operations: dict[str, int] = {}
        self.gate = Gate(self.programs.plans, self.memory._plans, self.operations)
        self._trace: Any = None
        self.traces: dict[int, Any] = {}
        self.events_recorded = 0
        self.sub_devices = SubDevices(self)
        self.is_open = True
        OPEN.append(self)

    # -- what it is

    @property
    def is_open(self) -> bool:
        return self._is_open

    @is_open.setter
    def is_open(self, value: bool) -> None:
        self._is_open = value
        self.gate.ready = value and self._trace is None and len(self.chips) == 1

    @property
    def trace(self) -> Any:
        """What takes the records of `launch` while a trace is captured (runtime.trace.Capture)."""
        return self._trace

    @trace.setter
    def trace(self, capture: Any) -> None:
        self._trace = capture
        self.gate.ready = self._is_open and capture is None and len(self.chips) == 1

    @property
    def tensors_alive(self) -> int:
        """How many buffers have room here."""
        return self.gate.alive  # type: ignore[no-any-return]

    @property
    def busy_seconds(self) -> float:
        """Time the host spent computing for this device."""
        return self.gate.seconds  # type: ignore[no-any-return]

    @property
    def num_chips(self) -> int:
        return len(self.chips)

    @property
    def grid(self) -> CoreCoord:
        """The worker cores that operations may use."""
        x, y = self.board.compute_grid
        return CoreCoord(x, y)

    def coordinates(self) -> Iterator[MeshCoordinate]:
        return iter(MeshCoordinateRange(self.mesh_shape))

    def drives(self, index: int) -> bool:
        """Whether the chip at this place is this process's to drive."""
        return self.mine is None or index in self.mine

    def require_open(self, what: str) -> None:
        if not self.is_open:
            raise RuntimeError(f"{what}: device {list(self.chips)} was closed; open it again before using it")

    # -- memory

    def new_buffer(self, spec: TensorSpec, values: list[Any] | None = None, *, dry: bool = False) -> Buffer:
        """Room on every chip for one tensor. A dry run takes no room and answers address 0."""
        if spec.dtype is DataType.FP8_E4M3 and self.board.arch != "blackhole":
            raise RuntimeError(f"FP8_E4M3 is not supported on arch {self.board.arch}; it needs a Blackhole board")
        if OBSERVERS and not dry:
            dry = not dispatching()
        allocation = self.memory.pretend(spec) if dry else self.memory.allocate(spec)
        buffer = Buffer(spec, values if values is not None else [None] * len(self.chips), device=self, allocation=allocation)
        allocation.owner = weakref.ref(buffer)
        self.gate.alive += 1
        if OBSERVERS:
            notify("allocated", buffer)
        return buffer

    def release(self, buffer: Buffer, allocation: Allocation) -> None:
        """Called by a buffer that gives its memory back."""
        if self.is_open:
            self.gate.alive -= 1
            if allocation.live:  # it is not when it was made in a dry run
                self.memory.free(allocation)
            if OBSERVERS:
                notify("freed", buffer)

    # -- work

    def count(self, operation: str, seconds: float) -> None:
        self.operations[operation] = self.operations.get(operation, 0) + 1
        self.gate.seconds += seconds

    def submesh(self, shape: MeshShape, offset: MeshCoordinate | None = None) -> Device:
        """A smaller mesh of this mesh's chips."""
        self.require_open("create_submesh")
        start = offset if offset is not None else MeshCoordinate([0] * self.mesh_shape.dims())
        if shape.dims() != self.mesh_shape.dims() or any(o + s > d or s == 0 for o, s, d in zip(start, shape, self.mesh_shape)):
            raise RuntimeError(f"create_submesh: shape {shape} at offset {start} does not lie within the mesh {self.mesh_shape}")
        places = list(self.coordinates())
        inside = MeshCoordinateRange(start, MeshCoordinate([o + s - 1 for o, s in zip(start, shape)]))
        kept = [i for i, place in enumerate(places) if place in inside]
        chips = [self.chips[i] for i in kept]
        child = Device(
            self.board,
            chips,
            shape,
            l1_small_size=self.l1_small_size,
            trace_region_size=self.trace_region_size,
            command_queues=self.command_queues,
            parent=self,
        )
        if self.mine is not None:
            child.mine = frozenset(new for new, old in enumerate(kept) if old in self.mine)
        self.children.add(child)
        return child

    def close(self) -> None:
        """Close the device and its submeshes. Tensors that are left lose their content."""
        if not self.is_open:
            return
        for child in list(self.children):
            child.close()
        telemetry.closed(self)
        self.is_open = False
        self.trace = None
        self.traces.clear()
        self.programs.clear()
        OPEN.remove(self)


def open_mesh(shape: MeshShape | None = None, *, chips: Sequence[int] | None = None, board: str | None = None, **options: Any) -> Device:
    """Open chips of the current board (`TESSERA_BOARD`, default n150) as one mesh."""
    kind = boards.get(board) if board else boards.current()
    if options.get("dispatch") is not None:
        kind = kind.with_dispatch(options["dispatch"])
    if shape is None:
        shape = MeshShape(*kind.mesh_shape)
    if chips is None:
        chips = range(shape.mesh_size())
    if shape.mesh_size() > kind.num_chips or any(not 0 <= c < kind.num_chips for c in chips):
        raise RuntimeError(
            f"board {kind.name} has {kind.num_chips} chip(s), numbered from 0; cannot open mesh {shape} of chips {list(chips)}. Choose another board with TESSERA_BOARD"
        )
    if len(chips) != shape.mesh_size():
        raise RuntimeError(f"open_mesh: mesh {shape} has {shape.mesh_size()} places, but {len(chips)} chips were named: {list(chips)}")
    device = Device(kind, chips, shape, **options)
    device.mine = hosts.share(shape.mesh_size())
    telemetry.watch(device)
    return device


def skip_id() -> None:
    """Leave one mesh number unused."""
    next(_mesh_ids)


@contextmanager
def opened(device: Device) -> Iterator[Device]:
    try:
        yield device
    finally:
        device.close()


@atexit.register
def _close_all() -> None:
    for device in list(OPEN):
        if device.parent is None:
            device.close()
