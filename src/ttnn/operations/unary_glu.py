"""Gated linear units: one half of the last dimension, times an activation of the other.

The chip splits tiles, so a TILE tensor is taken with its padding: the answer's logical shape is the padded one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tessera.engine.glu import gated
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig, ShardSpec
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import require, require_device
from ttnn.operations.unary_rules import inherited

TILE_WIDTH = 32
LAST = 3


def _halved(config: MemoryConfig) -> MemoryConfig:
    """A sharded config for half the width: every shard loses half of its columns."""
    config = inherited(config)
    shard = config.shard_spec
    if shard is None:
        return config
    height, width = shard.shape
    return MemoryConfig(config.memory_layout, config.buffer_type, ShardSpec(shard.grid, [height, width // 2], shard.orientation))


def _output(tensor: Tensor, dims: tuple[int, ...], memory_config: MemoryConfig | None) -> TensorSpec:
    config = memory_config
    if config is None or (config.is_sharded() and config.shard_spec is None and config.nd_shard_spec is None and tensor.spec.is_sharded):
        config = _halved(tensor.spec.memory_config)
    return tensor.spec.replace(shape=Shape.of(dims), memory_config=config)


def _split_dims(name: str, tensor: Tensor, dim: int) -> tuple[int, ...]:
    """The shape that is split, after what the chip refuses of it."""
    dims = tensor.spec.padded_dims if tensor.spec.layout.name == "TILE" else tensor.spec.dims
    require(dim in (-1, LAST), f"{name}: glu-family ops only support the last dimension, got dim={dim}")
    require(
        len(dims) > LAST,
        f"{name}: ShapeBase[] index out of range. 3 not in [-4, {len(dims)}); the tensor must have four dimensions, it has {len(dims)}",
    )
    require(
        dims[LAST] // 2 % TILE_WIDTH == 0 and dims[LAST] >= 2 * TILE_WIDTH and dims[-1] % 2 == 0,
        f"{name}: Split tensor dimension should be in full tile; half of {dims[LAST]} is no multiple of {TILE_WIDTH}",
    )
    return dims


def _declare(name: str, step: str, golden: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def reference(input_tensor: torch.Tensor, dim: int = -1, **_: Any) -> torch.Tensor:
        first, second = torch.split(input_tensor, input_tensor.shape[dim] // 2, dim=dim)
        return first * golden(second)

    def call(input_tensor: Tensor, dim: int = -1, *, memory_config: MemoryConfig | None = None, variant: Any = None) -> Tensor:
        dims = _split_dims(name, input_tensor, dim)
        require_device(name, input_tensor)
        chosen = "gelu_tanh" if variant is not None and variant.name == "Tanh" else step
        spec = _output(input_tensor, (*dims[:-1], dims[-1] // 2), memory_config)
        made: Any = launch("BinaryNgDeviceOperation", gated, [input_tensor], spec, attributes={"step": chosen, "dims": dims}, programs=4)
        return made  # type: ignore[no-any-return]

    call.__doc__ = f"The first half of the last dimension times {step} of the second."
    operation(f"ttnn.{name}", golden=reference)(call)


_declare("glu", "sigmoid", torch.sigmoid)
_declare("reglu", "relu", torch.relu)
_declare("geglu", "gelu", F.gelu)
_declare("swiglu", "silu", F.silu)
