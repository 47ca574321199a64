"""Reductions along dimensions: fp32 or better inside, whole numbers exact, padding never in sight.

Sums of bfloat16 accumulate in fp32 in torch's order of blocks; results are rounded once by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tessera.engine.choice import engine_function


def _wide(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.float32) if values.is_floating_point() and values.dtype is not torch.float64 else values


def _scaled(result: torch.Tensor, scalar: float) -> torch.Tensor:
    return result if scalar == 1.0 else result * scalar


@engine_function
def total(values: torch.Tensor, *, dims: Sequence[int], keepdim: bool, scalar: float = 1.0) -> torch.Tensor:
    wide = _wide(values) if values.is_floating_point() else values.to(torch.int64)
    return _scaled(wide.sum(tuple(dims), keepdim) if dims else wide.clone(), scalar)


@engine_function
def mean(values: torch.Tensor, *, dims: Sequence[int], keepdim: bool, scalar: float = 1.0) -> torch.Tensor:
    wide = values.to(torch.float32)
    return _scaled(wide.mean(tuple(dims), keepdim) if dims else wide.clone(), scalar)


@engine_function
def largest(values: torch.Tensor, *, dims: Sequence[int], keepdim: bool, scalar: float = 1.0) -> torch.Tensor:
    return _scaled(values.amax(tuple(dims), keepdim) if dims else values.clone(), scalar)


@engine_function
def smallest(values: torch.Tensor, *, dims: Sequence[int], keepdim: bool, scalar: float = 1.0) -> torch.Tensor:
    return _scaled(values.amin(tuple(dims), keepdim) if dims else values.clone(), scalar)


@engine_function
def variance(values: torch.Tensor, *, dims: Sequence[int], keepdim: bool, scalar: float = 1.0, correction: bool = True) -> torch.Tensor:
    wide = values.to(torch.float64)
    found = wide.var(tuple(dims), correction=int(correction), keepdim=keepdim) if dims else torch.full_like(wide, float("nan"))
    return _scaled(found, scalar * scalar)


@engine_function
def deviation(values: torch.Tensor, *, dims: Sequence[int], keepdim: bool, scalar: float = 1.0, correction: bool = True) -> torch.Tensor:
    return _scaled(variance.torch(values, dims=dims, keepdim=keepdim, correction=correction).sqrt(), scalar)


@engine_function
def product(values: torch.Tensor, *, dims: Sequence[int], keepdim: bool) -> torch.Tensor:
    wide = _wide(values)
    for dim in sorted(dims, reverse=True):
        wide = wide.prod(dim, keepdim)
    return wide


@engine_function
def argmax(values: torch.Tensor, *, dim: int | None, keepdim: bool) -> torch.Tensor:
    """The first index of the largest element."""
    wide = _wide(values)
    if values.dim() == 0:
        return torch.zeros((), dtype=torch.int64, device=values.device)
    if dim is None:
        found = wide.reshape(-1).argmax()
        return found.reshape((1,) * values.dim()) if keepdim else found
    return wide.argmax(dim, keepdim)
