"""Matrix products, with bias and activation: fp32 accumulation, one rounding at the end.

torch's bfloat16 product accumulates in fp32 and rounds once, so it is used as it is where the result is bfloat16 and nothing follows the product;
otherwise operands are widened first.
"""

from __future__ import annotations

import torch

from tessera.engine.choice import engine_function
from tessera.engine.unary import Program, elementwise_unary
from tessera.engine.widening import as_fp32


@engine_function
def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    activation: Program = (),
    narrow: bool = False,
) -> torch.Tensor:
    """a @ b (+ bias), then an activation. `narrow` says that the result is stored as bfloat16, so a bfloat16 product is exact enough."""
    if transpose_a:
        a = a.transpose(-1, -2)
    if transpose_b:
        b = b.transpose(-1, -2)
    plain = bias is None and not activation
    if narrow and plain and a.dtype is torch.bfloat16 and b.dtype is torch.bfloat16:
        return torch.matmul(a, b)
    result = torch.matmul(as_fp32(a), as_fp32(b))
    if bias is not None:
        result = result + as_fp32(bias)
    return elementwise_unary(result, program=activation) if activation else result
