"""Several operands: joining, choosing, copying in."""

from __future__ import annotations

from pybuda.op.common import make
from pybuda.tensor import Tensor


def Concatenate(name: str, *operands: Tensor, axis: int) -> Tensor:
    return make("concatenate", name, *operands, dim=axis)


def Where(name: str, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return make("where", name, condition, x, y, data_format=x.data_format)


def IndexCopy(name: str, operandA: Tensor, index: Tensor, value: Tensor, dim: int) -> Tensor:
    return make("index_copy", name, operandA, index, value, dim=dim)


def Stack(name: str, *operands: Tensor, axis: int) -> Tensor:
    return make("stack", name, *operands, dim=axis)


def Interleave(name: str, *operands: Tensor, axis: int, stride: int) -> Tensor:
    return make("interleave", name, *operands, dim=axis, stride=stride)
