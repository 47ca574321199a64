"""Rows of a table by number."""

from __future__ import annotations

from pybuda.op.common import make
from pybuda.parameter import Parameter
from pybuda.tensor import Tensor


def Embedding(name: str, embedding_table: Tensor | Parameter, indices: Tensor) -> Tensor:
    return make("embedding", name, embedding_table, indices)
