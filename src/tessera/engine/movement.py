"""Rearranging elements: no arithmetic, so every function is exact for every dtype and works on values faces as they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tessera.engine.choice import engine_function


@engine_function
def reshape(values: torch.Tensor, *, shape: Sequence[int]) -> torch.Tensor:
    return values.reshape(tuple(shape)).clone()


@engine_function
def permute(values: torch.Tensor, *, dims: Sequence[int]) -> torch.Tensor:
    return values.permute(tuple(dims)).contiguous()


@engine_function
def transpose(values: torch.Tensor, *, first: int, second: int) -> torch.Tensor:
    return values.transpose(first, second).contiguous()


@engine_function
def cut(values: torch.Tensor, *, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> torch.Tensor:
    """A box of the values, every so many-th element of it."""
    return values[tuple(slice(a, b, s) for a, b, s in zip(starts, ends, steps))].contiguous()


@engine_function
def concat(*values: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.cat(values, dim)


@engine_function
def split(values: torch.Tensor, *, sizes: Sequence[int], dim: int) -> tuple[torch.Tensor, ...]:
    return tuple(part.contiguous() for part in torch.split(values, list(sizes), dim))


@engine_function
def repeat(values: torch.Tensor, *, times: Sequence[int]) -> torch.Tensor:
    return values.repeat(tuple(times))


@engine_function
def repeat_interleave(values: torch.Tensor, *, times: int, dim: int) -> torch.Tensor:
    return values.repeat_interleave(times, dim)


@engine_function
def expand(values: torch.Tensor, *, shape: Sequence[int]) -> torch.Tensor:
    return values.expand(tuple(shape)).contiguous()


@engine_function
def pad(values: torch.Tensor, *, before: Sequence[int], after: Sequence[int], value: float) -> torch.Tensor:
    """The values in the middle of a box of one value."""
    shape = [b + d + a for b, d, a in zip(before, values.shape, after)]
    box = torch.full(shape, value, dtype=values.dtype, device=values.device)
    box[tuple(slice(b, b + d) for b, d in zip(before, values.shape))] = values
    return box


@engine_function
def gather(values: torch.Tensor, index: torch.Tensor, *, dim: int) -> torch.Tensor:
    return values.gather(dim, index.to(torch.int64).clamp(0, max(values.shape[dim] - 1, 0)))


@engine_function
def scatter(values: torch.Tensor, index: torch.Tensor, source: torch.Tensor, *, dim: int, how: str | None) -> torch.Tensor:
    """Source elements written, added or multiplied into a copy of the values at the index's places."""
    where = index.to(torch.int64)
    part = source[tuple(slice(0, n) for n in where.shape)].to(values.dtype)
    if how is None:
        return values.scatter(dim, where, part)
    wide = values.to(torch.float32) if values.is_floating_point() else values
    return wide.scatter_reduce(dim, where, part.to(wide.dtype), {"add": "sum", "multiply": "prod"}[how])
