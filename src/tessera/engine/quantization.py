"""Affine quantization: q = round(x / scale) + zero_point, and back. Exact up to the one rounding that defines it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tessera.engine.choice import engine_function

Numbers = tuple[float | None, ...]


def _parameters(x: Tensor, tensors: tuple[Tensor, ...], numbers: Numbers, axis: int | None) -> Iterator[Tensor]:
    """Scales and zero points in order, shaped to broadcast along the axis."""
    given = iter(tensors)
    for number in numbers:
        if number is not None:
            yield torch.tensor(number, dtype=torch.float64)
            continue
        values = next(given).to(torch.float64).reshape(-1)
        yield values.reshape(()) if values.numel() == 1 else values.reshape([-1 if i == axis else 1 for i in range(x.dim())])


def _quantized(x: Tensor, scale: Tensor, zero: Tensor, low: int, high: int) -> Tensor:
    whole = torch.round(x / scale) + zero
    return torch.nan_to_num(whole, nan=0.0).clamp(low, high).to(torch.int64)


@engine_function
def quantize(x: Tensor, *tensors: Tensor, numbers: Numbers, axis: int | None = None, low: int, high: int) -> Tensor:
    scale, zero = _parameters(x, tensors, numbers, axis)
    return _quantized(x.to(torch.float64), scale, zero, low, high)


@engine_function
def dequantize(x: Tensor, *tensors: Tensor, numbers: Numbers, axis: int | None = None) -> Tensor:
    scale, zero = _parameters(x, tensors, numbers, axis)
    return ((x.to(torch.float64) - zero) * scale).to(torch.float32)


@engine_function
def requantize(x: Tensor, *tensors: Tensor, numbers: Numbers, axis: int | None = None, low: int, high: int) -> Tensor:
    in_scale, in_zero, out_scale, out_zero = _parameters(x, tensors, numbers, axis)
    return _quantized((x.to(torch.float64) - in_zero) * in_scale, out_scale, out_zero, low, high)
