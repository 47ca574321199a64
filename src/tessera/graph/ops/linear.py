"""Matrix products. `matmul` carries PyBuda's fused bias as a third input, and torch's `linear` is a matmul with `transpose_b`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tessera.graph.ops.table import row

ACTIVATION: dict[str, Any] = {
    "relu": torch.relu,
    "relu6": F.relu6,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": F.silu,
    "hardswish": F.hardswish,
}


def matmul(a: Tensor, b: Tensor, bias: Tensor | None = None, transpose_b: bool = False, activation: str | None = None) -> Tensor:
    """a b (+ bias), through an activation if one is fused in."""
    product = _product(a, b, bias, transpose_b)
    return product if activation is None else ACTIVATION[activation](product)  # type: ignore[no-any-return]


def _product(a: Tensor, b: Tensor, bias: Tensor | None, transpose_b: bool) -> Tensor:
    if transpose_b:
        return F.linear(a, b, bias) if bias is None or bias.dim() == 1 else F.linear(a, b) + bias
    if a.dtype is torch.int8 and b.dtype is torch.int8:
        product = torch.matmul(a.int(), b.int())
    else:
        product = torch.matmul(a, b)
    return product if bias is None else product + bias


def _addmm(inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    bias, a, b = inputs
    if attrs:
        return inputs, {"scaled": True, **attrs}
    return [a, b, bias], {}


def baddbmm(bias: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    return beta * bias + alpha * torch.matmul(a, b)


row("matmul", matmul, "matmul", "mm", "bmm", "matmul", "mv", "dot")
row("matmul", matmul, "matmul", "linear", adapt=lambda i, a: (i, {"transpose_b": True}))
row("matmul", matmul, "matmul", "addmm", adapt=_addmm)
row("scaled_addmm", baddbmm, "matmul", "baddbmm", buda="matmul")


def einsum(*operands: Tensor, equation: str) -> Tensor:
    return torch.einsum(equation, *operands)


def bilinear(a: Tensor, b: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product = torch.einsum("...i,oij,...j->...o", a, weight, b)
    return product if bias is None else product + bias


row("bilinear", bilinear, "matmul", "bilinear", buda="matmul")
row("einsum", einsum, "matmul", "einsum", adapt=lambda i, a: (i, {"equation": a["equation"]}), buda="matmul")
row("outer", torch.outer, "matmul", "outer", buda="matmul")


def sparse_matmul(sparse: Tensor, dense: Tensor) -> Tensor:
    """A constant picker or other sparse matrix times a dense one; batches of the dense side are broadcast."""
    left = sparse.to_dense() if sparse.layout is not torch.strided else sparse
    return torch.matmul(left.to(dense.dtype), dense)


row("sparse_matmul", sparse_matmul, "matmul", buda="matmul")
