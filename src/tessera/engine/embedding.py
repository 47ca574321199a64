"""Rows of a table chosen by index, and the gradient of that."""

from __future__ import annotations

import torch

from tessera.engine.choice import engine_function


@engine_function
def embedding(indices: torch.Tensor, weight: torch.Tensor, *, padding: int | None = None) -> torch.Tensor:
    """weight[indices]; rows at the padding index are zero. An index beyond the table reads as the last row, never beyond memory."""
    table = weight.reshape(-1, weight.shape[-1]) if weight.dim() else weight.reshape(1, 1)
    whole = indices.to(torch.int64).clamp_(0, max(table.shape[0] - 1, 0))
    rows = torch.nn.functional.embedding(whole, table)
    return rows if padding is None else rows.masked_fill((whole == padding).unsqueeze(-1), 0)


@engine_function
def embedding_gradient(indices: torch.Tensor, gradient: torch.Tensor, *, rows: int) -> torch.Tensor:
    """Sums of the gradient's rows by index, in fp32."""
    flat = gradient.reshape(-1, gradient.shape[-1]).to(torch.float32)
    total = torch.zeros(rows, flat.shape[-1], dtype=torch.float32, device=gradient.device)
    return total.index_add_(0, indices.reshape(-1).to(torch.int64).clamp(0, max(rows - 1, 0)), flat)
