"""Reductions; the reduced dimension stays, with length one."""

from __future__ import annotations

from pybuda.op.common import make
from pybuda.tensor import Tensor


def ReduceSum(name: str, operandA: Tensor, dim: int) -> Tensor:
    return make("reduce_sum", name, operandA, dim=dim, keepdim=True)


def ReduceAvg(name: str, operandA: Tensor, dim: int) -> Tensor:
    return make("reduce_avg", name, operandA, dim=dim, keepdim=True)


def GroupedReduceAvg(name: str, operandA: Tensor, dim: int, groups: int, keep_dims: bool = False) -> Tensor:
    return make("grouped_reduce_avg", name, operandA, dim=dim, groups=groups, keep_dims=keep_dims)


def ReduceMax(name: str, operandA: Tensor, dim: int, stride: int = -1) -> Tensor:
    """The maximum along `dim`, or with `stride` the maximum of each group of `stride` neighbours."""
    if stride in (-1, operandA.shape[dim]):
        return make("reduce_max", name, operandA, dim=dim, keepdim=True)
    return make("reduce_max_stride", name, operandA, label="reduce_max", dim=dim, stride=stride)
