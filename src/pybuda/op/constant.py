"""Scalars."""

from __future__ import annotations

import torch

from pybuda.tensor import Tensor, TensorFromPytorch


def Constant(name: str, *, constant: float) -> Tensor:
    """One number, broadcast to whatever it meets."""
    made = TensorFromPytorch(torch.tensor(float(constant)), constant=True)
    made.constant_name = name  # type: ignore[attr-defined]
    return made
