"""Layers of neural networks: convolution, pooling, normalisation, softmax, attention, resizing and losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tessera.graph.ops.linear import ACTIVATION
from tessera.graph.ops.table import register_aten, row

# convolution ---------------------------------------------------------------------------------------------------------------


def _pads(padding: Any, kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """torch's padding list (last dimension first) for an int, a pair, "same", "valid" or an explicit list of four."""
    rank = len(kernel)
    if padding == "valid":
        return [0] * (2 * rank)
    if padding == "same":
        out: list[int] = []
        for k, d, s, n in reversed(list(zip(kernel, dilation, stride, sizes))):
            total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            out += [total // 2, total - total // 2]
        return out
    if isinstance(padding, int):
        return [padding] * (2 * rank)
    if len(padding) == rank:
        return [p for one in reversed(list(padding)) for p in (one, one)]
    return list(padding)


def each(value: Any, rank: int) -> list[int]:
    if isinstance(value, int):
        return [value] * rank
    return list(value) * rank if len(value) == 1 else list(value)


def _conv(rank: int) -> Any:
    run = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]

    def conv(
        activations: Tensor,
        weights: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        channel_last: bool = False,
        activation: str | None = None,
    ) -> Tensor:
        if channel_last:
            activations = activations.movedim(-1, -1 - rank)
        if isinstance(padding, str) or (not isinstance(padding, int) and len(padding) > rank):
            kernel, step, spread = weights.shape[2:], each(stride, rank), each(dilation, rank)
            pads = _pads(padding, kernel, spread, step, activations.shape[-rank:])
            if pads[0::2] == pads[1::2]:
                padding = list(reversed(pads[0::2]))
            else:
                activations, padding = F.pad(activations, pads), 0
        bias = bias.reshape(-1) if bias is not None else None
        out = run(activations, weights, bias, stride, padding, dilation, groups)
        if activation is not None:
            out = ACTIVATION[activation](out)
        return out.movedim(-1 - rank, -1) if channel_last else out

    return conv


conv1d, conv2d, conv3d = _conv(1), _conv(2), _conv(3)
for _rank, _fn in ((1, conv1d), (2, conv2d), (3, conv3d)):
    row(f"conv{_rank}d", _fn, "conv", f"conv{_rank}d", f"conv{_rank}d.padding", buda="matmul")


def conv2d_transpose(
    activations: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    channel_last: bool = False,
) -> Tensor:
    if channel_last:
        activations = activations.movedim(-1, -3)
    if padding == "valid":
        padding = 0
    elif padding == "same":
        spread = each(dilation, 2)
        padding = [(spread[i] * (weights.shape[2 + i] - 1)) // 2 for i in range(2)]
    bias = bias.reshape(-1) if bias is not None else None
    out = F.conv_transpose2d(activations, weights, bias, stride, padding, output_padding, groups, dilation)
    return out.movedim(-3, -1) if channel_last else out


row("conv2d_transpose", conv2d_transpose, "conv", "conv_transpose2d.input", buda="matmul")
row("conv1d_transpose", F.conv_transpose1d, "conv", "conv_transpose1d", buda="matmul")
row("conv3d_transpose", F.conv_transpose3d, "conv", "conv_transpose3d.input", buda="matmul")


def _convolution(inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return inputs, {k: v for k, v in attrs.items() if k != "bias"}


def convolution(
    self: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    return torch.convolution(self, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


row("convolution", convolution, "conv", "convolution", adapt=_convolution, buda="matmul")

# pooling -------------------------------------------------------------------------------------------------------------------


def _max_pool(rank: int) -> Any:
    run = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]

    def pool(
        activations: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        channel_last: bool = False,
    ) -> Tensor:
        if channel_last:
            activations = activations.movedim(-1, -1 - rank)
        kernel = each(kernel_size, rank)
        step = each(stride, rank) if stride not in (None, []) else kernel
        if isinstance(padding, str) or (not isinstance(padding, int) and len(padding) > rank):
            pads = _pads(padding, kernel, each(dilation, rank), step, activations.shape[-rank:])
            low = -torch.inf if activations.is_floating_point() else torch.iinfo(activations.dtype).min
            activations, padding = F.pad(activations, pads, value=low), 0
        out = run(activations, kernel, step, padding, dilation, ceil_mode)
        return out.movedim(-1 - rank, -1) if channel_last else out

    return pool


def _avg_pool(rank: int) -> Any:
    run = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]

    def pool(
        activations: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
        channel_last: bool = False,
    ) -> Tensor:
        if channel_last:
            activations = activations.movedim(-1, -1 - rank)
        kernel = each(kernel_size, rank)
        step = each(stride, rank) if stride not in (None, []) else kernel
        if isinstance(padding, str) or (not isinstance(padding, int) and len(padding) > rank):
            pads = _pads(padding, kernel, [1] * rank, step, activations.shape[-rank:])
            if pads[0::2] == pads[1::2]:
                padding = list(reversed(pads[0::2]))
            else:
                counts = torch.ones_like(activations[:1, :1]) if not count_include_pad else None
                activations = F.pad(activations, pads)
                out = run(activations, kernel, step)
                out = out / run(F.pad(counts, pads), kernel, step) if counts is not None else out
                return out.movedim(-1 - rank, -1) if channel_last else out
        extra = {} if rank == 1 else {"divisor_override": divisor_override}
        out = run(activations, kernel, step, padding, ceil_mode, count_include_pad, **extra)
        return out.movedim(-1 - rank, -1) if channel_last else out

    return pool


for _rank in (1, 2, 3):
    row(f"max_pool{_rank}d", _max_pool(_rank), "pool", f"max_pool{_rank}d")
    row(f"avg_pool{_rank}d", _avg_pool(_rank), "pool", f"avg_pool{_rank}d")
row(
    "max_pool2d_with_indices",
    torch.ops.aten.max_pool2d_with_indices.default,
    "pool",
    "max_pool2d_with_indices",
    many=True,
    buda="max_pool2d",
)
row(
    "max_pool3d_with_indices",
    torch.ops.aten.max_pool3d_with_indices.default,
    "pool",
    "max_pool3d_with_indices",
    many=True,
    buda="max_pool3d",
)
for _rank, _avg, _max in (
    (1, F.adaptive_avg_pool1d, F.adaptive_max_pool1d),
    (2, F.adaptive_avg_pool2d, F.adaptive_max_pool2d),
    (3, F.adaptive_avg_pool3d, F.adaptive_max_pool3d),
):
    row(f"adaptive_avg_pool{_rank}d", _avg, "pool", f"adaptive_avg_pool{_rank}d", f"_adaptive_avg_pool{_rank}d", buda="avg_pool")
row("adaptive_max_pool2d", torch.ops.aten.adaptive_max_pool2d.default, "pool", "adaptive_max_pool2d", many=True, buda="max_pool2d")


def _scale_args(mode: str) -> Any:
    def adapt(inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        factors = attrs.get("scale_factors")
        factors = factors if factors is not None else [attrs.get("scales_h"), attrs.get("scales_w")]
        size = attrs.get("output_size")
        kept: dict[str, Any] = {"mode": mode}
        kept.update({"size": list(size)} if size is not None else {"scale_factor": list(factors)})
        if "align_corners" in attrs and mode != "nearest":
            kept["align_corners"] = attrs["align_corners"]
        return inputs, kept

    return adapt


row(
    "resize",
    F.interpolate,
    "resize",
    "upsample_nearest2d.vec",
    "upsample_nearest2d",
    "upsample_nearest1d.vec",
    "upsample_nearest3d.vec",
    adapt=_scale_args("nearest"),
)
register_aten("resize", ("upsample_bilinear2d.vec", "upsample_bilinear2d"), _scale_args("bilinear"))
register_aten("resize", ("upsample_bicubic2d.vec", "upsample_bicubic2d"), _scale_args("bicubic"))
register_aten("resize", ("upsample_trilinear3d.vec",), _scale_args("trilinear"))


def resize_method(
    self: Tensor, sizes: Sequence[int], method: str = "nearest_neighbor", align_corners: bool = False, channel_last: bool = False
) -> Tensor:
    """PyBuda's `Resize2d` and `Resize3d`."""
    rank = len(sizes)
    modes = {
        "nearest_neighbor": "nearest",
        "nearest": "nearest",
        "linear": ("linear", "bilinear", "trilinear")[rank - 1],
        "bilinear": "bilinear",
        "cubic": "bicubic",
    }
    if channel_last:
        self = self.movedim(-1, -1 - rank)
    mode = modes[method]
    out = F.interpolate(self, tuple(sizes), mode=mode, align_corners=None if mode == "nearest" else align_corners)
    return out.movedim(-1 - rank, -1) if channel_last else out


row("resize2d", resize_method, "resize")
row("resize3d", resize_method, "resize")

# normalisation -------------------------------------------------------------------------------------------------------------


def layernorm(
    self: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, normalized_shape: Sequence[int] = (), eps: float = 1e-5
) -> Tensor:
    return F.layer_norm(self, tuple(normalized_shape) or self.shape[-1:], weight, bias, eps)


def _layernorm_args(inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return inputs, {"normalized_shape": list(attrs["normalized_shape"]), "eps": attrs.get("eps", 1e-5)}


def rms_norm(self: Tensor, weight: Tensor | None = None, normalized_shape: Sequence[int] = (), eps: float | None = None) -> Tensor:
    return F.rms_norm(self, tuple(normalized_shape), weight, eps)


def batchnorm(self: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, eps: float = 1e-5) -> Tensor:
    """Inference: a scale and a shift of each channel by the running statistics."""
    return F.batch_norm(self, mean, var, weight, bias, False, 0.0, eps)


def _batchnorm_args(inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return inputs, {"eps": attrs.get("eps", 1e-5)}


def batchnorm_train(self: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, momentum: float = 0.1, eps: float = 1e-5) -> Any:
    """Training: by the statistics of the batch; the new running statistics are the fourth and fifth result."""
    return torch.ops.aten._native_batch_norm_legit_functional.default(self, weight, bias, mean, var, True, momentum, eps)


def groupnorm(self: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, num_groups: int = 1, eps: float = 1e-5) -> Tensor:
    return F.group_norm(self, num_groups, weight, bias, eps)


row("layernorm", layernorm, "norm", "layer_norm", adapt=_layernorm_args)
row(
    "rms_norm", rms_norm, "norm", "rms_norm", adapt=lambda i, a: (i, {"normalized_shape": list(a["normalized_shape"]), "eps": a.get("eps")})
)
row("batchnorm", batchnorm, "norm", "batch_norm", "_native_batch_norm_legit_no_training", adapt=_batchnorm_args)
row(
    "batchnorm_train",
    batchnorm_train,
    "norm",
    "_native_batch_norm_legit_functional",
    many=True,
    buda="batchnorm",
    adapt=lambda i, a: (i, {"momentum": a["momentum"], "eps": a["eps"]}),
)
row("groupnorm", groupnorm, "norm", "group_norm", adapt=lambda i, a: (i, {"num_groups": a["num_groups"], "eps": a.get("eps", 1e-5)}))
row("instance_norm", F.instance_norm, "norm", "instance_norm", adapt=lambda i, a: (i[:1], {"eps": a["eps"]}))

# softmax and attention -------------------------------------------------------------------------------------------------------


def softmax(self: Tensor, dim: int = -1, stable: bool = True) -> Tensor:
    if stable:
        return torch.softmax(self, dim)
    raised = torch.exp(self)
    return raised / raised.sum(dim, keepdim=True)


def log_softmax(self: Tensor, dim: int = -1, stable: bool = True) -> Tensor:
    return torch.log_softmax(self, dim) if stable else torch.log(softmax(self, dim, False))


def _dim(inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return inputs, {"dim": attrs["dim"]}


row("softmax", softmax, "softmax", "softmax.int", "_softmax", adapt=_dim)
row("log_softmax", log_softmax, "softmax", "log_softmax.int", "_log_softmax", adapt=_dim)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query key^T scale + mask) value, computed as one."""
    return F.scaled_dot_product_attention(query, key, value, mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)


def _attention_args(inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return inputs, {k: attrs[k] for k in ("is_causal", "scale", "enable_gqa") if attrs.get(k) not in (None, False)}


row("attention", attention, "attention", "scaled_dot_product_attention", adapt=_attention_args)

# losses --------------------------------------------------------------------------------------------------------------------

_REDUCTION = ("none", "mean", "sum")


def _reduction(inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    kept = dict(attrs)
    kept["reduction"] = _REDUCTION[attrs.get("reduction", 1)]
    return inputs, kept


def cross_entropy(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    return F.cross_entropy(self, target, weight, None, ignore_index, None, reduction, label_smoothing)


def nll_loss(self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean", ignore_index: int = -100) -> Tensor:
    return F.nll_loss(self, target, weight, None, ignore_index, None, reduction)


def _plain_loss(fn: Any) -> Any:
    def loss(self: Tensor, target: Tensor, reduction: str = "mean", **more: float) -> Tensor:
        return fn(self, target, reduction=reduction, **more)  # type: ignore[no-any-return]

    return loss


def binary_cross_entropy(self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    return F.binary_cross_entropy(self, target, weight, reduction=reduction)


def binary_cross_entropy_logits(self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    return F.binary_cross_entropy_with_logits(self, target, weight, reduction=reduction)


row("cross_entropy", cross_entropy, "loss", "cross_entropy_loss", adapt=_reduction)
row("nll_loss", nll_loss, "loss", "nll_loss", "nll_loss_nd", adapt=_reduction)
row("mse_loss", _plain_loss(F.mse_loss), "loss", "mse_loss", adapt=_reduction)
row("l1_loss", _plain_loss(F.l1_loss), "loss", "l1_loss", adapt=_reduction)
row("smooth_l1_loss", _plain_loss(F.smooth_l1_loss), "loss", "smooth_l1_loss", adapt=_reduction)
row("huber_loss", _plain_loss(F.huber_loss), "loss", "huber_loss", adapt=_reduction)
row("kl_div", _plain_loss(F.kl_div), "loss", "kl_div", adapt=_reduction)
row("binary_cross_entropy", binary_cross_entropy, "loss", "binary_cross_entropy", adapt=_reduction)
row("binary_cross_entropy_logits", binary_cross_entropy_logits, "loss", "binary_cross_entropy_with_logits", adapt=_reduction)


def im2col(self: Tensor, kernel_size: Sequence[int], dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The chip's way to a convolution: a sparse picker lays each window out as a column."""
    return F.unfold(self, tuple(kernel_size), dilation, padding, stride)


row("im2col", im2col, "tm", "im2col", buda="matmul")
