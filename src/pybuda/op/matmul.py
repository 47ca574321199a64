"""Matrix products."""

from __future__ import annotations

from pybuda.op.common import make
from pybuda.parameter import Parameter
from pybuda.tensor import Tensor


def Matmul(name: str, operandA: Tensor, operandB: Tensor | Parameter, bias: Tensor | Parameter | None = None) -> Tensor:
    """The product of the last two dimensions; a bias is an addition of its own, named `<name>.bias`."""
    product = make("matmul", name, operandA, operandB)
    if bias is None:
        return product
    own = getattr(product.src_op, "name", name)
    return make("add", f"{own}.bias" if own else "", product, bias)


def SparseMatmul(name: str, sparseA: Tensor, denseB: Tensor) -> Tensor:
    return make("sparse_matmul", name, sparseA, denseB)
