"""Floats as the engine computes with them: bfloat16 operands are widened before anything is done to them."""

from __future__ import annotations

import torch


def as_fp32(values: torch.Tensor) -> torch.Tensor:
    """The values in fp32, whatever they were."""
    return values if values.dtype is torch.float32 else values.to(torch.float32)


def widened(values: torch.Tensor) -> torch.Tensor:
    """The values in fp32; what is wider stays as it is (a golden function in fp64)."""
    return values if values.dtype in (torch.float32, torch.float64) else values.to(torch.float32)
