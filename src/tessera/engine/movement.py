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
