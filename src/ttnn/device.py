"""Opening and closing devices, and asking them what they are: TT-NN's words for `tessera.runtime.device`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from loguru import logger

from tessera.memory import report
from tessera.memory.allocator import MemoryView
from tessera.memory.config import BufferType
from tessera.memory.geometry import CoreCoord
from tessera.memory.layout import shard_cores
from tessera.memory.mesh import MeshCoordinate, MeshCoordinateRange, MeshShape
from tessera.runtime import device as machine
from tessera.runtime.device import Device
from tessera.runtime.observers import Observer, attach, detach
from tessera.runtime.tensor import Tensor
from tessera.silicon import board as boards
from tessera.silicon.cluster import Cluster
from ttnn.dispatch import DispatchCoreConfig, as_dispatch
from ttnn.dispatch import _DispatchCoreConfig as _DispatchCoreConfig
from ttnn.program_configs import init_device_compute_kernel_config
from ttnn.queues import is_trace_capture_active, synchronize_device
from ttnn.types import (
    NOC,
    Arch,
    CoreGrid,
    DispatchCoreAxis,
    DispatchCoreType,
    FabricNodeId,
    MeshId,
    SubDevice,
    SubDeviceId,
    SubDeviceManagerId,
)

MeshDevice = Device
DEFAULT_L1_SMALL_SIZE = 0
DEFAULT_TRACE_REGION_SIZE = 0
DEFAULT_WORKER_L1_SIZE = 0

#: What `ttnn` itself offers; the rest of the official `ttnn.device` is found here only.
__all__ = [
    "Arch",
    "CloseDevice",
    "CloseDevices",
    "CreateDevice",
    "CreateDevices",
    "Device",
    "DispatchCoreAxis",
    "DispatchCoreConfig",
    "DispatchCoreType",
    "GetDefaultDevice",
    "GetNumAvailableDevices",
    "GetNumPCIeDevices",
    "GetPCIeDeviceID",
    "MeshDevice",
    "SetDefaultDevice",
    "SetRootDir",
    "SubDevice",
    "SubDeviceId",
    "SubDeviceManagerId",
    "close_device",
    "close_mesh_device",
    "create_mesh_device",
    "dump_device_memory_state",
    "get_allocator_base_address",
    "get_arch_name",
    "get_device_ids",
    "get_dram_alignment",
    "get_l1_alignment",
    "get_max_worker_l1_unreserved_size",
    "get_memory_view",
    "get_num_devices",
    "get_num_pcie_devices",
    "get_optimal_dram_bank_to_logical_worker_assignment",
    "get_optimal_worker_cores_for_sharded_tensor",
    "get_pcie_device_ids",
    "init_device_compute_kernel_config",
    "is_trace_capture_active",
    "manage_device",
    "open_device",
    "open_mesh_device",
    "synchronize_device",
]
_default: Device | None = None
_root = Path()


# -- opening and closing


def CreateDevice(
    device_id: int,
    num_command_queues: int = 1,
    l1_small_size: int = DEFAULT_L1_SMALL_SIZE,
    trace_region_size: int = DEFAULT_TRACE_REGION_SIZE,
    dispatch_core_config: DispatchCoreConfig | None = None,
    *,
    worker_l1_size: int = DEFAULT_WORKER_L1_SIZE,
) -> Device:
    """Open one chip of the current board."""
    machine.skip_id()  # official TT-NN counts the machine's own mesh, of which this device is a part
    return machine.open_mesh(
        MeshShape(1, 1),
        chips=[device_id],
        l1_small_size=l1_small_size,
        trace_region_size=trace_region_size,
        worker_l1_size=worker_l1_size,
        command_queues=_queues(num_command_queues),
        dispatch=as_dispatch(dispatch_core_config),
    )


def open_device(
    device_id: int,
    l1_small_size: int = DEFAULT_L1_SMALL_SIZE,
    trace_region_size: int = DEFAULT_TRACE_REGION_SIZE,
    dispatch_core_config: DispatchCoreConfig | None = None,
    num_command_queues: int = 1,
    worker_l1_size: int = DEFAULT_WORKER_L1_SIZE,
) -> Device:
    """Open one chip: `open_device(0)` and `open_device(device_id=0)` both do."""
    return CreateDevice(
        device_id, num_command_queues, l1_small_size, trace_region_size, dispatch_core_config, worker_l1_size=worker_l1_size
    )


def CreateDevices(device_ids: Sequence[int], *args: Any, **kwargs: Any) -> dict[int, Device]:
    """Open several chips, each by itself."""
    return {i: CreateDevice(i, *args, **kwargs) for i in device_ids}


def open_mesh_device(
    mesh_shape: MeshShape | None = None,
    l1_small_size: int = DEFAULT_L1_SMALL_SIZE,
    trace_region_size: int = DEFAULT_TRACE_REGION_SIZE,
    num_command_queues: int = 1,
    dispatch_core_config: DispatchCoreConfig | None = None,
    offset: MeshCoordinate | None = None,
    physical_device_ids: Sequence[int] = (),
    worker_l1_size: int = DEFAULT_WORKER_L1_SIZE,
) -> Device:
    """Open several chips of the current board as one mesh: those at `offset` in the board's own mesh, or those that are named."""
    chips = list(physical_device_ids) or (None if offset is None else _chips_at(mesh_shape, offset))
    return machine.open_mesh(
        mesh_shape,
        chips=chips,
        l1_small_size=l1_small_size,
        trace_region_size=trace_region_size,
        worker_l1_size=worker_l1_size,
        command_queues=_queues(num_command_queues),
        dispatch=as_dispatch(dispatch_core_config),
    )


def _chips_at(shape: MeshShape | None, offset: MeshCoordinate) -> list[int]:
    whole = MeshShape(*boards.current().mesh_shape)
    size = whole if shape is None else shape
    if size.dims() != whole.dims() or offset.dims() != whole.dims() or any(o + s > w for o, s, w in zip(offset, size, whole)):
        raise RuntimeError(f"open_mesh_device: mesh_shape={size} at offset={offset} does not lie within the board's mesh {whole}")
    inside = MeshCoordinateRange(offset, MeshCoordinate([o + s - 1 for o, s in zip(offset, size)]))
    return [chip for chip, place in enumerate(MeshCoordinateRange(whole)) if place in inside]


def _queues(count: int) -> int:
    if not 1 <= count <= 2:
        raise RuntimeError(f"num_command_queues={count}: a device has 1 or 2 command queues")
    return count


def close_device(device: Device) -> None:
    """Close a device. Closing twice does nothing."""
    global _default
    if device is _default:
        _default = None
    device.close()


CloseDevice = close_device


def close_mesh_device(mesh_device: Device) -> None:
    """Close a mesh and its submeshes."""
    close_device(mesh_device)


def CloseDevices(devices: dict[int, Device]) -> None:
    """Close what `CreateDevices` opened."""
    for device in devices.values():
        close_device(device)


@contextmanager
def manage_device(device_id: int) -> Iterator[Device]:
    """A device for a block."""
    device = open_device(device_id=device_id)
    try:
        yield device
    finally:
        close_device(device)


@contextmanager
def create_mesh_device(*args: Any, **kwargs: Any) -> Iterator[Device]:
    """A mesh for a block."""
    device = open_mesh_device(*args, **kwargs)
    try:
        yield device
    finally:
        close_device(device)


def SetDefaultDevice(device: Device | None = None) -> None:
    """The device that operations on host tensors use; None for none."""
    global _default
    _default = device


def GetDefaultDevice() -> Device | None:
    return _default


# -- what there is


def GetNumAvailableDevices() -> int:
    """Chips of the current board."""
    return boards.current().num_chips


def GetNumPCIeDevices() -> int:
    """Chips with a PCIe connection of their own."""
    return boards.current().pcie_devices


def GetPCIeDeviceID(device_id: int) -> int:
    """The chip through which the host reaches a chip."""
    cluster = Cluster(boards.current())
    if not 0 <= device_id < len(cluster):
        raise RuntimeError(f"GetPCIeDeviceID: device_id={device_id}: there are chips 0 to {len(cluster) - 1}")
    return max(chip for chip in cluster.mmio_chips if chip <= device_id)


def get_device_ids() -> list[int]:
    return list(range(GetNumAvailableDevices()))


def get_pcie_device_ids() -> list[int]:
    return list(Cluster(boards.current()).mmio_chips)


get_num_devices = GetNumAvailableDevices
get_num_pcie_devices = GetNumPCIeDevices


def get_arch_name() -> str:
    return boards.current().arch


_get_arch_name = get_arch_name


def _arch_of(device: Device | None) -> str:
    return device.board.arch if device is not None else get_arch_name()


def is_wormhole_b0(device: Device | None = None) -> bool:
    return _arch_of(device) == "wormhole_b0"


def is_blackhole(device: Device | None = None) -> bool:
    return _arch_of(device) == "blackhole"


def get_dispatch_core_axis(device: Device) -> DispatchCoreAxis:
    """Whether rows or columns of the device's workers dispatch."""
    return DispatchCoreAxis[device.board.dispatch.axis.upper()]


def get_dram_alignment() -> int:
    return boards.current().dram.alignment


def get_l1_alignment() -> int:
    return boards.current().l1.alignment


def get_max_worker_l1_unreserved_size() -> int:
    """The largest `worker_l1_size` that a device can be opened with."""
    return boards.current().l1.max_unreserved


def get_optimal_dram_bank_to_logical_worker_assignment(device: Device, noc: NOC) -> list[CoreCoord]:
    """For each DRAM bank, the worker core nearest to it."""
    device.require_open("get_optimal_dram_bank_to_logical_worker_assignment")
    return [CoreCoord(x, y) for x, y in device.board.optimal_workers.on(noc.value)]


def get_optimal_worker_cores_for_sharded_tensor(tensor: Tensor, noc: NOC = NOC.NOC_0) -> list[CoreCoord]:
    """The cores that should work on the shards of a tensor: those that hold them, or those nearest to the DRAM banks that do."""
    device, spec = tensor.buffer.device, tensor.spec
    if device is None or not spec.is_sharded:
        raise RuntimeError("get_optimal_worker_cores_for_sharded_tensor: tensor must be sharded and on a device")
    if tensor.buffer.allocation is None:
        raise RuntimeError("get_optimal_worker_cores_for_sharded_tensor: Tensor is not allocated.")
    cores = shard_cores(spec, tensor.buffer.allocation.plan)
    if spec.memory_config.buffer_type is BufferType.DRAM:
        nearest = device.board.optimal_workers.on(noc.value)
        cores = [nearest[x] for x, _ in cores]
    return [CoreCoord(x, y) for x, y in cores]


# -- memory


def get_memory_view(device: Device, buffer_type: BufferType) -> MemoryView:
    """One kind of a device's memory, per bank, with its table of blocks."""
    device.require_open("get_memory_view")
    return device.memory.view(buffer_type)


def get_allocator_base_address(device: Device, buffer_type: BufferType) -> int:
    """Where tensors begin in DRAM and in L1. For L1_SMALL and TRACE, too, official TT-NN answers the beginning of L1."""
    device.require_open("get_allocator_base_address")
    return device.memory.base_address(BufferType.DRAM if buffer_type is BufferType.DRAM else BufferType.L1)


def dump_device_memory_state(device: Device, prefix: str = "") -> None:
    """Write what the device's memory holds as three tables under `generated/reports`."""
    device.require_open("dump_device_memory_state")
    for path in report.write_report(device.memory, prefix, _root / report.REPORT_FOLDER):
        logger.debug(f"wrote {path}")


def SetRootDir(root_dir: str) -> None:
    """Where `generated/` is made. The working folder unless set."""
    global _root
    _root = Path(root_dir)


def DeallocateBuffers(device: Device) -> None:
    """Free every buffer of a device; the tensors on them are deallocated."""
    device.require_open("DeallocateBuffers")
    for kind in BufferType:
        for allocation in device.memory.allocations(kind):
            owner = allocation.owner() if allocation.owner is not None else None
            if owner is not None:
                owner.free()


class _MemoryReports(Observer):
    """Writes the memory tables whenever a device makes a new program, as the chip does when it compiles one."""

    def launched(self, launch: Any) -> None:
        if not launch.is_program_hit and launch.device is not None:
            report.write_report(launch.device.memory, f"{launch.device.programs.total}_{launch.name}_", _root / report.REPORT_FOLDER)


_reports: _MemoryReports | None = None


def EnableMemoryReports() -> None:
    """From now on, write the memory tables for every new program."""
    global _reports
    if _reports is None:
        _reports = _MemoryReports()
        attach(_reports)


def DisableMemoryReports() -> None:
    global _reports
    if _reports is not None:
        detach(_reports)
        _reports = None


def ClearKernelCache() -> None:
    """Forget compiled kernels. A software device compiles none, so every launch finds the cache as empty as it was."""


def _ttnn_cleanup() -> None:
    """Close every device that is open."""
    for device in list(machine.OPEN):
        close_device(device)


# -- methods of a device


class MeshDeviceView:
    """The places of a mesh, as this process sees them: all of them are its own."""

    __slots__ = ("_device",)

    def __init__(self, device: Device) -> None:
        self._device = device

    def shape(self) -> MeshShape:
        return self._device.mesh_shape

    def num_devices(self) -> int:
        return self._device.num_chips

    def is_local(self, coord: MeshCoordinate) -> bool:
        _chip_at(self._device, coord)
        return True

    def get_local_mesh_coord_range(self) -> MeshCoordinateRange:
        return MeshCoordinateRange(self._device.mesh_shape)


def _grayskull() -> Any:
    """The member that Arch had until TT-NN dropped the chip: programs on an e-series board can still tell where they run."""
    member = object.__new__(Arch)
    member._name_, member._value_ = "GRAYSKULL", 1
    return member


_GRAYSKULL = _grayskull()


def _arch(device: Device) -> Arch:
    return Arch.__members__.get(device.board.arch.upper(), _GRAYSKULL)


def _submeshes(device: Device, submesh_shape: MeshShape) -> list[Device]:
    """The mesh cut into equal submeshes, row by row."""
    rows, cols = device.mesh_shape
    h, w = submesh_shape
    if not h or not w or rows % h or cols % w:
        raise RuntimeError(f"create_submeshes: submesh_shape={submesh_shape} does not divide the mesh {device.mesh_shape} evenly")
    return [device.submesh(submesh_shape, MeshCoordinate(r, c)) for r in range(0, rows, h) for c in range(0, cols, w)]


def _disable(device: Device) -> None:
    device.programs.clear()
    device.programs.enabled = False


def _chip_at(device: Device, coordinate: MeshCoordinate) -> int:
    places = list(device.coordinates())
    if coordinate not in places:
        raise RuntimeError(f"get_device_id: {coordinate} is not in the mesh {device.mesh_shape}")
    return device.chips[places.index(coordinate)]


def _reshape(device: Device, new_shape: MeshShape) -> None:
    if new_shape.mesh_size() != device.num_chips:
        raise RuntimeError(f"reshape: new_shape={new_shape} has {new_shape.mesh_size()} places; the mesh has {device.num_chips} chips")
    device.mesh_shape = new_shape


def _optimal(device: Device, noc: NOC, coord: MeshCoordinate | None = None) -> Any:
    cores = get_optimal_dram_bank_to_logical_worker_assignment(device, noc)
    return cores if coord is None else dict(enumerate(cores))


def _place(ask: Callable[[int, int], tuple[int, int]], core: Any) -> CoreCoord:
    at = CoreCoord.of(core)
    try:
        return CoreCoord(*ask(at.x, at.y))
    except ValueError as outside:
        raise RuntimeError(str(outside)) from None


def _worker_core(device: Device, logical_core: CoreCoord) -> CoreCoord:
    return _place(device.board.worker_core_from_logical_core, logical_core)


def _logical_core(device: Device, virtual_core: CoreCoord) -> CoreCoord:
    return _place(device.board.logical_core_from_worker_core, virtual_core)


def _dram_core(device: Device, logical_core: CoreCoord) -> CoreCoord:
    return _place(device.board.dram_core_from_logical_core, logical_core)


METHODS: dict[str, Callable[..., Any]] = {
    "worker_core_from_logical_core": _worker_core,
    "logical_core_from_worker_core": _logical_core,
    "dram_core_from_logical_core": _dram_core,
    "get_optimal_dram_bank_to_logical_worker_assignment": _optimal,
    "sfpu_eps": lambda d: d.board.chip.sfpu.eps,
    "sfpu_nan": lambda d: d.board.chip.sfpu.nan,
    "sfpu_inf": lambda d: d.board.chip.sfpu.inf,
    "enable_program_cache": lambda d: setattr(d.programs, "enabled", True),
    "disable_and_clear_program_cache": _disable,
    "clear_program_cache": lambda d: d.programs.clear(),
    "set_program_cache_misses_allowed": lambda d, allowed: setattr(d.programs, "misses_allowed", bool(allowed)),
    "create_submesh": lambda d, submesh_shape, offset=None: d.submesh(submesh_shape, offset),
    "create_submeshes": _submeshes,
    "get_submeshes": lambda d: sorted(d.children, key=lambda child: child.mesh_id),
    "reshape": _reshape,
    "get_device_id": _chip_at,
    "get_fabric_node_id": lambda d, coord: FabricNodeId(MeshId(0), _chip_at(d, coord)),
    "get_system_mesh_id": lambda d: 0,
    "get_view": lambda d: MeshDeviceView(d),
    "quiesce_devices": lambda d: None,
    "create_sub_device_manager": lambda d, sub_devices, local_l1_size: SubDeviceManagerId(
        d.sub_devices.create([s.cores for s in sub_devices], local_l1_size)
    ),
    "load_sub_device_manager": lambda d, sub_device_manager_id: d.sub_devices.load(int(sub_device_manager_id)),
    "clear_loaded_sub_device_manager": lambda d: d.sub_devices.clear(),
    "remove_sub_device_manager": lambda d, sub_device_manager_id: d.sub_devices.remove(int(sub_device_manager_id)),
    "set_sub_device_stall_group": lambda d, sub_device_ids: d.sub_devices.set_stall_group([int(i) for i in sub_device_ids]),
    "reset_sub_device_stall_group": lambda d: d.sub_devices.reset_stall_group(),
}
#: What may still be asked of a closed device.
AFTER_CLOSE: dict[str, Callable[..., Any]] = {
    "id": lambda d: d.mesh_id,
    "arch": _arch,
    "compute_with_storage_grid_size": lambda d: d.grid,
    "dram_grid_size": lambda d: CoreCoord(d.board.dram.banks, 1),
    "num_program_cache_entries": lambda d: d.programs.total,
    "get_num_devices": lambda d: d.num_chips,
    "get_device_ids": lambda d: list(d.chips),
}


def _while_open(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(device: Device, *args: Any, **kwargs: Any) -> Any:
        if not device.is_open:
            device.require_open(name)
        return method(device, *args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def equip() -> None:
    """Hang TT-NN's methods on the machine's class. Called once, by `import ttnn`."""
    for name, method in METHODS.items():
        setattr(Device, name, _while_open(name, method))
    for name, method in AFTER_CLOSE.items():
        setattr(Device, name, method)
    Device.shape = property(lambda d: d.mesh_shape)  # type: ignore[attr-defined]
    Device.core_grid = property(lambda d: CoreGrid(y=d.grid.y, x=d.grid.x))  # type: ignore[attr-defined]
    Device.__repr__ = lambda d: (  # type: ignore[method-assign, assignment]
        f"MeshDevice({d.mesh_shape[0]}x{d.mesh_shape[1]} grid, {d.num_chips} devices)" if d.is_open else "MeshDevice(closed)"
    )
