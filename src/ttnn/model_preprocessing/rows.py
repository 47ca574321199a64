"""How the parameters of each kind of torch module become TT-NN tensors: a row for each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import ttnn

Row = Callable[[Any, Any], dict[str, Any]]


def preprocess_linear_weight(weight: torch.Tensor, *, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT) -> Any:
    """TT-NN multiplies by the weight as it stands; torch by its transpose."""
    return ttnn.from_torch(weight.detach().T.contiguous(), dtype=dtype, layout=layout)


def preprocess_linear_bias(bias: torch.Tensor, *, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT) -> Any:
    return ttnn.from_torch(bias.detach().reshape(1, -1), dtype=dtype, layout=layout)


def preprocess_layernorm_parameter(parameter: torch.Tensor, *, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT) -> Any:
    return ttnn.from_torch(parameter.detach().reshape(1, -1), dtype=dtype, layout=layout)


def preprocess_embedding_weight(weight: torch.Tensor, *, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.ROW_MAJOR_LAYOUT) -> Any:
    return ttnn.from_torch(weight.detach(), dtype=dtype, layout=layout)


def preprocess_conv2d(weight: torch.Tensor, bias: torch.Tensor | None, ttnn_module_args: Any = None) -> dict[str, Any]:
    """Convolutions arrange their weights themselves; here they only change their dtype, to the one of the module's arguments if there are any."""
    dtype = (ttnn_module_args or {}).get("weights_dtype", ttnn.bfloat16)
    if dtype in (ttnn.bfloat8_b, ttnn.bfloat4_b):  # weights wait in rows, where block floats cannot stand
        dtype = ttnn.float32
    made = {"weight": ttnn.from_torch(weight.detach(), dtype=dtype)}
    if bias is not None:
        made["bias"] = ttnn.from_torch(bias.detach().reshape(1, 1, 1, -1), dtype=dtype)
    return made


def fold_batch_norm2d_into_conv2d(conv: torch.nn.Conv2d, bn: torch.nn.BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of one convolution that does what the convolution and the batch norm behind it do. The bias is of shape [1, 1, 1, channels]."""
    if not bn.track_running_stats or bn.running_mean is None or bn.running_var is None:
        raise RuntimeError(
            "fold_batch_norm2d_into_conv2d: BatchNorm2d must have track_running_stats=True: without statistics it cannot be folded"
        )
    if bn.num_features != conv.out_channels:
        raise RuntimeError(
            f"fold_batch_norm2d_into_conv2d: the batch norm has {bn.num_features} features and the convolution {conv.out_channels} channels out"
        )
    with torch.no_grad():
        scale = torch.rsqrt(bn.running_var + bn.eps)
        if bn.weight is not None:
            scale = scale * bn.weight
        bias = -bn.running_mean if conv.bias is None else conv.bias - bn.running_mean
        bias = bias * scale
        if bn.bias is not None:
            bias = bias + bn.bias
        return conv.weight * scale[:, None, None, None], bias.reshape(1, 1, 1, -1)


def _linear(module: torch.nn.Linear, args: Any) -> dict[str, Any]:
    made = {"weight": preprocess_linear_weight(module.weight)}
    if module.bias is not None:
        made["bias"] = preprocess_linear_bias(module.bias)
    return made


def _norm(module: Any, args: Any) -> dict[str, Any]:
    return {name: preprocess_layernorm_parameter(p) for name in ("weight", "bias") if (p := getattr(module, name, None)) is not None}


def _embedding(module: torch.nn.Embedding, args: Any) -> dict[str, Any]:
    return {"weight": preprocess_embedding_weight(module.weight)}


def _conv2d(module: torch.nn.Conv2d, args: Any) -> dict[str, Any]:
    return preprocess_conv2d(module.weight, module.bias, args)


ROWS: dict[type, Row] = {
    torch.nn.Linear: _linear,
    torch.nn.LayerNorm: _norm,
    torch.nn.GroupNorm: _norm,
    torch.nn.RMSNorm: _norm,
    torch.nn.Embedding: _embedding,
    torch.nn.Conv2d: _conv2d,
}


def row_of(module: torch.nn.Module) -> Row | None:
    return next((ROWS[kind] for kind in type(module).__mro__ if kind in ROWS), None)
