"""Making values out of nothing: fills, ranges and random numbers.

Random streams are our own (the chip's generators are not modelled): a seed fixes the result on this stack; seed 0 means a new one each time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

_free = torch.Generator()
_free.seed()


def generator(seed: int) -> torch.Generator:
    """The stream of a seed; 0 draws from the free-running one, which `reseed` sets."""
    return torch.Generator().manual_seed(seed) if seed else _free


def reseed(seed: int) -> None:
    """Restart the free-running stream."""
    _free.manual_seed(seed)


def fill(shape: Sequence[int], value: float, dtype: torch.dtype) -> torch.Tensor:
    return torch.full(tuple(shape), value, dtype=dtype)


def count(start: int, end: int, step: int) -> torch.Tensor:
    return torch.arange(start, end, step, dtype=torch.int64)


def extent(start: int, end: int, step: int) -> int:
    return max(0, math.ceil((end - start) / step))


def uniform(shape: Sequence[int], low: float, high: float, seed: int) -> torch.Tensor:
    """fp32 numbers in [low, high)."""
    return torch.rand(tuple(shape), generator=generator(seed)) * (high - low) + low


def whole_uniform(shape: Sequence[int], low: int, high: int, seed: int) -> torch.Tensor:
    """Whole numbers in [low, high)."""
    return torch.randint(low, max(high, low + 1), tuple(shape), generator=generator(seed), dtype=torch.int64)


def normal(shape: Sequence[int], seed: int) -> torch.Tensor:
    return torch.randn(tuple(shape), generator=generator(seed))


def bernoulli(probabilities: torch.Tensor, seed: int) -> torch.Tensor:
    return torch.bernoulli(probabilities.float(), generator=generator(seed))
