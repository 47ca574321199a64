"""conv3d of [N, D, H, W, C] volumes, and the matrix that its weights are to the chip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import convolution as engine
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.rounding import to_grid
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.device import Device
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.conversion import to_device
from ttnn.operations.rules import name_of, require, require_device


def _matrix(weight: torch.Tensor, channels: int, block: int) -> torch.Tensor:
    """[kd * kh * kw * channels, out] of [out, in/groups, kd, kh, kw]: channels filled with zeros, and block after block of them where asked."""
    outs, ins = weight.shape[:2]
    filled = torch.nn.functional.pad(weight.permute(2, 3, 4, 1, 0), (0, 0, 0, channels - ins))
    if block:
        filled = filled.reshape(*filled.shape[:3], channels // block, block, outs).permute(3, 0, 1, 2, 4, 5)
    return filled.reshape(-1, outs)


def _kernel(matrix: torch.Tensor, kernel: Sequence[int], channels: int, block: int) -> torch.Tensor:
    """The other way."""
    outs = matrix.shape[1]
    if block:
        return matrix.reshape(channels // block, *kernel, block, outs).permute(5, 0, 4, 1, 2, 3).reshape(outs, channels, *kernel)
    return matrix.reshape(*kernel, channels, outs).permute(4, 3, 0, 1, 2)


@operation("ttnn.experimental.prepare_conv3d_weights", planned=False)
def prepare_conv3d_weights(
    *, weight_tensor: Tensor, groups: int = 1, C_in_block: int = 0, alignment: int = 32, device: Device | None = None
) -> Tensor:
    """[out, in/groups, kd, kh, kw] as the matrix that `conv3d` reads, its channels filled up to `alignment`."""
    what, spec = "prepare_conv3d_weights", weight_tensor.spec
    require(len(spec.dims) == 5, f"{what}: weight_tensor must be [out, in/groups, kd, kh, kw], got {spec.shape}")
    require(alignment > 0, f"{what}: alignment={alignment} must be positive")
    channels = -(-spec.dims[1] // alignment) * alignment
    require(
        C_in_block == 0 or channels % C_in_block == 0, f"{what}: C_in_block={C_in_block} must divide the {channels} channels of a group"
    )
    values = _matrix(weight_tensor.part(0), channels, C_in_block).contiguous()
    out = TensorSpec.of(Shape.of(tuple(values.shape)), spec.dtype, Layout.TILE)
    made = Tensor.on_host(out, [to_grid(values, spec.dtype)])
    return made if device is None else to_device.function(made, device)  # type: ignore[no-any-return]


@operation("ttnn.experimental.conv3d")
def conv3d(
    *,
    input_tensor: Tensor,
    weight_tensor: Tensor,
    device: Device | None = None,
    bias_tensor: Tensor | None = None,
    config: Any = None,
    dtype: DataType,
    output_channels: int,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (1, 1, 1),
    padding: Sequence[int] = (0, 0, 0),
    dilation: Sequence[int] = (1, 1, 1),
    padding_mode: str = "zeros",
    groups: int = 1,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    halo_buffer: Tensor | None = None,
    logical_h_mask: int = 0,
    logical_w_mask: int = 0,
    pad_offset_tensor: Tensor | None = None,
    output_pad_h: int = 0,
    output_pad_w: int = 0,
    weight_lo_tensor: Tensor | None = None,
) -> Tensor:
    """A three-dimensional convolution; weights as a matrix, or as torch has them."""
    what, spec = "conv3d", input_tensor.spec
    require_device(what, input_tensor)
    for name, value in {
        "halo_buffer": halo_buffer, "logical_h_mask": logical_h_mask, "logical_w_mask": logical_w_mask, "pad_offset_tensor": pad_offset_tensor,
        "output_pad_h": output_pad_h, "output_pad_w": output_pad_w, "weight_lo_tensor": weight_lo_tensor,
    }.items():  # fmt: skip
        require(not value, f"{what}: {name} belongs to volumes that are spread over chips, which Tessera does not convolve")
    require(len(spec.dims) == 5, f"{what}: Activation tensor must have 5 dimensions, [N, D, H, W, C]; got {spec.shape}")
    require(spec.layout == Layout.ROW_MAJOR, f"{what}: Activation tensor must be row-major, got {spec.layout}")
    require(FORMATS[dtype].is_float, f"{what}: dtype must be a float, got {name_of(dtype)}")
    require(padding_mode in ("zeros", "replicate"), f"{what}: padding_mode={padding_mode!r} must be 'zeros' or 'replicate'")
    kernel, step, edges, wide = (tuple(int(n) for n in given) for given in (kernel_size, stride, padding, dilation))
    require(
        len(kernel) == len(step) == len(edges) == len(wide) == 3,
        f"{what}: kernel_size, stride, padding and dilation have an entry for depth, height and width",
    )
    channels = spec.dims[-1]
    require(
        channels % groups == 0 and output_channels % groups == 0,
        f"{what}: groups={groups} must divide the {channels} input channels and output_channels={output_channels}",
    )
    block, each = getattr(config, "C_in_block", 0), channels // groups
    require(block == 0 or each % block == 0, f"{what}: C_in_block={block} must divide the {each} channels of a group")
    whole = (output_channels, each, *kernel)
    rows = math.prod(kernel) * each
    given = weight_tensor.spec.dims
    require(
        given in (whole, (rows, output_channels)),
        f"{what}: weight_tensor of shape {weight_tensor.spec.shape} is neither the matrix [{rows}, {output_channels}] nor {list(whole)}",
    )
    inputs = [
        t if t.buffer.device is not None else to_device.function(t, input_tensor.buffer.device) for t in (weight_tensor, bias_tensor) if t
    ]
    size = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(spec.dims[1:4], kernel, step, edges, wide)]
    require(min(size) > 0, f"{what}: a kernel of {kernel} does not fit volumes of {list(spec.dims[1:4])} with padding={edges}")
    out = TensorSpec.of(
        Shape.of((spec.dims[0], *size, output_channels)),
        dtype,
        getattr(config, "output_layout", Layout.ROW_MAJOR),
        memory_config if memory_config is not None else spec.memory_config,
    )
    attributes = {
        "kernel": kernel, "block": 0 if given == whole else block, "stride": step, "padding": edges, "dilation": wide, "groups": groups,
        "padding_mode": padding_mode,
    }  # fmt: skip
    return launch("Conv3dDeviceOperation", _convolved, [input_tensor, *inputs], out, attributes=attributes)  # type: ignore[no-any-return]


def _convolved(
    volumes: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *, kernel: Sequence[int], block: int, **words: Any
) -> torch.Tensor:
    if weight.dim() == 2:
        weight = _kernel(weight, kernel, weight.shape[0] // math.prod(kernel), block)
    result: torch.Tensor = engine.conv3d(volumes, weight, bias, **words)
    return result
