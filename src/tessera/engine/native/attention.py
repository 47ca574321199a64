"""Attention natively: scores of a few queries at a time stay in the cache, in fp32; the weights are rounded to bfloat16 before they meet the values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tessera import _native
from tessera.engine.native.norm import plain


def scaled_dot_product(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: int | None = None,
) -> Any:
    if window is not None or not plain(q, k, v) or q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        return NotImplemented
    batch, heads, rows, width = q.shape
    _, shared, keys, _ = k.shape
    if width % 2 or not q.numel() or not keys or heads % shared or k.shape != (batch, shared, keys, width) or v.shape[:3] != k.shape[:3]:
        return NotImplemented
    leading, address = (1, 1), 0
    if mask is not None:
        if (
            causal
            or not plain(mask)
            or mask.dim() != 4
            or mask.shape[2:] != (rows, keys)
            or any(m not in (1, n) for m, n in zip(mask.shape, (batch, heads)))
        ):
            return NotImplemented
        leading, address = (mask.shape[0], mask.shape[1]), mask.data_ptr()
    out = torch.empty((batch, heads, rows, v.shape[-1]), dtype=torch.bfloat16)
    sizes = (batch, heads, shared, rows, keys, width, v.shape[-1])
    factor = width**-0.5 if scale is None else float(scale)
    _native.attention(
        q.data_ptr(), k.data_ptr(), v.data_ptr(), address, out.data_ptr(), *sizes, *leading, factor, causal, torch.get_num_threads()
    )
    return out
