"""Collectives between the chips of a mesh: each takes one list of parts, in row-major order of the mesh, and returns such a list.

A group is a line of chips along one mesh axis (or the whole mesh): `groups` deals part numbers to groups, in order along the axis.
Sums accumulate in fp32 and are rounded by the caller.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch

Parts = list[torch.Tensor]


def groups(mesh: Sequence[int], axis: int | None) -> list[list[int]]:
    """The part numbers of each group of chips that talk to each other."""
    count = math.prod(mesh)
    if axis is None:
        return [list(range(count))]
    strides = [math.prod(mesh[k + 1 :]) for k in range(len(mesh))]
    others = [range(n) for k, n in enumerate(mesh) if k != axis]
    dealt = []
    for place in itertools.product(*others):
        rest = list(place)
        start = sum(rest.pop(0) * strides[k] for k in range(len(mesh)) if k != axis)
        dealt.append([start + i * strides[axis] for i in range(mesh[axis])])
    return dealt


def _summed(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    wide = [p.to(torch.float32) if p.is_floating_point() else p.to(torch.int64) for p in parts]
    return torch.stack(wide).sum(0)


def all_gather(parts: Parts, *, mesh: Sequence[int], axis: int | None, dim: int, backwards: bool = False) -> Parts:
    """Every chip gets the parts of its group, one behind the other, or the last one first."""
    out: Parts = list(parts)
    for group in groups(mesh, axis):
        joined = torch.cat([parts[i] for i in (reversed(group) if backwards else group)], dim)
        for i in group:
            out[i] = joined
    return out


def all_to_all(parts: Parts, *, mesh: Sequence[int], axis: int | None, joined: int, split: int) -> Parts:
    """Each chip gives every chip of its group a slice along `split`, and joins those that it gets along `joined`."""
    out: Parts = list(parts)
    for group in groups(mesh, axis):
        slices = [torch.chunk(parts[i], len(group), split) for i in group]
        for place, i in enumerate(group):
            out[i] = torch.cat([given[place] for given in slices], joined)
    return out


def all_reduce(parts: Parts, *, mesh: Sequence[int], axis: int | None) -> Parts:
    """Every chip gets the sum over its group."""
    out: Parts = list(parts)
    for group in groups(mesh, axis):
        total = _summed([parts[i] for i in group])
        for i in group:
            out[i] = total
    return out


def reduce_scatter(parts: Parts, *, mesh: Sequence[int], axis: int | None, dim: int) -> Parts:
    """Each chip gets its slice of the sum over its group."""
    out: Parts = list(parts)
    for group in groups(mesh, axis):
        slices = torch.chunk(_summed([parts[i] for i in group]), len(group), dim)
        for place, i in enumerate(group):
            out[i] = slices[place].contiguous()
    return out


def partition(parts: Parts, *, mesh: Sequence[int], axis: int | None, dim: int) -> Parts:
    """Each chip keeps its slice of what it has."""
    out: Parts = list(parts)
    for group in groups(mesh, axis):
        for place, i in enumerate(group):
            out[i] = torch.chunk(parts[i], len(group), dim)[place].contiguous()
    return out


def broadcast(parts: Parts, *, mesh: Sequence[int], axis: int | None, sender: Sequence[int]) -> Parts:
    """Every chip gets the sender's part; along an axis, that of the sender's place on its own line."""
    out: Parts = list(parts)
    strides = [math.prod(mesh[k + 1 :]) for k in range(len(mesh))]
    for group in groups(mesh, axis):
        source = sum(c * s for c, s in zip(sender, strides)) if axis is None else group[sender[axis]]
        for i in group:
            out[i] = parts[source]
    return out


def all_broadcast(parts: Parts, *, mesh: Sequence[int], axis: int | None) -> tuple[Parts, ...]:
    """As many tensors as a group has chips: the k-th is the k-th chip's part, everywhere."""
    lines = groups(mesh, axis)
    made = []
    for place in range(len(lines[0])):
        out: Parts = list(parts)
        for group in lines:
            for i in group:
                out[i] = parts[group[place]]
        made.append(out)
    return tuple(made)


def point_to_point(parts: Parts, *, sender: int, receiver: int) -> Parts:
    """The receiver gets the sender's part; the other chips keep theirs."""
    out: Parts = list(parts)
    out[receiver] = parts[sender]
    return out
