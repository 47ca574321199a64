"""Moves: broadcasting, channels first and last, writing a slice in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tessera.engine import experimental as engine
from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import BufferType, MemoryConfig, ShardSpec, TensorMemoryLayout
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require, require_device


def _expand(values: torch.Tensor, *, shape: Sequence[int]) -> torch.Tensor:
    return values.expand(tuple(shape))


@operation("ttnn.experimental.broadcast_to", golden=lambda input, output_shape, **_: torch.broadcast_to(input, tuple(output_shape)))
def broadcast_to(input: Tensor, output_shape: Shape, *, memory_config: MemoryConfig | None = None, output: Tensor | None = None) -> Tensor:
    """The tensor repeated along its dimensions of one until it has the shape."""
    what, shape = "broadcast_to", tuple(int(d) for d in output_shape)
    require_device(what, input, output)
    require(
        len(input.spec.dims) <= len(shape), f"{what}: the input's rank {len(input.spec.dims)} must be at most the output's {len(shape)}"
    )
    for index in range(1, len(input.spec.dims) + 1):
        have, want = input.spec.dims[-index], shape[-index]
        require(
            have in (1, want),
            f"{what}: Input dimension -{index} (size {have}) cannot be broadcast to output dimension -{index} (size {want})",
        )
    out = like(input, shape=shape, memory_config=memory_config) if output is None else output.spec
    require(out.dims == shape, f"{what}: the output has shape {out.shape}, not {list(shape)}")
    return launch("BroadcastToDeviceOperation", _expand, [input], out, attributes={"shape": shape}, into=output)  # type: ignore[no-any-return]


def _turn(values: torch.Tensor, *, columns: int = 0) -> torch.Tensor:
    result = values.transpose(-1, -2)
    return torch.nn.functional.pad(result, (0, columns - result.shape[-1])) if columns > result.shape[-1] else result


@operation("ttnn.experimental.convert_to_chw", golden=lambda input, **_: input.transpose(-1, -2))
def convert_to_chw(input: Tensor, *, dtype: DataType | None = None) -> Tensor:
    """[1, 1, pixels, channels] in height shards as rows of channels, [1, 1, channels, pixels], in width shards."""
    what, spec = "convert_to_chw", input.spec
    require_device(what, input)
    require(
        len(spec.dims) == 4 and spec.dims[0] == spec.dims[1] == 1, f"{what}: the input must be [1, 1, pixels, channels], got {spec.shape}"
    )
    require(spec.layout == Layout.TILE, f"{what}: the input must be in TILE layout, got {spec.layout}")
    given = spec.memory_config.shard_spec
    require(
        given is not None and spec.memory_config.memory_layout == TensorMemoryLayout.HEIGHT_SHARDED,
        f"{what}: the input must be HEIGHT_SHARDED, got {name_of(spec.memory_config.memory_layout)}",
    )
    assert given is not None
    channels = spec.dims[-1]
    require(channels <= 32, f"{what}: at most 32 channels (one tile) are converted, got {channels}")
    shards = ShardSpec(given.grid, [channels, given.shape[0]], given.orientation)
    place = MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, BufferType.L1, shards)
    out = like(input, shape=(1, 1, channels, spec.dims[-2]), dtype=dtype, layout=Layout.ROW_MAJOR, memory_config=place)
    return launch("ConvertToCHWDeviceOperation", _turn, [input], out)  # type: ignore[no-any-return]


@operation("ttnn.experimental.convert_to_hwc", golden=lambda input, **_: input.transpose(-1, -2))
def convert_to_hwc(input: Tensor, *, memory_config: MemoryConfig | None = None, dtype: DataType | None = None) -> Tensor:
    """Rows of channels, [1, 1, channels, pixels], as [1, 1, pixels, channels]: channels filled with zeros to a multiple of eight."""
    what, spec = "convert_to_hwc", input.spec
    require_device(what, input)
    require(
        len(spec.dims) == 4 and spec.dims[0] == spec.dims[1] == 1, f"{what}: the input must be [1, 1, channels, pixels], got {spec.shape}"
    )
    require(spec.layout == Layout.ROW_MAJOR, f"{what}: the input must be in ROW_MAJOR layout, got {spec.layout}")
    given = spec.memory_config.shard_spec
    require(
        given is not None and spec.memory_config.memory_layout == TensorMemoryLayout.WIDTH_SHARDED,
        f"{what}: the input must be WIDTH_SHARDED, got {name_of(spec.memory_config.memory_layout)}",
    )
    assert given is not None
    channels = -(-spec.dims[-2] // 8) * 8
    place = memory_config
    if place is None or place.shard_spec is None:
        shards = ShardSpec(given.grid, [given.shape[1], channels], given.orientation)
        place = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1, shards)
    out = like(input, shape=(1, 1, spec.dims[-1], channels), dtype=dtype, memory_config=place)
    return launch("ConvertToHWCDeviceOperation", _turn, [input], out, attributes={"columns": channels})  # type: ignore[no-any-return]


@operation("ttnn.experimental.transpose_rm", golden=lambda input: input.transpose(-1, -2))
def transpose_rm(input: Tensor) -> Tensor:
    """The last two dimensions of a tensor in rows exchanged."""
    what, spec = "transpose_rm", input.spec
    require_device(what, input)
    require(spec.dtype in (DataType.FLOAT32, DataType.BFLOAT16), f"{what}: only Float32 and BFloat16 supported, got {name_of(spec.dtype)}")
    require(spec.layout == Layout.ROW_MAJOR, f"{what}: only ROW_MAJOR layout supported, got {spec.layout}")
    require(len(spec.dims) >= 2, f"{what}: the input must be a matrix, got {spec.shape}")
    return launch("TransposeRMDeviceOperation", _turn, [input], like(input, shape=(*spec.dims[:-2], spec.dims[-1], spec.dims[-2])))  # type: ignore[no-any-return]


def _golden_write(
    input_tensor: torch.Tensor, output_tensor: torch.Tensor, start: Sequence[int], end: Sequence[int], step: Sequence[int], **_: object
) -> torch.Tensor:
    return engine.write_slice(output_tensor.clone(), input_tensor, start=start, end=end, step=step, dtype="")


@operation("ttnn.experimental.slice_write", golden=_golden_write)
def slice_write(input_tensor: Tensor, output_tensor: Tensor, start: Sequence[int], end: Sequence[int], step: Sequence[int]) -> Tensor:
    """Write a tensor into a box of another, which is answered."""
    what, source, target = "slice_write", input_tensor.spec, output_tensor.spec
    require_device(what, input_tensor, output_tensor)
    rank = len(target.dims)
    require(
        len(start) == len(end) == len(step) == rank, f"{what}: start, end and step must have {rank} entries, got {start}, {end} and {step}"
    )
    require(source.dtype == target.dtype, f"{what}: input and output must have the same dtype, got {source.dtype} and {target.dtype}")
    require(source.layout == target.layout, f"{what}: input and output must have the same layout, got {source.layout} and {target.layout}")
    require(all(s > 0 for s in step), f"{what}: step={list(step)} must be positive")
    require(
        all(0 <= a <= b <= d for a, b, d in zip(start, end, target.dims)),
        f"{what}: start={list(start)} and end={list(end)} must lie inside the output's {target.shape}",
    )
    box = tuple(-(-(b - a) // s) for a, b, s in zip(start, end, step))
    require(source.dims == box, f"{what}: the input's shape {source.shape} must be that of the box, {list(box)}")
    attributes = {"start": tuple(start), "end": tuple(end), "step": tuple(step), "dtype": target.dtype.name}
    return launch(  # type: ignore[no-any-return]
        "SliceWriteDeviceOperation",
        engine.write_slice,
        [output_tensor, input_tensor],
        target,
        attributes=attributes,
        into=output_tensor,
        mutates=True,
    )
