"""Tokens on their way to the chips of their experts and back: what lies between a router and a mixture of experts.

`mapping` is [.., experts, chips], not zero where a chip holds an expert; `metadata` is [.., batch, sequence, chosen], the experts of each token.
Like collectives, these take one list of parts for each tensor and return such lists.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tessera.engine.collective import Parts, all_gather, groups


def holds(mapping: torch.Tensor, chip: int) -> torch.Tensor:
    """The experts of a chip, in order."""
    return mapping.reshape(-1, mapping.shape[-1])[:, chip].nonzero().reshape(-1)


def _chosen(metadata: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
    """[batch, sequence, chosen]: where a token's choice is one of these experts."""
    flat = metadata.reshape(-1, *metadata.shape[-2:]).to(torch.int64)
    return torch.isin(flat, experts.to(torch.int64))


def dispatch(tokens: Parts, indices: Parts, mapping: Parts, *, mesh: Sequence[int], axis: int | None, dim: int) -> tuple[Parts, Parts]:
    """Each chip gets the tokens of its group that chose one of its experts, at their places among all tokens, zeros elsewhere; and all choices."""
    flat = [t.reshape(1, -1, *t.shape[-2:]) for t in tokens]
    choices = all_gather([t.reshape(1, -1, *t.shape[-2:]) for t in indices], mesh=mesh, axis=axis, dim=dim)
    everyone = all_gather(flat, mesh=mesh, axis=axis, dim=dim)
    sparse = []
    for chip, (tokens_, chosen) in enumerate(zip(everyone, choices)):
        wanted = _chosen(chosen, holds(mapping[chip], chip)).any(-1, keepdim=True)
        sparse.append(torch.where(wanted, tokens_[0], torch.zeros((), dtype=tokens_.dtype))[None])
    return sparse, choices


def combine(
    results: Parts, metadata: Parts, mapping: Parts, *, mesh: Sequence[int], axis: int | None, dim: int, local_reduce: bool
) -> Parts:
    """The results [experts of the chip, batch, sequence, width] of each token's experts, back where the token came from: [chosen, ...] on its own chip.
    With `local_reduce` a chip has one sum over its experts: it comes back at the place of the first."""
    out: Parts = list(results)
    for group in groups(mesh, axis):
        chosen = metadata[group[0]].reshape(-1, *metadata[group[0]].shape[-2:]).to(torch.int64)
        batch, length, count = chosen.shape
        whole = torch.zeros(count, batch, length, results[group[0]].shape[-1], dtype=results[group[0]].dtype)
        for chip in group:
            experts = holds(mapping[chip], chip)
            if local_reduce:
                mine = _chosen(chosen, experts)
                first = mine & (mine.cumsum(-1) == 1)
                places = {0: first}
            else:
                places = {local: chosen == expert for local, expert in enumerate(experts)}
            for local, at in places.items():
                whole = torch.where(at.permute(2, 0, 1)[..., None], results[chip][local][None], whole)
        for place, part in enumerate(whole.chunk(len(group), dim)):
            out[group[place]] = part.contiguous()
    return out


def remap(weights: Parts, mapping: Parts, metadata: Parts, *, reduction: int) -> tuple[Parts, Parts]:
    """For each chip, which has its share of the experts and no more: the weights of its experts for the tokens that chose them, and which of them any token of each `reduction` neighbours chose."""
    local, used = [], []
    for chip, (weight, held, chosen) in enumerate(zip(weights, mapping, metadata)):
        count = held.shape[-2] // held.shape[-1]
        experts = torch.nn.functional.pad(holds(held, chip)[:count], (0, max(0, count - len(holds(held, chip)))), value=-1)
        flat = chosen.reshape(-1, chosen.shape[-1]).to(torch.int64)
        picked = (flat[:, :, None] == experts).any(1)
        rows = weight.reshape(-1, weight.shape[-1])[: flat.shape[0], experts.clamp_min(0)]
        local.append(torch.where(picked, rows, torch.zeros((), dtype=rows.dtype)).reshape(1, *chosen.shape[-3:-1], -1))
        filled = torch.nn.functional.pad(picked, (0, 0, 0, -picked.shape[0] % reduction))
        used.append(filled.reshape(1, 1, -1, reduction, len(experts)).any(3).to(torch.int32))
    return local, used
