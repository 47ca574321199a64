"""Softmax and normalisations along the last dimension, natively for bfloat16: a row at a time, rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tessera import _native

_threads = torch.get_num_threads


def plain(*tensors: Tensor) -> bool:
    """Whether the kernels can read these: bfloat16, contiguous, on the CPU."""
    return all(x.dtype is torch.bfloat16 and x.is_contiguous() and x.device.type == "cpu" for x in tensors)


def _rows(values: Tensor, dim: int = -1) -> int:
    """How many rows there are, or 0 where the kernels have nothing to do."""
    if not values.dim() or dim not in (-1, values.dim() - 1) or not values.numel() or not plain(values):
        return 0
    return values.numel() // values.shape[-1]


def softmax(values: Tensor, *, dim: int) -> Any:
    rows = _rows(values, dim)
    if not rows:
        return NotImplemented
    out = torch.empty_like(values)
    _native.softmax(values.data_ptr(), 0, 1, 1, 1.0, out.data_ptr(), rows, values.shape[-1], _threads())
    return out


def _mask_rows(values: Tensor, mask: Tensor) -> tuple[int, int] | None:
    """(rows of the mask, how many rows of the values share one): the mask broadcasts over leading dimensions, or over all but those."""
    if mask.shape[-1:] != values.shape[-1:]:
        return None
    sizes, given = list(values.shape[:-1]), list(mask.shape[:-1])
    given = [1] * (len(sizes) - len(given)) + given
    while given and given[0] == 1:
        sizes.pop(0), given.pop(0)
    repeat = 1
    while given and given[-1] == 1:
        given.pop()
        repeat *= sizes.pop()
    if given != sizes:
        return None
    rows = 1
    for size in given:
        rows *= size
    return rows, repeat


def scaled_masked_softmax(values: Tensor, mask: Tensor | None = None, *, scale: float | None = None, dim: int = -1) -> Any:
    rows = _rows(values, dim)
    if not rows:
        return NotImplemented
    place = (1, 1)
    if mask is not None:
        found = _mask_rows(values, mask) if plain(mask) and mask.dim() <= values.dim() else None
        if found is None:
            return NotImplemented
        place = found
    out = torch.empty_like(values)
    address = 0 if mask is None else mask.data_ptr()
    _native.softmax(
        values.data_ptr(), address, *place, 1.0 if scale is None else float(scale), out.data_ptr(), rows, values.shape[-1], _threads()
    )
    return out


def _norm(values: Tensor, further: Sequence[Tensor], epsilon: float, roles: Sequence[str], centered: bool) -> Any:
    rows = _rows(values)
    if not rows or not plain(*further):
        return NotImplemented
    width = values.shape[-1]
    address = {"residual": 0, "weight": 0, "bias": 0}
    for role, tensor in zip(roles, further):
        fits = tensor.shape == values.shape if role == "residual" else tensor.numel() >= width
        if role not in address or not fits:
            return NotImplemented
        address[role] = tensor.data_ptr()
    out = torch.empty_like(values)
    _native.norm(
        values.data_ptr(),
        address["residual"],
        address["weight"],
        address["bias"],
        epsilon,
        centered,
        out.data_ptr(),
        rows,
        width,
        _threads(),
    )
    return out


def layer_norm(values: Tensor, *scale_shift_residual: Tensor, epsilon: float, roles: Sequence[str] = ()) -> Any:
    return _norm(values, scale_shift_residual, epsilon, roles, True)


def rms_norm(values: Tensor, *scale_shift_residual: Tensor, epsilon: float, roles: Sequence[str] = ()) -> Any:
    return _norm(values, scale_shift_residual, epsilon, roles, False)
