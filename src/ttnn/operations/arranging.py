"""Whole tensors rearranged or masked: roll, rotate, tril, triu, narrow, fills of corners and padding, partial sharding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import movement as engine
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig, ShardOrientation, TensorMemoryLayout
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.host_methods import with_padding
from ttnn.operations.memory import same, scheme_config
from ttnn.operations.reshaping import reshape
from ttnn.operations.rules import like, name_of, require, require_device
from ttnn.operations.slicing import slice_


@operation("ttnn.narrow", golden=lambda input_tensor, dim, start, length: input_tensor.narrow(dim, start, length))
def narrow(input_tensor: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A stretch of one dimension."""
    spec = input_tensor.spec
    rank = len(spec.dims)
    require(-rank <= dim < rank, f"narrow: Index is out of bounds for the rank, should be between 0 and {rank - 1} however dim is {dim}")
    along = dim % rank
    size = spec.dims[along]
    first = start + size if start < 0 else start
    require(
        first >= 0 and length > 0 and first + length <= size,
        f"narrow: Narrow length {length} out of bounds for dimension {along} with start index {start} and size {size}",
    )
    if first == 0 and length == size:
        return input_tensor
    if spec.layout == Layout.TILE and along >= rank - 2:
        name, edge = ("WIDTH", spec.tile.tile_shape[1]) if along == rank - 1 else ("HEIGHT", spec.tile.tile_shape[0])
        require(
            first % edge == 0 and length % edge == 0,
            f"narrow: Narrowing on {name.lower()} for TILE layout requires start and length to be multiples of TILE_{name} ({edge}), got start {start} and length {length}",
        )
    starts, ends = [0] * rank, list(spec.dims)
    starts[along], ends[along] = first, first + length
    return slice_(input_tensor, starts, ends)  # type: ignore[no-any-return]


def _golden_roll(input_tensor: torch.Tensor, shifts: Any, dim: Any = None, **_: Any) -> torch.Tensor:
    return torch.roll(input_tensor, shifts, dim)


@operation("ttnn.roll", golden=_golden_roll)
def roll(
    input_tensor: Tensor, shifts: int | Sequence[int], dim: int | Sequence[int] | None = None, *, memory_config: MemoryConfig | None = None
) -> Tensor:
    """Elements shifted along dimensions, those that fall off coming in on the other side."""
    require(input_tensor.buffer.device is not None, "roll: Device Operations expect device tensors as inputs, got one on the host")
    require_device("roll", input_tensor)
    spec = input_tensor.spec
    rank = len(spec.dims)
    by = [shifts] if isinstance(shifts, int) else list(shifts)
    along = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if dim is not None:
        require(len(by) == len(along), f"roll: Roll expects shifts {len(by)} and dims {len(along)} to have the same length")
    for d in along:
        require(-rank <= d < rank, f"roll: Invalid dimension index {d}. The dimension must be within the range [{-rank}, {rank - 1}].")
    places = tuple(d % rank for d in along)
    moves = any(s % spec.dims[d] for s, d in zip(by, places) if spec.dims[d]) if along else True
    edge = spec.layout == Layout.TILE and any(d >= rank - 2 for d in places)
    require(
        not (moves and edge and FORMATS[spec.dtype].is_block),
        f"roll: All Tensors should have same dtypes. {spec.dtype} cannot be rolled inside tiles",
    )
    require(
        not (moves and edge and spec.dtype == DataType.INT8),
        "roll: Can only tilize bfloat16/float32 or int32/uint32/uint16 or fp8_e4m3 tensors, got INT8",
    )
    if not moves:
        return input_tensor
    out = like(input_tensor, memory_config=memory_config)
    return launch(
        "RollDeviceOperation",
        engine.roll,
        [input_tensor],
        out,
        attributes={"shifts": tuple(by), "dims": places},
        programs=3 * max(1, len(along)),
    )  # type: ignore[no-any-return]


@operation("ttnn.rotate", golden=lambda input_tensor, angle, *, center=None, fill=0.0, interpolation_mode="nearest", **_: engine.rotate.torch(input_tensor, angle=angle, center=center, fill=fill, bilinear=interpolation_mode == "bilinear"))  # fmt: skip
def rotate(
    input_tensor: Tensor,
    angle: float,
    *,
    center: Sequence[float] | None = None,
    fill: float = 0.0,
    expand: bool = False,
    interpolation_mode: str = "nearest",
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """NHWC images turned by an angle in degrees, counterclockwise."""
    require_device("rotate", input_tensor)
    spec = input_tensor.spec
    require(len(spec.dims) == 4, f"rotate: input must be [N, H, W, C], got {spec.shape}")
    require(not expand, "rotate: expand=True is not supported; the output has the input's size")
    require(
        interpolation_mode in ("nearest", "bilinear"),
        f"rotate: interpolation_mode must be 'nearest' or 'bilinear', got {interpolation_mode!r}",
    )
    require(spec.layout == Layout.ROW_MAJOR, f"rotate: input must be in ROW_MAJOR layout, got {spec.layout}")
    attributes = {
        "angle": angle,
        "center": None if center is None else tuple(center),
        "fill": fill,
        "bilinear": interpolation_mode == "bilinear",
    }
    return launch(
        "RotateDeviceOperation", engine.rotate, [input_tensor], like(input_tensor, memory_config=memory_config), attributes=attributes
    )  # type: ignore[no-any-return]


def _triangle(what: str, tensor: Tensor, diagonal: int, memory_config: MemoryConfig | None) -> Tensor:
    """The chip multiplies by a mask of ones and zeros."""
    require_device(what, tensor)
    spec = tensor.spec
    rank = len(spec.dims)
    if spec.layout == Layout.ROW_MAJOR:
        require(rank >= 2, f"{what}: ShapeBase[] index out of range: a triangle of rows needs a matrix, got rank {rank}")
        require(
            all(d % 32 == 0 for d in spec.dims[-2:]),
            f"{what}: to_layout: Converting layout to Layout::TILE implicitly changed physical shape of {spec.shape}; pad the tensor to whole tiles",
        )
    require(
        spec.dtype != DataType.INT8,
        f"{what}: Input tensor A dtype {name_of(spec.dtype)} is not supported for binary operation BinaryOpType::MUL",
    )
    require(
        spec.dtype != DataType.UINT16,
        f"{what}: Mixed dtype is not supported for binary operation BinaryOpType::MUL, dtype A: {name_of(spec.dtype)}, dtype B: DataType::BFLOAT16",
    )
    config = memory_config if memory_config is not None else spec.memory_config
    out = like(tensor, layout=Layout.TILE, memory_config=config)
    return launch("BinaryNgDeviceOperation", engine.triangle, [tensor], out, attributes={"diagonal": diagonal, "lower": what == "tril"})  # type: ignore[no-any-return]


@operation("ttnn.tril", golden=lambda input_tensor, *, diagonal=0, **_: torch.tril(input_tensor, diagonal))
def tril(input_tensor: Tensor, *, diagonal: int = 0, memory_config: MemoryConfig | None = None) -> Tensor:
    """The lower triangle of each matrix."""
    return _triangle("tril", input_tensor, diagonal, memory_config)


@operation("ttnn.triu", golden=lambda input_tensor, *, diagonal=0, **_: torch.triu(input_tensor, diagonal))
def triu(input_tensor: Tensor, *, diagonal: int = 0, memory_config: MemoryConfig | None = None) -> Tensor:
    """The upper triangle of each matrix."""
    return _triangle("triu", input_tensor, diagonal, memory_config)


@operation("ttnn.fill_implicit_tile_padding", golden=lambda input_tensor, fill_value, **_: input_tensor)
def fill_implicit_tile_padding(input_tensor: Tensor, fill_value: float, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """The edges of tiles filled with a value."""
    require_device("fill_implicit_tile_padding", input_tensor)
    spec = input_tensor.spec
    if spec.shape == spec.padded_shape or spec.layout != Layout.TILE:
        return input_tensor
    require(spec.dtype not in (DataType.UINT8, DataType.INT8), f"fill_implicit_tile_padding: Unsupported datatype {name_of(spec.dtype)}")
    filled = launch(
        "FillPadDeviceOperation",
        same,
        [input_tensor],
        like(input_tensor, memory_config=memory_config),
        key=fill_value,
        programs=3 if FORMATS[spec.dtype].is_block else 1,
    )
    return with_padding(filled, fill_value)


def _corner(
    what: str,
    n: int,
    c: int,
    h: int,
    w: int,
    height: int,
    width: int,
    any_: Tensor,
    inside: float,
    outside: float,
    config: MemoryConfig | None,
) -> Tensor:
    require_device(what, any_)
    require(0 <= height <= h and 0 <= width <= w, f"{what}: the corner of {height}x{width} must lie within {h}x{w}")
    out = TensorSpec.of(
        Shape.of((n, c, h, w)), any_.spec.dtype, Layout.ROW_MAJOR, config if config is not None else any_.spec.memory_config
    )
    attributes = {"shape": (n, c, h, w), "height": height, "width": width, "inside": inside, "outside": outside}
    return launch("FillRmDeviceOperation", engine.corner, [any_], out, attributes=attributes)  # type: ignore[no-any-return]


def _golden_corner(N: int, C: int, H: int, W: int, hOnes: int, wOnes: int, any: Any, val_hi: float = 1.0, val_lo: float = 0.0, **_: Any) -> torch.Tensor:  # fmt: skip
    found = torch.full((N, C, H, W), val_lo)
    found[..., :hOnes, :wOnes] = val_hi
    return found


@operation("ttnn.fill_rm", golden=_golden_corner, renames={"any": "any_"})
def fill_rm(N: int, C: int, H: int, W: int, hOnes: int, wOnes: int, any_: Tensor, val_hi: float, val_lo: float, *, memory_config: MemoryConfig | None = None) -> Tensor:  # fmt: skip
    """Matrices of `val_lo` with a corner of `val_hi`."""
    return _corner("fill_rm", N, C, H, W, hOnes, wOnes, any_, val_hi, val_lo, memory_config)


@operation("ttnn.fill_ones_rm", golden=_golden_corner, renames={"any": "any_"})
def fill_ones_rm(
    N: int, C: int, H: int, W: int, hOnes: int, wOnes: int, any_: Tensor, *, memory_config: MemoryConfig | None = None
) -> Tensor:
    """Matrices of zeros with a corner of ones."""
    return _corner("fill_ones_rm", N, C, H, W, hOnes, wOnes, any_, 1.0, 0.0, memory_config)


@operation("ttnn.plus_one", golden=lambda input_tensor, *_, **__: input_tensor + 1)
def plus_one(input_tensor: Tensor, sub_core_grids: Any = None, skip_negative_entries: bool = False) -> Tensor:
    """One added to each entry, in place: the positions of a decoder."""
    require_device("plus_one", input_tensor)
    spec = input_tensor.spec
    require(
        spec.dtype in (DataType.INT32, DataType.UINT32),
        f"plus_one: Only INT32 and UINT32 is supported for inputs! Got {name_of(spec.dtype)}",
    )
    require(spec.layout == Layout.ROW_MAJOR, f"plus_one: input must be in ROW_MAJOR layout, got {spec.layout}")
    return launch(
        "PlusOneDeviceOperation",
        engine.plus_one,
        [input_tensor],
        spec,
        into=input_tensor,
        attributes={"skip_negative": skip_negative_entries},
    )  # type: ignore[no-any-return]


@operation("ttnn.reshape_on_device", golden=lambda input_tensor, W, Z, Y, X, **_: input_tensor.reshape(W, Z, Y, X))
def reshape_on_device(input_tensor: Tensor, W: int, Z: int, Y: int, X: int, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """The elements in a shape of four dimensions."""
    require_device("reshape_on_device", input_tensor)
    return reshape(input_tensor, [W, Z, Y, X], memory_config=memory_config)  # type: ignore[no-any-return]


# -- slices of a tensor to shards and back


def _slice_of(what: str, rows: int, num_slices: int, slice_index: int) -> tuple[int, int]:
    require(
        0 <= slice_index < num_slices, f"{what}: Slice index and num_slices don't match! Index = {slice_index} num_slices = {num_slices}"
    )
    require(rows % num_slices == 0, f"{what}: {rows} rows do not divide into {num_slices} slices")
    size = rows // num_slices
    return slice_index * size, size


def _rows(values: torch.Tensor, *, start: int, size: int) -> torch.Tensor:
    return values.reshape(-1, values.shape[-1])[start : start + size].reshape(1, 1, size, -1)


def _rows_into(values: torch.Tensor, cache: torch.Tensor, *, start: int) -> torch.Tensor:
    flat = cache.reshape(-1, cache.shape[-1]).clone()
    part = values.reshape(-1, values.shape[-1])
    flat[start : start + part.shape[0]] = part
    return flat.reshape(cache.shape)


def _golden_rows(input_tensor: torch.Tensor, grid: Any, shard_shape: Any, num_slices: int, slice_index: int, *_: Any, **__: Any) -> torch.Tensor:  # fmt: skip
    size = input_tensor.numel() // input_tensor.shape[-1] // num_slices
    return _rows(input_tensor, start=slice_index * size, size=size)


def _golden_rows_into(input_tensor: torch.Tensor, cache_tensor: torch.Tensor, num_slices: int, slice_index: int, **_: Any) -> torch.Tensor:
    size = cache_tensor.numel() // cache_tensor.shape[-1] // num_slices
    return _rows_into(input_tensor, cache_tensor, start=slice_index * size)


@operation("ttnn.interleaved_to_sharded_partial", golden=_golden_rows)
def interleaved_to_sharded_partial(
    input_tensor: Tensor,
    grid: Any,
    shard_shape: Sequence[int],
    num_slices: int,
    slice_index: int,
    shard_scheme: TensorMemoryLayout,
    shard_orientation: ShardOrientation,
    *,
    output_dtype: DataType | None = None,
) -> Tensor:
    """One slice of the rows, spread over cores in shards."""
    require_device("interleaved_to_sharded_partial", input_tensor)
    start, size = _slice_of("interleaved_to_sharded_partial", input_tensor.spec.physical_shape[0], num_slices, slice_index)
    part = like(input_tensor, shape=(1, 1, size, input_tensor.spec.dims[-1]), dtype=output_dtype)
    out = part.replace(memory_config=scheme_config(part, grid, shard_shape, shard_scheme, shard_orientation))
    return launch("InterleavedToShardedPartialDeviceOperation", _rows, [input_tensor], out, attributes={"start": start, "size": size})  # type: ignore[no-any-return]


@operation("ttnn.sharded_to_interleaved_partial", golden=_golden_rows_into)
def sharded_to_interleaved_partial(
    input_tensor: Tensor,
    cache_tensor: Tensor,
    num_slices: int,
    slice_index: int,
    *,
    memory_config: MemoryConfig | None = None,
    output_dtype: DataType | None = None,
) -> Tensor:
    """Shards written back as one slice of an interleaved tensor, in place."""
    require_device("sharded_to_interleaved_partial", input_tensor, cache_tensor)
    start, _ = _slice_of("sharded_to_interleaved_partial", cache_tensor.spec.physical_shape[0], num_slices, slice_index)
    return launch(
        "ShardedToInterleavedPartialDeviceOperation",
        _rows_into,
        [input_tensor, cache_tensor],
        cache_tensor.spec,
        into=cache_tensor,
        attributes={"start": start},
    )  # type: ignore[no-any-return]
