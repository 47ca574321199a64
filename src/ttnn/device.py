"""Opening and closing devices, and asking them what they are: TT-NN's words for `tessera.runtime.device`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tessera.memory.geometry import CoreCoord
from tessera.memory.mesh import MeshCoordinate, MeshShape
from tessera.runtime import device as machine
from tessera.runtime.device import Device
from tessera.silicon import board as boards
from ttnn.types import Arch, CoreGrid

MeshDevice = Device
DEFAULT_L1_SMALL_SIZE = 0
DEFAULT_TRACE_REGION_SIZE = 0
DEFAULT_WORKER_L1_SIZE = 0

_default: Device | None = None


def CreateDevice(
    device_id: int,
    num_command_queues: int = 1,
    l1_small_size: int = DEFAULT_L1_SMALL_SIZE,
    trace_region_size: int = DEFAULT_TRACE_REGION_SIZE,
    dispatch_core_config: Any = None,
    *,
    worker_l1_size: int = DEFAULT_WORKER_L1_SIZE,
) -> Device:
    """Open one chip of the current board."""
    for open_device_ in machine.OPEN:
        if open_device_.parent is None and open_device_.chips == (device_id,):
            raise RuntimeError(
                f"open_device: device_id={device_id} is open already; close it with ttnn.close_device before opening it again"
            )
    return machine.open_mesh(
        MeshShape(1, 1),
        chips=[device_id],
        l1_small_size=l1_small_size,
        trace_region_size=trace_region_size,
        worker_l1_size=worker_l1_size,
        command_queues=num_command_queues,
        dispatch=dispatch_core_config,
    )


def open_device(
    device_id: int,
    l1_small_size: int = DEFAULT_L1_SMALL_SIZE,
    trace_region_size: int = DEFAULT_TRACE_REGION_SIZE,
    dispatch_core_config: Any = None,
    num_command_queues: int = 1,
    worker_l1_size: int = DEFAULT_WORKER_L1_SIZE,
) -> Device:
    """Open one chip: `open_device(0)` and `open_device(device_id=0)` both do."""
    return CreateDevice(
        device_id, num_command_queues, l1_small_size, trace_region_size, dispatch_core_config, worker_l1_size=worker_l1_size
    )


def CreateDevices(device_ids: Sequence[int], *args: Any, **kwargs: Any) -> dict[int, Device]:
    return {i: CreateDevice(i, *args, **kwargs) for i in device_ids}


def open_mesh_device(
    mesh_shape: MeshShape | None = None,
    l1_small_size: int = DEFAULT_L1_SMALL_SIZE,
    trace_region_size: int = DEFAULT_TRACE_REGION_SIZE,
    num_command_queues: int = 1,
    dispatch_core_config: Any = None,
    offset: MeshCoordinate | None = None,
    physical_device_ids: Sequence[int] = (),
    worker_l1_size: int = DEFAULT_WORKER_L1_SIZE,
) -> Device:
    """Open several chips of the current board as one mesh."""
    return machine.open_mesh(
        mesh_shape,
        chips=list(physical_device_ids) or None,
        l1_small_size=l1_small_size,
        trace_region_size=trace_region_size,
        worker_l1_size=worker_l1_size,
        command_queues=num_command_queues,
        dispatch=dispatch_core_config,
    )


create_mesh_device_ = open_mesh_device


def close_device(device: Device) -> None:
    """Close a device. Closing twice does nothing."""
    global _default
    if device is _default:
        _default = None
    device.close()


CloseDevice = close_mesh_device = close_device


def CloseDevices(devices: dict[int, Device]) -> None:
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
    global _default
    _default = device


def GetDefaultDevice() -> Device | None:
    return _default


def GetNumAvailableDevices() -> int:
    return boards.current().num_chips


def get_device_ids() -> list[int]:
    return list(range(boards.current().num_chips))


GetNumPCIeDevices = get_num_devices = get_num_pcie_devices = GetNumAvailableDevices
get_pcie_device_ids = get_device_ids


def synchronize_device(device: Device, cq_id: Any = None, sub_device_ids: Sequence[Any] = ()) -> None:
    """Wait until the device is done. Operations here are done when they return."""
    device.require_open("synchronize_device")
    if device.trace is not None:
        raise RuntimeError("Event Synchronization is not supported during trace capture. synchronize_device was called while capturing")


def _arch(device: Device) -> Arch:
    return Arch[device.board.arch.upper()]


METHODS: dict[str, Any] = {
    "id": lambda d: d.mesh_id,
    "arch": _arch,
    "compute_with_storage_grid_size": lambda d: d.grid,
    "dram_grid_size": lambda d: CoreCoord(d.board.dram_banks, 1),
    "get_num_devices": lambda d: d.num_chips,
    "enable_program_cache": lambda d: setattr(d.programs, "enabled", True),
    "clear_program_cache": lambda d: d.programs.clear(),
    "num_program_cache_entries": lambda d: d.programs.total,
    "set_program_cache_misses_allowed": lambda d, allowed: setattr(d.programs, "misses_allowed", bool(allowed)),
    "create_submesh": lambda d, submesh_shape, offset=None: d.submesh(submesh_shape, offset),
    "get_submeshes": lambda d: list(d.children),
    "quiesce_devices": lambda d: None,
}


def _disable(device: Device) -> None:
    device.programs.clear()
    device.programs.enabled = False


def _get_device_id(device: Device, coordinate: MeshCoordinate) -> int:
    return device.chips[list(device.coordinates()).index(coordinate)]


def _submeshes(device: Device, submesh_shape: MeshShape) -> list[Device]:
    """The mesh cut into equal submeshes, row by row."""
    rows, cols = device.mesh_shape
    h, w = submesh_shape
    return [device.submesh(submesh_shape, MeshCoordinate(r, c)) for r in range(0, rows - h + 1, h) for c in range(0, cols - w + 1, w)]


METHODS |= {
    "disable_and_clear_program_cache": _disable,
    "get_device_id": _get_device_id,
    "get_device_ids": lambda d: list(d.chips),
    "create_submeshes": _submeshes,
}


def equip() -> None:
    """Hang TT-NN's methods on the machine's class. Called once, by `import ttnn`."""
    for name, method in METHODS.items():
        setattr(Device, name, method)
    Device.shape = property(lambda d: d.mesh_shape)  # type: ignore[attr-defined]
    Device.core_grid = property(lambda d: CoreGrid(y=d.grid.y, x=d.grid.x))  # type: ignore[attr-defined]
    Device.__repr__ = lambda d: (  # type: ignore[method-assign, assignment]
        f"MeshDevice({d.mesh_shape[0]}x{d.mesh_shape[1]} grid, {d.num_chips} devices)" if d.is_open else "MeshDevice(closed)"
    )
