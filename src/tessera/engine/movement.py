"""Rearranging elements: no arithmetic, so every function is exact for every dtype and works on values faces as they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tessera.engine.choice import engine_function


@engine_function
def reshape(values: torch.Tensor, *, shape: Sequence[int]) -> torch.Tensor:
    return values.reshape(tuple(shape)).clone()


@engine_function
def permute(values: torch.Tensor, *, dims: Sequence[int]) -> torch.Tensor:
    return values.permute(tuple(dims)).contiguous()


@engine_function
def transpose(values: torch.Tensor, *, first: int, second: int) -> torch.Tensor:
    return values.transpose(first, second).contiguous()


@engine_function
def cut(values: torch.Tensor, *, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> torch.Tensor:
    """A box of the values, every so many-th element of it."""
    return values[tuple(slice(a, b, s) for a, b, s in zip(starts, ends, steps))].contiguous()


@engine_function
def concat(*values: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.cat(values, dim)


@engine_function
def split(values: torch.Tensor, *, sizes: Sequence[int], dim: int) -> tuple[torch.Tensor, ...]:
    return tuple(part.contiguous() for part in torch.split(values, list(sizes), dim))


@engine_function
def repeat(values: torch.Tensor, *, times: Sequence[int]) -> torch.Tensor:
    return values.repeat(tuple(times))


@engine_function
def repeat_interleave(values: torch.Tensor, *, times: int, dim: int) -> torch.Tensor:
    return values.repeat_interleave(times, dim)


@engine_function
def expand(values: torch.Tensor, *, shape: Sequence[int]) -> torch.Tensor:
    return values.expand(tuple(shape)).contiguous()


@engine_function
def pad(values: torch.Tensor, *, before: Sequence[int], after: Sequence[int], value: float) -> torch.Tensor:
    """The values in the middle of a box of one value; a negative `after` cuts their end off."""
    shape = [b + d + a for b, d, a in zip(before, values.shape, after)]
    if min(after, default=0) < 0:
        values = values[tuple(slice(0, d + min(a, 0)) for d, a in zip(values.shape, after))]
    box = torch.full(shape, value, dtype=values.dtype, device=values.device)
    box[tuple(slice(b, b + d) for b, d in zip(before, values.shape))] = values
    return box


@engine_function
def gather(values: torch.Tensor, index: torch.Tensor, *, dim: int) -> torch.Tensor:
    return values.gather(dim, index.to(torch.int64).clamp(0, max(values.shape[dim] - 1, 0)))


@engine_function
def scatter(values: torch.Tensor, index: torch.Tensor, source: torch.Tensor, *, dim: int, how: str | None) -> torch.Tensor:
    """Source elements written, added or multiplied into a copy of the values at the index's places."""
    where = index.to(torch.int64)
    part = source[tuple(slice(0, n) for n in where.shape)].to(values.dtype)
    if how is None:
        return values.scatter(dim, where, part)
    wide = values.to(torch.float32) if values.is_floating_point() else values
    return wide.scatter_reduce(dim, where, part.to(wide.dtype), {"add": "sum", "multiply": "prod"}[how])


@engine_function
def gather_rows(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """TOSA's gather: whole rows of [batch, rows, width] by an index for each batch."""
    where = index.to(torch.int64).clamp(0, max(values.shape[1] - 1, 0)).unsqueeze(-1).expand(-1, -1, values.shape[2])
    return values.gather(1, where)


@engine_function
def scatter_rows(values: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """TOSA's scatter: whole rows written by an index for each batch."""
    where = index.to(torch.int64).clamp(0, max(values.shape[1] - 1, 0)).unsqueeze(-1).expand(-1, -1, values.shape[2])
    return values.scatter(1, where, source.to(values.dtype))


@engine_function
def fill_slices(values: torch.Tensor, index: torch.Tensor, *, dim: int, value: float) -> torch.Tensor:
    return values.index_fill(dim, index.to(torch.int64), value)


@engine_function
def replace_slices(index: torch.Tensor, values: torch.Tensor, source: torch.Tensor, *, dim: int) -> torch.Tensor:
    return values.index_copy(dim, index.reshape(-1).to(torch.int64), source.to(values.dtype))


@engine_function
def roll(values: torch.Tensor, *, shifts: Sequence[int], dims: Sequence[int]) -> torch.Tensor:
    return torch.roll(values, tuple(shifts), tuple(dims)) if dims else torch.roll(values, tuple(shifts))


@engine_function
def triangle(values: torch.Tensor, *, diagonal: int, lower: bool) -> torch.Tensor:
    """The lower or upper triangle of each matrix, zeros elsewhere."""
    matrix = values.reshape((1,) * (2 - values.dim()) + tuple(values.shape))
    return (torch.tril(matrix, diagonal) if lower else torch.triu(matrix, diagonal)).reshape(values.shape)


@engine_function
def corner(values: torch.Tensor, *, shape: Sequence[int], height: int, width: int, inside: float, outside: float) -> torch.Tensor:
    """Matrices of one value with a corner of another; `values` only says where and in which dtype."""
    made = torch.full(tuple(shape), outside, dtype=torch.float32, device=values.device)
    made[..., :height, :width] = inside
    return made


@engine_function
def plus_one(values: torch.Tensor, *, skip_negative: bool) -> torch.Tensor:
    return torch.where(values < 0, values, values + 1) if skip_negative else values + 1


@engine_function
def nonzero(values: torch.Tensor, *, places: int) -> tuple[torch.Tensor, torch.Tensor]:
    """How many elements are not zero, and their flat places in a list that has room for all, zeros after."""
    found = values.reshape(-1).nonzero().reshape(-1)
    count = torch.zeros(8, dtype=torch.int64, device=values.device)
    count[0] = found.numel()
    listed = torch.zeros(places, dtype=torch.int64, device=values.device)
    listed[: found.numel()] = found
    return count.reshape(1, 1, 1, 8), listed.reshape(1, 1, 1, places)


@engine_function
def rotate(values: torch.Tensor, *, angle: float, center: Sequence[float] | None, fill: float, bilinear: bool) -> torch.Tensor:
    """NHWC images turned counterclockwise about a point (x, y)."""
    images = values.to(torch.float32)
    height, width = images.shape[1:3]
    cx, cy = center if center is not None else ((width - 1) / 2, (height - 1) / 2)
    turn = torch.deg2rad(torch.tensor(angle, dtype=torch.float64))
    y, x = torch.meshgrid(torch.arange(height, dtype=torch.float64), torch.arange(width, dtype=torch.float64), indexing="ij")
    from_x = torch.cos(turn) * (x - cx) - torch.sin(turn) * (y - cy) + cx
    from_y = torch.sin(turn) * (x - cx) + torch.cos(turn) * (y - cy) + cy

    def at(rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        found = images[:, rows.clamp(0, height - 1), columns.clamp(0, width - 1)]
        return torch.where(inside[None, :, :, None], found, torch.tensor(fill))

    if not bilinear:
        return at(torch.round(from_y).long(), torch.round(from_x).long())
    top, left = torch.floor(from_y), torch.floor(from_x)
    down, right = (from_y - top)[None, :, :, None].float(), (from_x - left)[None, :, :, None].float()
    t, f = top.long(), left.long()
    above = at(t, f) * (1 - right) + at(t, f + 1) * right
    below = at(t + 1, f) * (1 - right) + at(t + 1, f + 1) * right
    return above * (1 - down) + below * down
