"""Several small tensors that share one buffer of the chip, and files of them.

A fused tensor is a container of bytes; each view says which of them it means and how to read them. An `.overlappedtensorbin` is
a `.tensorbin` of the fused tensor with the views beside it in the header.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tessera.files import describe, records, tensors
from tessera.files.container import check_name, open_file, save
from tessera.formats.dtype import DataType
from tessera.formats.tile import Tile
from tessera.memory.geometry import CoreRangeSet
from tessera.runtime.device import Device
from tessera.runtime.tensor import Tensor

EXTENSION = ".overlappedtensorbin"


def _pair(name: str, given: Sequence[int]) -> tuple[int, int]:
    pair = tuple(given)
    if len(pair) != 2 or not all(isinstance(n, int) and n >= 0 for n in pair):
        raise TypeError(f"OverlappedTensor: {name}={given!r} must be two non-negative integers")
    return pair[0], pair[1]


class OverlappedTensor:
    """A view of part of a fused tensor's bytes as a tensor of its own shape, dtype and tile."""

    __slots__ = ("byte_offset", "core_range_set", "dtype", "fused_tensor", "shard_shape", "tensor_shape", "tile_shape", "total_size")

    def __init__(
        self,
        fused_tensor: Tensor,
        tensor_shape: Sequence[int],
        shard_shape: Sequence[int],
        core_range_set: CoreRangeSet,
        dtype: DataType,
        tile_shape: Sequence[int],
        byte_offset: int = 0,
        total_size: int = 0,
    ) -> None:
        self.fused_tensor = fused_tensor
        self.tensor_shape = _pair("tensor_shape", tensor_shape)
        self.shard_shape = _pair("shard_shape", shard_shape)
        self.core_range_set = core_range_set
        self.dtype = dtype
        self.tile_shape = _pair("tile_shape", tile_shape)
        self.byte_offset = byte_offset
        self.total_size = total_size

    def get_tile(self) -> Tile:
        return Tile(self.tile_shape)

    def __repr__(self) -> str:
        return (
            f"OverlappedTensor(tensor_shape={self.tensor_shape}, shard_shape={self.shard_shape}, dtype={self.dtype}, "
            f"tile_shape={self.tile_shape}, byte_offset={self.byte_offset}, total_size={self.total_size})"
        )


def _record(name: str, view: OverlappedTensor) -> records.OverlappedView:
    return records.OverlappedView(
        name,
        *view.tensor_shape,
        *view.shard_shape,
        describe.grid_record(view.core_range_set),
        describe.dtype_number(view.dtype),
        *view.tile_shape,
        view.byte_offset,
        view.total_size,
    )


def dump(path: Path, views: Mapping[str, OverlappedTensor]) -> None:
    """Write views of one fused tensor, and the fused tensor once."""
    check_name(path, EXTENSION)
    if not views:
        raise RuntimeError("dump_overlapped_tensors: views is empty; there is nothing to write")
    fused = next(iter(views.values())).fused_tensor
    for name, view in views.items():
        if view.fused_tensor is not fused and view.fused_tensor.buffer is not fused.buffer:
            raise RuntimeError(
                f"dump_overlapped_tensors: view {name!r} is of another fused tensor; All views must reference the same fused tensor"
            )
    record, buffers = tensors.tensor_record(tensors.stored(fused))
    save(path, records.OverlappedTensors(record, tuple(_record(name, view) for name, view in views.items())), buffers)


def load(path: Path, device: Device | None = None) -> dict[str, OverlappedTensor]:
    """The views of a file by name. They share one fused tensor, on `device` if one is given."""
    check_name(path, EXTENSION)
    file = open_file(path, "OverlappedTensors")
    where = f'Tensor file "{path}" is corrupt'
    if file.root.fused_tensor is None:
        raise RuntimeError(f"{where}: it has no fused tensor. Cannot validate tensor data; this most likely indicates data corruption.")
    found = tensors.contents(file, file.root.fused_tensor)
    fused = tensors.host_tensor(found) if device is None else tensors.to_device(found, device, path)
    views: dict[str, OverlappedTensor] = {}
    for record in file.root.views or ():
        if record.name is None or record.name in views:
            raise RuntimeError(f"{where}: a view has {'no name' if record.name is None else f'the name {record.name!r} of another'}")
        views[record.name] = _view(where, fused, record)
    return views


def _view(where: str, fused: Tensor, record: records.OverlappedView) -> OverlappedTensor:
    try:
        tile = Tile((record.tile_h, record.tile_w))
        grid, dtype = describe.grid_of(record.core_range_set), describe.dtype_of(record.dtype)
    except (RuntimeError, TypeError) as error:
        raise RuntimeError(f"{where}: view {record.name!r}: {error}") from error
    if record.byte_offset + record.total_size > fused.spec.image_size:
        raise RuntimeError(
            f"{where}: view {record.name!r} lies at bytes {record.byte_offset} to {record.byte_offset + record.total_size} of a fused tensor of "
            f"{fused.spec.image_size}"
        )
    shape, shard = (record.tensor_shape_h, record.tensor_shape_w), (record.shard_shape_h, record.shard_shape_w)
    return OverlappedTensor(fused, shape, shard, grid, dtype, tile.tile_shape, record.byte_offset, record.total_size)
