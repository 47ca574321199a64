"""Softmax of attention scores: scaled by the size of a head, with a mask added."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import norm as engine
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.normalization.softmax import require_float
from ttnn.operations.rules import like, require, require_device, require_tile


def _golden(tensor: torch.Tensor, *, head_size: int | None = None, attention_mask: torch.Tensor | None = None, **_: Any) -> torch.Tensor:
    scale = head_size**-0.5 if head_size else None
    result: torch.Tensor = engine.scaled_masked_softmax(tensor, attention_mask, scale=scale)
    return result


def _masked(values: torch.Tensor, mask: torch.Tensor | None = None, *, scale: float | None) -> torch.Tensor:
    """Scores of rank three are a batch without heads; a mask of fewer rows serves those it has."""
    scores = values.unsqueeze(1) if values.dim() == 3 else values
    if mask is not None:
        rows, width = scores.shape[-2:]
        mask = mask[..., :rows, :width]
        if mask.shape[-2] not in (1, rows):
            mask = torch.nn.functional.pad(mask, (0, 0, 0, rows - mask.shape[-2]))
    result: torch.Tensor = engine.scaled_masked_softmax(scores, mask, scale=scale)
    return result


def _softmax(
    what: str, tensor: Tensor, head_size: int | None, mask: Tensor | None, out: TensorSpec, into: Tensor | None, programs: int
) -> Tensor:
    require_float(what, tensor)
    require_tile(what, tensor)
    if mask is not None:
        require_device(what, tensor, mask)
        require(
            mask.spec.dims[-1] == tensor.spec.dims[-1],
            f"{what}: attention_mask must be as wide as the scores ({tensor.spec.dims[-1]}), got {mask.spec.shape}",
        )
        batch = tensor.spec.dims[0]
        require(
            mask.spec.dims[0] in (1, batch) and len(mask.spec.dims) == 4 and mask.spec.dims[1] in (1, tensor.spec.dims[-3]),
            f"{what}: attention_mask must be [1 or {batch}, 1, rows, width], got {mask.spec.shape}",
        )
    scale = head_size**-0.5 if head_size else None
    inputs = [tensor] if mask is None else [tensor, mask]
    return launch("SoftmaxDeviceOperation", _masked, inputs, out, attributes={"scale": scale}, into=into, programs=programs)  # type: ignore[no-any-return]


@operation("ttnn.transformer.attention_softmax", golden=_golden)
def attention_softmax(
    tensor: Tensor,
    *,
    head_size: int | None = None,
    attention_mask: Tensor | None = None,
    program_config: Any = None,
    causal_mask: bool | None = False,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """softmax(scores / sqrt(head_size) + mask). Without a mask the scaling is a program of its own, and the result has rank four."""
    what, dims = "attention_softmax", tensor.spec.dims
    shape = dims if attention_mask is not None else (1,) * (4 - len(dims)) + tuple(dims)
    out = like(tensor, shape=shape, memory_config=memory_config)
    return _softmax(what, tensor, head_size, attention_mask, out, None, 1 if attention_mask is not None else 2)


@operation("ttnn.transformer.attention_softmax_", golden=_golden)
def attention_softmax_(
    tensor: Tensor,
    *,
    head_size: int | None = None,
    attention_mask: Tensor | None = None,
    program_config: Any = None,
    causal_mask: bool | None = False,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """The same in place."""
    what = "attention_softmax_"
    require(
        head_size is None or attention_mask is not None,
        f"{what}: Cannot apply divide by sqrt(head_size) using in-place version when attention_mask is not set. Got head_size={head_size}",
    )
    return _softmax(what, tensor, head_size, attention_mask, tensor.spec, tensor, 1)
