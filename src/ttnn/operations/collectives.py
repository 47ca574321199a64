"""Collectives on a mesh: all_gather, reduce_scatter, all_reduce, broadcasts, point to point, mesh_partition, and their `_async` experimental forms.

The rules are those of the chips' fabric; moving the parts is `tessera.engine.collective`. Linear and ring topologies give the same values, so `topology`
and the knobs of links and workers are accepted and change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import collective as engine
from tessera.formats.dtype import Layout
from tessera.memory.config import MemoryConfig
from tessera.memory.mesh import MeshCoordinate
from tessera.runtime.device import Device
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.fabric import get_fabric_config
from ttnn.operations.rules import like, require
from ttnn.types import FabricConfig


def _mesh(what: str, tensor: Tensor) -> tuple[Device, tuple[int, ...]]:
    device = tensor.buffer.device
    require(device is not None, f"{what}: Device Operations expect device tensors as inputs, got one on the host")
    require(tensor.buffer.allocated, f"{what}: Tensor is not allocated; it was deallocated")
    assert device is not None
    return device, tuple(device.mesh_shape)


def group_size(what: str, tensor: Tensor, axis: int | None, *, fabric: bool = True) -> tuple[tuple[int, ...], int]:
    """(mesh shape, chips that talk to each other); one chip alone cannot."""
    device, mesh = _mesh(what, tensor)
    require(axis is None or 0 <= axis < len(mesh), f"{what}: cluster_axis={axis} must be one of the {len(mesh)} axes of the mesh")
    count = device.num_chips if axis is None else mesh[axis]
    if fabric:
        require(
            get_fabric_config() != FabricConfig.DISABLED,
            f"{what}: Trying to get un-initialized fabric context; call ttnn.set_fabric_config before opening the mesh",
        )
    return mesh, count


def _dim(what: str, dim: int, rank: int) -> int:
    require(-rank <= dim < rank, f"{what}: Index is out of bounds for the rank, should be between 0 and {rank - 1} however dim is {dim}")
    return dim % rank


def _gather(
    what: str,
    tensor: Tensor,
    dim: int,
    axis: int | None,
    memory_config: MemoryConfig | None,
    into: Tensor | None,
    backwards: bool = False,
) -> Tensor:
    _mesh(what, tensor)
    rank = len(tensor.spec.dims)
    require(-rank <= dim < rank, f"{what}: Invalid gather dim {dim} for {rank}D input tensor")
    mesh, count = group_size(what, tensor, axis)
    require(count > 1, f"{what}: all_gather collective will only work for num_devices > 1, got {count}")
    along = dim % rank
    dims = [d * count if k == along else d for k, d in enumerate(tensor.spec.dims)]
    if into is not None:
        require(into.spec.dims == tuple(dims), f"{what}: Output tensor shape must be {dims}, got {into.spec.shape}")
    out = like(tensor, shape=dims, memory_config=memory_config) if into is None else into.spec
    spec = tensor.spec
    edge = spec.layout == Layout.TILE and along >= rank - 2 and spec.dims[along] % spec.tile.tile_shape[0 if along == rank - 2 else 1]
    attributes = {"mesh": mesh, "axis": axis, "dim": along, "backwards": backwards}
    return launch(
        "AllGatherDeviceOperation",
        engine.all_gather,
        [tensor],
        out,
        attributes=attributes,
        across=True,
        into=into,
        programs=2 if edge else 1,
    )  # type: ignore[no-any-return]


@operation("ttnn.all_gather", golden=lambda tensors, dim, **_: torch.cat(list(tensors), dim))
def all_gather(
    input_tensor: Tensor,
    dim: int,
    *,
    cluster_axis: int | None = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    **_: Any,
) -> Tensor:
    """Every chip gets the parts of all chips (along one mesh axis), one behind the other."""
    return _gather("all_gather", input_tensor, dim, cluster_axis, memory_config, output_tensor)


def _reduce_scatter(
    what: str, tensor: Tensor, dim: int, axis: int | None, memory_config: MemoryConfig | None, into: Tensor | None
) -> Tensor:
    _mesh(what, tensor)
    spec = tensor.spec
    rank = len(spec.dims)
    along = _dim(what, dim, rank)
    mesh, count = group_size(what, tensor, axis)
    require(count > 1, f"{what}: needs more than one chip along cluster_axis={axis}: forward_coord or backward_coord is null")
    require(rank >= 2, f"{what}: reduce_scatter currently supports rank 2 tensors at minimum, got {rank}")
    size = spec.dims[along]
    require(size % count == 0 or along >= rank - 2, f"{what}: Dimension {along} must be divisible by ring_size, {size} is not by {count}")
    if spec.layout == Layout.TILE and along >= rank - 2:
        tiles = spec.padded_shape[along] // spec.tile.tile_shape[along - rank]
        require(
            tiles % count == 0, f"{what}: Number of tiles at dimension {along} must be divisible by ring_size, {tiles} is not by {count}"
        )
    require(size % count == 0, f"{what}: Dimension {along} must be divisible by ring_size, {size} is not by {count}")
    dims = [d // count if k == along else d for k, d in enumerate(spec.dims)]
    if into is not None:
        require(into.spec.dims == tuple(dims), f"{what}: Output tensor spec of shape {into.spec.shape} does not match the result's {dims}")
    out = like(tensor, shape=dims, memory_config=memory_config) if into is None else into.spec
    attributes = {"mesh": mesh, "axis": axis, "dim": along}
    return launch("ReduceScatterDeviceOperation", engine.reduce_scatter, [tensor], out, attributes=attributes, across=True, into=into)  # type: ignore[no-any-return]


@operation("ttnn.reduce_scatter", golden=lambda tensors, dim, **_: list(torch.chunk(torch.stack(list(tensors)).sum(0), len(tensors), dim)))
def reduce_scatter(
    input_tensor: Tensor,
    dim: int,
    *,
    cluster_axis: int | None = None,
    subdevice_id: Any = None,
    memory_config: MemoryConfig | None = None,
    intermediate_memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    **_: Any,
) -> Tensor:
    """Each chip gets its slice of the sum over all chips (along one mesh axis)."""
    return _reduce_scatter("reduce_scatter", input_tensor, dim, cluster_axis, memory_config, output_tensor)


@operation("ttnn.all_reduce", golden=lambda tensors, **_: torch.stack(list(tensors)).sum(0))
def all_reduce(
    input_tensor: Tensor, *, cluster_axis: int | None = None, subdevice_id: Any = None, memory_config: MemoryConfig | None = None, **_: Any
) -> Tensor:
    """Every chip gets the sum over all chips (along one mesh axis)."""
    return _all_reduce("all_reduce", input_tensor, cluster_axis, memory_config)


def _all_reduce(what: str, tensor: Tensor, axis: int | None, memory_config: MemoryConfig | None) -> Tensor:
    mesh, count = group_size(what, tensor, axis)
    require(count > 1, f"{what}: all_broadcast op will only work for num_devices > 1, but has {count}, shape: MeshShape({list(mesh)})")
    out = like(tensor, memory_config=memory_config)
    return launch(
        "AllReduceDeviceOperation", engine.all_reduce, [tensor], out, attributes={"mesh": mesh, "axis": axis}, across=True, programs=2
    )  # type: ignore[no-any-return]


@operation("ttnn.mesh_partition", golden=lambda tensor, dim, count, **_: list(torch.chunk(tensor, count, dim)))
def mesh_partition(input_tensor: Tensor, dim: int, cluster_axis: int | None = None, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """Each chip keeps its slice of a tensor that all have."""
    spec = input_tensor.spec
    rank = len(spec.dims)
    mesh, count = group_size("mesh_partition", input_tensor, cluster_axis, fabric=False)
    if count == 1:
        return input_tensor
    require(dim < rank, f"mesh_partition: ShapeBase[] index out of range. {dim} not in [{-max(4, rank)}, {rank})")
    require(-rank <= dim, f"mesh_partition: dim must be less than the rank of the input tensor, got dim={dim} for rank {rank}")
    along = dim % rank
    size = spec.dims[along]
    require(size % count == 0, f"mesh_partition: input shape {spec.shape} must be divisible by cluster axis size {count}")
    if spec.layout == Layout.TILE and along >= rank - 2 and count > 1:
        name, edge = ("width", spec.tile.tile_shape[1]) if along == rank - 1 else ("height", spec.tile.tile_shape[0])
        require(
            (size // count) % edge == 0,
            f"mesh_partition: Can only slice tilized tensor with {name} begin index aligned to tiles, got slices of {size // count}",
        )
    dims = [d // count if k == along else d for k, d in enumerate(spec.dims)]
    attributes = {"mesh": mesh, "axis": cluster_axis, "dim": along}
    return launch(
        "MeshPartitionDeviceOperation",
        engine.partition,
        [input_tensor],
        like(input_tensor, shape=dims, memory_config=memory_config),
        attributes=attributes,
        across=True,
    )  # type: ignore[no-any-return]


def _place(what: str, name: str, place: MeshCoordinate, mesh: Sequence[int]) -> tuple[int, ...]:
    given = tuple(place)
    require(
        len(given) == len(mesh) and all(0 <= c < n for c, n in zip(given, mesh)),
        f"{what}: Mesh device must contain {name} device: {place} lies outside the mesh {list(mesh)}",
    )
    return given


@operation("ttnn.broadcast", golden=lambda tensor, *_, **__: tensor)
def broadcast(
    input_tensor: Tensor,
    sender_coord: MeshCoordinate,
    *,
    num_links: int | None = None,
    memory_config: MemoryConfig | None = None,
    topology: Any = None,
    cluster_axis: int | None = None,
    subdevice_id: Any = None,
) -> Tensor:
    """Every chip gets the part of one of them."""
    device, mesh = _mesh("broadcast", input_tensor)
    require(
        device.num_chips > 1,
        f"broadcast: broadcast op will only work for num_devices > 1, but has {device.num_chips}, shape: {device.mesh_shape}",
    )
    mesh, _ = group_size("broadcast", input_tensor, cluster_axis)
    given = tuple(c % n for c, n in zip(sender_coord, mesh))
    attributes = {"mesh": mesh, "axis": cluster_axis, "sender": given}
    return launch(
        "BroadcastDeviceOperation",
        engine.broadcast,
        [input_tensor],
        like(input_tensor, memory_config=memory_config),
        attributes=attributes,
        across=True,
    )  # type: ignore[no-any-return]


@operation("ttnn.all_broadcast", golden=lambda tensors, **_: list(tensors))
def all_broadcast(
    input_tensor: Tensor, *, cluster_axis: int | None = None, subdevice_id: Any = None, memory_config: MemoryConfig | None = None, **_: Any
) -> list[Tensor]:
    """Every chip gets the parts of all chips, as that many tensors."""
    mesh, count = group_size("all_broadcast", input_tensor, cluster_axis)
    require(
        count > 1, f"all_broadcast: all_broadcast op will only work for num_devices > 1, but has {count}, shape: MeshShape({list(mesh)})"
    )
    outs = [like(input_tensor, memory_config=memory_config)] * count
    return launch(
        "AllBroadcastDeviceOperation",
        engine.all_broadcast,
        [input_tensor],
        outs,
        attributes={"mesh": mesh, "axis": cluster_axis},
        across=True,
    )  # type: ignore[no-any-return]


@operation("ttnn.point_to_point", golden=lambda tensor, *_, **__: tensor)
def point_to_point(
    input_tensor: Tensor,
    sender_coord: MeshCoordinate,
    receiver_coord: MeshCoordinate,
    *,
    output_tensor: Tensor | None = None,
    intermediate_tensor: Tensor | None = None,
    topology: Any = None,
) -> Tensor:
    """One chip's part to another chip."""
    device, mesh = _mesh("point_to_point", input_tensor)
    group_size("point_to_point", input_tensor, None)
    sender = _place("point_to_point", "sender", sender_coord, mesh)
    receiver = _place("point_to_point", "receiver", receiver_coord, mesh)
    require(sender != receiver, f"point_to_point: sender_coord and receiver_coord must differ, got {sender_coord} for both")
    numbers = {tuple(place): i for i, place in enumerate(device.coordinates())}
    out = input_tensor.spec if output_tensor is None else output_tensor.spec
    attributes = {"sender": numbers[sender], "receiver": numbers[receiver]}
    return launch(
        "PointToPointDeviceOperation", engine.point_to_point, [input_tensor], out, attributes=attributes, across=True, into=output_tensor
    )  # type: ignore[no-any-return]


# -- the experimental forms take buffers and semaphores besides, which the software fabric does not need


@operation("ttnn.experimental.all_gather_async", golden=lambda tensors, dim, **_: torch.cat(list(tensors), dim))
def all_gather_async(input_tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """As `ttnn.all_gather`."""
    return _gather_async("all_gather_async", input_tensor, args, kwargs)


def _gather_async(what: str, tensor: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any], backwards: bool = False) -> Tensor:
    dim = kwargs.get("dim", next((a for a in args if isinstance(a, int)), None))
    require(dim is not None, f"{what}: dim must be given")
    assert dim is not None
    into = kwargs.get("persistent_output_buffer", next((a for a in args if isinstance(a, Tensor)), None))
    return _gather(what, tensor, dim, kwargs.get("cluster_axis"), kwargs.get("memory_config"), into, backwards)


@operation("ttnn.experimental.all_gather_async_reversed", golden=lambda tensors, dim, **_: torch.cat(list(tensors)[::-1], dim))
def all_gather_async_reversed(input_tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """As `ttnn.all_gather`, the last chip's part first."""
    return _gather_async("all_gather_async_reversed", input_tensor, args, kwargs, True)


@operation("ttnn.experimental.strided_all_gather_async", golden=lambda tensors, dim, **_: torch.cat(list(tensors), dim))
def strided_all_gather_async(input_tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """As `ttnn.all_gather`; the strides are those of the transport."""
    return _gather_async("strided_all_gather_async", input_tensor, args, kwargs)


def _all_to_all(
    what: str, tensor: Tensor, in_dim: int, out_dim: int, axis: int | None, memory_config: MemoryConfig | None, into: Tensor | None
) -> Tensor:
    _mesh(what, tensor)
    rank = len(tensor.spec.dims)
    joined, split = _dim(what, in_dim, rank), _dim(what, out_dim, rank)
    mesh, count = group_size(what, tensor, axis)
    require(joined != split, f"{what}: in_dim={in_dim} and out_dim={out_dim} must be two dimensions")
    size = tensor.spec.dims[split]
    require(size % count == 0, f"{what}: out_dim={out_dim} of extent {size} must be divisible by the {count} chips that share it")
    dims = list(tensor.spec.dims)
    dims[joined], dims[split] = dims[joined] * count, size // count
    out = like(tensor, shape=dims, memory_config=memory_config) if into is None else into.spec
    require(out.dims == tuple(dims), f"{what}: Output tensor shape must be {dims}, got {out.shape}")
    attributes = {"mesh": mesh, "axis": axis, "joined": joined, "split": split}
    return launch("AllToAllAsyncDeviceOperation", engine.all_to_all, [tensor], out, attributes=attributes, across=True, into=into)  # type: ignore[no-any-return]


def _golden_all_to_all(tensors: Sequence[torch.Tensor], in_dim: int, out_dim: int, **_: Any) -> list[torch.Tensor]:
    return engine.all_to_all(list(tensors), mesh=(len(tensors),), axis=None, joined=in_dim, split=out_dim)


@operation("ttnn.experimental.all_to_all_async_generic", golden=_golden_all_to_all)
def all_to_all_async_generic(
    input_tensor: Tensor,
    in_dim: int,
    out_dim: int,
    *,
    persistent_output_buffer: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    cluster_axis: int | None = None,
    **_: Any,
) -> Tensor:
    """A tensor that is dealt to chips along `in_dim`, dealt along `out_dim` instead."""
    return _all_to_all("all_to_all_async_generic", input_tensor, in_dim, out_dim, cluster_axis, memory_config, persistent_output_buffer)


@operation("ttnn.experimental.all_to_all_async", golden=_golden_all_to_all)
def all_to_all_async(
    input_tensor: Tensor,
    persistent_intermediate_buffer: Tensor,
    persistent_output_buffer: Tensor,
    in_dim: int,
    out_dim: int,
    multi_device_global_semaphore: Any,
    *,
    memory_config: MemoryConfig | None = None,
    **_: Any,
) -> Tensor:
    """As `all_to_all_async_generic`, into the given output."""
    return _all_to_all("all_to_all_async", input_tensor, in_dim, out_dim, None, memory_config, persistent_output_buffer)


@operation(
    "ttnn.experimental.reduce_scatter_minimal_async",
    golden=lambda tensors, dim, **_: list(torch.chunk(torch.stack(list(tensors)).sum(0), len(tensors), dim)),
)
def reduce_scatter_minimal_async(input_tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """As `ttnn.reduce_scatter`."""
    dim = kwargs.get("dim", next((a for a in args if isinstance(a, int)), None))
    require(dim is not None, "reduce_scatter_minimal_async: dim must be given")
    assert dim is not None
    return _reduce_scatter("reduce_scatter_minimal_async", input_tensor, dim, kwargs.get("cluster_axis"), kwargs.get("memory_config"), None)


@operation("ttnn.experimental.all_reduce_async", golden=lambda tensors, **_: torch.stack(list(tensors)).sum(0))
def all_reduce_async(input_tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """As `ttnn.all_reduce`."""
    return _all_reduce("all_reduce_async", input_tensor, kwargs.get("cluster_axis"), kwargs.get("memory_config"))
