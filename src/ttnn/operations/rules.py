"""What the families share: how a refusal is raised, what an output looks like when nothing else is said.

`require` is for what the chip refuses (RuntimeError). Argument *types* are never checked here: `ttnn.binding` did that before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.tensor import Tensor

LETTERS = "ABCDEFGH"


def require(condition: object, sentence: str) -> None:
    """Refuse a call: the sentence names the argument, the value and the rule."""
    if not condition:
        raise RuntimeError(sentence)


def unsigned(what: str, name: str, *values: int) -> None:
    """Official bindings take these whole numbers unsigned: a negative one fits no overload."""
    if any(v < 0 for v in values):
        raise TypeError(f"ttnn.{what}(): incompatible function arguments. {name}={list(values)} must not be negative")


def require_device(what: str, *tensors: Tensor | None) -> None:
    """All given tensors must be allocated on one device."""
    first = None
    for letter, tensor in zip(LETTERS, tensors):
        if tensor is None:
            continue
        if tensor.buffer.device is None:
            raise RuntimeError(
                f"{what}: Input tensor {letter} must be on device, got storage type: StorageType::HOST. Move it there with ttnn.to_device"
            )
        if not tensor.buffer.allocated:
            raise RuntimeError(f"{what}: Tensor is not allocated. Input tensor {letter} was deallocated")
        if first is None:
            first = tensor.buffer.device
        elif tensor.buffer.device is not first:
            raise RuntimeError(f"{what}: input tensor {letter} is on another device than the first; operands must be on the same device")


def require_tile(what: str, *tensors: Tensor | None) -> None:
    for letter, tensor in zip(LETTERS, tensors):
        if tensor is not None and tensor.spec.layout != Layout.TILE:
            raise RuntimeError(
                f"{what}: input tensor {letter} must be in TILE layout, got {tensor.spec.layout}; convert it with ttnn.to_layout"
            )


def name_of(value: Any) -> str:
    """An enum member as official messages spell it: `DataType::BFLOAT16`."""
    return f"{type(value).__name__}::{value.name}"


def normalized_dim(dim: int, rank: int, what: str) -> int:
    """A dimension counted from the front; refuses what lies outside."""
    if not -rank <= dim < max(rank, 1):
        raise RuntimeError(f"{what}: dim={dim} is out of range for a tensor of rank {rank}; expected {-rank} to {rank - 1}")
    return dim + rank if dim < 0 else dim


def like(
    tensor: Tensor,
    *,
    shape: Sequence[int] | None = None,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    memory_config: MemoryConfig | None = None,
) -> TensorSpec:
    """The spec of an output that is as its input in everything that is not said."""
    words: dict[str, Any] = {}
    if shape is not None:
        words["shape"] = Shape.of(tuple(shape))
    if dtype is not None:
        words["dtype"] = dtype
    if layout is not None:
        words["layout"] = layout
    if memory_config is not None:
        words["memory_config"] = memory_config
    return tensor.spec.replace(**words) if words else tensor.spec
