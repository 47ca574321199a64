"""Reductions: the results that need a whole row, column or tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tessera.graph.ops.table import register_aten, row


def reduce_sum(self: Tensor, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    return torch.sum(self, dtype=dtype) if dim is None or dim == [] else torch.sum(self, dim, keepdim, dtype=dtype)


def reduce_avg(self: Tensor, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    return torch.mean(self, dtype=dtype) if dim is None or dim == [] else torch.mean(self, dim, keepdim, dtype=dtype)


def reduce_max(self: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    return torch.amax(self, dim, keepdim)


def reduce_min(self: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    return torch.amin(self, dim, keepdim)


def reduce_max_stride(self: Tensor, dim: int, stride: int) -> Tensor:
    """The maximum over groups of `stride` neighbours along `dim`, in place of each group."""
    return self.unflatten(dim, (-1, stride)).amax(dim if dim < 0 else dim + 1, keepdim=False)


def grouped_reduce_avg(self: Tensor, dim: int, groups: int, keep_dims: bool = False) -> Tensor:
    """The average of each of `groups` equal parts along `dim`; with `keep_dims` repeated to the old length."""
    dim %= self.dim()
    mean = self.unflatten(dim, (groups, -1)).mean(dim + 1)
    return mean.repeat_interleave(self.shape[dim] // groups, dim) if keep_dims else mean


def argmax(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return torch.argmax(self, dim, keepdim)


row("reduce_sum", reduce_sum, "reduce", "sum", "sum.dim_IntList", buda="reduce")
row("reduce_avg", reduce_avg, "reduce", "mean", "mean.dim", buda="reduce")
row("reduce_max", reduce_max, "reduce", "amax", "max", buda="reduce")
row("reduce_min", reduce_min, "reduce", "amin", "min", buda="reduce")
row("reduce_max_stride", reduce_max_stride, "reduce", buda="reduce")
row("grouped_reduce_avg", grouped_reduce_avg, "reduce", buda="reduce")
row("argmax", argmax, "reduce", "argmax")
row("argmin", torch.argmin, "reduce", "argmin")
row("max_dim", torch.max, "reduce", "max.dim", many=True, buda="reduce")
row("min_dim", torch.min, "reduce", "min.dim", many=True, buda="reduce")
row("topk", torch.topk, "reduce", "topk", many=True)
row("reduce_prod", torch.prod, "reduce", "prod", "prod.dim_int", buda="reduce")
row("any", torch.any, "reduce", "any", "any.dim", "any.dims")
row("all", torch.all, "reduce", "all", "all.dim", "all.dims")
row("variance", torch.var, "reduce", "var.correction", "var.dim", "var")
row("deviation", torch.std, "reduce", "std.correction", "std.dim", "std")
row("variance_mean", torch.var_mean, "reduce", "var_mean.correction", many=True)
row("logsumexp", torch.logsumexp, "reduce", "logsumexp")
row("vector_norm", torch.linalg.vector_norm, "reduce", "linalg_vector_norm")
row("norm", torch.norm, "reduce", "norm.ScalarOpt_dim", "norm.Scalar")


def cumsum(self: Tensor, dim: int = 0, exclusive: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    total = torch.cumsum(self, dim, dtype=dtype)
    return total - self if exclusive else total


row("cumsum", cumsum, "scan", "cumsum")
row("cumprod", torch.cumprod, "scan", "cumprod")
register_aten("reduce_sum", ("sum.default",))
