"""Reductions along dimensions: fp32 or better inside, whole numbers exact, padding never in sight.

Sums of bfloat16 accumulate in fp32 in torch's order of blocks; results are rounded once by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from tessera.engine.choice import engine_function
from tessera.engine.creation import generator


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
    count = math.prod(values.shape[d] for d in dims)
    if not dims or count <= int(correction):  # nothing deviates from itself alone: not a number, as in torch, without its warning
        return (wide.sum(tuple(dims), keepdim) if dims else wide) * float("nan")
    found = wide.var(tuple(dims), correction=int(correction), keepdim=keepdim)
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


@engine_function
def topk(
    values: torch.Tensor, positions: torch.Tensor | None = None, *, k: int, dim: int, largest: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest or smallest in order, the first of equals first; `positions` names the elements by other numbers."""
    found, indices = values.sort(dim=dim, descending=largest, stable=True)
    found, indices = found.narrow(dim, 0, k), indices.narrow(dim, 0, k)
    return found, indices if positions is None else positions.to(torch.int64).gather(dim, indices)


@engine_function
def sort(values: torch.Tensor, *, dim: int, descending: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """In order, equals as they stood."""
    if values.dim() == 0:
        return values.clone(), torch.zeros((), dtype=torch.int64, device=values.device)
    found = values.sort(dim=dim, descending=descending, stable=True)
    return found.values, found.indices


def _running(step: Callable[..., torch.Tensor], values: torch.Tensor, dim: int, reverse: bool) -> torch.Tensor:
    if values.dim() == 0:
        return values.clone()
    wide = values.to(torch.float64) if values.is_floating_point() else values.to(torch.int64)
    found = step(wide.flip(dim) if reverse else wide, dim)
    return found.flip(dim) if reverse else found


@engine_function
def running_total(values: torch.Tensor, *, dim: int, reverse: bool) -> torch.Tensor:
    return _running(torch.cumsum, values, dim, reverse)


@engine_function
def running_product(values: torch.Tensor, *, dim: int, reverse: bool) -> torch.Tensor:
    return _running(torch.cumprod, values, dim, reverse)


@engine_function
def sample(values: torch.Tensor, indices: torch.Tensor, k: torch.Tensor, p: torch.Tensor, temp: torch.Tensor, *, seed: int) -> torch.Tensor:
    """One index for each row: softmax of the k largest times the temperature's inverse, cut where probabilities pass p, then drawn.

    `temp` holds inverse temperatures, as the chip is given them. A k below one means all.
    """
    rows = _wide(values).reshape(-1, values.shape[-1])
    names = indices.reshape(rows.shape).to(torch.int64)
    ordered, places = rows.sort(dim=-1, descending=True, stable=True)
    names = names.gather(-1, places)
    chances = torch.softmax(ordered.to(torch.float64) * temp.to(torch.float64).reshape(-1, 1), -1)
    rank = torch.arange(rows.shape[-1], device=values.device)
    count = k.to(torch.int64).reshape(-1, 1)
    chances = torch.where((rank < count) | (count < 1), chances, 0.0)
    chances = chances / chances.sum(-1, keepdim=True)
    before = chances.cumsum(-1) - chances
    chances = torch.where((before < p.to(torch.float64).reshape(-1, 1)) | (rank == 0), chances, 0.0)
    drawn = torch.multinomial(chances.float(), 1, generator=generator(seed))
    return names.gather(-1, drawn).reshape(1, 1, 1, -1)


@engine_function
def expert_share(values: torch.Tensor, expert_mask: torch.Tensor, topk_mask: torch.Tensor, *, k: int) -> torch.Tensor:
    """How much of each token goes to expert 0: its part of the softmax over the k largest masked logits."""
    logits, places = (_wide(values) + _wide(expert_mask)).sort(dim=-1, descending=True, stable=True)
    shares = torch.softmax(logits[..., :k] + _wide(topk_mask), -1)
    return torch.where(places[..., :k] == 0, shares, 0.0).sum(-1, keepdim=True)
