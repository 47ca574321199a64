"""Writing into key and value caches in place: a step of decoding touches one row of a cache that may fill most of a chip's memory.

Every function takes the cache's values first, writes into them and returns them. `dtype` names the cache's format, so that what is written is on its grid.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tessera.formats.dtype import DataType
from tessera.formats.rounding import to_grid


def _stored(values: torch.Tensor, cache: torch.Tensor, dtype: str) -> torch.Tensor:
    return to_grid(values, DataType[dtype]).to(cache.dtype)


def fill(cache: torch.Tensor, values: torch.Tensor, *, user: int, place: int, dtype: str) -> torch.Tensor:
    """[users, heads, length, width] takes [1, heads, rows, width] as a user's rows from `place` on."""
    rows = min(values.shape[-2], cache.shape[-2] - place)
    if rows > 0:
        cache[user, :, place : place + rows] = _stored(values[0, :, :rows], cache, dtype)
    return cache


def update(cache: torch.Tensor, values: torch.Tensor, *, place: int, offset: int, dtype: str) -> torch.Tensor:
    """[users, heads, length, width] takes [1, heads, users, width] as everybody's row at `place`."""
    users = min(cache.shape[0], values.shape[-2] - offset)
    if 0 <= place < cache.shape[-2] and users > 0:
        cache[:users, :, place] = _stored(values[0, :, offset : offset + users], cache, dtype).transpose(0, 1)
    return cache


def update_each(
    cache: torch.Tensor,
    values: torch.Tensor,
    *tables: torch.Tensor,
    places: Sequence[int] = (),
    dtype: str,
    offset: int = 0,
    modulo: int | None = None,
    paged: bool = False,
    shared: bool = False,
    block: int | None = None,
) -> torch.Tensor:
    """[users or pages, heads, length, width] takes [1, users, heads (padded), width]: every user's row at the user's own place.

    `tables` holds the places (when they are a tensor) and the page table. A negative place writes nothing.
    """
    rest = list(tables)
    where = list(places) if places else [int(p) for p in rest.pop(0).flatten().tolist()]
    pages = rest[0] if paged else None
    heads = cache.shape[1]
    view = cache
    if block is not None:  # the same bytes, counted in other blocks
        width = values.shape[-1]
        heads = cache[0].numel() // (block * width)
        view = cache.view(cache.shape[0], heads, block, width)
    length = view.shape[-2]
    rows = _stored(values[0, :, :heads], cache, dtype)
    for user, place in enumerate(where[: rows.shape[0]]):
        if place < 0 or place >= 2**31:
            continue
        if modulo:
            place %= modulo
        if pages is not None:
            number, place = divmod(place, length)
            page = int(pages[user + offset, number]) if number < pages.shape[1] else -1
        else:
            page = 0 if shared else user + offset
        if 0 <= page < view.shape[0] and place < length:
            view[page, :, place] = rows[user]
    return cache


def update_anywhere(cache: torch.Tensor, values: torch.Tensor, places: torch.Tensor, *, dtype: str) -> torch.Tensor:
    """[pages, heads, length, width] takes [1, users, heads (padded), width] at places counted over all pages."""
    rows = _stored(values[0, :, : cache.shape[1]], cache, dtype)
    for user, place in enumerate(places.flatten().tolist()[: rows.shape[0]]):
        page, row = divmod(int(place), cache.shape[2])
        if 0 <= page < cache.shape[0]:
            cache[page, :, row] = rows[user]
    return cache


def fill_pages(
    cache: torch.Tensor,
    values: torch.Tensor,
    pages: torch.Tensor,
    *further: torch.Tensor,
    user: int,
    dtype: str,
    tensors: Sequence[str] = (),
    block: int | None = None,
    modulo: int | None = None,
) -> torch.Tensor:
    """[pages, heads, length, width] takes [1, heads, rows, width] on the pages that a user's line of the table names; -1 is no page."""
    given = dict(zip(tensors, further))
    if "user" in given:
        user = int(given["user"].flatten()[0])
    _, heads, rows, width = values.shape
    if "length" in given:
        rows = min(rows, int(given["length"].flatten()[0]))
    view = cache.view(cache.shape[0], heads, block or cache[0].numel() // (heads * width), width)
    length = view.shape[-2]
    stored = _stored(values[0], cache, dtype)
    first = 0
    if modulo and rows > modulo:  # a ring keeps the last rows only
        first = (rows - modulo) // length * length
    for start in range(first, rows, length):
        number = (start % modulo if modulo else start) // length
        page = int(pages[user, number]) if number < pages.shape[1] else -1
        if 0 <= page < view.shape[0]:
            count = min(length, rows - start)
            view[page, :, :count] = stored[:, start : start + count]
    return cache


def read_pages(cache: torch.Tensor, pages: torch.Tensor) -> torch.Tensor:
    """[pages, heads, length, width] through a table [users, n] as [users, heads, n * length, width]. Pages that are not there read page 0; nobody
    attends to them."""
    found = cache[pages.to(torch.int64).clamp(0, cache.shape[0] - 1)]
    return found.transpose(1, 2).flatten(2, 3)
