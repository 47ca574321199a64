"""Gated linear units: half of a tensor under the gate of the other half."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tessera.engine.choice import engine_function
from tessera.engine.steps import STEPS
from tessera.engine.unary import flushed


@engine_function
def gated(x: Tensor, *, step: str, dims: tuple[int, ...]) -> Tensor:
    """First half of the last dimension times `step` of the second; `x` is padded with zeros to `dims` first."""
    if tuple(x.shape) != tuple(dims):
        x = F.pad(x, [n for have, want in zip(reversed(x.shape), reversed(dims)) for n in (0, want - have)])
    wide = x.to(torch.float64)
    first, second = wide.split(wide.shape[-1] // 2, -1)
    return flushed((first * STEPS[step].compute(second)).to(torch.float32))
