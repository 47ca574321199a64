"""The fabric between chips: whether it is on, and what it joins.

On the chip it is firmware on the Ethernet cores, set up before a mesh is opened. Here collectives move values between parts of a tensor,
so the fabric is a setting that programs make and read, with the rules for making it.
"""

from __future__ import annotations

from typing import Any

from tessera.runtime.device import Device
from tessera.silicon import board as boards
from ttnn.types import FabricConfig, FabricManagerMode, FabricReliabilityMode, FabricTensixConfig, FabricUDMMode, MeshId

__all__ = ["get_all_fabric_mesh_ids", "get_fabric_config", "get_num_links", "get_physical_mesh_shapes", "set_fabric_config"]

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
