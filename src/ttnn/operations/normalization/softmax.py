"""Softmax along any dimension."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import norm as engine
from tessera.formats.dtype import DataType
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require

#: What the normalisation kernels read.
FLOATS = (DataType.FLOAT32, DataType.BFLOAT16, DataType.BFLOAT8_B)


def require_float(what: str, tensor: Tensor) -> None:
    require(tensor.buffer.device is not None, f"{what}: Device Operations expect device tensors as inputs, got one on the host")
    require(tensor.buffer.allocated, f"{what}: Tensor is not allocated; it was deallocated")
    require(tensor.spec.dtype in FLOATS, f"{what}: Input tensor must be FLOAT32, BFLOAT16, or BFLOAT8_B, got: {name_of(tensor.spec.dtype)}")


def wrapped_dim(what: str, dim: int, rank: int) -> int:
    """A dimension as torch counts it; a scalar has one to speak of."""
    low, high = -max(rank, 1), max(rank, 1) - 1
    require(low <= dim <= high, f"{what}: Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})")
    return dim % max(rank, 1)


def _golden(input_tensor: torch.Tensor, dim: int = -1, **_: Any) -> torch.Tensor:
    return torch.softmax(input_tensor, dim)


@operation("ttnn.softmax", golden=_golden)
def softmax(
    input_tensor: Tensor,
    dim: int = -1,
    *,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    numeric_stable: bool = True,
) -> Tensor:
    """exp(x) over its sum, along one dimension."""
    require_float("softmax", input_tensor)
    along = wrapped_dim("softmax", dim, len(input_tensor.spec.dims))
    return launch(
        "SoftmaxDeviceOperation", engine.softmax, [input_tensor], like(input_tensor, memory_config=memory_config), attributes={"dim": along}
    )  # type: ignore[no-any-return]
