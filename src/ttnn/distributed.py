"""Tensors over meshes: how a torch tensor is cut and spread over chips, and put together again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tessera.formats.dtype import DataType, Layout
from tessera.formats.tile import Tile
from tessera.memory.config import MemoryConfig
from tessera.memory.mesh import MeshShape, Placement, PlacementReplicate, PlacementShard, TensorTopology
from tessera.runtime.buffer import Buffer
from tessera.runtime.device import Device
from tessera.runtime.tensor import Tensor
from ttnn.tensor import host_tensor, spec_for


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


def replicated(device: Device) -> TensorTopology:
    """The topology of a tensor that every chip of a mesh holds whole."""
    return TensorTopology(MeshShape(device.num_chips), (PlacementReplicate(),), tuple(device.coordinates()))


def distributed_tensor(
    tensor: torch.Tensor,
    dtype: DataType,
    layout: Layout | None,
    memory_config: MemoryConfig | None,
    tile: Tile | None,
    mapper: TensorToMesh,
) -> Tensor:
    """A host tensor with one part for each chip. Replicated parts are one object."""
    pieces = mapper.cut(tensor)
    made: dict[int, Tensor] = {}
    parts = []
    for piece in pieces:
        host = made.get(id(piece))
        if host is None:
            host = made[id(piece)] = host_tensor(piece.contiguous(), spec_for(piece.shape, dtype, layout, memory_config, tile))
        parts.append(host.values)
    spec = next(iter(made.values())).spec
    return Tensor.of(spec, Buffer(spec, list(parts), borrowed=True), mapper.topology())


def get_device_tensors(tensor: Tensor) -> list[Tensor]:
    """The tensor of each chip, as views of the same memory."""
    buffer = tensor.buffer
    if len(buffer.values) == 1:
        return [tensor]
    taken = []
    for index in range(len(buffer.values)):
        if buffer.device is not None and not buffer.device.drives(index):
            continue  # a chip of another process
        part = Buffer(buffer.spec, [buffer.part(index)], device=buffer.device)
        part.allocation = None
        taken.append(Tensor.of(tensor.spec, part, None))
    return taken


def aggregate_parts(tensors: Sequence[Tensor]) -> Tensor:
    """One mesh tensor of tensors that each hold one part."""
    first = tensors[0]
    if any(t.spec is not first.spec for t in tensors):
        raise RuntimeError("combine: all tensors must have the same spec")
    parts: list[Any] = list(itertools.chain.from_iterable(t.parts for t in tensors))
    buffer = Buffer(first.spec, parts) if first.buffer.device is None else first.buffer.device.new_buffer(first.spec, parts)
    return Tensor.of(first.spec, buffer, None)
