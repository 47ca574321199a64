"""Losses: how far a prediction is from a reference, element by element or as one number.

Each is a subtraction with an activation, and a reduction, as on the chip: what those refuse is refused here.
"""

from __future__ import annotations

from typing import Any

import torch

from tessera.memory.config import MemoryConfig
from tessera.runtime.tensor import Tensor
from ttnn.decorators import REGISTERED_OPERATIONS, Operation, operation
from ttnn.operations.rules import require
from ttnn.types import LossReductionMode, UnaryOpType

ROWS: dict[str, tuple[str, Any]] = {"mse_loss": ("SQUARE", torch.nn.functional.mse_loss), "l1_loss": ("ABS", torch.nn.functional.l1_loss)}


def _declare(name: str) -> Operation:
    activation, reference = ROWS[name]

    def body(
        input_reference: Tensor,
        input_prediction: Tensor,
        *,
        reduction: Any = LossReductionMode.NONE,  # type: ignore[attr-defined]
        memory_config: MemoryConfig | None = None,
        output_tensor: Tensor | None = None,
    ) -> Tensor:
        subtract = REGISTERED_OPERATIONS["ttnn.subtract"]
        whole = reduction == LossReductionMode.NONE  # type: ignore[attr-defined]
        require(whole or output_tensor is None, f"{name}: output_tensor is for reduction=NONE")
        kind = getattr(UnaryOpType, activation)
        found = subtract(input_reference, input_prediction, activations=[kind], memory_config=memory_config, output_tensor=output_tensor)
        if whole:
            return found  # type: ignore[no-any-return]
        total = REGISTERED_OPERATIONS["ttnn.mean" if reduction == LossReductionMode.MEAN else "ttnn.sum"]  # type: ignore[attr-defined]
        return total(found, memory_config=memory_config)  # type: ignore[no-any-return]

    def golden(input_reference: torch.Tensor, input_prediction: torch.Tensor, *, reduction: Any = "none", **_: Any) -> torch.Tensor:
        word = str(getattr(reduction, "name", reduction)).lower()
        found: torch.Tensor = reference(input_prediction, input_reference, reduction=word)
        return found

    body.__doc__ = f"{'Squares' if name == 'mse_loss' else 'Sizes'} of the differences: each, their mean, or their sum."
    return operation(f"ttnn.{name}", golden=golden)(body)


for _name in ROWS:
    _declare(_name)
