"""Rotary embeddings: pairs of columns turned by an angle that grows with the position. In fp32, rounded once."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tessera.engine.choice import engine_function
from tessera.engine.widening import widened


def _fit(values: torch.Tensor, rows: int, width: int) -> torch.Tensor:
    """Cut or filled with zeros to so many rows and columns."""
    values = values[..., : min(rows, values.shape[-2]), : min(width, values.shape[-1])]
    missing = width - values.shape[-1], rows - values.shape[-2]
    return F.pad(values, (0, missing[0], 0, missing[1])) if any(missing) else values


def turned(values: torch.Tensor) -> torch.Tensor:
    """[low, high] as [-high, low]."""
    low, high = values.chunk(2, dim=-1)
    return torch.cat([-high, low], dim=-1)


@engine_function
def rotate_half(values: torch.Tensor, *, width: int) -> torch.Tensor:
    """[low, high] as [-high, low], halves of a row `width` long."""
    own = values.shape[-1]
    return turned(F.pad(values, (0, width - own)) if own != width else values)[..., :own]


@engine_function
def rotary(
    values: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    rows: int,
    width: int,
    token: int | None = None,
    first_row: bool = False,
    whole: bool = True,
) -> torch.Tensor:
    """x cos + turned(x) sin over rows of the tables; `token` or `first_row` use one row for all. Answers `rows` by `width` (`whole`) or the input's own shape."""
    x = widened(_fit(values, rows, width))
    tables = []
    for table in (cos, sin):
        if token is not None:
            table = table[..., token : token + 1, :]
        elif first_row:
            table = table[..., :1, :]
        tables.append(widened(_fit(table, 1 if table.shape[-2] == 1 else rows, width)))
    result = x * tables[0] + turned(x) * tables[1]
    return result if whole else result[..., : values.shape[-2], : values.shape[-1]]


@engine_function
def rotary_by_matrix(
    values: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, matrix: torch.Tensor, *, first_row: bool = False
) -> torch.Tensor:
    """x cos + (x M) sin, where M turns the columns of every 32 by itself."""
    x = widened(values)
    size = matrix.shape[-1]
    square = widened(matrix).reshape(-1, matrix.shape[-2], size)[0, :size]
    blocks = F.pad(x, (0, -x.shape[-1] % size)).unflatten(-1, (-1, size))
    swapped = (blocks @ square).flatten(-2)[..., : x.shape[-1]]
    rows, width = x.shape[-2:]
    tables = []
    for table in (cos, sin):
        table = table[..., :1, :] if first_row else table
        tables.append(widened(_fit(table, 1 if table.shape[-2] == 1 else rows, width)))
    return x * tables[0] + swapped * tables[1]
