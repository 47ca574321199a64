"""Matrix products natively: small ones, those with a packed right side, those whose sums must not be rounded before a bias is added, and
large ones where the CPU has bfloat16 dot products but no matrix unit; torch's are faster with one, and at least as fast without either.

A right side that is one matrix (leading dimensions of one) is met by all rows of the left at once.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tessera import _native
from tessera.engine.native.elementwise import OF_FLOAT
from tessera.engine.native.norm import plain
from tessera.engine.packed import Packed
from tessera.engine.unary import Program, elementwise_unary

#: Multiplications up to which our kernel beats the start of torch's.
SMALL = 160**3

#: Rows that are better met by packed tiles even where a matrix unit waits for values.
FEW_ROWS = 16


def is_small(m: int, k: int, n: int) -> bool:
    return m * k * n <= SMALL and k <= 1024


def has_dots() -> bool:
    """Whether our kernel meets torch's at any size: bfloat16 dot products in vectors, and no matrix unit for torch to use."""
    return _native.isa() == "avx512" and _native.cpu_features()["avx512_bf16"] and "amx" not in _native.runnable_isas()


def matmul(
    a: Tensor,
    b: Tensor | Packed,
    bias: Tensor | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    activation: Program = (),
    narrow: bool = False,
) -> Any:
    if transpose_a or a.dim() < 2 or not plain(a):
        return NotImplemented
    *batch, m, k = a.shape
    m *= math.prod(batch)
    if isinstance(b, Packed) and not b.bits:
        b = b.values()
    if isinstance(b, Packed):
        if transpose_b or k % 2 or b.rows != k or (m > FEW_ROWS and _native.isa() == "amx"):
            return NotImplemented
        n, bits, address = b.columns, b.bits, b.image.data_ptr()
    else:
        if b.dim() < 2 or not plain(b) or any(size != 1 for size in b.shape[:-2]) or b.dim() > a.dim():
            return NotImplemented
        n, bits, address = b.shape[-2 if transpose_b else -1], 0, b.data_ptr()
        if b.shape[-1 if transpose_b else -2] != k or (
            narrow and bias is None and not activation and not is_small(m, k, n) and not has_dots()
        ):
            return NotImplemented
    if not (m and k and n):
        return NotImplemented
    add = 0
    if bias is not None:
        if bias.numel() != n or bias.shape[-1] != n or not plain(bias):
            return NotImplemented
        add = bias.data_ptr()
    rounds = narrow and not activation
    out = torch.empty((*a.shape[:-1], n), dtype=torch.bfloat16 if rounds else torch.float32)
    _native.matmul(a.data_ptr(), address, bits, transpose_b, add, out.data_ptr(), not rounds, m, k, n, torch.get_num_threads())
    if not activation:
        return out
    step = OF_FLOAT.get(activation[0][0]) if len(activation) == 1 and not activation[0][1] else None
    if step is None or not narrow:
        return elementwise_unary(out, program=activation)
    result = torch.empty(out.shape, dtype=torch.bfloat16)
    _native.unary_of_float(step, out.data_ptr(), result.data_ptr(), out.numel(), torch.get_num_threads())
    return result
