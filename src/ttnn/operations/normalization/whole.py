"""Normalising pictures: each over its height and width, or all of them over everything."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import norm as engine
from tessera.formats.dtype import Layout
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.reduction.along import check_hw, hw_programs
from ttnn.operations.rules import like, require


def _normalized(
    what: str, tensor: Tensor, memory_config: MemoryConfig | None, dims: tuple[int, ...], shape: tuple[int, ...], more: int
) -> Tensor:
    if memory_config is not None and memory_config.is_sharded() and memory_config.shard_spec is None:
        memory_config = tensor.spec.memory_config
    out = like(tensor, shape=shape, layout=Layout.TILE, memory_config=memory_config)
    attributes = {"dims": dims, "shape": shape}
    programs = hw_programs(tensor.spec) + 1 + more
    return launch("NormalizeDeviceOperation", engine.standardized, [tensor], out, attributes=attributes, key=what, programs=programs)  # type: ignore[no-any-return]


def _golden(dims: tuple[int, ...]) -> Any:
    def golden(input_tensor: torch.Tensor, **_: Any) -> torch.Tensor:
        return engine.standardized(input_tensor, dims=dims, shape=tuple(input_tensor.shape)).to(input_tensor.dtype)  # type: ignore[no-any-return]

    return golden


@operation("ttnn.normalize_hw", golden=_golden((2, 3)))
def normalize_hw(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """Each picture less its mean, over its deviation (of all its elements)."""
    check_hw("normalize_hw", input_tensor)
    return _normalized("normalize_hw", input_tensor, memory_config, (2, 3), input_tensor.spec.dims, 0)


@operation("ttnn.normalize_global", golden=_golden((0, 1, 2, 3)))
def normalize_global(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """Everything less its mean, over its deviation. The answer has the padded shape, as on the chip, where all is one picture on the way; what was
    padding is zero."""
    spec = input_tensor.spec
    require(len(spec.dims) == 4, f"normalize_global: Cannot support non-rank 4 Tensor, got {spec.shape}")
    check_hw("normalize_global", input_tensor)
    tiled = spec.replace(layout=Layout.TILE)
    ragged = tiled.padded_dims != spec.dims
    return _normalized("normalize_global", input_tensor, memory_config, (0, 1, 2, 3), tiled.padded_dims, int(ragged))
