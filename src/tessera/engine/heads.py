"""Splitting a projection into heads and joining heads again: reshapes and transposes, no arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def split(values: torch.Tensor, counts: Sequence[int], width: int) -> list[torch.Tensor]:
    """[..., rows, sum(counts) * width] as one [batch, count, rows, width] for each count."""
    rows = values.shape[-2]
    flat = values.reshape(-1, rows, values.shape[-1])
    parts = flat[..., : sum(counts) * width].split([c * width for c in counts], dim=-1)
    return [part.unflatten(-1, (count, width)).transpose(1, 2) for part, count in zip(parts, counts)]


def query_key_value(
    values: torch.Tensor,
    further: torch.Tensor | None = None,
    *,
    heads: int,
    shared: int,
    width: int,
    turn_keys: bool = False,
    tied: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values side by side in one tensor, or keys and values in a second one. `tied` values are the keys."""
    if further is None:
        counts = (heads, shared) if tied else (heads, shared, shared)
        query, key, *rest = split(values, counts, width)
    else:
        (query,) = split(values, (heads,), width)
        key, *rest = split(further, (shared,) if tied else (shared, shared), width)
    value = rest[0] if rest else key
    return query, key.transpose(-1, -2) if turn_keys else key, value


def grouped_query_key_value(
    values: torch.Tensor, further: torch.Tensor | None = None, *, heads: int, shared: int, width: int, turn_keys: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same where every group of queries stands beside its own keys and values: [q.. k v][q.. k v]..."""
    each = heads // shared
    rows = values.shape[-2]
    if further is None:
        groups = values.reshape(-1, rows, shared, (each + 2) * width)
        query, key, value = groups.split([each * width, width, width], dim=-1)
    else:
        query = values.reshape(-1, rows, shared, each * width)
        key, value = further.reshape(-1, rows, shared, 2 * width).split(width, dim=-1)
    query = query.unflatten(-1, (each, width)).flatten(2, 3).transpose(1, 2)
    key, value = key.transpose(1, 2), value.transpose(1, 2)
    return query, key.transpose(-1, -2) if turn_keys else key, value


def users_query_key_value(
    values: torch.Tensor, offset: torch.Tensor | None = None, *, heads: int, shared: int, width: int, users: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One row for each user, [1, 1, users, (heads + 2 shared) * width], as [1, users, heads, width] each."""
    first = int(offset.flatten()[0]) if offset is not None else 0
    rows = values[0, 0, first : first + users, : (heads + 2 * shared) * width]
    query, key, value = rows.split([heads * width, shared * width, shared * width], dim=-1)
    return tuple(part.unflatten(-1, (-1, width)).unsqueeze(0) for part in (query, key, value))  # type: ignore[return-value]


def join(values: torch.Tensor) -> torch.Tensor:
    """[batch, heads, rows, width] as [batch, rows, heads * width]."""
    return values.transpose(1, 2).flatten(2)


def join_users(values: torch.Tensor, *, heads: int, users: int) -> torch.Tensor:
    """[1, users, heads (padded), width] as rows [1, 1, users (padded), heads * width]."""
    rows = values[:, :, :heads].flatten(2)
    return torch.nn.functional.pad(rows, (0, 0, 0, users - rows.shape[1])).unsqueeze(1)


def join_first(values: torch.Tensor) -> torch.Tensor:
    """[heads, a, b, width] as [1, a, b, heads * width]."""
    return values.permute(1, 2, 0, 3).flatten(2).unsqueeze(0)


def split_first(
    values: torch.Tensor, further: torch.Tensor | None = None, *, heads: int, shared: int, width: int, turn_keys: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """[1, a, b, (heads + 2 shared) * width] as [heads, a, b, width] each: `join_first` undone."""
    columns = values if further is None else torch.cat([values, further], dim=-1)
    query, key, value = columns[0].split([heads * width, shared * width, shared * width], dim=-1)
    query, key, value = (part.unflatten(-1, (-1, width)).permute(2, 0, 1, 3) for part in (query, key, value))
    return query, key.transpose(-1, -2) if turn_keys else key, value
