"""Bytes of tensors as programs take them into their own hands: host buffers, and the shard that one core holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from tessera.formats.arguments import expect
from tessera.formats.shape import Shape
from tessera.memory.config import ShardOrientation, TensorMemoryLayout
from tessera.memory.geometry import CoreCoord
from tessera.memory.mesh import SINGLE, MeshCoordinate, MeshShape
from tessera.memory.spec import TensorSpec
from tessera.runtime.buffer import Buffer
from tessera.runtime.tensor import Tensor
from ttnn.host_methods import image_of, padded_values


class HostBuffer:
    """The bytes of one part of a host tensor."""

    __slots__ = ("_bytes",)

    def __init__(self, data: Any = b"") -> None:
        self._bytes = data if isinstance(data, torch.Tensor) else torch.frombuffer(bytearray(data), dtype=torch.uint8)

    def __len__(self) -> int:
        return self._bytes.numel()

    def __getitem__(self, index: int) -> int:
        return int(self._bytes[index])

    def __iter__(self) -> Iterator[int]:
        return iter(self._bytes.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array: np.ndarray[Any, Any] = self._bytes.numpy()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._bytes.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self._bytes.__dlpack_device__()


class DistributedHostBuffer:
    """The bytes of a host tensor, one buffer for each place of the mesh it was laid over."""

    __slots__ = ("_shape", "_tensor")

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        topology = tensor.topology or SINGLE
        shape = topology.distribution_shape()
        self._shape = shape if shape.dims() > 1 else MeshShape(1, shape.mesh_size())

    def shape(self) -> MeshShape:
        return self._shape

    def is_local(self, coord: MeshCoordinate) -> bool:
        """Whether the part at `coord` is in this process."""
        self._index(coord)
        return True

    def get_shard(self, coord: MeshCoordinate) -> HostBuffer | None:
        """The bytes at `coord`."""
        count = len(self._tensor.buffer.values)
        return HostBuffer(image_of(self._tensor, min(self._index(coord), count - 1)))

    def _index(self, coord: MeshCoordinate) -> int:
        expect("get_shard", "coord", coord, MeshCoordinate)
        if coord.dims() != self._shape.dims() or any(c >= d for c, d in zip(coord, self._shape)):
            raise RuntimeError(f"Coordinate {coord} is out of bounds for shape {self._shape}")
        index = 0
        for c, d in zip(coord, self._shape):
            index = index * d + c
        return index


def host_buffer(tensor: Tensor) -> DistributedHostBuffer:
    """The tensor's bytes; it must be on the host."""
    if tensor.buffer.device is not None:
        raise RuntimeError("Tensor must be on host to access host_buffer, got storage type StorageType::DEVICE; call .cpu() first")
    return DistributedHostBuffer(tensor)


def extract_shard(tensor: Tensor, core: Any = None, *, core_id: int | None = None) -> Tensor:
    """What one core holds of a sharded device tensor, as a host tensor: the core by its place, or by its number among the shards."""
    if tensor.buffer.device is None:
        raise RuntimeError("extract_shard: Expected Tensor with DeviceStorage, got StorageType::HOST; move the tensor to a device first")
    if not tensor.buffer.allocated:
        raise RuntimeError("extract_shard: Tensor is not allocated. It was deallocated and cannot be used any more")
    tensor.buffer.device.require_open("extract_shard")
    if tensor.buffer.device.trace is not None:
        raise RuntimeError("Reads are not supported during trace capture. extract_shard was called while capturing")
    spec = tensor.spec
    shard = spec.memory_config.shard_spec
    if shard is None:
        raise RuntimeError(
            f"extract_shard: the tensor has no two-dimensional shards, its memory layout is {spec.memory_config.memory_layout}"
        )
    row_wise = shard.orientation is ShardOrientation.ROW_MAJOR
    cores = shard.grid.cores(row_wise)
    number = core if core_id is None else core_id
    if not isinstance(number, int):
        place = CoreCoord.of(core, "extract_shard", "core")
        if place not in cores:
            raise RuntimeError(f"extract_shard: core={place} holds no shard, the shard grid is {shard.grid}")
        number = cores.index(place)
    if not 0 <= number < len(cores):
        raise RuntimeError(f"extract_shard: core_id={number} is not in [0, {len(cores)}), the shard grid is {shard.grid}")
    height, width = shard.shard
    down, across = number, 0
    if spec.memory_config.memory_layout is TensorMemoryLayout.WIDTH_SHARDED:
        down, across = 0, number
    elif spec.memory_config.memory_layout is TensorMemoryLayout.BLOCK_SHARDED:
        first, at = shard.grid.bounding_box().start, cores[number]
        down, across = (at.y - first.y, at.x - first.x) if row_wise else (at.x - first.x, at.y - first.y)
    matrix = padded_values(tensor).reshape(spec.physical_shape)
    piece = matrix[down * height : (down + 1) * height, across * width : (across + 1) * width]
    whole = torch.zeros((1, 1, height, width), dtype=piece.dtype)
    whole[0, 0, : piece.shape[0], : piece.shape[1]] = piece
    made = TensorSpec.of(Shape.of((1, 1, height, width)), spec.dtype, spec.layout, None, spec.tile)
    return Tensor.of(made, Buffer(made, [whole]))


METHODS = {"extract_shard": extract_shard, "host_buffer": host_buffer}
