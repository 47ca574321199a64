"""The fabric between chips: whether it is on, and what it joins.

On the chip it is firmware on the Ethernet cores, set up before a mesh is opened. Here collectives move values between parts of a tensor,
so the fabric is a setting that programs make and read, with the rules for making it.
"""

from __future__ import annotations

import math
from typing import Any

from tessera.runtime.device import Device
from tessera.runtime.tensor import Tensor
from tessera.silicon import board as boards
from tessera.silicon.cluster import Cluster
from ttnn.types import (
    FabricConfig,
    FabricManagerMode,
    FabricReliabilityMode,
    FabricTensixConfig,
    FabricType,
    FabricUDMMode,
    MeshId,
    Topology,
)

__all__ = [
    "get_all_fabric_mesh_ids",
    "get_all_mgd_fabric_types",
    "get_fabric_config",
    "get_num_links",
    "get_physical_mesh_shapes",
    "get_tt_fabric_max_payload_size_bytes",
    "get_tt_fabric_packet_header_size_bytes",
    "get_usable_topology",
    "set_fabric_config",
]

#: What each way of setting up the fabric makes of a mesh, and the bytes of its packet headers (measured on an n300).
_TOPOLOGIES = {
    FabricConfig.FABRIC_1D: Topology.Linear,
    FabricConfig.FABRIC_1D_RING: Topology.Ring,
    FabricConfig.FABRIC_2D: Topology.Mesh,
}
_HEADER_BYTES = {FabricConfig.FABRIC_1D: 48, FabricConfig.FABRIC_1D_RING: 48, FabricConfig.FABRIC_2D: 96}
_PAYLOAD_BYTES = 4352
#: What is left of a closed topology where the ends are not joined.
_OPEN = {Topology.Ring: Topology.Linear, Topology.Torus: Topology.Mesh}

_config = FabricConfig.DISABLED


def set_fabric_config(
    config: FabricConfig,
    reliability_mode: FabricReliabilityMode = FabricReliabilityMode.STRICT_INIT,
    num_planes: int | None = None,
    fabric_tensix_config: FabricTensixConfig = FabricTensixConfig.DISABLED,
    fabric_udm_mode: FabricUDMMode = FabricUDMMode.DISABLED,
    fabric_manager_mode: FabricManagerMode = FabricManagerMode.DEFAULT,
    router_config: Any = None,
) -> None:
    """Choose how chips talk to each other; to go from one way to another, choose DISABLED in between."""
    global _config
    if not isinstance(config, FabricConfig):
        raise TypeError(f"set_fabric_config(): incompatible function arguments: config={config!r} is not a FabricConfig")
    off = FabricConfig.DISABLED
    if _config is not off and config is not off and config is not _config:
        raise RuntimeError(f"set_fabric_config: config={config} would override {_config}; set {off} first")
    _config = config


def get_fabric_config() -> FabricConfig:
    return _config


def get_num_links(mesh_device: Device, cluster_axis: int | None = None) -> int:
    """Links that the fabric uses between neighbours of the mesh, along one axis or any; 1 where there are no neighbours."""
    mesh_device.require_open("get_num_links")
    if cluster_axis is not None and not 0 <= cluster_axis < mesh_device.mesh_shape.dims():
        raise RuntimeError(
            f"get_num_links: cluster_axis={cluster_axis}: the mesh {mesh_device.mesh_shape} has axes 0 to {mesh_device.mesh_shape.dims() - 1}"
        )
    return max(1, mesh_device.board.fabric_links)


def get_physical_mesh_shapes() -> dict[int, list[int]]:
    """The shape of each mesh of the machine by its number; a board is one mesh."""
    return {0: list(boards.current().physical_mesh_shape)}


def get_all_fabric_mesh_ids() -> list[MeshId]:
    return [MeshId(number) for number in get_physical_mesh_shapes()]


def _set_up(called: str) -> FabricConfig:
    if _config not in _TOPOLOGIES:
        raise RuntimeError(f"{called}: un-initialized fabric context: the fabric is {_config}; choose another with ttnn.set_fabric_config")
    return _config


def get_tt_fabric_max_payload_size_bytes() -> int:
    _set_up("get_tt_fabric_max_payload_size_bytes")
    return _PAYLOAD_BYTES


def get_tt_fabric_packet_header_size_bytes() -> int:
    return _HEADER_BYTES[_set_up("get_tt_fabric_packet_header_size_bytes")]


def get_all_mgd_fabric_types() -> list[FabricType]:
    """How each mesh of the machine is wired."""
    return [FabricType.TORUS_XY if boards.current().torus else FabricType.MESH for _ in get_physical_mesh_shapes()]


def get_usable_topology(tensor: Tensor, topology: Topology | None = None, cluster_axis: int | None = None) -> Topology:
    """The topology that a collective on the tensor's mesh may use: the fabric's unless one is named, opened where the ends are not wired together."""
    device = tensor.buffer.device
    if device is None:
        raise RuntimeError("get_usable_topology requires a device tensor; got a host tensor whose mesh placement is unknown")
    wanted = _TOPOLOGIES[_set_up("get_usable_topology")] if topology is None else topology
    if wanted not in _OPEN or _wraps(device, cluster_axis):
        return wanted
    return _OPEN[wanted]


def _wraps(device: Device, axis: int | None) -> bool:
    """Whether the last chip of each line along the axis is wired to the first; without an axis, all chips are one line."""
    shape, chips = tuple(device.mesh_shape), device.chips
    if axis is None:
        lines = [chips]
        if len(chips) == 1:
            return True
    else:
        if not -len(shape) <= axis < len(shape):
            raise RuntimeError(
                f"get_usable_topology: cluster_axis={axis}: index out of range, the mesh {device.mesh_shape} has {len(shape)} axes"
            )
        extent = shape[axis]
        after = math.prod(shape[axis % len(shape) + 1 :])
        starts = [i for i in range(len(chips)) if i // after % extent == 0]
        lines = [tuple(chips[start + step * after] for step in range(extent)) for start in starts]
    cluster = Cluster(device.board)
    return all(len(line) > 2 and line[0] in cluster.neighbours(line[-1]) for line in lines)
