"""Reductions, orders and running sums along the last dimension of bfloat16, natively; along others torch's own bfloat16 kernels where they round once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tessera import _native
from tessera.engine.native.norm import plain
from tessera.engine.packed import Packed

_threads = torch.get_num_threads
_SUM, _MAX, _MIN = 0, 1, 2
#: Longer rows are summed in blocks, by torch.
LONGEST = 1 << 18


def _last(values: Tensor, dims: Sequence[int]) -> int:
    """How many elements the last dimensions have together, if exactly those are reduced; else 0."""
    rank = values.dim()
    if not dims or not rank or not plain(values) or sorted(d % rank for d in dims) != list(range(rank - len(dims), rank)):
        return 0
    return math.prod(values.shape[rank - len(dims) :])


def _reduced(kind: int, values: Tensor, dims: Sequence[int], keepdim: bool, scalar: float) -> Any:
    width = _last(values, dims)
    if not 0 < width <= LONGEST or not values.numel():
        return NotImplemented
    kept = values.shape[: values.dim() - len(dims)]
    out = torch.empty((*kept, *(1,) * len(dims)) if keepdim else kept)
    _native.reduce(kind, values.data_ptr(), scalar, out.data_ptr(), values.numel() // width, width, _threads())
    return out


def _lying(packed: Packed, dims: Sequence[int], keepdim: bool) -> Any:
    """The sum of all elements of an image, added up as they lie: in the order of tiles, as the chip does."""
    image, row = packed.lone, packed.format
    if image is None or not packed.dims or math.prod(packed.dims[d] for d in dims) != math.prod(packed.dims) or not image.is_contiguous():
        return NotImplemented
    if row.is_block and row.exponent == 8:
        number = _native.sum_blocks(
            image.data_ptr(), image.numel() // row.bytes_for(packed.elements), packed.elements, row.mantissa, _threads()
        )
        if math.isnan(number):
            return NotImplemented  # exponents that say infinity: values know what becomes of them
        found = torch.tensor(number, dtype=torch.float32)
    elif (
        row.values in (torch.bfloat16, torch.float32) and row.bits == 8 * row.values.itemsize and not image.data_ptr() % row.values.itemsize
    ):
        found = image.view(row.values).sum()
    else:
        return NotImplemented
    rank = len(packed.dims)
    return found.reshape((1,) * (rank if keepdim else rank - len(dims)))


def total(values: Any, *, dims: Sequence[int], keepdim: bool, scalar: float = 1.0) -> Any:
    if isinstance(values, Packed):
        found = _lying(values, dims, keepdim) if dims and scalar == 1.0 else NotImplemented
        if found is not NotImplemented:
            return found
        values = values.values()
    result = _reduced(_SUM, values, dims, keepdim, scalar)
    if result is NotImplemented and dims and scalar == 1.0 and values.dtype is torch.bfloat16:
        return values.sum(tuple(dims), keepdim)
    return result


def mean(values: Tensor, *, dims: Sequence[int], keepdim: bool, scalar: float = 1.0) -> Any:
    width = _last(values, dims)
    return _reduced(_SUM, values, dims, keepdim, scalar / width) if width else NotImplemented


def largest(values: Tensor, *, dims: Sequence[int], keepdim: bool, scalar: float = 1.0) -> Any:
    return _reduced(_MAX, values, dims, keepdim, scalar)


def smallest(values: Tensor, *, dims: Sequence[int], keepdim: bool, scalar: float = 1.0) -> Any:
    return _reduced(_MIN, values, dims, keepdim, scalar)


def _along_last(values: Tensor, dim: int) -> bool:
    return values.dim() > 0 and dim in (-1, values.dim() - 1) and values.numel() > 0 and plain(values)


def argmax(values: Tensor, *, dim: int | None, keepdim: bool) -> Any:
    if not _along_last(values, -1 if dim is None else dim):
        return NotImplemented
    width = values.numel() if dim is None else values.shape[-1]
    out = torch.empty(values.numel() // width, dtype=torch.int64)
    _native.arg(_MAX, values.data_ptr(), out.data_ptr(), out.numel(), width, _threads())
    if dim is None:
        return out.reshape((1,) * values.dim()) if keepdim else out.reshape(())
    return out.reshape((*values.shape[:-1], 1) if keepdim else values.shape[:-1])


def _ordered(values: Tensor, keep: int, descending: bool) -> tuple[Tensor, Tensor]:
    shape, width = (*values.shape[:-1], keep), values.shape[-1]
    found, places = torch.empty(shape, dtype=torch.bfloat16), torch.empty(shape, dtype=torch.int64)
    _native.sort(values.data_ptr(), found.data_ptr(), places.data_ptr(), values.numel() // width, width, keep, descending, _threads())
    return found, places


def topk(values: Tensor, positions: Tensor | None = None, *, k: int, dim: int, largest: bool) -> Any:
    if not _along_last(values, dim):
        return NotImplemented
    found, places = _ordered(values, k, largest)
    return found, places if positions is None else positions.to(torch.int64).gather(dim, places)


def sort(values: Tensor, *, dim: int, descending: bool) -> Any:
    return _ordered(values, values.shape[-1], descending) if _along_last(values, dim) else NotImplemented


def running_total(values: Tensor, *, dim: int, reverse: bool) -> Any:
    if reverse or not _along_last(values, dim):
        return NotImplemented
    out = torch.empty_like(values)
    width = values.shape[-1]
    _native.cumsum(values.data_ptr(), out.data_ptr(), values.numel() // width, width, _threads())
    return out
