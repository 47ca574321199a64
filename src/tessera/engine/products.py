"""Relatives of the matrix product: with a term added, in parts, for chosen pairs, for every user of a cache. All accumulate in fp32 and round once."""

from __future__ import annotations

import torch

from tessera.engine.choice import engine_function
from tessera.engine.matmul import matmul
from tessera.engine.unary import Program


def _wide(values: torch.Tensor) -> torch.Tensor:
    """Floats as fp32 (or what is wider); whole numbers as fp64, which holds their sums exactly."""
    if not values.dtype.is_floating_point:
        return values.to(torch.float64)
    return values if values.dtype in (torch.float32, torch.float64) else values.to(torch.float32)


@engine_function
def addmm(a: torch.Tensor, b: torch.Tensor, term: torch.Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0) -> torch.Tensor:
    """alpha * (a @ b) + beta * term."""
    product: torch.Tensor = torch.matmul(_wide(a), _wide(b)) * alpha
    return product if term is None else product + beta * _wide(term)


@engine_function
def minimal_matmul(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None, *, activation: Program = (), chunks: int = 1, swiglu: bool = False
) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """The product in `chunks` equal parts of its width. `swiglu` multiplies its first half with the silu of its second."""
    result: torch.Tensor = matmul(a, b.reshape(b.shape[-2:]), bias, activation=activation)
    if swiglu:
        value, gate = result.chunk(2, dim=-1)
        result = value * torch.nn.functional.silu(gate)
    return tuple(result.chunk(chunks, dim=-1)) if chunks > 1 else result


@engine_function
def sparse_matmul(a: torch.Tensor, b: torch.Tensor, sparsity: torch.Tensor, *, pairs: bool = True) -> torch.Tensor:
    """a [.., m, k] with every b [1, e, k, n] (`pairs`: [.., 1, e, m, n]), or a [.., e, m, k] each with its own, where sparsity is not zero."""
    left = a.unsqueeze(-3).unsqueeze(-3) if pairs else a
    batch = (*left.shape[:-3], b.shape[-3])
    chosen = sparsity.reshape(batch if sparsity.numel() == torch.Size(batch).numel() else (b.shape[-3],)) != 0
    result = torch.zeros(*batch, a.shape[-2], b.shape[-1], dtype=_wide(a[:0]).dtype, device=a.device)
    lefts = left.expand(*batch, *left.shape[-2:])
    for place in torch.nonzero(chosen.expand(batch)).tolist():
        result[tuple(place)] = _wide(lefts[tuple(place)]) @ _wide(b[0, place[-1]])
    return result


@engine_function
def users_matmul(a: torch.Tensor, b: torch.Tensor, *, tokens: int | None = None, transpose: bool = False) -> torch.Tensor:
    """[1, heads, users, k] with [users, shared heads, k, n]: each user's row with the user's matrix. `tokens` reads that many of the rows of `b`."""
    if tokens is not None:
        b = b[:, :, :tokens]
        if b.shape[-2] < tokens:
            b = torch.nn.functional.pad(b, (0, 0, 0, tokens - b.shape[-2]))
    if transpose:
        b = b.transpose(-1, -2)
    heads, shared = a.shape[1], b.shape[1]
    left = _wide(a)[0].transpose(0, 1).unflatten(1, (shared, heads // shared))  # users, shared, heads of each, k
    return torch.matmul(left, _wide(b)).flatten(1, 2).transpose(0, 1).unsqueeze(0)


@engine_function
def outer(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Products of all pairs along the last dimensions."""
    if not a.dtype.is_floating_point:
        return a.to(torch.int64).unsqueeze(-1) * b.to(torch.int64).unsqueeze(-2)
    return _wide(a).unsqueeze(-1) * _wide(b).unsqueeze(-2)
