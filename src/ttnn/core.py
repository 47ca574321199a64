"""TT-NN's small helpers: sharded memory configs, cores, questions about a tensor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from tessera.formats.dtype import FORMATS, TILE_SIZE, DataType, Layout
from tessera.formats.tile import DEFAULT_TILE
from tessera.memory.config import BufferType, MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from tessera.memory.geometry import CoreCoord, CoreGrid, CoreRange, CoreRangeSet
from tessera.memory.work import (
    grid_to_cores,
    num_cores_to_corerangeset,
    num_cores_to_corerangeset_in_subcoregrids,
    split_work_to_cores,
)
from ttnn.printing import set_printoptions
from ttnn.types import DEVICE_STORAGE_TYPE, ShardStrategy

if TYPE_CHECKING:
    from tessera.runtime.tensor import Tensor

_LAYOUTS = {
    ShardStrategy.HEIGHT: TensorMemoryLayout.HEIGHT_SHARDED,
    ShardStrategy.WIDTH: TensorMemoryLayout.WIDTH_SHARDED,
    ShardStrategy.BLOCK: TensorMemoryLayout.BLOCK_SHARDED,
}


def divup(a: int, b: int) -> int:
    return (a + b - 1) // b


def roundup(a: int, b: int) -> int:
    return b * divup(a, b)


def _grid_of(core_grid: Any, whole_shard: bool) -> tuple[CoreRangeSet, int, int]:
    """The cores of a grid, its rows and its columns."""
    if isinstance(core_grid, CoreGrid):
        return CoreRangeSet([CoreRange(CoreCoord(0, 0), CoreCoord(core_grid.x - 1, core_grid.y - 1))]), core_grid.y, core_grid.x
    if isinstance(core_grid, CoreRangeSet):
        if not whole_shard:
            raise RuntimeError(f"height and width must be shard shape with CoreRangeSet, got core_grid={core_grid}")
        return core_grid, 0, 0
    raise RuntimeError(f"Invalid core_grid type {type(core_grid).__name__}: core_grid must be a CoreGrid or a CoreRangeSet")


def _cut(layout: TensorMemoryLayout, orientation: ShardOrientation, rows: int, columns: int) -> tuple[int, int]:
    """Into how many parts height and width are cut."""
    if layout is TensorMemoryLayout.HEIGHT_SHARDED:
        return rows * columns, 1
    if layout is TensorMemoryLayout.WIDTH_SHARDED:
        return 1, rows * columns
    return (rows, columns) if orientation is ShardOrientation.ROW_MAJOR else (columns, rows)


def create_sharded_memory_config(
    shape: Any,
    core_grid: CoreGrid | CoreRangeSet,
    strategy: ShardStrategy,
    orientation: ShardOrientation | None = None,
    use_height_and_width_as_shard_shape: bool = False,
) -> MemoryConfig:
    """An L1 config that cuts a tensor of `shape` evenly over `core_grid`, or into shards of that very shape."""
    if not isinstance(strategy, ShardStrategy):
        raise RuntimeError(f"Invalid sharding strategy {strategy!r}: it must be a ttnn.ShardStrategy")
    turn = ShardOrientation.ROW_MAJOR if orientation is None else orientation
    if not isinstance(turn, ShardOrientation):
        raise RuntimeError(f"Invalid orientation {orientation!r}: it must be a ttnn.ShardOrientation")
    grid, rows, columns = _grid_of(core_grid, use_height_and_width_as_shard_shape)
    *batch, height, width = shape
    if use_height_and_width_as_shard_shape:
        shard = (height, width) if turn is ShardOrientation.ROW_MAJOR else (width, height)
    else:
        height *= math.prod(batch)
        down, across = _cut(_LAYOUTS[strategy], turn, rows, columns)
        if height % down or width % across:
            raise RuntimeError(
                f"Invalid sharding core_grid: {core_grid} cuts height={height} by {down} and width={width} by {across}, which leaves a rest"
            )
        shard = (height // down, width // across)
    return MemoryConfig(_LAYOUTS[strategy], BufferType.L1, ShardSpec(grid, shard, turn))


def create_sharded_memory_config_(
    shape: Any,
    core_grid: CoreGrid | CoreRangeSet,
    strategy: ShardStrategy | TensorMemoryLayout,
    orientation: ShardOrientation,
    use_height_and_width_as_shard_shape: bool = False,
    tile_layout: bool = False,
) -> MemoryConfig:
    """As `create_sharded_memory_config`, with what does not divide evenly rounded up, the height to whole tiles first."""
    layout = _LAYOUTS.get(strategy, strategy)  # type: ignore[call-overload]
    if not isinstance(layout, TensorMemoryLayout):
        raise RuntimeError(f"Invalid sharding strategy {strategy!r}: it must be a ttnn.ShardStrategy or a ttnn.TensorMemoryLayout")
    grid, rows, columns = _grid_of(core_grid, use_height_and_width_as_shard_shape)
    *batch, height, width = shape
    if use_height_and_width_as_shard_shape:
        if tile_layout and (height % TILE_SIZE or width % TILE_SIZE):
            raise RuntimeError(f"Incorrect tensor shape: a shard of {height}x{width} is not made of whole tiles")
        shard = (height, width) if orientation is ShardOrientation.ROW_MAJOR else (width, height)
    else:
        height *= math.prod(batch)
        down, across = _cut(layout, orientation, rows, columns)
        if tile_layout:
            height = roundup(height, TILE_SIZE)
        shard = (divup(height, down), divup(width, across))
    return MemoryConfig(layout, BufferType.L1, ShardSpec(grid, shard, orientation))


def has_storage_type_of(tensor: Tensor, storage_type: Any) -> bool:
    kind: Any = tensor.storage_type()  # type: ignore[attr-defined]
    return bool(kind == storage_type)


def is_tensor_storage_on_device(tensor: Tensor) -> bool:
    return has_storage_type_of(tensor, DEVICE_STORAGE_TYPE)


def is_sharded(tensor: Tensor) -> bool:
    return tensor.spec.is_sharded


def get_memory_config(tensor: Tensor, /) -> MemoryConfig | None:
    """Where a device tensor lives; None for a host tensor."""
    return tensor.spec.memory_config if is_tensor_storage_on_device(tensor) else None


def has_tile_padding(tensor: Tensor, *, dim: int | None = None) -> bool:
    """Whether a tensor is padded to whole tiles, in its last two dimensions or in `dim`."""
    spec = tensor.spec
    if len(spec.dims) < 2 or spec.layout is not Layout.TILE:
        return False
    pairs = list(zip(spec.dims, spec.padded_dims))
    if dim is not None:
        rank = len(pairs)
        if not -rank <= dim < rank:
            raise RuntimeError(f"has_tile_padding: dim={dim} is not in [{-rank}, {rank})")
        pairs = [pairs[dim]]
    return any(logical != padded for logical, padded in pairs[-2:])


#: What `to_torch` answers for a dtype: what its values are held in, but for those whose values are held in a wider or narrower torch dtype.
TORCH_OF_DTYPE: dict[DataType, torch.dtype] = {dtype: row.values for dtype, row in FORMATS.items()} | {
    DataType.BFLOAT8_B: torch.float32,
    DataType.BFLOAT4_B: torch.float32,
    DataType.FP8_E4M3: torch.float32,
    DataType.UINT32: torch.uint32,
    DataType.UINT16: torch.uint16,
}


def ttnn_dtype_to_torch_dtype(dtype: DataType) -> torch.dtype:
    """The torch dtype that `to_torch` gives."""
    if dtype not in TORCH_OF_DTYPE:
        raise RuntimeError(f"ttnn_dtype_to_torch_dtype: dtype={dtype} has no torch counterpart")
    return TORCH_OF_DTYPE[dtype]


def tile_size(dtype: DataType) -> int:
    """Bytes of a 32x32 tile."""
    return DEFAULT_TILE.get_tile_size(dtype)


def element_size(dtype: DataType) -> int:
    """Bytes of an element; block floats have no size of their own."""
    if dtype not in FORMATS:
        raise RuntimeError(f"element_size: dtype={dtype!r} is not a dtype that tensors can have")
    if FORMATS[dtype].is_block:
        raise ValueError(f"element_size: datum for bfp2, bfp4, bfp8 is invalid, an element of {dtype} shares its exponent with 15 others")
    return FORMATS[dtype].element_size


def get_conv_output_dim(input: int, window: int, stride: int = 1, pad: int = 0, dilation: int = 1) -> int:
    """Extent of a convolution's output along one dimension."""
    return (input + 2 * pad - dilation * (window - 1) - 1) // stride + 1


def dump_stack_trace_on_segfault() -> None:
    """Print Python's stack if the process should crash."""
    import faulthandler

    faulthandler.enable()


__all__ = [
    "create_sharded_memory_config",
    "create_sharded_memory_config_",
    "dump_stack_trace_on_segfault",
    "element_size",
    "get_conv_output_dim",
    "get_memory_config",
    "grid_to_cores",
    "has_storage_type_of",
    "has_tile_padding",
    "is_sharded",
    "is_tensor_storage_on_device",
    "num_cores_to_corerangeset",
    "num_cores_to_corerangeset_in_subcoregrids",
    "set_printoptions",
    "split_work_to_cores",
    "tile_size",
    "ttnn_dtype_to_torch_dtype",
]
