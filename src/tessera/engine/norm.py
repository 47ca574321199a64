"""Normalisations along the last dimension (softmax along any): fp32 inside, one rounding by the caller."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tessera.engine.choice import engine_function
from tessera.engine.collective import Parts, groups
from tessera.engine.widening import as_fp32


@engine_function
def softmax(values: torch.Tensor, *, dim: int) -> torch.Tensor:
    """exp(x - max) / sum; a 0-d tensor is its own softmax, 1."""
    return torch.softmax(as_fp32(values), dim) if values.dim() else torch.ones_like(values, dtype=torch.float32)


@engine_function
def scaled_masked_softmax(
    values: torch.Tensor, mask: torch.Tensor | None = None, *, scale: float | None = None, dim: int = -1
) -> torch.Tensor:
    """softmax(x * scale + mask)."""
    wide = as_fp32(values)
    if scale is not None:
        wide = wide * scale
    if mask is not None:
        wide = wide + as_fp32(mask)
    return torch.softmax(wide, dim)


@engine_function
def layer_norm(values: torch.Tensor, *scale_shift_residual: torch.Tensor, epsilon: float, roles: Sequence[str] = ()) -> torch.Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias, of x (+ residual). `roles` names the further tensors."""
    further = dict(zip(roles, scale_shift_residual))
    wide = as_fp32(values)
    if "residual" in further:
        wide = wide + as_fp32(further["residual"])
    width = wide.shape[-1]
    weight = as_fp32(further["weight"]).reshape(-1)[:width] if "weight" in further else None
    bias = as_fp32(further["bias"]).reshape(-1)[:width] if "bias" in further else None
    return torch.nn.functional.layer_norm(wide, (width,), weight, bias, epsilon)


@engine_function
def rms_norm(values: torch.Tensor, *scale_shift_residual: torch.Tensor, epsilon: float, roles: Sequence[str] = ()) -> torch.Tensor:
    """x / sqrt(mean(x^2) + eps) * weight + bias, of x (+ residual)."""
    further = dict(zip(roles, scale_shift_residual))
    wide = as_fp32(values)
    if "residual" in further:
        wide = wide + as_fp32(further["residual"])
    width = wide.shape[-1]
    result = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    if "weight" in further:
        result = result * as_fp32(further["weight"]).reshape(-1)[:width]
    if "bias" in further:
        result = result + as_fp32(further["bias"]).reshape(-1)[:width]
    return result


@engine_function
def attention_softmax(
    values: torch.Tensor, mask: torch.Tensor | None = None, *, scale: float | None = None, causal: bool = False
) -> torch.Tensor:
    """softmax(x * scale + mask) along the last dimension. A mask of fewer rows than the scores is one row for all (its first),
    or, when causal, a strip that is repeated; a mask in rows of 32 is one row cut up."""
    if mask is not None and values.dim() >= 2:
        height, width = values.shape[-2:]
        if mask.shape[-1] != width and mask[0].numel() >= width:
            mask = mask.reshape(mask.shape[0], 1, 1, -1)[..., :width]
        rows = mask.shape[-2]
        if rows not in (1, height) and causal:
            mask = mask.tile((1,) * (mask.dim() - 2) + (-(-height // rows), 1))[..., :height, :]
        elif rows not in (1, height):
            mask = mask[..., :1, :]
    if mask is None:
        return scaled_masked_softmax(values, scale=scale, dim=-1)  # type: ignore[no-any-return]
    return scaled_masked_softmax(values, mask, scale=scale, dim=-1)  # type: ignore[no-any-return]


@engine_function
def rms_scalar(values: torch.Tensor, *further: torch.Tensor, epsilon: float, roles: Sequence[str], shape: Sequence[int]) -> torch.Tensor:
    """A scalar over the root of its square, times weight, plus bias."""
    named = dict(zip(roles, further))
    wide = as_fp32(values)
    result = (wide * torch.rsqrt(wide.square() + epsilon)).expand(tuple(shape))
    if "weight" in named:
        result = result * as_fp32(named["weight"])
    return result + as_fp32(named["bias"]) if "bias" in named else result


@engine_function
def row_sums(values: torch.Tensor, residual: torch.Tensor | None = None, *, centered: bool) -> torch.Tensor:
    """The sum of squares of each row in the first column of a tile; when centered, the sum in that of a second."""
    wide = as_fp32(values) if residual is None else as_fp32(values) + as_fp32(residual)
    found = torch.zeros((*wide.shape[:-1], 64 if centered else 32), dtype=torch.float32, device=values.device)
    found[..., 0] = wide.square().sum(-1)
    if centered:
        found[..., 32] = wide.sum(-1)
    return found


@engine_function
def norm_by_sums(
    values: torch.Tensor, sums: torch.Tensor, *weight_bias: torch.Tensor, epsilon: float, centered: bool, roles: Sequence[str]
) -> torch.Tensor:
    """A part of each row, normalised by the sums of all parts, which are as wide as this one."""
    further = dict(zip(roles, weight_bias))
    wide, width = as_fp32(values), values.shape[-1]
    blocks = as_fp32(sums).unflatten(-1, (-1, 64 if centered else 32))
    count = width * blocks.shape[-2]
    square = blocks[..., 0].sum(-1, keepdim=True) / count
    if centered:
        mean = blocks[..., 32].sum(-1, keepdim=True) / count
        result = (wide - mean) * torch.rsqrt((square - mean.square()).clamp_min(0.0) + epsilon)
    else:
        result = wide * torch.rsqrt(square + epsilon)
    if "weight" in further:
        result = result * as_fp32(further["weight"]).reshape(-1)[:width]
    return result + as_fp32(further["bias"]).reshape(-1)[:width] if "bias" in further else result


@engine_function
def group_norm(
    values: torch.Tensor, *weight_bias: torch.Tensor, groups: int, epsilon: float, roles: Sequence[str], width: int
) -> torch.Tensor:
    """Group norm of channels in the last dimension. A weight or bias longer than the channels holds `width` of them at a time, padded to rows
    of 32."""
    channels = values.shape[-1]
    further = {}
    for role, vector in zip(roles, weight_bias):
        flat = as_fp32(vector).reshape(-1)
        if flat.numel() != channels:
            flat = flat.reshape(-1, -(-width // 32) * 32)[:, :width].reshape(-1)[:channels]
        further[role] = flat
    first = as_fp32(values).movedim(-1, 1)
    result = torch.nn.functional.group_norm(first, groups, further.get("weight"), further.get("bias"), epsilon)
    return result.movedim(1, -1)


def _batch_moments(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    var, mean = torch.var_mean(values.to(torch.float64), (0, 2, 3), correction=0, keepdim=True)
    return mean, var


@engine_function
def batch_norm(values: torch.Tensor, *further: torch.Tensor, epsilon: float, roles: Sequence[str]) -> torch.Tensor:
    """Batch norm by given mean and var, or by the batch's own where they are not given."""
    named = {role: as_fp32(t) for role, t in zip(roles, further)}
    if "mean" not in named:
        named["mean"], named["var"] = _batch_moments(values)
    result = (as_fp32(values) - named["mean"]) * torch.rsqrt(named["var"] + epsilon)
    if "weight" in named:
        result = result * named["weight"]
    return result + named["bias"] if "bias" in named else result


@engine_function
def moved_statistic(running: torch.Tensor, values: torch.Tensor, *, momentum: float, of: str) -> torch.Tensor:
    """A running mean or variance (without bias, as torch keeps it) moved towards the batch's."""
    mean, var = _batch_moments(values)
    count = values.numel() // values.shape[1]
    batch = mean if of == "mean" else var * (count / max(count - 1, 1))
    return (1.0 - momentum) * running.to(torch.float64) + momentum * batch


@engine_function
def standardized(values: torch.Tensor, *, dims: Sequence[int], shape: Sequence[int]) -> torch.Tensor:
    """Less the mean and over the deviation along dimensions; zeros fill up to a larger shape."""
    var, mean = torch.var_mean(values.to(torch.float64), tuple(dims), correction=0, keepdim=True)
    result = (values - mean) / var.sqrt()
    if tuple(shape) == tuple(result.shape):
        return result
    fill = [n for old, new in zip(reversed(result.shape), reversed(tuple(shape))) for n in (0, new - old)]
    return torch.nn.functional.pad(result, fill)


def added(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return as_fp32(a) + as_fp32(b)


def rms_norm_across(values: Parts, *others: Parts, mesh: Sequence[int], axis: int, roles: Sequence[str], epsilon: float) -> Parts:
    """RMS norm of rows whose parts lie along a line of chips."""
    further = dict(zip(roles, others))
    count = len(values)
    wide = [as_fp32(v) + as_fp32(further["residual"][i]) if "residual" in further else as_fp32(v) for i, v in enumerate(values)]
    out: Parts = list(wide)
    for group in groups(mesh, axis) if count > 1 else [[0]]:
        width = sum(wide[i].shape[-1] for i in group)
        square = torch.stack([wide[i].square().sum(-1, keepdim=True) for i in group]).sum(0) / width
        scale = torch.rsqrt(square + epsilon)
        for i in group:
            out[i] = wide[i] * scale
            if "weight" in further:
                weights = further["weight"]
                out[i] = out[i] * as_fp32(weights[i % len(weights)]).reshape(-1)[: wide[i].shape[-1]]
    return out
