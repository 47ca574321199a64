"""More or fewer of the same: split, chunk, narrow, stack, repeat, repeat_interleave, expand, pad."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import movement as engine
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.memory.config import MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from tessera.memory.geometry import CoreRangeSet, rectangle
from tessera.memory.work import num_cores_to_corerangeset
from tessera.runtime.launch import launch, on_host
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.reshaping import reshape, unsqueeze
from ttnn.operations.rules import like, name_of, require, require_device, unsigned
from ttnn.operations.slicing import concat, slice_

#: What the kernels that untilize, work in rows and tilize again can take.
_NO_INT8 = "data type must be bfloat16, float32, uint32, int32, uint16, uint8, or fp8_e4m3"


def in_range(what: str, dim: int, rank: int) -> int:
    require(-rank <= dim < rank, f"{what}: Index is out of bounds for the rank, should be between 0 and {rank - 1} however dim is {dim}")
    return dim % rank


def _golden_split(input_tensor: torch.Tensor, split_size: int | Sequence[int], dim: int = 0, **_: Any) -> list[torch.Tensor]:
    return list(torch.split(input_tensor, split_size if isinstance(split_size, int) else list(split_size), dim))


@operation("ttnn.split", golden=_golden_split)
def split(
    input_tensor: Tensor, split_size: int | Sequence[int], dim: int = 0, *, memory_config: MemoryConfig | None = None
) -> list[Tensor]:
    """A tensor cut into parts along a dimension: of one size (the last may be smaller) or of given sizes."""
    dims = input_tensor.spec.dims
    along = in_range("split", dim, len(dims))
    size = dims[along]
    if isinstance(split_size, int):
        require(split_size > 0, f"split: split_size={split_size} must be positive")
        sizes = [min(split_size, size - k) for k in range(0, size, split_size)] or [0]
    else:
        sizes = list(split_size)
        total = sum(sizes)
        shown = "{" + ", ".join(map(str, sizes)) + "}"
        require(
            total <= size, f"split: split_sizes must sum exactly to the size of dimension {along} ({size}), but sizes {shown} over-cover it"
        )
        require(
            total >= size,
            f"split: split_sizes must sum exactly to the size of dimension {along} ({size}), but sizes {shown} under-cover it by {size - total}",
        )
    require_device("split", input_tensor)
    parts, start = [], 0
    for length in sizes:
        starts, ends = [0] * len(dims), list(dims)
        starts[along], ends[along] = start, start + length
        parts.append(slice_(input_tensor, starts, ends, memory_config=memory_config))
        start += length
    return parts


@operation("ttnn.chunk", golden=lambda input_tensor, chunks, dim: list(torch.chunk(input_tensor, chunks, dim)))
def chunk(input_tensor: Tensor, chunks: int, dim: int) -> list[Tensor]:
    """A tensor cut into a number of parts, as equal as can be."""
    require(input_tensor.buffer.device is not None, "chunk: Device Operations expect device tensors as inputs, got one on the host")
    dims = input_tensor.spec.dims
    require(-len(dims) <= dim < len(dims), f"chunk: Invalid dimension for chunk operation, {len(dims)} needs to be greater than {dim}")
    require(chunks > 0, f"chunk: chunks={chunks} must be positive")
    return split(input_tensor, max(1, math.ceil(dims[dim] / chunks)), dim)  # type: ignore[no-any-return]


@operation("ttnn.stack", golden=lambda input_tensors, dim: torch.stack(list(input_tensors), dim))
def stack(input_tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors of one shape side by side along a new dimension."""
    require(len(input_tensors) > 0, "stack: Stack expects at least one tensor")
    require_device("stack", *input_tensors[:8])
    if any(len(t.spec.dims) != len(input_tensors[0].spec.dims) for t in input_tensors):
        raise RuntimeError("stack: ShapeBase[] index out of range: all tensors must have the same rank")
    for t in input_tensors:
        require(
            t.spec.dims == input_tensors[0].spec.dims,
            "stack: All dimensions must be the same size except for the dimension along which the contenation is taking place."
            f" Got {input_tensors[0].spec.shape} and {t.spec.shape}",
        )
    return concat([unsqueeze(t, dim) for t in input_tensors], dim)  # type: ignore[no-any-return]


def _grown_shards(tensor: Tensor, shape: Sequence[int]) -> MemoryConfig:
    """Where a tensor that grew lies: in shards like those it had where their cores suffice, else over all cores of the device."""
    config, device = tensor.spec.memory_config, tensor.buffer.device
    shard = config.shard_spec
    if shard is None or device is None or not config.is_sharded():
        return config
    height, width = math.prod(shape[:-1]), shape[-1]
    layout, grid = config.memory_layout, device.grid
    if layout == TensorMemoryLayout.WIDTH_SHARDED:
        high, wide, fits = height, shard.shape[1], -(-width // shard.shape[1]) <= shard.num_cores()
        each = -(-width // 32 // (grid.x * grid.y)) * 32
        again = (num_cores_to_corerangeset(-(-width // each), grid, True), [height, each])
    elif layout == TensorMemoryLayout.HEIGHT_SHARDED:
        high, wide, fits = shard.shape[0], width, -(-height // shard.shape[0]) <= shard.num_cores()
        each = -(-height // 32 // (grid.x * grid.y)) * 32
        again = (num_cores_to_corerangeset(-(-height // each), grid, True), [each, width])
    else:
        size = shard.grid.bounding_box().grid_size()
        rows, columns = (size.y, size.x) if shard.orientation == ShardOrientation.ROW_MAJOR else (size.x, size.y)
        high, wide = shard.shape
        fits = -(-height // high) <= rows and -(-width // wide) <= columns
        tall, broad = -(-height // 32 // grid.y) * 32, -(-width // 32 // grid.x) * 32
        again = (CoreRangeSet([rectangle(0, 0, -(-width // broad) - 1, -(-height // tall) - 1)]), [tall, broad])
    if fits:
        return MemoryConfig(layout, config.buffer_type, ShardSpec(shard.grid, [high, wide], shard.orientation))
    return MemoryConfig(layout, config.buffer_type, ShardSpec(*again, ShardOrientation.ROW_MAJOR))


@operation("ttnn.repeat", golden=lambda input_tensor, repeat_dims, **_: input_tensor.repeat(tuple(repeat_dims)))
def repeat(
    input_tensor: Tensor,
    repeat_dims: Sequence[int],
    *,
    memory_config: MemoryConfig | None = None,
    optional_output_tensor: Tensor | None = None,
) -> Tensor:
    """The tensor again and again along each dimension."""
    require(input_tensor.buffer.device is not None, "repeat: Device Operations expect device tensors as inputs, got one on the host")
    require_device("repeat", input_tensor)
    times = [int(t) for t in repeat_dims]
    spec = input_tensor.spec
    rank = max(len(spec.dims), len(times))
    times = [1] * (rank - len(times)) + times
    dims = (1,) * (rank - len(spec.dims)) + spec.dims
    unsigned("repeat", "repeat_dims", *times)
    shape = [d * t for d, t in zip(dims, times)]
    config = memory_config if memory_config is not None else _grown_shards(input_tensor, shape)
    if all(t == 1 for t in times) and config == spec.memory_config and optional_output_tensor is None:
        return input_tensor if rank == len(spec.dims) else reshape(input_tensor, list(dims))
    out = like(input_tensor, shape=shape, memory_config=config)
    busy = sum(t != 1 for t in times)
    tiled = spec.layout == Layout.TILE
    edge = tiled and any(t != 1 for t in times[-2:])
    require(
        not edge or spec.dtype not in (DataType.INT8, DataType.BFLOAT4_B),
        f"repeat: data type must be bfloat16, float32, uint32, int32, uint16, uint8, or fp8_e4m3 to repeat within tiles, got {name_of(spec.dtype)}",
    )
    # Rows are what is repeated: tiles are untilized and tilized again unless only outer dimensions repeat.
    programs = (
        0 if 0 in times or not spec.volume else max(1, busy) + (2 if edge else 0) + (2 if FORMATS[spec.dtype].is_block and edge else 0)
    )
    return launch(
        "RepeatDeviceOperation",
        engine.repeat,
        [input_tensor],
        out,
        attributes={"times": tuple(times)},
        programs=programs,
        into=optional_output_tensor,
    )  # type: ignore[no-any-return]


@operation("ttnn.repeat_interleave", golden=lambda input_tensor, repeats, dim, **_: input_tensor.repeat_interleave(repeats, dim))
def repeat_interleave(input_tensor: Tensor, repeats: int, dim: int, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """Each slice along a dimension several times in a row."""
    spec = input_tensor.spec
    require_device("repeat_interleave", input_tensor)
    # A vector is a matrix of one row to the chip; whatever dimension is named, its elements repeat.
    along = in_range("repeat_interleave", dim, len(spec.dims)) if len(spec.dims) > 1 else 0
    require(repeats > 0, f"repeat_interleave: ttnn.concat: expected a non-empty list of Tensors! repeats={repeats} must be positive")
    require(spec.dtype != DataType.INT8, f"repeat_interleave: {_NO_INT8}, got INT8")
    dims = list(spec.dims)
    dims[along] *= repeats
    if memory_config is None and spec.is_sharded:
        memory_config = MemoryConfig()
    out = like(input_tensor, shape=dims, memory_config=memory_config)
    return launch(
        "ConcatDeviceOperation",
        engine.repeat_interleave,
        [input_tensor],
        out,
        attributes={"times": repeats, "dim": along},
        programs=3 + spec.is_sharded,
    )  # type: ignore[no-any-return]


def _golden_expand(input_tensor: torch.Tensor, output_shape: Sequence[int], **_: Any) -> torch.Tensor:
    return input_tensor.expand(tuple(output_shape))


@operation("ttnn.expand", golden=_golden_expand)
def expand(input_tensor: Tensor, output_shape: Sequence[int], *, memory_config: MemoryConfig | None = None) -> Tensor:
    """Dimensions of extent one repeated to a shape; -1 keeps a dimension."""
    spec = input_tensor.spec
    require_device("expand", input_tensor)
    wanted = [int(d) for d in output_shape]
    require(len(wanted) >= len(spec.dims), f"expand: output_shape={wanted} has fewer dimensions than the tensor's shape {spec.shape}")
    dims = (1,) * (len(wanted) - len(spec.dims)) + spec.dims
    shape = [d if w == -1 else w for d, w in zip(dims, wanted)]
    for d, w in zip(dims, shape):
        require(d in (1, w), f"expand: Only size 1 dimensions can be expanded in the output shape; {spec.shape} does not become {wanted}")
    return repeat(input_tensor, [w // d if d else 1 for d, w in zip(dims, shape)], memory_config=memory_config)  # type: ignore[no-any-return]


def _golden_pad(input_tensor: torch.Tensor, padding: Sequence[Sequence[int]], value: float, **_: Any) -> torch.Tensor:
    flat = [n for pair in reversed([tuple(p) for p in padding]) for n in pair]
    return torch.nn.functional.pad(input_tensor, flat, value=value)


@operation("ttnn.pad", golden=_golden_pad, renames={"output_padded_shape": "padding"})
def pad(
    input_tensor: Tensor,
    padding: Any,
    *args: Any,
    value: float | None = None,
    input_tensor_start: Any = None,
    use_multicore: bool = True,
    memory_config: MemoryConfig | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """A tensor in the middle of a box of one value: `pad(x, [(before, after), ...], value)` or `pad(x, shape, start, value)`."""
    spec = input_tensor.spec
    rank = len(spec.dims)
    given = list(args)
    if padding and isinstance(padding[0], int):
        start = input_tensor_start if input_tensor_start is not None else given.pop(0)
        require(
            len(padding) == rank == len(start),
            f"pad: output_padded_shape and input_tensor_start need {rank} entries, got {padding} and {start}",
        )
        pairs = [(int(s), int(p) - d - int(s)) for d, p, s in zip(spec.dims, padding, start)]
    else:
        pairs = [(int(a), int(b)) for a, b in padding]
        unsigned("pad", "padding", *(n for pair in pairs for n in pair))
        require(
            len(pairs) <= rank, f"pad: ttnn.pad: padding len can't be larger than input tensor rank, got {len(pairs)} pairs for rank {rank}"
        )
        pairs = [(0, 0)] * (rank - len(pairs)) + pairs
    fill = value if value is not None else (given.pop(0) if given else 0.0)
    # Tiles may lose what lies in their own padding: then the box is smaller than the tensor, but has no fewer tiles.
    tile = spec.tile.tile_shape if spec.layout == Layout.TILE else (1, 1)
    for at, (before_, after_) in enumerate(pairs):
        edge = tile[at - rank] if at >= rank - 2 else 1
        require(
            before_ >= 0 and -(-(spec.dims[at] + after_) // edge) >= -(-spec.dims[at] // edge),
            f"pad: padding={pairs} must not be negative",
        )
    if all(p == (0, 0) for p in pairs):
        return input_tensor
    if input_tensor.buffer.device is None:
        return _pad_on_host(input_tensor, pairs, fill)
    require_device("pad", input_tensor)
    tiled = spec.layout == Layout.TILE
    require(
        not tiled or all(a == 0 for a, _ in pairs),
        f"pad: ttnn.pad: on device tile padding does not support front padding, got {pairs} in TILE layout",
    )
    before, after = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    shape = [a + d + b for d, (a, b) in zip(spec.dims, pairs)]
    out = like(input_tensor, shape=shape, memory_config=memory_config if memory_config is not None else _grown_shards(input_tensor, shape))
    return launch("PadDeviceOperation", engine.pad, [input_tensor], out, attributes={"before": before, "after": after, "value": fill})  # type: ignore[no-any-return]


def _pad_on_host(tensor: Tensor, pairs: Sequence[tuple[int, int]], fill: float) -> Tensor:
    """On the host a pad makes a larger tensor. One of four dimensions keeps its shape, as the chip's older tensors do: only its padded shape grows, and
    what was put in front moves the rest back."""
    require(tensor.spec.layout == Layout.ROW_MAJOR, "pad: a tensor on the host can only be padded in ROW_MAJOR layout")
    before, after = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    shape = tuple(a + d + b for d, (a, b) in zip(tensor.spec.dims, pairs))
    four = len(shape) == 4
    out = tensor.spec.padded_to(shape) if four else like(tensor, shape=shape)
    return on_host(_padded_front if four else engine.pad, [tensor], out, before=before, after=after, value=fill)


def _padded_front(values: torch.Tensor, *, before: Sequence[int], after: Sequence[int], value: float) -> torch.Tensor:
    box: torch.Tensor = engine.pad(values, before=before, after=after, value=value)
    return box[tuple(slice(0, d) for d in values.shape)].contiguous()
