"""Other shapes for the same elements: reshape, view, permute, transpose, squeeze, unsqueeze.

Where the bytes on the chip would be the same, the result shares its input's memory and no program runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import movement as engine
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig, ShardSpec, TensorMemoryLayout
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import alias, launch, on_host
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, require, require_device
from ttnn.tensor import require_allocated


def resolved_shape(what: str, volume: int, shape: Sequence[int]) -> tuple[int, ...]:
    """A wanted shape with its -1 filled in."""
    dims = [int(d) for d in shape]
    holes = dims.count(-1)
    require(holes <= 1, f"{what}: Shape cannot have more than 1 elements that is set to -1! Shape used: {tuple(dims)}")
    require(all(d >= -1 for d in dims), f"{what}: Invalid arguments to reshape: negative extents in shape={dims}")
    if holes:
        rest = math.prod(d for d in dims if d != -1)
        require(rest > 0 and volume % rest == 0, f"{what}: Invalid arguments to reshape: {volume} elements do not fit shape={dims}")
        dims[dims.index(-1)] = volume // rest
    require(math.prod(dims) == volume, f"{what}: Invalid arguments to reshape: {volume} elements do not fit shape={dims}")
    return tuple(dims)


def same_bytes(spec: TensorSpec, dims: tuple[int, ...]) -> bool:
    """Would the chip hold the same bytes for this shape? Rows stay rows; in tiles, rows of tiles stay rows of tiles."""
    old = (1,) * (2 - len(spec.dims)) + spec.dims
    new = (1,) * (2 - len(dims)) + dims
    if old[-1] != new[-1]:
        return False
    if spec.layout == Layout.ROW_MAJOR:
        return True
    height = spec.tile.tile_shape[0]
    return old[-2] == new[-2] or (old[-2] % height == 0 and new[-2] % height == 0)


def reshaped_spec(spec: TensorSpec, dims: tuple[int, ...], memory_config: MemoryConfig | None) -> TensorSpec:
    """The spec of a reshaped tensor; shards follow the new physical shape."""
    config = spec.memory_config if memory_config is None else memory_config
    if memory_config is None and config.is_sharded() and config.shard_spec is None:
        return spec.replace(shape=Shape.of(dims), memory_config=MemoryConfig(buffer_type=config.buffer_type))
    if memory_config is None and config.is_sharded() and config.shard_spec is not None:
        flat = spec.replace(shape=Shape.of(dims), memory_config=MemoryConfig(buffer_type=config.buffer_type))
        if flat.physical_shape != spec.physical_shape:
            return flat.replace(memory_config=_resharded(spec, flat, config))
    return spec.replace(shape=Shape.of(dims), memory_config=config)


def _resharded(old: TensorSpec, new: TensorSpec, config: MemoryConfig) -> MemoryConfig:
    """The same scheme over the same cores for another physical shape."""
    shard = config.shard_spec
    assert shard is not None
    height, width = new.physical_shape
    unit = tuple(new.tile.tile_shape) if new.layout == Layout.TILE else (1, 1)

    def share(total: int, parts: int, step: int) -> int:
        return math.ceil(math.ceil(total / parts) / step) * step

    rows = math.ceil(old.physical_shape[0] / shard.shape[0])
    columns = math.ceil(old.physical_shape[1] / shard.shape[1])
    shape = {
        TensorMemoryLayout.HEIGHT_SHARDED: (share(height, rows, unit[0]), width),
        TensorMemoryLayout.WIDTH_SHARDED: (height, share(width, columns, unit[1])),
    }.get(config.memory_layout, (share(height, rows, unit[0]), share(width, columns, unit[1])))
    return MemoryConfig(config.memory_layout, config.buffer_type, ShardSpec(shard.grid, list(shape), shard.orientation))


def _golden_reshape(input_tensor: torch.Tensor, shape: Sequence[int], *_: Any, **__: Any) -> torch.Tensor:
    return input_tensor.reshape(tuple(shape))


@operation("ttnn.reshape", golden=_golden_reshape, renames={"logical_shape": "shape"})
def reshape(
    input_tensor: Tensor,
    shape: Sequence[int],
    padded_shape: Sequence[int] | None = None,
    *,
    memory_config: MemoryConfig | None = None,
    pad_value: float | None = None,
    reshape_tile_mode: Any = None,
    sub_core_grids: Any = None,
    skip_padding_fill: bool = False,
) -> Tensor:
    """The elements in another shape, in row-major order."""
    require_allocated(input_tensor, "reshape")
    spec = input_tensor.spec
    dims = resolved_shape("reshape", math.prod(spec.dims), tuple(shape))
    if input_tensor.buffer.device is None:
        return on_host(engine.reshape, [input_tensor], reshaped_spec(spec, dims, memory_config), shape=dims)
    out = reshaped_spec(spec, dims, memory_config)
    same_place = memory_config is None or memory_config == spec.memory_config
    if same_place and out.memory_config.memory_layout == spec.memory_config.memory_layout and same_bytes(spec, dims):
        return alias(input_tensor, out)
    block = FORMATS[spec.dtype].is_block
    if spec.layout == Layout.TILE:
        require(
            block or spec.dtype in (DataType.BFLOAT16, DataType.FLOAT32, DataType.INT32, DataType.UINT32),
            f"reshape: Can only work with bfloat16/float32 or int32/uint32 tensors in TILE layout, got {spec.dtype}",
        )
    # A block float goes through bfloat16; where rows are padded it is untilized on the way too.
    whole = all(d % 32 == 0 for d in (*spec.dims[-2:], *dims[-2:])) and len(dims) > 1
    programs = (3 if whole else 4) if block else 1
    if spec.is_sharded and spec.layout == Layout.ROW_MAJOR:
        programs = 3 if spec.memory_config.shard_spec is not None else 0
    return launch("ReshapeViewDeviceOperation", engine.reshape, [input_tensor], out, attributes={"shape": dims}, programs=programs)  # type: ignore[no-any-return]


@operation("ttnn.view", golden=_golden_reshape)
def view(input_tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """The same memory under another shape."""
    require(input_tensor.buffer.device is not None, "view: View requires the tensor be stored on device, use reshape instead")
    require_allocated(input_tensor, "view")
    return _view("view", input_tensor, shape)


def _view(what: str, tensor: Tensor, shape: Sequence[int]) -> Tensor:
    spec = tensor.spec
    dims = resolved_shape(what, math.prod(spec.dims), tuple(shape))
    old, new = spec.dims[-1] if spec.dims else 1, dims[-1] if dims else 1
    require(
        old == new,
        f"{what}: The last dimension can not change in view, attempting to change last dimension from {old} to {new}, use reshape instead",
    )
    if spec.layout == Layout.TILE:
        was, now = (1, *spec.dims)[-2], (1, *dims)[-2]
        require(same_bytes(spec, dims), f"{what}: Invalid second last dims for TILED reshape, from {was} to {now}, use reshape instead")
    return alias(tensor, reshaped_spec(spec, dims, None))


@operation("ttnn.experimental.view", golden=_golden_reshape)
def experimental_view(input_tensor: Tensor, *extents: Any, shape: Sequence[int] | None = None, **named: int) -> Tensor:
    """The same memory under another shape, given as one sequence or as N, C, H and W."""
    if shape is None:
        whole = len(extents) == 1 and not isinstance(extents[0], int)
        shape = extents[0] if whole else (*extents, *(named[letter] for letter in "NCHW" if letter in named))
    require(input_tensor.buffer.device is not None, "view: View requires the tensor be stored on device, use reshape instead")
    require_allocated(input_tensor, "experimental.view")
    dims = resolved_shape("experimental.view", math.prod(input_tensor.spec.dims), tuple(shape))
    out = reshaped_spec(input_tensor.spec, dims, None)
    size = input_tensor.spec.image_size
    require(
        out.image_size <= size,
        f"experimental.view: MeshBuffer must be large enough to hold the tensor: {size} B cannot show shape {dims}, which takes {out.image_size} B",
    )
    return alias(input_tensor, out)


# -- other orders of dimensions


def _transposed_config(spec: TensorSpec, out_dims: tuple[int, ...]) -> MemoryConfig:
    """Where a transposed matrix lives when nothing is said: shards turn with it."""
    config = spec.memory_config
    shard = config.shard_spec
    if not config.is_sharded() or shard is None:
        return config
    if config.memory_layout == TensorMemoryLayout.WIDTH_SHARDED:
        return MemoryConfig(buffer_type=config.buffer_type)
    height = config.memory_layout == TensorMemoryLayout.HEIGHT_SHARDED
    layout = TensorMemoryLayout.WIDTH_SHARDED if height else config.memory_layout
    return MemoryConfig(layout, config.buffer_type, ShardSpec(shard.grid, [shard.shape[1], shard.shape[0]], shard.orientation))


def _golden_permute(input_tensor: torch.Tensor, dims: Sequence[int], **_: Any) -> torch.Tensor:
    return input_tensor.permute(tuple(dims))


@operation("ttnn.permute", golden=_golden_permute)
def permute(input_tensor: Tensor, dims: Sequence[int], *, memory_config: MemoryConfig | None = None, pad_value: float = 0.0) -> Tensor:
    """The dimensions in another order."""
    spec = input_tensor.spec
    rank = len(spec.dims)
    require(input_tensor.buffer.device is not None, "permute: Tensor must already be on device, got one on the host")
    require_device("permute", input_tensor)
    require(
        len(dims) == rank,
        f"permute: The number of dimensions in the tensor input does not match the length of the desired ordering; the tensor has {rank}, dims={list(dims)}",
    )
    order = tuple(d + rank if d < 0 else d for d in dims)
    require(sorted(order) == list(range(rank)), f"permute: dims={list(dims)} must name each of the {rank} dimensions once")
    shape = [spec.dims[d] for d in order]
    if memory_config is None and rank >= 2 and order == (*range(rank - 2), rank - 1, rank - 2):
        memory_config = _transposed_config(spec, tuple(shape))
    out = like(input_tensor, shape=shape, memory_config=memory_config)
    # Only dimensions of extent one change places: the bytes are the same.
    moved = [d for d in order[: max(rank - 2, 0)] if spec.dims[d] != 1]
    if order[-2:] == tuple(range(rank))[-2:] and moved == sorted(moved) and out.memory_config == spec.memory_config:
        return alias(input_tensor, out)
    _no_narrow_float(spec, "permute")
    programs = 3 if FORMATS[spec.dtype].is_block and order[-2:] != (rank - 1, rank - 2) and order[-2:] != (rank - 2, rank - 1) else 1
    return launch("PermuteDeviceOperation", engine.permute, [input_tensor], out, attributes={"dims": order}, programs=programs)  # type: ignore[no-any-return]


def _no_narrow_float(spec: TensorSpec, what: str) -> None:
    require(
        spec.dtype != DataType.FP8_E4M3,
        f"{what}: FP8_E4M3 needs a 32-bit destination register, which this operation does not use (fp32_dest_acc_en=true in ComputeConfig)",
    )


def _golden_transpose(input_tensor: torch.Tensor, dim1: int, dim2: int, **_: Any) -> torch.Tensor:
    return input_tensor.transpose(dim1, dim2)


@operation("ttnn.transpose", golden=_golden_transpose)
def transpose(
    input_tensor: Tensor, dim1: int, dim2: int, *args: Any, memory_config: MemoryConfig | None = None, pad_value: float = 0.0
) -> Tensor:
    """Two dimensions changed for each other."""
    spec = input_tensor.spec
    rank = len(spec.dims)
    require(input_tensor.buffer.device is not None, "transpose: Device Operations expect device tensors as inputs, got one on the host")
    require_device("transpose", input_tensor)
    require(
        rank > 1 or spec.layout != Layout.TILE,
        f"transpose: Can't convert shape rank: {spec.shape} has rank {rank}, two dimensions change places",
    )
    for name, dim in (("dim1", dim1), ("dim2", dim2)):
        require(
            -rank <= dim < rank,
            f"transpose: Index is out of bounds for the rank, should be between 0 and {rank - 1} however {name} is {dim}",
        )
    first, second = sorted((dim1 % rank, dim2 % rank))
    if first == second:
        return input_tensor if memory_config is None else alias(input_tensor, like(input_tensor, memory_config=memory_config))
    dims = list(spec.dims)
    dims[first], dims[second] = dims[second], dims[first]
    if memory_config is None:
        memory_config = _transposed_config(spec, tuple(dims)) if (first, second) == (rank - 2, rank - 1) else spec.memory_config
    _no_narrow_float(spec, "transpose")
    out = like(input_tensor, shape=dims, memory_config=memory_config)
    return launch("TransposeDeviceOperation", engine.transpose, [input_tensor], out, attributes={"first": first, "second": second})  # type: ignore[no-any-return]


# -- dimensions of extent one


def _golden_unsqueeze(input_tensor: torch.Tensor, dim: int) -> torch.Tensor:
    return input_tensor.unsqueeze(dim)


@operation("ttnn.unsqueeze", golden=_golden_unsqueeze)
def unsqueeze(input_tensor: Tensor, dim: int) -> Tensor:
    """A new dimension of extent one."""
    rank = len(input_tensor.spec.dims)
    require(-rank - 1 <= dim <= rank, f"unsqueeze: Dimension out of range (expected to be in range of [{-rank - 1},{rank}], but got {dim})")
    at = dim + rank + 1 if dim < 0 else dim
    dims = list(input_tensor.spec.dims)
    return reshape(input_tensor, [*dims[:at], 1, *dims[at:]])  # type: ignore[no-any-return]


def _golden_squeeze(input_tensor: torch.Tensor, dim: int | Sequence[int] | None = None) -> torch.Tensor:
    return input_tensor.squeeze() if dim is None else input_tensor.squeeze(dim if isinstance(dim, int) else tuple(dim))


@operation("ttnn.squeeze", golden=_golden_squeeze)
def squeeze(input_tensor: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Dimensions of extent one left out: all of them, or those that are named."""
    dims = input_tensor.spec.dims
    rank = len(dims)
    named = range(rank) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    low, high = -max(rank, 1), max(rank, 1) - 1
    for d in named:
        require(low <= d <= high, f"squeeze: Dimension out of range (expected to be in range of [{low},{high}], but got {d})")
    gone = {d % max(rank, 1) for d in named}
    require(len(gone) == len(list(named)), f"squeeze: dim={dim} names a dimension twice")
    kept = [d for k, d in enumerate(dims) if k not in gone or d != 1]
    return input_tensor if len(kept) == rank else reshape(input_tensor, kept)  # type: ignore[no-any-return]


@operation("ttnn.unsqueeze_to_4D", golden=lambda tensor: tensor.reshape((1,) * (4 - tensor.dim()) + tuple(tensor.shape)))
def unsqueeze_to_4D(tensor: Tensor) -> Tensor:
    """Ones in front until there are four dimensions."""
    dims = tensor.spec.dims
    require(len(dims) <= 4, f"unsqueeze_to_4D: Tensor cannot be unsqueezed to 4D, its shape {tensor.spec.shape} has {len(dims)} dimensions")
    return tensor if len(dims) == 4 else reshape(tensor, [1] * (4 - len(dims)) + list(dims))  # type: ignore[no-any-return]
