"""The layers of networks among ONNX's operators: convolution, pooling, normalisation, softmax, resizing, attention, quantisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tessera.graph.frontends.onnx_ops import ints, op
from tessera.graph.ir import GraphError


def _paddings(x: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Any, auto_pad: str) -> list[int]:
    """ONNX's [begin..., end...] padding."""
    rank = len(kernel)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        begin, end = [], []
        for n, k, s, d in zip(x.shape[-rank:], kernel, strides, dilations):
            total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            small, large = total // 2, total - total // 2
            begin.append(small if auto_pad == "SAME_UPPER" else large)
            end.append(large if auto_pad == "SAME_UPPER" else small)
        return begin + end
    return list(pads) if pads is not None else [0] * (2 * rank)


def _padded(x: Tensor, pads: Sequence[int], value: float) -> tuple[Tensor, list[int]]:
    """Symmetric padding stays an argument; the rest is put around the tensor."""
    rank = len(pads) // 2
    if list(pads[:rank]) == list(pads[rank:]):
        return x, list(pads[:rank])
    flat = [p for d in reversed(range(rank)) for p in (pads[d], pads[d + rank])]
    return F.pad(x, flat, value=value), [0] * rank


@op("Conv")
def conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Tensor:
    rank = w.dim() - 2
    stride, dilation = list(strides or [1] * rank), list(dilations or [1] * rank)
    x, padding = _padded(x, _paddings(x, w.shape[2:], stride, dilation, pads, auto_pad), 0.0)
    return (F.conv1d, F.conv2d, F.conv3d)[rank - 1](x, w, b, stride, padding, dilation, group)


@op("ConvTranspose")
def conv_transpose(
    x: Tensor, w: Tensor, b: Tensor | None = None, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1, kernel_shape: Any = None,
    output_padding: Any = None, output_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    rank = w.dim() - 2
    if auto_pad != "NOTSET" or output_shape is not None or (pads is not None and list(pads[:rank]) != list(pads[rank:])):
        raise GraphError("ONNX ConvTranspose with auto_pad, output_shape or uneven pads is not supported")
    stride, dilation = list(strides or [1] * rank), list(dilations or [1] * rank)
    run = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    return run(x, w, b, stride, list(pads[:rank]) if pads else [0] * rank, list(output_padding or [0] * rank), group, dilation)


@op("MaxPool", count=True)
def max_pool(
    x: Tensor,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    pads: Any = None,
    strides: Any = None,
    storage_order: int = 0,
    outputs_: int = 1,
) -> Tensor:
    if outputs_ > 1:
        raise GraphError("ONNX MaxPool with its Indices output is not supported")
    rank = len(kernel_shape)
    stride, dilation = list(strides or [1] * rank), list(dilations or [1] * rank)
    x, padding = _padded(x, _paddings(x, kernel_shape, stride, dilation, pads, auto_pad), -math.inf)
    return (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1](x, list(kernel_shape), stride, padding, dilation, bool(ceil_mode))


@op("AveragePool")
def average_pool(
    x: Tensor,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Tensor:
    rank = len(kernel_shape)
    stride = list(strides or [1] * rank)
    run = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
    amounts = _paddings(x, kernel_shape, stride, [1] * rank, pads, auto_pad)
    if amounts[:rank] == amounts[rank:]:
        return run(x, list(kernel_shape), stride, amounts[:rank], bool(ceil_mode), bool(count_include_pad))
    wide, _ = _padded(x, amounts, 0.0)
    total = run(wide, list(kernel_shape), stride, 0, bool(ceil_mode))
    if count_include_pad:
        return total
    ones, _ = _padded(torch.ones_like(x), amounts, 0.0)
    return total / run(ones, list(kernel_shape), stride, 0, bool(ceil_mode))


op("GlobalAveragePool")(lambda x: x.mean(list(range(2, x.dim())), keepdim=True))
op("GlobalMaxPool")(lambda x: x.amax(list(range(2, x.dim())), keepdim=True))


@op("BatchNormalization")
def batch_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
) -> Tensor:
    if training_mode:
        raise GraphError("ONNX BatchNormalization with training_mode=1 is not supported; export the model for inference")
    return F.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon)


op("InstanceNormalization")(lambda x, scale, bias, epsilon=1e-5: F.group_norm(x, x.shape[1], scale, bias, epsilon))
op("GroupNormalization")(lambda x, scale, bias, num_groups, epsilon=1e-5, stash_type=1: _group_norm(x, scale, bias, num_groups, epsilon))
op("LpNormalization")(lambda x, axis=-1, p=2: x / torch.linalg.vector_norm(x, p, axis, True))


def _group_norm(x: Tensor, scale: Tensor, bias: Tensor, groups: int, eps: float) -> Tensor:
    if scale.shape[0] == x.shape[1]:
        return F.group_norm(x, groups, scale, bias, eps)
    each = x.shape[1] // groups
    return F.group_norm(x, groups, scale.repeat_interleave(each), bias.repeat_interleave(each), eps)


@op("LayerNormalization", count=True)
def layer_norm(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1, outputs_: int = 1
) -> Tensor:
    if outputs_ > 1:
        raise GraphError("ONNX LayerNormalization with its Mean output is not supported")
    return F.layer_norm(x, x.shape[axis % x.dim() :], scale, bias, epsilon)


@op("SimplifiedLayerNormalization", "RMSNormalization")
def rms_norm(x: Tensor, scale: Tensor, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Tensor:
    return F.rms_norm(x, x.shape[axis % x.dim() :], scale, epsilon)


op("LRN")(lambda x, size, alpha=1e-4, beta=0.75, bias=1.0: F.local_response_norm(x, size, alpha, beta, bias))
op("Softmax")(lambda x, axis=-1: torch.softmax(x, axis))
op("LogSoftmax")(lambda x, axis=-1: torch.log_softmax(x, axis))
op("Hardmax")(lambda x, axis=-1: F.one_hot(torch.argmax(x, axis), x.shape[axis]).to(x.dtype).movedim(-1, axis))


@op("Resize", host=(1, 2, 3))
def resize(
    x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None, mode: str = "nearest", coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor", cubic_coeff_a: float = -0.75, antialias: int = 0, axes: Any = None, **_: Any,
) -> Tensor:  # fmt: skip
    rank = x.dim() - 2
    if sizes is not None and np.asarray(sizes).size:
        size = ints(sizes)[-rank:]
    else:
        factors = [float(s) for s in np.asarray(scales).reshape(-1)][-rank:]
        size = [math.floor(n * f) for n, f in zip(x.shape[2:], factors)]
    if mode == "nearest":
        whole = all(s % n == 0 for s, n in zip(size, x.shape[2:]))
        if not whole and (coordinate_transformation_mode, nearest_mode) != ("asymmetric", "floor"):
            raise GraphError(
                f"ONNX Resize to nearest with {coordinate_transformation_mode}/{nearest_mode} and a factor that is not whole is not supported"
            )
        return F.interpolate(x, size, mode="nearest")
    if coordinate_transformation_mode not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        raise GraphError(f"ONNX Resize with coordinate_transformation_mode={coordinate_transformation_mode!r} is not supported")
    kind = {"linear": ("linear", "bilinear", "trilinear")[rank - 1], "cubic": "bicubic"}[mode]
    return F.interpolate(x, size, mode=kind, align_corners=coordinate_transformation_mode == "align_corners")


op("Upsample", host=(1,))(
    lambda x, scales, mode="nearest": resize(x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")
)


@op("Attention")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *rest: Any,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    **_: Any,
) -> Tensor:
    if softcap or any(r is not None for r in rest):
        raise GraphError("ONNX Attention with softcap or past keys is not supported")
    flat = q.dim() == 3
    if flat:
        q = q.unflatten(-1, (q_num_heads, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (kv_num_heads, -1)).transpose(1, 2) for t in (k, v))
    out = F.scaled_dot_product_attention(q, k, v, mask, 0.0, bool(is_causal), scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    return out.transpose(1, 2).flatten(-2) if flat else out


@op("QuantizeLinear")
def quantize_linear(x: Tensor, scale: Tensor, zero: Tensor | None = None, axis: int = 1, **_: Any) -> Tensor:
    scale, point = _along(scale, x, axis), _along(zero, x, axis) if zero is not None else torch.zeros((), dtype=torch.uint8)
    limits = torch.iinfo(point.dtype)
    return torch.clamp(torch.round(x / scale) + point.float(), limits.min, limits.max).to(point.dtype)


@op("DequantizeLinear")
def dequantize_linear(x: Tensor, scale: Tensor, zero: Tensor | None = None, axis: int = 1, **_: Any) -> Tensor:
    value = x.to(scale.dtype)
    return (value if zero is None else value - _along(zero, x, axis).to(scale.dtype)) * _along(scale, x, axis)


def _along(t: Tensor, x: Tensor, axis: int) -> Tensor:
    return t if t.dim() == 0 or t.numel() == 1 else t.reshape([-1 if d == axis % x.dim() else 1 for d in range(x.dim())])
