"""Softmax, softmin and log-softmax along any dimension, and their gradients: rows of one table."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import moreh as engine
from tessera.formats.dtype import DataType
from tessera.formats.enums import OfficialEnum
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.moreh.rules import check, fitting
from ttnn.operations.rules import require


class MorehSoftmaxOp(OfficialEnum):
    SOFTMAX = 0
    SOFTMIN = 1
    LOGSOFTMAX = 2


class MorehSoftmaxBackwardOp(OfficialEnum):
    SOFTMAX = 0
    SOFTMIN = 1
    LOGSOFTMAX = 2


class MorehSoftmaxOpParallelizationStrategy(OfficialEnum):
    NONE = 0
    SMALL_W = 1
    SMALL_H = 2
    LARGE_W = 3
    LARGE_H = 4
    LARGE_C = 5


class MorehSoftmaxBackwardOpParallelizationStrategy(OfficialEnum):
    NONE = 0
    SMALL_W = 1
    SMALL_H = 2
    LARGE_W = 3
    LARGE_H = 4
    LARGE_C = 5


_FORWARD = (DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.FLOAT32)
_BACKWARD = (DataType.BFLOAT16, DataType.BFLOAT8_B)

ROWS: dict[str, tuple[str, Any]] = {
    "moreh_softmax": ("SOFTMAX", torch.softmax),
    "moreh_softmin": ("SOFTMIN", lambda x, dim: torch.softmax(-x, dim)),
    "moreh_logsoftmax": ("LOGSOFTMAX", torch.log_softmax),
}


def _along(what: str, dim: int, rank: int) -> int:
    if dim < 0:  # counted without a sign over there, so that this is a matter of types
        raise TypeError(f"{what}(): incompatible function arguments: dim={dim} must not be negative")
    require(dim < rank, f"{what}: dim {dim} should be less than output tensor rank {rank}")
    return dim


def _declare(name: str) -> None:
    own, reference = ROWS[name]

    def forward(
        input_tensor: Tensor,
        dim: int,
        *,
        output_tensor: Tensor | None = None,
        op: Any = None,
        strategy: Any = None,
        memory_config: MemoryConfig | None = None,
        compute_kernel_config: Any = None,
    ) -> Tensor:
        spec = input_tensor.spec
        along = _along(name, dim, 8)
        check(name, _FORWARD, input_tensor=input_tensor)
        _along(name, along, len(spec.dims))
        out = fitting(name, spec, spec.dims, output_tensor, memory_config)
        attributes = {"dim": along, "op": own if op is None else op.name}
        return launch("MorehSoftmaxOperation", engine.soft, [input_tensor], out, attributes=attributes, into=output_tensor)  # type: ignore[no-any-return]

    def backward(
        output_tensor: Tensor,
        output_grad_tensor: Tensor,
        dim: int,
        *,
        input_grad_tensor: Tensor | None = None,
        op: Any = None,
        strategy: Any = None,
        memory_config: MemoryConfig | None = None,
        compute_kernel_config: Any = None,
    ) -> Tensor:
        what, spec = f"{name}_backward", output_tensor.spec
        along = _along(what, dim, 8)
        check(what, _BACKWARD, output_tensor=output_tensor, output_grad_tensor=output_grad_tensor)
        _along(what, along, len(spec.dims))
        require(output_grad_tensor.spec.dims == spec.dims, f"{what}: output_grad_tensor must have the shape {spec.shape}")
        out = fitting(what, spec, spec.dims, input_grad_tensor, memory_config)
        return launch(  # type: ignore[no-any-return]
            "MorehSoftmaxBackwardOperation",
            engine.soft_backward,
            [output_tensor, output_grad_tensor],
            out,
            attributes={"dim": along, "op": own if op is None else op.name},
            into=input_grad_tensor,
        )

    def golden(input_tensor: torch.Tensor, dim: int, **_: Any) -> torch.Tensor:
        found: torch.Tensor = reference(input_tensor, dim)
        return found

    def golden_backward(output_tensor: torch.Tensor, output_grad_tensor: torch.Tensor, dim: int, **_: Any) -> torch.Tensor:
        return engine.soft_backward(output_tensor, output_grad_tensor, dim=dim, op=own).to(output_tensor.dtype)  # type: ignore[no-any-return]

    forward.__doc__ = f"{own.lower()} along a dimension."
    backward.__doc__ = f"The gradient of {own.lower()}, from its output."
    operation(f"ttnn.{name}", golden=golden)(forward)
    operation(f"ttnn.{name}_backward", golden=golden_backward)(backward)


for _name in ROWS:
    _declare(_name)
