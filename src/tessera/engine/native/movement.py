"""Dimensions in another order, and rows by index: copies for elements of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tessera import _native

#: Below this many elements torch's own copy costs as little.
PAYS = 4096


def permute(values: Tensor, *, dims: Sequence[int]) -> Any:
    rank = values.dim()
    if not rank or values.numel() < PAYS or not values.is_contiguous() or values.device.type != "cpu":
        return NotImplemented
    order = [d % rank for d in dims]
    if order[-1] == rank - 1:  # rows stay rows: torch copies them well
        return NotImplemented
    out = torch.empty([values.shape[d] for d in order], dtype=values.dtype)
    _native.permute(values.data_ptr(), out.data_ptr(), values.element_size(), values.shape, order, torch.get_num_threads())
    return out


def transpose(values: Tensor, *, first: int, second: int) -> Any:
    if not values.dim():
        return NotImplemented
    order = list(range(values.dim()))
    order[first], order[second] = order[second], order[first]
    return permute(values, dims=order)


def embedding(indices: Tensor, weight: Tensor, *, padding: int | None = None) -> Any:
    if padding is not None or weight.dim() < 1 or not weight.numel() or not indices.numel():
        return NotImplemented
    if not weight.is_contiguous() or weight.device.type != "cpu" or indices.dtype.is_floating_point:
        return NotImplemented
    width = weight.shape[-1]
    whole = indices.to(torch.int64).contiguous()
    out = torch.empty((*indices.shape, width), dtype=weight.dtype)
    _native.gather(
        weight.data_ptr(),
        weight.numel() // width,
        whole.data_ptr(),
        whole.numel(),
        out.data_ptr(),
        width * weight.element_size(),
        torch.get_num_threads(),
    )
    return out
