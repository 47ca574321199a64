"""Attention in the forms that serving models uses: one word of every user against a cache, chunks of a prompt, caches in pages, windows, sinks.

Each form says which keys a query sees (as a bias of zeros and minus infinities) and leaves the rest to `attend`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tessera.engine.attention import scaled_dot_product
from tessera.engine.caches import read_pages
from tessera.engine.choice import engine_function
from tessera.engine.widening import widened


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    seen: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    *,
    scale: float | None = None,
) -> torch.Tensor:
    """softmax(q k^T scale + mask) v over the keys that are `seen`. A `sink` takes its share of every row and gives nothing. Rows that see no key are zero."""
    query, key, value = widened(q), widened(k), widened(v)
    batch, heads, rows = query.shape[0], query.shape[-3], query.shape[-2]
    shared = key.shape[-3]
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    # Heads that share keys are more rows of one product: the keys need not be repeated.
    scores = (query.reshape(batch, shared, -1, query.shape[-1]) @ key.transpose(-1, -2)).reshape(batch, heads, rows, -1) * factor
    if mask is not None:
        scores = scores + widened(mask)
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    if sink is not None:
        logits = (widened(sink) * factor).reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        shares = torch.softmax(torch.cat([scores, logits], dim=-1), dim=-1)[..., :-1]
    else:
        shares = torch.softmax(scores, dim=-1)
    if seen is not None:
        shares = shares.nan_to_num(nan=0.0) if not bool(seen.any(-1).all()) else shares
    return (shares.reshape(batch, shared, -1, shares.shape[-1]) @ value).reshape(batch, heads, rows, -1)


def sink_of(sink: torch.Tensor, heads: int) -> torch.Tensor:
    """One number for each head: a sink comes as [1, heads, 1, 1], or as rows of a tile whose first column counts."""
    if sink.numel() == heads:
        return sink.reshape(heads)
    return sink.reshape(-1, sink.shape[-1])[:heads, 0]


def _named(tensors: Sequence[torch.Tensor], roles: Sequence[str]) -> dict[str, torch.Tensor]:
    return dict(zip(roles, tensors))


@engine_function
def prompt(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *further: torch.Tensor,
    roles: Sequence[str] = (),
    scale: float | None = None,
    causal: bool = False,
    window: int | None = None,
    first: int = 0,
) -> torch.Tensor:
    """Attention of a prompt with a sink or with windows of its own: `borders` are the ends of stretches that see only themselves."""
    given = _named(further, roles)
    rows, keys = q.shape[-2], k.shape[-2]
    if "first" in given:
        first = int(given["first"].flatten()[0])
    row = torch.arange(rows, device=q.device)[:, None] + (first if "borders" in given else keys - rows)
    column = torch.arange(keys, device=q.device)[None, :]
    seen = torch.ones(rows, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen &= column <= row
    if window is not None:
        seen &= column > row - window
        if not causal:
            seen &= column < row + window
    if "borders" in given:
        borders = given["borders"].flatten().to(torch.int64)
        seen &= torch.bucketize(row, borders, right=True) == torch.bucketize(column, borders, right=True)
    sink = sink_of(given["sink"], q.shape[1]) if "sink" in given else None
    return attend(q, k, v, seen, given.get("mask"), sink, scale=scale)


@engine_function
def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    *further: torch.Tensor,
    roles: Sequence[str],
    places: Sequence[int] = (),
    scale: float | None = None,
    causal: bool = True,
    window: int | None = None,
    width: int | None = None,
    modulo: int | None = None,
    heads: int | None = None,
    block: int | None = None,
) -> torch.Tensor:
    """[1, users, heads, width] queries against caches [users, heads, length, width], or pages of them: every user sees the keys up to the user's own place.

    Without values, those are the first `width` columns of the keys. A negative place answers zeros.
    """
    given = _named(further, roles)
    v, users = given.get("v"), q.shape[1]
    where = None
    if causal:
        where = (
            given["places"].flatten()[:users].to(torch.int64)
            if "places" in given
            else torch.tensor(list(places[:users]), dtype=torch.int64)
        )
        where = torch.where(where >= 2**31, -1, where)
        if modulo:
            # A ring holds the last `modulo` keys, wherever they stand: all are seen once it is full.
            where = torch.where(where >= modulo, modulo - 1, where)
    if "pages" in given:
        if block is not None and heads is not None:
            k = k.reshape(k.shape[0], heads, block, -1)
            v = None if v is None else v.reshape(v.shape[0], heads, block, -1)
        pages = given["pages"][:users]
        if where is not None:
            pages = pages[:, : int(where.max()) // k.shape[-2] + 1]
        k = read_pages(k, pages)
        v = None if v is None else read_pages(v, pages)
    if where is not None and v is not None and not given.keys() & {"mask", "sink"} and _is_long(q, k, v, where):
        return _each(q, k, v, where.tolist(), scale, window)
    values = k[..., :width] if v is None else v
    if k.shape[0] == 1 and users > 1:
        k, values = k.expand(users, -1, -1, -1), values.expand(users, -1, -1, -1)
    k, values = k[:users], values[:users]
    seen = None
    if where is not None:
        place = where.to(q.device)[:, None, None, None]
        longest = max(int(where.max()) + 1, 1)
        k, values = k[..., :longest, :], values[..., :longest, :]
        column = torch.arange(k.shape[-2], device=q.device)
        seen = column <= place
        if window is not None:
            seen &= column > place - window
    mask = given.get("mask")
    if mask is not None:  # [users, 1, heads, keys]: heads are the rows of a decode step
        mask = widened(mask)[..., : k.shape[-2]].transpose(1, 2)[:, : q.shape[2]]
    sink = sink_of(given["sink"], q.shape[2]) if "sink" in given else None
    return attend(q[0].unsqueeze(2), k, values, seen, mask, sink, scale=scale).transpose(1, 2).transpose(0, 1)


#: Elements of keys from which on a user's head is worth a call of its own.
LONG = 1 << 14


def _is_long(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, where: torch.Tensor) -> bool:
    if any(t.dtype is not torch.bfloat16 or not t.is_contiguous() for t in (q, k, v)):
        return False
    return float(where.to(torch.float32).mean()) * k.shape[-1] >= LONG


def _each(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, places: Sequence[int], scale: float | None, window: int | None
) -> torch.Tensor:
    """Every user's every shared head by itself: its keys are one run of memory, read where they lie and only as far as they are seen."""
    shared = k.shape[1]
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=q.dtype, device=q.device)
    groups = q.unflatten(2, (shared, -1))
    for user, place in enumerate(places):
        first = 0 if window is None else max(0, place + 1 - window)
        end = min(place + 1, k.shape[-2])
        if first >= end:
            continue
        source = user if k.shape[0] > 1 else 0
        for head in range(shared):
            keys, values = (t[source, head, first:end][None, None] for t in (k, v))
            result = scaled_dot_product(groups[0, user, head][None, None], keys, values, scale=scale)
            out[0, user].unflatten(0, (shared, -1))[head] = result[0, 0].to(out.dtype)
    return out


@engine_function
def chunk(
    q: torch.Tensor,
    k: torch.Tensor,
    *further: torch.Tensor,
    roles: Sequence[str],
    start: int | None = None,
    scale: float | None = None,
    window: int | None = None,
    width: int | None = None,
) -> torch.Tensor:
    """A chunk of a prompt, which begins at `start`, against the pages of everything up to its own end."""
    given = _named(further, roles)
    first = int(given["start"].flatten()[0]) if start is None else start
    keys = read_pages(k, given["pages"])[: q.shape[0]]
    values = read_pages(given["v"], given["pages"])[: q.shape[0]] if "v" in given else keys[..., :width]
    longest = min(keys.shape[-2], first + q.shape[-2])
    row = torch.arange(q.shape[-2], device=q.device)[:, None] + first
    column = torch.arange(longest, device=q.device)[None, :]
    seen = column <= row
    if window is not None:
        seen &= column > row - window
    sink = sink_of(given["sink"], q.shape[1]) if "sink" in given else None
    return attend(q, keys[..., :longest, :], values[..., :longest, :], seen, None, sink, scale=scale)


@engine_function
def joint(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    joint_q: torch.Tensor,
    joint_k: torch.Tensor,
    joint_v: torch.Tensor,
    *,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two sequences that attend to both: the second stands behind the first."""
    query, key, value = (torch.cat(pair, dim=-2) for pair in ((q, joint_q), (k, joint_k), (v, joint_v)))
    result = attend(query, key, value, scale=scale)
    return result[..., : q.shape[-2], :], result[..., q.shape[-2] :, :]


@engine_function
def latent(
    q: torch.Tensor,
    k: torch.Tensor,
    *further: torch.Tensor,
    roles: Sequence[str] = (),
    width: int | None = None,
    scale: float | None = None,
    causal: bool = True,
) -> torch.Tensor:
    """Attention over a compressed cache: the values are the first `width` columns of the keys unless they are given."""
    given = _named(further, roles)
    rows, keys = q.shape[-2], k.shape[-2]
    seen = None
    if causal:
        seen = torch.arange(keys, device=q.device)[None, :] <= torch.arange(rows, device=q.device)[:, None] + (keys - rows)
    return attend(q, k, given["v"] if "v" in given else k[..., :width], seen, given.get("mask"), scale=scale)


@engine_function
def chosen_blocks(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    indices: torch.Tensor,
    *,
    block: int,
    start: int | None,
    scale: float | None = None,
    user: int | None = None,
) -> torch.Tensor:
    """Every query sees the keys of the blocks that its line of `indices` names, up to its own place when the chunk's `start` is known. Names of no block are
    passed over."""
    if user is not None:
        k, v = k[user : user + 1], v[user : user + 1]
    keys, count = k.shape[-2], -(-k.shape[-2] // block)
    named = indices.to(torch.int64)
    chosen = torch.zeros(*named.shape[:-1], count + 1, dtype=torch.bool, device=q.device)
    chosen.scatter_(-1, torch.where((named < 0) | (named >= count), count, named), True)
    seen = chosen[..., :count].repeat_interleave(block, dim=-1)[..., :keys]
    if start is not None:
        seen &= torch.arange(keys, device=q.device) <= torch.arange(q.shape[-2], device=q.device)[:, None] + start
    seen = seen.repeat_interleave(q.shape[1] // seen.shape[1], dim=1)
    return attend(q, k, v, seen, scale=scale)


@engine_function
def ring_share(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, size: int, place: int, scale: float | None = None) -> torch.Tensor:
    """Causal attention of two stretches of the queries: the one at `place`, and its mirror from the back."""
    length = q.shape[-2] // (2 * size)
    row = torch.arange(q.shape[-2], device=q.device).reshape(2 * size, length)[[place, 2 * size - 1 - place]].flatten()
    seen = torch.arange(k.shape[-2], device=q.device)[None, :] <= row[:, None]
    return attend(q[..., row, :], k, v, seen, scale=scale)


@engine_function
def gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    normalised: bool = False,
    head_major: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Linear attention with a memory that forgets: S <- exp(g) S + k (beta (v - S^T k))^T, and o = S^T q, step by step.

    [batch, steps, heads, width]; the last memory is [batch, heads, width of keys, width of values].
    """
    query, key, value, gate, rate = (widened(t) for t in (q, k, v, g, beta))
    if normalised:
        query, key = (t * torch.rsqrt(t.square().sum(-1, keepdim=True) + 1e-6) for t in (query, key))
    heads, shared = value.shape[2], key.shape[2]
    if heads != shared:
        query, key = (t.repeat_interleave(heads // shared, dim=2) for t in (query, key))
    query = query * (query.shape[-1] ** -0.5 if scale is None else scale)
    batch, steps = key.shape[:2]
    memory = (
        widened(state).clone()
        if state is not None
        else torch.zeros(batch, heads, key.shape[-1], value.shape[-1], dtype=query.dtype, device=q.device)
    )
    rows = []
    for t in range(steps):
        memory = memory * gate[:, t, :, None, None].exp()
        found = (memory * key[:, t, :, :, None]).sum(-2)
        correction = (value[:, t] - found) * rate[:, t, :, None]
        memory = memory + key[:, t, :, :, None] * correction[:, :, None, :]
        rows.append((memory * query[:, t, :, :, None]).sum(-2))
    result = torch.stack(rows, dim=1) if rows else torch.zeros_like(value)
    return result.transpose(1, 2) if head_major else result, memory
