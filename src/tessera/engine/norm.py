"""Normalisations along the last dimension (softmax along any): fp32 inside, one rounding by the caller."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tessera.engine.choice import engine_function


def _wide(values: torch.Tensor) -> torch.Tensor:
    return values if values.dtype is torch.float32 else values.to(torch.float32)


@engine_function
def softmax(values: torch.Tensor, *, dim: int) -> torch.Tensor:
    """exp(x - max) / sum; a 0-d tensor is its own softmax, 1."""
    return torch.softmax(_wide(values), dim) if values.dim() else torch.ones_like(values, dtype=torch.float32)


@engine_function
def scaled_masked_softmax(
    values: torch.Tensor, mask: torch.Tensor | None = None, *, scale: float | None = None, dim: int = -1
) -> torch.Tensor:
    """softmax(x * scale + mask)."""
    wide = _wide(values)
    if scale is not None:
        wide = wide * scale
    if mask is not None:
        wide = wide + _wide(mask)
    return torch.softmax(wide, dim)


@engine_function
def layer_norm(values: torch.Tensor, *scale_shift_residual: torch.Tensor, epsilon: float, roles: Sequence[str] = ()) -> torch.Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias, of x (+ residual). `roles` names the further tensors."""
    further = dict(zip(roles, scale_shift_residual))
    wide = _wide(values)
    if "residual" in further:
        wide = wide + _wide(further["residual"])
    width = wide.shape[-1]
    weight = _wide(further["weight"]).reshape(-1)[:width] if "weight" in further else None
    bias = _wide(further["bias"]).reshape(-1)[:width] if "bias" in further else None
    return torch.nn.functional.layer_norm(wide, (width,), weight, bias, epsilon)


@engine_function
def rms_norm(values: torch.Tensor, *scale_shift_residual: torch.Tensor, epsilon: float, roles: Sequence[str] = ()) -> torch.Tensor:
    """x / sqrt(mean(x^2) + eps) * weight + bias, of x (+ residual)."""
    further = dict(zip(roles, scale_shift_residual))
    wide = _wide(values)
    if "residual" in further:
        wide = wide + _wide(further["residual"])
    width = wide.shape[-1]
    result = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    if "weight" in further:
        result = result * _wide(further["weight"]).reshape(-1)[:width]
    if "bias" in further:
        result = result + _wide(further["bias"]).reshape(-1)[:width]
    return result
