"""What unary operations share: the spec of the output, ready-made outputs, and the launch of a program of steps."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine.unary import Program, elementwise_unary
from tessera.formats.dtype import FORMATS, DataType
from tessera.memory.config import MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from tessera.memory.geometry import CoreCoord, CoreRange, CoreRangeSet
from tessera.memory.sharding import div_up, round_up
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.operations.activations import check_float8, check_only, check_whole
from ttnn.operations.rules import require, require_device


def inherited(config: MemoryConfig) -> MemoryConfig:
    """The memory config of an input as an output takes it over: in its two-dimensional form where it has one."""
    if config.created_with_nd_shard_spec and config.shard_spec is not None:
        return MemoryConfig(config.memory_layout, config.buffer_type, config.shard_spec)
    return config


def placed(asked: MemoryConfig | None, *inputs: Tensor, dims: tuple[int, ...] | None = None) -> MemoryConfig:
    """Where an output of shape `dims` (that of the first input unless said) goes: where the caller says, else with the first sharded input, else with the
    first. A sharded config without a shard takes the shard of the first sharded input, or is dealt to all cores."""
    sharded = next((t.spec for t in inputs if t.spec.is_sharded), None)
    if asked is not None and (not asked.is_sharded() or asked.shard_spec is not None or asked.nd_shard_spec is not None):
        return asked
    if sharded is None:
        return inputs[0].spec.memory_config if asked is None else _dealt(asked, inputs[0], dims)
    config = inherited(sharded.memory_config)
    shard = config.shard_spec
    if dims is not None and dims != sharded.dims and shard is not None:
        shard = _scaled(shard, sharded, sharded.replace(shape=dims, memory_config=INTERLEAVED))
    if asked is None:
        return config if shard is config.shard_spec else MemoryConfig(config.memory_layout, config.buffer_type, shard)
    return asked if shard is None else MemoryConfig(asked.memory_layout, asked.buffer_type, shard)


INTERLEAVED = MemoryConfig()
TILE = 32


def _scaled(shard: ShardSpec, given: TensorSpec, made: TensorSpec) -> ShardSpec:
    """A shard that grows with the tensor, where broadcasting makes a larger one of it."""
    if not given.volume:
        return shard
    (height, width), (from_height, from_width), (to_height, to_width) = shard.shape, given.physical_shape, made.physical_shape
    shape = [max(height * to_height // from_height, TILE), max(width * to_width // from_width, TILE)]
    return shard if shape == [height, width] else ShardSpec(shard.grid, shape, shard.orientation)


def _dealt(asked: MemoryConfig, tensor: Tensor, dims: tuple[int, ...] | None) -> MemoryConfig:
    """A sharded config over all cores of the device."""
    device = tensor.buffer.device
    if device is None:
        return asked
    spec = tensor.spec if dims is None else tensor.spec.replace(shape=dims)
    (height, width), (columns, rows) = spec.physical_shape, device.board.compute_grid
    if asked.memory_layout == TensorMemoryLayout.HEIGHT_SHARDED:
        height = _share(height, rows * columns)
    elif asked.memory_layout == TensorMemoryLayout.WIDTH_SHARDED:
        width = _share(width, rows * columns)
    else:
        height, width = _share(height, rows), _share(width, columns)
    grid = CoreRangeSet([CoreRange(CoreCoord(0, 0), CoreCoord(columns - 1, rows - 1))])
    return MemoryConfig(asked.memory_layout, asked.buffer_type, ShardSpec(grid, [height, width], ShardOrientation.ROW_MAJOR))


def _share(length: int, cores: int) -> int:
    """What one core gets of a length, in whole tiles."""
    return round_up(div_up(length, cores), TILE)


def check_ready(tensor: Tensor, output: Tensor | None) -> None:
    """A ready-made output has the shape and the layout of the input; its dtype and memory are its own."""
    if output is None:
        return
    require_device("Unary", output)
    require(
        output.spec.dims == tensor.spec.dims,
        f"Unary: Preallocated output shape must match computed shape. Computed: {tensor.spec.shape}, Preallocated: {output.spec.shape}",
    )
    require(
        output.spec.layout == tensor.spec.layout,
        f"Unary: Output format (tile/row-major) must match input when preallocated. output_tensor is in {output.spec.layout}, the input in {tensor.spec.layout}",
    )


def output_spec(tensor: Tensor, memory_config: MemoryConfig | None, dtype: DataType | None = None) -> TensorSpec:
    config = placed(memory_config, tensor)
    if config is tensor.spec.memory_config and dtype is None:
        return tensor.spec
    return tensor.spec.replace(memory_config=config, dtype=dtype)


def with_width(attributes: dict[str, Any], spec: TensorSpec, *inputs: Tensor) -> dict[str, Any]:
    """Says so where a result of bfloat16 values is stored in another format: it must then not be rounded to bfloat16 on the way."""
    if spec.dtype != DataType.BFLOAT16 and any(FORMATS[t.spec.dtype].values is torch.bfloat16 for t in inputs):
        attributes["wide"] = True
    return attributes


def run_unary(
    name: str,
    tensor: Tensor,
    op_types: tuple[str, ...],
    program: Program,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    *,
    dtype: DataType | None = None,
    programs: int = 1,
    device_operation: str = "UnaryDeviceOperation",
) -> Tensor:
    """Check what the chip refuses of these steps, then run them as one device operation."""
    require_device(name, tensor)
    for op_type in op_types:
        check_whole(op_type, tensor.spec.dtype)
        check_only(op_type, tensor.spec.dtype)
    check_float8(tensor.spec.dtype)
    check_ready(tensor, output_tensor)
    spec = output_tensor.spec if output_tensor is not None else output_spec(tensor, memory_config, dtype)
    result: Any = launch(
        device_operation,
        elementwise_unary,
        [tensor],
        spec,
        attributes=with_width({"program": program}, spec, tensor),
        into=output_tensor,
        programs=programs,
    )
    return result  # type: ignore[no-any-return]
