"""Attention: softmax(q k^T * scale + mask) v, heads shared where there are fewer of keys than of queries."""

from __future__ import annotations

import torch

from tessera.engine.choice import engine_function


@engine_function
def scaled_dot_product(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: int | None = None,
) -> torch.Tensor:
    """[batch, heads, queries, width] attention in fp32. `window` lets a query see that many keys, itself the last."""
    dtype = q.dtype if q.dtype is torch.float64 else torch.float32
    wide = [t.to(dtype) for t in (q, k, v)]
    bias = None if mask is None else mask.to(dtype)
    queries, keys = q.shape[-2], k.shape[-2]
    if window is not None:
        row = torch.arange(queries, device=q.device)[:, None] + (keys - queries)
        column = torch.arange(keys, device=q.device)[None, :]
        seen = column > row - window
        if causal:
            seen &= column <= row
        else:
            seen &= column < row + window
        hidden = torch.zeros(queries, keys, dtype=dtype, device=q.device).masked_fill(~seen, float("-inf"))
        bias = hidden if bias is None else bias + hidden
        causal = False
    heads, shared = q.shape[1], k.shape[1]
    if heads != shared:
        wide[1], wide[2] = (t.repeat_interleave(heads // shared, dim=1) for t in wide[1:])
    query, key, value = wide
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias, is_causal=causal, scale=scale)
