"""conv1d, conv2d and conv_transpose2d, with their prepared weights.

Images come as [1, 1, N*H*W, C] or [N, H, W, C]; results are rows of channels in tiles. Weights are [out, in/groups, kh, kw] on the host or the device, or
prepared ones that an earlier call or `prepare_conv_weights` gave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import convolution as engine
from tessera.engine.choice import EngineFunction
from tessera.engine.unary import Program
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import BufferType, MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from tessera.memory.geometry import CoreRangeSet, rectangle
from tessera.memory.spec import TensorSpec
from tessera.memory.work import num_cores_to_corerangeset
from tessera.runtime.device import Device
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.activations import as_steps
from ttnn.operations.circular import require_circular_room
from ttnn.operations.conversion import to_device
from ttnn.operations.convolution.weights import Form, Rows, flat_bias, is_prepared, kernel_of, prepared
from ttnn.operations.rules import require
from ttnn.tensor import require_allocated


def four(padding: int | Sequence[int]) -> tuple[int, int, int, int]:
    """(top, bottom, left, right) of [h, w] or [top, bottom, left, right]."""
    given = [padding, padding] if isinstance(padding, int) else list(padding)
    if len(given) == 2:
        return given[0], given[0], given[1], given[1]
    require(len(given) == 4, f"padding={given} must be [height, width] or [top, bottom, left, right]")
    return given[0], given[1], given[2], given[3]


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    given = [value, value] if isinstance(value, int) else list(value)
    return given[0], given[1]


def _on_device(tensor: Tensor, device: Device) -> Tensor:
    require_allocated(tensor, "conv2d")
    return tensor if tensor.buffer.device is not None else to_device.function(tensor, device)  # type: ignore[no-any-return]


def _check_images(what: str, x: Tensor, batch: int, height: int, width: int, channels: int) -> None:
    rows = math.prod(x.spec.dims[:-1])
    given = x.spec.dims[-1] if x.spec.dims else 1
    require(
        rows >= batch * height * width and given >= channels,
        f"{what}: Attempting to reshape between two shapes with different volumes: input_tensor {x.spec.shape} holds no"
        f" {batch} images of {height}x{width} with {channels} channels",
    )
    require(
        given == channels or -(-given // 32) == -(-channels // 32),
        f"{what}: Attempting to reshape between two shapes with different volumes: input_tensor has {given} channels, in_channels={channels}",
    )


def _fused(conv_config: Any) -> Program:
    activation = getattr(conv_config, "activation", None)
    return as_steps(activation) if activation is not None else ()


def _run(
    what: str,
    compute: EngineFunction,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    device: Device,
    *,
    form: Form,
    images: tuple[int, int, int, int],
    size: tuple[int, int],
    dtype: DataType | None,
    conv_config: Any,
    memory_config: MemoryConfig | None,
    attributes: dict[str, Any],
    matmul: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """(the result, the weights as prepared, the bias as prepared)."""
    batch, height, width, channels = images
    _check_images(what, x, batch, height, width, channels)
    given_channels = x.spec.dims[-1]
    if matmul:
        require(
            given_channels == channels,
            f"{what}: The width of the first tensor must be equal to the height of the second tensor. Mismatch: width={given_channels} height={channels}",
        )
    require(
        given_channels == channels or x.spec.layout == Layout.TILE,
        f"{what}: Attempting to reshape between two shapes with different volumes: {x.spec.shape}",
    )
    require(
        size[0] > 0 and size[1] > 0,
        f"{what}: a kernel of {form.kernel} does not fit {height}x{width} images: DRAM Auto slice could not find valid slice configuration",
    )
    x = _on_device(x, device)
    if not matmul:
        _check_room(what, x, form, batch * size[0] * size[1], conv_config, device)
    given = weight.spec.dtype
    weights_dtype = getattr(conv_config, "weights_dtype", None) or (DataType.BFLOAT16 if given == DataType.FLOAT32 else given)
    ready = is_prepared(weight, form)
    kernel = kernel_of(what, weight, form, weight.spec.dtype if ready else weights_dtype)
    kept = weight if ready else prepared(weight, kernel, form, weights_dtype, x.spec.layout, device)
    row = flat_bias(bias, weights_dtype, device) if bias is not None and bias.buffer.device is None else bias
    out_dtype = dtype or (x.spec.dtype if FORMATS[x.spec.dtype].is_float else DataType.BFLOAT16)
    out = TensorSpec.of(
        Shape.of((1, 1, batch * size[0] * size[1], form.outs)),
        out_dtype,
        Layout.TILE,
        memory_config if memory_config is not None else _shards(batch * size[0] * size[1], form, conv_config, device, matmul),
    )
    words = {
        **attributes,
        "images": images,
        "groups": 1 if form.dense else form.groups,
        "activation": _fused(conv_config),
        "kernel": Rows(kernel),
        # torch's bfloat16 kernels round to bfloat16, which is the last rounding only where that is the answer's format.
        "compute": compute if out_dtype is DataType.BFLOAT16 else compute.torch,
    }
    result = launch(
        "Conv2dDeviceOperation",
        _convolve,
        [x] if row is None else [x, row],
        out,
        attributes=words,
        key=(what, form, images, tuple(attributes.values()), words["activation"]),
        runtime=tuple(words),
        programs=_programs(x, words["activation"], conv_config, device, matmul),
    )
    return result, kept, row


def _programs(x: Tensor, activation: Program, conv_config: Any, device: Device, matmul: bool) -> int:
    """A product of tiles, or halo and convolution with the moves around them. Few rows in tiles are first made row-major."""
    tiled = x.spec.layout == Layout.TILE
    if matmul:
        return 2 - tiled + bool(activation) + (getattr(conv_config, "shard_layout", None) is not None)
    few = math.prod(x.spec.dims[:-1]) // 32 < device.grid.x * device.grid.y // 2
    return 5 + 2 * (tiled and few)


def _check_room(what: str, x: Tensor, form: Form, rows: int, conv_config: Any, device: Device) -> None:
    """The blocks that a config asks for must fit in L1. Images in DRAM are cut into slices until they do, so only those in L1 can be too large."""
    height = getattr(conv_config, "act_block_h_override", 0)
    if not height:
        return
    require(height % 32 == 0, f"{what}: act_block_h_override={height} must be a multiple of 32 rows")
    each = -(-rows // 32 // (device.grid.x * device.grid.y)) * 32
    if x.spec.memory_config.buffer_type != BufferType.L1 or each % height:
        return  # a height that does not divide a core's rows is not used
    high, line, wide = height // 32, -(-form.kernel[1] * form.ins // 32), -(-form.outs // 32)
    images = high * line * (2 if conv_config.enable_act_double_buffer else 1)
    weights = line * wide * (2 if conv_config.enable_weights_double_buffer else 1)
    require_circular_room(what, device, device.grid, (images + weights + high * wide) * 2048)


def _shards(rows: int, form: Form, conv_config: Any, device: Device, matmul: bool) -> MemoryConfig:
    """A product stays in the shards that its config asks for; what a halo made leaves them."""
    layout = getattr(conv_config, "shard_layout", None) if matmul else None
    if layout is None:
        return MemoryConfig()
    tiles, ins, outs = -(-rows // 32), -(-form.ins // 32), -(-form.outs // 32)
    if layout == TensorMemoryLayout.HEIGHT_SHARDED:
        each = -(-tiles // (device.grid.x * device.grid.y))
        cores = num_cores_to_corerangeset(-(-tiles // each), device.grid, True)
        return MemoryConfig(layout, BufferType.L1, ShardSpec(cores, [each * 32, outs * 32], ShardOrientation.ROW_MAJOR))
    each = -(-tiles // device.grid.y)
    across = -(-ins // -(-ins // device.grid.x))
    cores = CoreRangeSet([rectangle(0, 0, across - 1, -(-tiles // each) - 1)])
    return MemoryConfig(layout, BufferType.L1, ShardSpec(cores, [each * 32, -(-outs // across) * 32], ShardOrientation.ROW_MAJOR))


def _convolve(
    rows: torch.Tensor, bias: torch.Tensor | None = None, *, kernel: Rows, compute: EngineFunction, **attributes: Any
) -> torch.Tensor:
    result: torch.Tensor = compute(rows, kernel.values, bias, **attributes)
    return result


def _golden_conv2d(
    *,
    input_tensor: torch.Tensor,
    weight_tensor: torch.Tensor,
    batch_size: int,
    input_height: int,
    input_width: int,
    bias_tensor: torch.Tensor | None = None,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    **words: Any,
) -> torch.Tensor:
    images = (batch_size, input_height, input_width, weight_tensor.shape[1] * groups)
    result: torch.Tensor = engine.conv2d.torch(
        input_tensor, weight_tensor, bias_tensor, images=images, stride=stride, padding=four(padding), dilation=dilation, groups=groups
    )
    return result


@operation("ttnn.conv2d", golden=_golden_conv2d, planned=False)
def conv2d(
    *,
    input_tensor: Tensor,
    weight_tensor: Tensor,
    device: Device,
    in_channels: int,
    out_channels: int,
    batch_size: int,
    input_height: int,
    input_width: int,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    dtype: DataType | None = None,
    bias_tensor: Tensor | None = None,
    conv_config: Any = None,
    compute_config: Any = None,
    memory_config: MemoryConfig | None = None,
    slice_config: Any = None,
    return_output_dim: bool = False,
    return_weights_and_bias: bool = False,
) -> Any:
    """A two-dimensional convolution of NHWC images."""
    kernel, step, spread, edges = pair(kernel_size), pair(stride), pair(dilation), four(padding)
    require(
        0 < groups <= min(in_channels, out_channels),
        f"conv2d: groups={groups} must be from 1 to the channels, in_channels={in_channels} and out_channels={out_channels}",
    )
    matmul = (kernel, step, edges, groups) == ((1, 1), (1, 1), (0, 0, 0, 0), 1) and getattr(
        conv_config, "shard_layout", None
    ) != TensorMemoryLayout.WIDTH_SHARDED
    size = output_size(input_height, input_width, kernel, step, edges, spread)
    result, weights, bias = _run(
        "conv2d",
        engine.conv2d,
        input_tensor,
        weight_tensor,
        bias_tensor,
        device,
        form=Form(in_channels, out_channels, kernel, groups, lanes=1 if matmul else _lanes(device, in_channels)),
        images=(batch_size, input_height, input_width, in_channels),
        size=size,
        dtype=dtype,
        conv_config=conv_config,
        memory_config=memory_config,
        attributes={"stride": step, "padding": edges, "dilation": spread},
        matmul=matmul,
    )
    return _answer(result, size, weights, bias, return_output_dim, return_weights_and_bias)


def _lanes(device: Device, channels: int) -> int:
    """Cores that share the channels of row-major images: each takes some eights of them."""
    return max(1, min(device.grid.x, channels // 8))


def _answer(result: Tensor, size: Any, weights: Tensor, bias: Tensor | None, with_size: bool, with_weights: bool) -> Any:
    parts: list[Any] = [result]
    if with_size:
        parts.append(size)
    if with_weights:
        parts.append((weights, bias))
    return result if len(parts) == 1 else tuple(parts)


def output_size(
    height: int,
    width: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    edges: tuple[int, int, int, int],
    dilation: tuple[int, int],
    ceil: bool = False,
) -> tuple[int, int]:
    """How many places a window has, down and across; with `ceil`, the last may hang over the edge but must start inside."""
    top, bottom, left, right = edges
    sizes = []
    for length, k, s, before, after, d in zip((height, width), kernel, stride, (top, left), (bottom, right), dilation):
        room = length + before + after - d * (k - 1) - 1
        count = (-(-room // s) if ceil else room // s) + 1
        if ceil and (count - 1) * s >= length + before:
            count -= 1
        sizes.append(count)
    return sizes[0], sizes[1]


@operation("ttnn.conv1d", planned=False)
def conv1d(
    *,
    input_tensor: Tensor,
    weight_tensor: Tensor,
    device: Device,
    in_channels: int,
    out_channels: int,
    batch_size: int,
    input_length: int,
    kernel_size: int,
    stride: int = 1,
    padding: int | Sequence[int] = 0,
    dilation: int = 1,
    groups: int = 1,
    dtype: DataType | None = None,
    bias_tensor: Tensor | None = None,
    conv_config: Any = None,
    compute_config: Any = None,
    memory_config: MemoryConfig | None = None,
    slice_config: Any = None,
    return_output_dim: bool = False,
    return_weights_and_bias: bool = False,
) -> Any:
    """A one-dimensional convolution of [N, L, C] sequences: images one pixel high."""
    weight = weight_tensor
    if len(weight.spec.dims) == 3 or weight.spec.dims[2:] == (kernel_size, 1):
        values = weight.part(0).reshape(*weight.spec.dims[:2], 1, -1)
        spec = weight.spec.replace(shape=Shape.of(tuple(values.shape)))
        weight = Tensor.on_host(spec, [values.contiguous()])
    edges = (padding, padding) if isinstance(padding, int) else tuple(padding)
    kernel, step, spread = (1, kernel_size), (1, stride), (1, dilation)
    around = (0, 0, edges[0], edges[1])
    size = output_size(1, input_length, kernel, step, around, spread)
    result, weights, bias = _run(
        "conv1d",
        engine.conv2d,
        input_tensor,
        weight,
        bias_tensor,
        device,
        form=Form(in_channels, out_channels, kernel, groups),
        images=(batch_size, 1, input_length, in_channels),
        size=size,
        dtype=dtype,
        conv_config=conv_config,
        memory_config=memory_config,
        attributes={"stride": step, "padding": around, "dilation": spread},
        matmul=kernel_size == 1 and stride == 1 and around == (0, 0, 0, 0) and groups == 1,
    )
    return _answer(result, size[1], weights, bias, return_output_dim, return_weights_and_bias)


@operation("ttnn.conv_transpose2d", planned=False)
def conv_transpose2d(
    *,
    input_tensor: Tensor,
    weight_tensor: Tensor,
    device: Device,
    in_channels: int,
    out_channels: int,
    batch_size: int,
    input_height: int,
    input_width: int,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    output_padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    dtype: DataType | None = None,
    bias_tensor: Tensor | None = None,
    conv_config: Any = None,
    compute_config: Any = None,
    memory_config: MemoryConfig | None = None,
    dram_slice_config: Any = None,
    mirror_kernel: bool = True,
    return_output_dim: bool = False,
    return_weights_and_bias: bool = False,
) -> Any:
    """A transposed two-dimensional convolution of NHWC images; weights are [in, out/groups, kh, kw]."""
    kernel, step, spread, edges, more = pair(kernel_size), pair(stride), pair(dilation), four(padding), pair(output_padding)
    size = (
        (input_height - 1) * step[0] - edges[0] - edges[1] + spread[0] * (kernel[0] - 1) + more[0] + 1,
        (input_width - 1) * step[1] - edges[2] - edges[3] + spread[1] * (kernel[1] - 1) + more[1] + 1,
    )
    result, weights, bias = _run(
        "conv_transpose2d",
        engine.conv_transpose2d,
        input_tensor,
        weight_tensor,
        bias_tensor,
        device,
        form=Form(in_channels, out_channels, kernel, groups, True, mirror_kernel),
        images=(batch_size, input_height, input_width, in_channels),
        size=size,
        dtype=dtype,
        conv_config=conv_config,
        memory_config=memory_config,
        attributes={"stride": step, "padding": edges, "output_padding": more, "dilation": spread, "mirror": mirror_kernel},
        matmul=kernel == (1, 1) and step == (1, 1) and edges == (0, 0, 0, 0) and groups == 1,
    )
    return _answer(result, size, weights, bias, return_output_dim, return_weights_and_bias)
