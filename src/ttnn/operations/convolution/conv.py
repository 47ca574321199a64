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
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.device import Device
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.activations import as_steps
from ttnn.operations.conversion import to_device
from ttnn.operations.rules import name_of, require
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


def _weights(weight: Tensor, shape: tuple[int, ...], kernel: tuple[int, int], ins: int, outs: int, groups: int) -> torch.Tensor:
    """The kernel as torch has it, whichever form was given."""
    values = weight.part(0)
    if tuple(values.shape) == shape:
        return values
    require(
        len(values.shape) == 4 and values.numel() >= kernel[0] * kernel[1] * ins * outs,
        f"conv2d: weight_tensor of shape {weight.spec.shape} is neither {list(shape)} nor weights prepared for this convolution",
    )
    return engine.unprepared(values[0, 0, : kernel[0] * kernel[1] * ins], kernel=kernel, ins=ins, outs=outs, groups=groups)


def _run(
    what: str,
    compute: EngineFunction,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    device: Device,
    *,
    shape: tuple[int, ...],
    images: tuple[int, int, int, int],
    outs: int,
    kernel: tuple[int, int],
    size: tuple[int, int],
    groups: int,
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
        f"{what}: a kernel of {kernel} does not fit {height}x{width} images: DRAM Auto slice could not find valid slice configuration",
    )
    x = _on_device(x, device)
    kernel_values = _weights(weight, shape, kernel, channels, outs, groups)
    weights_dtype = getattr(conv_config, "weights_dtype", None) or (
        DataType.BFLOAT16 if weight.spec.dtype == DataType.FLOAT32 else weight.spec.dtype
    )
    prepared = (
        weight
        if weight.buffer.device is not None and tuple(weight.part(0).shape) != shape
        else _prepare(kernel_values, weights_dtype, groups, x, device)
    )
    flat_bias = bias
    if bias is not None and bias.buffer.device is None:
        values = bias.part(0).reshape(1, 1, 1, -1)
        spec = TensorSpec.of(Shape.of(tuple(values.shape)), weights_dtype, Layout.TILE)
        flat_bias = to_device.function(Tensor.on_host(spec, [_rounded(values, spec)]), device)
    out_dtype = dtype or (x.spec.dtype if FORMATS[x.spec.dtype].is_float else DataType.BFLOAT16)
    out = TensorSpec.of(
        Shape.of((1, 1, batch * size[0] * size[1], outs)),
        out_dtype,
        Layout.TILE,
        memory_config if memory_config is not None else MemoryConfig(),
    )
    native = _rounded(kernel_values, prepared.spec)
    words = {
        **attributes,
        "images": images,
        "groups": groups,
        "activation": _fused(conv_config),
        "kernel": _Held(native),
        "compute": compute,
    }
    inputs = [x] if flat_bias is None else [x, flat_bias]
    result = launch(
        "Conv2dDeviceOperation",
        _convolve,
        inputs,
        out,
        attributes=words,
        key=(what, kernel, shape),
        runtime=("kernel",),
        programs=2 if matmul else 5,
    )
    return result, prepared, flat_bias


class _Held:
    """A kernel on its way through a launch; calls with other kernels of one shape are one program."""

    __slots__ = ("values",)

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values


def _convolve(
    rows: torch.Tensor, bias: torch.Tensor | None = None, *, kernel: _Held, compute: EngineFunction, **attributes: Any
) -> torch.Tensor:
    result: torch.Tensor = compute(rows, kernel.values, bias, **attributes)
    return result


def _rounded(values: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    from tessera.formats.rounding import to_grid

    return to_grid(values.contiguous(), spec.dtype)


def _prepare(kernel: torch.Tensor, dtype: DataType, groups: int, x: Tensor, device: Device) -> Tensor:
    """Weights on the device as the kernel reads them; rows of a kernel line are padded to whole tiles."""
    rows = engine.prepared(kernel, groups=groups)
    _, ins, height, width = kernel.shape
    channels = ins * groups
    spec = TensorSpec.of(Shape.of(tuple(rows.shape)), dtype, Layout.TILE)
    line = -(-width * channels // 32) * 32 * height if x.spec.layout == Layout.ROW_MAJOR else -(-channels // 32) * 32 * height * width
    if height * width > 1 and line != spec.padded_shape[-2]:
        spec = spec.padded_to((1, 1, line, spec.padded_shape[-1]))
    return Tensor.of(spec, device.new_buffer(spec, [_rounded(rows, spec)] * device.num_chips))


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
        in_channels % groups == 0 and out_channels % groups == 0,
        f"conv2d: groups={groups} must divide in_channels={in_channels} and out_channels={out_channels}",
    )
    size = output_size(input_height, input_width, kernel, step, edges, spread)
    result, weights, bias = _run(
        "conv2d",
        engine.conv2d,
        input_tensor,
        weight_tensor,
        bias_tensor,
        device,
        shape=(out_channels, in_channels // groups, *kernel),
        images=(batch_size, input_height, input_width, in_channels),
        outs=out_channels,
        kernel=kernel,
        size=size,
        groups=groups,
        dtype=dtype,
        conv_config=conv_config,
        memory_config=memory_config,
        attributes={"stride": step, "padding": edges, "dilation": spread},
        matmul=kernel == (1, 1) and step == (1, 1) and edges == (0, 0, 0, 0) and groups == 1,
    )
    return _answer(result, size, weights, bias, return_output_dim, return_weights_and_bias)


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
    """A one-dimensional convolution of [N, L, C] sequences: images one pixel high would be, turned: L down, one across."""
    weight = weight_tensor
    if len(weight.spec.dims) == 3:
        values = weight.part(0).unsqueeze(-1)
        spec = weight.spec.replace(shape=Shape.of(tuple(values.shape)))
        weight = Tensor.on_host(spec, [values.contiguous()])
    edges = (padding, padding) if isinstance(padding, int) else tuple(padding)
    kernel, step, spread = (kernel_size, 1), (stride, 1), (dilation, 1)
    around = (edges[0], edges[1], 0, 0)
    size = output_size(input_length, 1, kernel, step, around, spread)
    result, weights, bias = _run(
        "conv1d",
        engine.conv2d,
        input_tensor,
        weight,
        bias_tensor,
        device,
        shape=(out_channels, in_channels // groups, kernel_size, 1),
        images=(batch_size, input_length, 1, in_channels),
        outs=out_channels,
        kernel=kernel,
        size=size,
        groups=groups,
        dtype=dtype,
        conv_config=conv_config,
        memory_config=memory_config,
        attributes={"stride": step, "padding": around, "dilation": spread},
        matmul=kernel_size == 1 and stride == 1 and around == (0, 0, 0, 0) and groups == 1,
    )
    return _answer(result, size[0], weights, bias, return_output_dim, return_weights_and_bias)


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
        shape=(in_channels, out_channels // groups, *kernel),
        images=(batch_size, input_height, input_width, in_channels),
        outs=out_channels,
        kernel=kernel,
        size=size,
        groups=groups,
        dtype=dtype,
        conv_config=conv_config,
        memory_config=memory_config,
        attributes={"stride": step, "padding": edges, "output_padding": more, "dilation": spread, "mirror": mirror_kernel},
        matmul=kernel == (1, 1) and step == (1, 1) and edges == (0, 0, 0, 0) and groups == 1,
    )
    return _answer(result, size, weights, bias, return_output_dim, return_weights_and_bias)


def prepare_conv_weights(
    *, weight_tensor: Tensor, device: Device, groups: int = 1, conv_config: Any = None, input_layout: Layout = Layout.ROW_MAJOR, **_: Any
) -> Tensor:
    """Weights in the form that `conv2d` keeps on the device, made ahead of the first call."""
    require(
        len(weight_tensor.spec.dims) == 4,
        f"prepare_conv_weights: weight_tensor must be [out, in/groups, kh, kw], got {weight_tensor.spec.shape}",
    )
    dtype = getattr(conv_config, "weights_dtype", None) or weight_tensor.spec.dtype
    require(FORMATS[dtype].is_float, f"prepare_conv_weights: weights must be of a float dtype, got {name_of(dtype)}")
    like_input = Tensor.on_host(
        TensorSpec.of(Shape.of((1, 1, 1, 1)), DataType.BFLOAT16, input_layout), [torch.zeros(1, 1, 1, 1, dtype=torch.bfloat16)]
    )
    return _prepare(weight_tensor.part(0), dtype, groups, like_input, device)


def prepare_conv_bias(*, bias_tensor: Tensor, device: Device, conv_config: Any = None, **_: Any) -> Tensor:
    """A bias in the form that `conv2d` keeps on the device."""
    dtype = getattr(conv_config, "weights_dtype", None) or bias_tensor.spec.dtype
    values = bias_tensor.part(0).reshape(1, 1, 1, -1)
    spec = TensorSpec.of(Shape.of(tuple(values.shape)), dtype, Layout.TILE)
    return to_device.function(Tensor.on_host(spec, [_rounded(values, spec)]), device)  # type: ignore[no-any-return]
