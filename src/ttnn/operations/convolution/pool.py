"""Pooling: largest or mean of windows, over images as rows of channels; the result is spread over cores as the chip's halo kernels leave it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import pooling as engine
from tessera.engine import reduction
from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import BufferType, MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from tessera.memory.geometry import CoreRangeSet, rectangle
from tessera.memory.sharding import round_up
from tessera.memory.spec import TensorSpec
from tessera.memory.work import num_cores_to_corerangeset
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.convolution.conv import four, output_size, pair
from ttnn.operations.rules import require, require_device

HEIGHT, WIDTH, BLOCK = TensorMemoryLayout.HEIGHT_SHARDED, TensorMemoryLayout.WIDTH_SHARDED, TensorMemoryLayout.BLOCK_SHARDED
#: Channels that a row of a shard is rounded up to.
LANE = 16


def spread(tensor: Tensor, rows: int, channels: int, layout: Layout, asked: TensorMemoryLayout | None, strided: bool) -> MemoryConfig:
    """How the windows' results lie over the cores: by rows where there are many, by channels where there are few."""
    assert tensor.buffer.device is not None
    grid = tensor.buffer.device.grid
    cores = grid.x * grid.y
    lane = 32 if layout == Layout.TILE else LANE
    unit = 32 if layout == Layout.TILE else 1
    scheme = asked
    if scheme is None:
        given = tensor.spec.memory_config
        if given.is_sharded():
            scheme = given.memory_layout
        elif channels > 32 and not strided and rows > cores:
            scheme = BLOCK
        elif (strided and rows < 64) or channels > 64:
            scheme = BLOCK if tensor.spec.layout == Layout.TILE and not strided else WIDTH
        else:
            scheme = HEIGHT
    width = round_up(channels, lane)
    if scheme == HEIGHT:
        height = round_up(math.ceil(rows / cores), unit)
        used = num_cores_to_corerangeset(math.ceil(rows / height), grid, True)
        shape = [height, width]
    elif scheme == WIDTH:
        used = num_cores_to_corerangeset(min(cores, width // lane), grid, True)
        shape = [round_up(rows, unit), round_up(math.ceil(width / (width // lane)), lane)]
    else:
        columns = min(grid.x, width // (32 if asked is None and width >= 64 else lane))
        height = round_up(math.ceil(rows / grid.y), unit)
        used = CoreRangeSet([rectangle(0, 0, columns - 1, math.ceil(rows / height) - 1)])
        shape = [height, round_up(math.ceil(width / columns), lane)]
    return MemoryConfig(scheme, BufferType.L1, ShardSpec(used, shape, ShardOrientation.ROW_MAJOR))


def _output(
    tensor: Tensor,
    batch: int,
    size: tuple[int, int],
    channels: int,
    dtype: DataType,
    layout: Layout,
    memory_config: MemoryConfig | None,
    asked: TensorMemoryLayout | None,
    strided: bool,
) -> TensorSpec:
    rows = batch * size[0] * size[1]
    config = memory_config if memory_config is not None else spread(tensor, rows, channels, layout, asked, strided)
    spec = TensorSpec.of(Shape.of((1, 1, rows, channels)), dtype, layout)
    lane = 32 if layout == Layout.TILE else LANE
    padded = round_up(channels, lane)
    if config.is_sharded() and spec.padded_shape[-1] != padded:
        shard = config.shard_spec
        assert shard is not None
        return TensorSpec.of(Shape.of((1, 1, rows, channels)), dtype, layout, config, alignment=(1, padded))
    return TensorSpec.of(Shape.of((1, 1, rows, channels)), dtype, layout, config)


def _check(
    what: str,
    tensor: Tensor,
    images: tuple[int, int, int, int],
    kernel: tuple[int, int],
    edges: tuple[int, int, int, int],
    size: tuple[int, int],
) -> None:
    require(tensor.buffer.device is not None, f"{what}: Device Operations expect device tensors as inputs, got one on the host")
    require_device(what, tensor)
    batch, height, width, channels = images
    rows = math.prod(tensor.spec.dims[:-1])
    require(
        rows >= batch * height * width and tensor.spec.dims[-1] == channels,
        f"{what}: input_tensor {tensor.spec.shape} does not hold {batch} images of {height}x{width} with {channels} channels",
    )
    require(
        max(edges[:2]) <= kernel[0] // 2 and max(edges[2:]) <= kernel[1] // 2,
        f"{what}: Pool2D: Padding {edges} should not exceed half of kernel size {kernel}",
    )
    require(
        size[0] > 0 and size[1] > 0,
        f"{what}: a window of {kernel} does not fit {height}x{width} images: DRAM Auto slice could not find valid slice configuration",
    )
    require(tensor.spec.dtype != DataType.FLOAT32, f"{what}: Only BFLOAT16 supported for now, got {tensor.spec.dtype}")


def _golden_max(
    input_tensor: torch.Tensor,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool = False,
    *,
    return_indices: bool = False,
    **_: Any,
) -> Any:
    kernel, step, wide, edges = pair(kernel_size), pair(stride), pair(dilation), four(padding)
    size = output_size(input_h, input_w, kernel, step, edges, wide, ceil_mode)
    return engine.max_pool2d.torch(
        input_tensor,
        images=(batch_size, input_h, input_w, channels),
        size=size,
        kernel=kernel,
        stride=step,
        padding=edges,
        dilation=wide,
        indices=return_indices,
    )


def _golden_avg(
    input_tensor: torch.Tensor,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    **_: Any,
) -> Any:
    kernel, step, edges = pair(kernel_size), pair(stride), four(padding)
    size = output_size(input_h, input_w, kernel, step, edges, (1, 1), ceil_mode)
    return engine.avg_pool2d.torch(
        input_tensor,
        images=(batch_size, input_h, input_w, channels),
        size=size,
        kernel=kernel,
        stride=step,
        padding=edges,
        count_padding=count_include_pad,
        divisor=divisor_override,
    )


def _golden_adaptive(largest: bool) -> Any:
    def golden(
        input_tensor: torch.Tensor, batch_size: int, input_h: int, input_w: int, channels: int, output_size: Sequence[int], **_: Any
    ) -> Any:
        images = (batch_size, input_h, input_w, channels)
        return engine.adaptive_pool2d.torch(input_tensor, images=images, size=pair(output_size), largest=largest)

    return golden


@operation("ttnn.max_pool2d", golden=_golden_max, planned=False)
def max_pool2d(
    input_tensor: Tensor,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool = False,
    *,
    memory_config: MemoryConfig | None = None,
    dram_slice_config: Any = None,
    applied_shard_scheme: TensorMemoryLayout | None = None,
    compute_kernel_config: Any = None,
    deallocate_input: bool = False,
    reallocate_halo_output: bool = True,
    return_indices: bool = False,
    dtype: DataType = DataType.BFLOAT16,
    output_layout: Layout = Layout.ROW_MAJOR,
    config_tensor_in_dram: bool = False,
) -> Any:
    """The largest of each window."""
    kernel, step, wide, edges = pair(kernel_size), pair(stride), pair(dilation), four(padding)
    images = (batch_size, input_h, input_w, channels)
    size = output_size(input_h, input_w, kernel, step, edges, wide, ceil_mode)
    _check("max_pool2d", input_tensor, images, kernel, edges, size)
    strided = step != (1, 1)
    out = _output(input_tensor, batch_size, size, channels, dtype, output_layout, memory_config, applied_shard_scheme, strided)
    attributes = {
        "images": images,
        "size": size,
        "kernel": kernel,
        "stride": step,
        "padding": edges,
        "dilation": wide,
        "indices": return_indices,
    }
    programs = _programs(input_tensor, memory_config)
    outs = [out, out.replace(dtype=DataType.UINT16)] if return_indices else out
    result = launch("Pool2D", engine.max_pool2d, [input_tensor], outs, attributes=attributes, programs=programs)
    if deallocate_input:
        input_tensor.buffer.free()
    return result


def _programs(tensor: Tensor, memory_config: MemoryConfig | None) -> int:
    """Reshard, halo, pool; and out of shards where that is asked."""
    return 4 + (memory_config is not None and not memory_config.is_sharded()) - 2 * tensor.spec.is_sharded


@operation("ttnn.avg_pool2d", golden=_golden_avg, planned=False)
def avg_pool2d(
    input_tensor: Tensor,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    memory_config: MemoryConfig | None = None,
    dram_slice_config: Any = None,
    applied_shard_scheme: TensorMemoryLayout | None = None,
    compute_kernel_config: Any = None,
    deallocate_input: bool = False,
    reallocate_halo_output: bool = True,
    dtype: DataType = DataType.BFLOAT16,
    output_layout: Layout = Layout.ROW_MAJOR,
    config_tensor_in_dram: bool = False,
) -> Tensor:
    """The mean of each window."""
    kernel, step, edges = pair(kernel_size), pair(stride), four(padding)
    images = (batch_size, input_h, input_w, channels)
    size = output_size(input_h, input_w, kernel, step, edges, (1, 1), ceil_mode)
    _check("avg_pool2d", input_tensor, images, kernel, edges, size)
    out = _output(input_tensor, batch_size, size, channels, dtype, output_layout, memory_config, applied_shard_scheme, step != (1, 1))
    attributes = {
        "images": images, "size": size, "kernel": kernel, "stride": step, "padding": edges,
        "count_padding": count_include_pad, "divisor": divisor_override,
    }  # fmt: skip
    result: Tensor = launch(
        "Pool2D", engine.avg_pool2d, [input_tensor], out, attributes=attributes, programs=_programs(input_tensor, memory_config)
    )
    if deallocate_input:
        input_tensor.buffer.free()
    return result


def _adaptive(
    what: str,
    tensor: Tensor,
    images: tuple[int, int, int, int],
    output: Sequence[int],
    memory_config: MemoryConfig | None,
    asked: TensorMemoryLayout | None,
) -> Tensor:
    size = pair(output)
    _check(what, tensor, images, (images[1], images[2]), (0, 0, 0, 0), size)
    largest = what == "adaptive_max_pool2d"
    whole = size == (1, 1) and not largest
    config = MemoryConfig() if whole and memory_config is None else memory_config
    out = _output(tensor, images[0], size, images[3], DataType.BFLOAT16, Layout.ROW_MAJOR, config, asked, True)
    attributes = {"images": images, "size": size, "largest": largest}
    programs = (1 + (images[3] % 32 != 0)) if whole else 4
    return launch("Pool2D", engine.adaptive_pool2d, [tensor], out, attributes=attributes, programs=programs)  # type: ignore[no-any-return]


@operation("ttnn.adaptive_avg_pool2d", golden=_golden_adaptive(False), planned=False)
def adaptive_avg_pool2d(
    input_tensor: Tensor,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    output_size: Sequence[int],
    *,
    memory_config: MemoryConfig | None = None,
    dram_slice_config: Any = None,
    applied_shard_scheme: TensorMemoryLayout | None = None,
    compute_kernel_config: Any = None,
    deallocate_input: bool = False,
    reallocate_output: bool = True,
) -> Tensor:
    """Means over as many windows as asked."""
    return _adaptive(
        "adaptive_avg_pool2d", input_tensor, (batch_size, input_h, input_w, channels), output_size, memory_config, applied_shard_scheme
    )


@operation("ttnn.adaptive_max_pool2d", golden=_golden_adaptive(True), planned=False)
def adaptive_max_pool2d(
    input_tensor: Tensor,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    output_size: Sequence[int],
    *,
    memory_config: MemoryConfig | None = None,
    dram_slice_config: Any = None,
    applied_shard_scheme: TensorMemoryLayout | None = None,
    deallocate_input: bool = False,
    reallocate_output: bool = True,
) -> Tensor:
    """The largest of as many windows as asked."""
    return _adaptive(
        "adaptive_max_pool2d", input_tensor, (batch_size, input_h, input_w, channels), output_size, memory_config, applied_shard_scheme
    )


@operation("ttnn.global_avg_pool2d", is_cpp_operation=False)
def global_avg_pool2d(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None, dtype: DataType | None = None) -> Tensor:
    """The mean of each channel over a whole [N, H, W, C] image: [N, 1, 1, C]."""
    require_device("global_avg_pool2d", input_tensor)
    spec = input_tensor.spec
    require(len(spec.dims) == 4, f"global_avg_pool2d: input must be [N, H, W, C], got {spec.shape}")
    batch, _, _, channels = spec.dims
    out = spec.replace(shape=Shape.of((batch, 1, 1, channels)), dtype=dtype, memory_config=memory_config)
    return launch("Pool2D", reduction.mean, [input_tensor], out, attributes={"dims": (1, 2), "keepdim": True})  # type: ignore[no-any-return]
