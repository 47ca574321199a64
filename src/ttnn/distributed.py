"""Tensors over meshes: how a torch tensor is cut and spread over chips, and put together again."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from tessera.formats.dtype import DataType, Layout
from tessera.formats.tile import Tile
from tessera.memory.config import MemoryConfig
from tessera.memory.mesh import (
    MeshCoordinate,
    MeshCoordinateRange,
    MeshShape,
    Placement,
    PlacementReplicate,
    PlacementShard,
    TensorTopology,
)
from tessera.runtime.buffer import Buffer, PartBuffer
from tessera.runtime.device import Device
from tessera.runtime.tensor import Tensor
from tessera.silicon import board as boards
from ttnn.descriptors import MeshComposerConfig, MeshMapperConfig
from ttnn.tensor import host_tensor, spec_for

__all__ = [
    "ConcatMesh2dToTensor",
    "ConcatMeshToTensor",
    "CppMeshToTensor",
    "CppTensorToMesh",
    "MeshToTensor",
    "ReplicateTensorToMesh",
    "ReplicateTensorToMeshWrapper",
    "ShardTensor2dMesh",
    "ShardTensorToMesh",
    "TensorToMesh",
    "aggregate_as_tensor",
    "aggregate_tensor",
    "combine_device_tensors",
    "compute_distribution_to_mesh_mapping",
    "concat_mesh_to_tensor_composer",
    "create_mesh_composer",
    "create_mesh_mapper",
    "create_system_mesh_table",
    "distribute",
    "distribute_tensor",
    "from_host_shards",
    "get_device_tensors",
    "replicate_tensor_to_mesh_mapper",
    "shard_tensor_to_mesh_mapper",
    "using_distributed_env",
    "visualize_mesh_device",
    "visualize_system_mesh",
    "visualize_tensor",
]


@dataclass(frozen=True, slots=True)
class TensorToMesh:
    """Cuts a tensor for a mesh: one placement for each mesh dimension."""

    device: Device
    shape: MeshShape
    placements: tuple[Placement, ...]

    def cut(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """One part for each chip, in row-major order of the mesh."""
        parts = [tensor]
        for extent, placement in zip(self.shape, self.placements):
            if isinstance(placement, PlacementShard):
                parts = [piece for part in parts for piece in _slices(part, placement.dim, extent)]
            else:
                parts = [part for part in parts for _ in range(extent)]
        return parts

    def topology(self) -> TensorTopology:
        if self.shape.mesh_size() == self.device.num_chips:
            return TensorTopology(self.shape, self.placements, tuple(self.device.coordinates()))
        return TensorTopology(self.shape, self.placements, tuple(self.device.coordinates())[: self.shape.mesh_size()])


def _slices(tensor: torch.Tensor, dim: int, count: int) -> list[torch.Tensor]:
    """Equal slices, the last ones shorter or missing where the extent does not divide."""
    if not -tensor.dim() <= dim < tensor.dim():
        raise RuntimeError(f"mesh_mapper: dim={dim} is out of range for a tensor of rank {tensor.dim()}")
    size = tensor.shape[dim]
    if size % count:
        raise RuntimeError(f"mesh_mapper: dimension {dim} of size {size} does not divide into {count} equal shards")
    return list(torch.split(tensor, size // count, dim))


def ReplicateTensorToMesh(mesh_device: Device) -> TensorToMesh:
    """Every chip gets the whole tensor."""
    return TensorToMesh(mesh_device, MeshShape(mesh_device.num_chips), (PlacementReplicate(),))


def ShardTensorToMesh(mesh_device: Device, dim: int) -> TensorToMesh:
    """The chips get equal slices of one dimension."""
    return TensorToMesh(mesh_device, MeshShape(mesh_device.num_chips), (PlacementShard(dim),))


def ShardTensor2dMesh(mesh_device: Device, mesh_shape: Sequence[int], dims: Sequence[int | None]) -> TensorToMesh:
    """Slices along both mesh dimensions; `None` replicates along one."""
    placements = tuple(PlacementReplicate() if d is None else PlacementShard(d) for d in dims)
    return TensorToMesh(mesh_device, MeshShape(*mesh_shape), placements)


@dataclass(frozen=True, slots=True)
class MeshToTensor:
    """Puts the parts of a mesh tensor together along one dimension for each mesh dimension."""

    shape: tuple[int, ...]
    dims: tuple[int, ...]

    def compose(self, tensor: Tensor) -> torch.Tensor:
        parts = tensor.parts
        if len(parts) == 1 and len(self.shape) == 1:
            return parts[0]
        for extent, dim in zip(reversed(self.shape), reversed(self.dims)):
            parts = [torch.cat(parts[i : i + extent], dim) for i in range(0, len(parts), extent)]
        return parts[0]


def ConcatMeshToTensor(mesh_device: Device, dim: int) -> MeshToTensor:
    return MeshToTensor((mesh_device.num_chips,), (dim,))


def ConcatMesh2dToTensor(mesh_device: Device, mesh_shape: Sequence[int], dims: Sequence[int]) -> MeshToTensor:
    return MeshToTensor(tuple(mesh_shape), tuple(dims))


class ReplicateTensorToMeshWrapper:
    """A mapper in a wrapping, as programs hand it to `from_torch` and `as_tensor`."""

    __slots__ = ("_mapper",)

    def __init__(self, mapper: TensorToMesh) -> None:
        self._mapper = mapper

    def unwrap(self) -> TensorToMesh:
        return self._mapper


def unwrapped(mapper: TensorToMesh | ReplicateTensorToMeshWrapper) -> TensorToMesh:
    return mapper.unwrap() if isinstance(mapper, ReplicateTensorToMeshWrapper) else mapper


def compute_distribution_to_mesh_mapping(distribution_shape: MeshShape, mesh_shape: MeshShape) -> list[MeshCoordinate]:
    """Where each place of a distribution lies on the mesh: at its own coordinates where both have as many dimensions and the mesh has room for
    them, along the mesh row by row otherwise, as far as the mesh goes."""
    inside = distribution_shape.dims() == mesh_shape.dims() and all(d <= m for d, m in zip(distribution_shape, mesh_shape))
    return list(MeshCoordinateRange(distribution_shape) if inside else MeshCoordinateRange(mesh_shape))[: distribution_shape.mesh_size()]


def replicated(device: Device) -> TensorTopology:
    """The topology of a tensor that every chip of a mesh holds whole."""
    return TensorTopology(MeshShape(device.num_chips), (PlacementReplicate(),), tuple(device.coordinates()))


def distributed_tensor(
    tensor: torch.Tensor,
    dtype: DataType,
    layout: Layout | None,
    memory_config: MemoryConfig | None,
    tile: Tile | None,
    mapper: TensorToMesh | ReplicateTensorToMeshWrapper,
    pad: float | None = None,
) -> Tensor:
    """A host tensor with one part for each chip. Replicated parts are one object."""
    mapper = unwrapped(mapper)
    pieces = mapper.cut(tensor)
    made: dict[int, Tensor] = {}
    parts = []
    for piece in pieces:
        host = made.get(id(piece))
        if host is None:
            host = made[id(piece)] = host_tensor(piece.contiguous(), spec_for(piece.shape, dtype, layout, memory_config, tile), pad)
        parts.append(host)
    spec = parts[0].spec
    images = [part.buffer.images[0] if part.buffer.images is not None else None for part in parts] if pad else None
    return Tensor.of(spec, Buffer(spec, [part.values for part in parts], images=images, borrowed=True), mapper.topology())


def get_device_tensors(tensor: Tensor) -> list[Tensor]:
    """The tensor of each chip, as views of the same memory."""
    buffer = tensor.buffer
    if len(buffer.values) == 1:
        return [tensor]
    taken = []
    for index in range(len(buffer.values)):
        if buffer.device is not None and not buffer.device.drives(index):
            continue  # a chip of another process
        taken.append(Tensor.of(tensor.spec, PartBuffer(buffer, index), None))
    return taken


def aggregate_parts(tensors: Sequence[Tensor]) -> Tensor:
    """One mesh tensor of tensors that each hold one part."""
    first = tensors[0]
    if any(t.spec is not first.spec for t in tensors):
        raise RuntimeError("combine: all tensors must have the same spec")
    parts: list[Any] = list(itertools.chain.from_iterable(t.parts for t in tensors))
    buffer = Buffer(first.spec, parts) if first.buffer.device is None else first.buffer.device.new_buffer(first.spec, parts)
    return Tensor.of(first.spec, buffer, None)


# -- mappers and composers by configuration


def create_mesh_mapper(mesh_device: Device, config: MeshMapperConfig) -> TensorToMesh:
    """The mapper that a configuration describes: a placement for each dimension of the mesh (or of the shape that overrides it)."""
    shape = config.mesh_shape_override if config.mesh_shape_override is not None else mesh_device.mesh_shape
    placements = tuple(config.placements)
    if len(placements) != shape.dims():
        raise RuntimeError(
            f"create_mesh_mapper: config has {len(placements)} placements for a mesh of shape {shape}; give one for each dimension"
        )
    if shape.mesh_size() > mesh_device.num_chips:
        raise RuntimeError(f"create_mesh_mapper: mesh_shape_override={shape} has more places than the mesh {mesh_device.mesh_shape}")
    return TensorToMesh(mesh_device, shape, placements)


def create_mesh_composer(mesh_device: Device, config: MeshComposerConfig) -> MeshToTensor:
    """The composer that a configuration describes: a tensor dimension to join along for each dimension of the mesh."""
    shape = config.mesh_shape_override if config.mesh_shape_override is not None else mesh_device.mesh_shape
    dims = tuple(config.dims)
    if len(dims) != shape.dims():
        raise RuntimeError(f"create_mesh_composer: config has {len(dims)} dims for a mesh of shape {shape}; give one for each dimension")
    return MeshToTensor(tuple(shape), dims)


replicate_tensor_to_mesh_mapper = ReplicateTensorToMesh
shard_tensor_to_mesh_mapper = ShardTensorToMesh
concat_mesh_to_tensor_composer = ConcatMeshToTensor


def distribute_tensor(tensor: Tensor, mapper: TensorToMesh, mesh_device: Device | None = None) -> Tensor:
    """A host tensor cut and spread by a mapper, onto a mesh if one is given."""
    if tensor.buffer.device is not None:
        raise RuntimeError("distribute_tensor: tensor must be on the host; bring it there with ttnn.from_device")
    spec = tensor.spec
    spread = distributed_tensor(tensor.part(0), spec.dtype, spec.layout, spec.memory_config, spec.tile, mapper)
    if mesh_device is None:
        return spread
    from ttnn.operations.conversion import to_device

    return to_device.function(spread, mesh_device)  # type: ignore[no-any-return]


def aggregate_tensor(tensor: Tensor, composer: MeshToTensor) -> Tensor:
    """The parts of a mesh tensor as one host tensor."""
    whole = composer.compose(tensor)
    spec = tensor.spec
    return host_tensor(whole.contiguous(), spec_for(whole.shape, spec.dtype, spec.layout, None, spec.tile))


def combine_device_tensors(*args: Sequence[Tensor], tensors: Sequence[Tensor] | None = None) -> Tensor:
    """One mesh tensor of the tensors of its chips, as `get_device_tensors` took them apart."""
    given = list(tensors if tensors is not None else args[0])
    if not given:
        raise RuntimeError("combine_device_tensors: tensors must not be empty")
    device = given[0].buffer.device
    if device is None or any(t.buffer.device is not device for t in given):
        raise RuntimeError("combine_device_tensors: all tensors must be on one mesh")
    whole = getattr(given[0].buffer, "whole", None)
    if whole is not None and [getattr(t.buffer, "whole", None) for t in given] == [whole] * len(whole.values):
        if [t.buffer.index for t in given] == list(range(len(given))):
            return Tensor.of(given[0].spec, whole, None)  # taken apart and put together again: nothing moves
    return aggregate_parts(given)


def from_host_shards(tensors: Sequence[Tensor], mesh_shape: MeshShape) -> Tensor:
    """One host tensor of a mesh of shards, in row-major order of the mesh."""
    if len(tensors) != mesh_shape.mesh_size():
        raise RuntimeError(f"from_host_shards: {len(tensors)} tensors do not fill a mesh of shape {mesh_shape}")
    if any(t.buffer.device is not None for t in tensors):
        raise RuntimeError("from_host_shards: all tensors must be on the host")
    joined = aggregate_parts(tensors)
    # Official TT-NN notes them as slices of dimension 0 along one line, whatever they are.
    joined.topology = TensorTopology(MeshShape(mesh_shape.mesh_size()), (PlacementShard(0),), tuple(MeshCoordinateRange(mesh_shape)))
    return joined


aggregate_as_tensor = aggregate_parts
CppTensorToMesh = TensorToMesh
CppMeshToTensor = MeshToTensor


@contextmanager
def distribute(default: TensorToMesh | MeshToTensor) -> Iterator[None]:
    """Give `from_torch` a mapper, or `to_torch` a composer, for a block."""
    from ttnn.operations import conversion

    name = "default_mapper" if isinstance(default, TensorToMesh) else "default_composer"
    old = getattr(conversion, name)
    setattr(conversion, name, default)
    try:
        yield
    finally:
        setattr(conversion, name, old)


def using_distributed_env() -> bool:
    """Was this process started as one of several (torchrun)?"""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def _table(mesh_device: Device, cell: Callable[[int, MeshCoordinate], str], title: str) -> None:
    """A mesh as a table, one cell for each chip."""
    from rich.console import Console
    from rich.table import Table

    rows, columns = (1, *mesh_device.mesh_shape)[-2:]
    table = Table(title=title, show_header=False, show_lines=True)
    for _ in range(columns):
        table.add_column(justify="center")
    places = list(mesh_device.coordinates())
    for row in range(rows):
        table.add_row(*[cell(row * columns + k, places[row * columns + k]) for k in range(columns)])
    Console().print(table)


def visualize_mesh_device(mesh_device: Device) -> None:
    """Print the chips of a mesh where they are."""
    _table(mesh_device, lambda i, place: f"device {mesh_device.chips[i]}\n({', '.join(map(str, place))})", repr(mesh_device))


def create_system_mesh_table() -> Any:
    """The chips of the board where they are, as a `rich` table, whether or not any is open."""
    from rich.table import Table

    board = boards.current()
    rows, columns = board.mesh_shape
    table = Table(
        title=f"SystemMesh({board.name}), global shape {rows}x{columns}, local shape {rows}x{columns}", show_header=False, show_lines=True
    )
    for row in range(rows):
        table.add_row(*[f"device {row * columns + column}\n({row}, {column})" for column in range(columns)])
    return table


def visualize_system_mesh() -> None:
    """Print the chips of the board where they are."""
    from rich.console import Console

    Console().print(create_system_mesh_table())


def visualize_tensor(tensor: Tensor) -> None:
    """Print what each chip of a mesh holds of a tensor."""
    device = tensor.buffer.device
    if device is None:
        raise RuntimeError("visualize_tensor: the tensor is on the host; only tensors on a mesh can be shown on one")
    placed = tensor.topology.placed if tensor.topology is not None else ()
    _table(
        device,
        lambda i, place: f"device {device.chips[i]}\n({', '.join(map(str, place))})\n{tensor.spec.shape}",
        f"{tensor.spec.dtype.name}, {list(placed)}",
    )
