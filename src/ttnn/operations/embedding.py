"""Embedding: rows of a weight by index."""

from __future__ import annotations

import math
from typing import Any

import torch

from tessera.engine import embedding as engine
from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import name_of, require, require_device


def _golden_embedding(input_tensor: torch.Tensor, weight: torch.Tensor, **_: Any) -> torch.Tensor:
    return torch.nn.functional.embedding(input_tensor.to(torch.int64), weight)


@operation("ttnn.embedding", golden=_golden_embedding)
def embedding(
    input_tensor: Tensor,
    weight: Tensor,
    *,
    padding_idx: int | None = None,
    layout: Layout | None = None,
    embeddings_type: Any = None,
    dtype: DataType | None = None,
    output_tensor: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    **_: Any,
) -> Tensor:
    """The rows of `weight` that `input_tensor` names; the layout of the result is the weight's unless asked otherwise."""
    require(
        input_tensor.buffer.device is not None and weight.buffer.device is not None,
        "embedding: Device Operations expect device tensors as inputs, got one on the host",
    )
    require_device("embedding", input_tensor, weight)
    require(
        input_tensor.spec.dtype in (DataType.UINT32, DataType.BFLOAT16),
        f"embedding: Input must be UINT32 or BFLOAT16, got {name_of(input_tensor.spec.dtype)}",
    )
    require(weight.spec.dtype == DataType.BFLOAT16, f"embedding: Weights tensor must have BFLOAT16 dtype, got {name_of(weight.spec.dtype)}")
    front = ((1,) * 4 + weight.spec.dims)[-4:-2]
    require(math.prod(front) == 1, f"embedding: First two dimensions for the weights must be 1 but got {front[0]} and {front[1]}")
    ids = input_tensor.spec.dims
    # Four-dimensional indices are read as [batch, tokens] of the first and last dimension.
    shape = (ids[0], ids[-1]) if len(ids) == 4 else ids
    shape = (*shape, weight.spec.dims[-1] if weight.spec.dims else 1)
    target = weight.spec.layout if layout is None else layout
    wanted = dtype if dtype is not None else (output_tensor.spec.dtype if output_tensor is not None else DataType.BFLOAT16)
    require(
        wanted == DataType.BFLOAT16 or target == Layout.TILE,
        f"embedding: Can only typecast output embeddings when producing TILE_LAYOUT output, got dtype={name_of(wanted)} in {target}",
    )
    out = TensorSpec.of(Shape.of(shape), wanted, target, memory_config if memory_config is not None else MemoryConfig())
    fused = weight.spec.layout == Layout.ROW_MAJOR and input_tensor.spec.layout == Layout.ROW_MAJOR and _tiles(shape)
    programs = 1 + (weight.spec.layout == Layout.TILE) + (target == Layout.TILE and not fused) + (wanted != DataType.BFLOAT16)
    return launch(  # type: ignore[no-any-return]
        "EmbeddingsDeviceOperation",
        _rows,
        [input_tensor, weight],
        out if output_tensor is None else output_tensor.spec,
        attributes={"padding": padding_idx, "front": len(ids) == 4},
        into=output_tensor,
        programs=programs,
    )


def _tiles(shape: tuple[int, ...]) -> bool:
    """Can the kernel write tiles at once? It can where tokens and width are whole tiles."""
    return shape[-1] % 32 == 0 and (len(shape) < 2 or shape[-2] % 32 == 0)


def _rows(indices: torch.Tensor, weight: torch.Tensor, *, padding: int | None, front: bool) -> torch.Tensor:
    if front:
        indices = indices[:, 0, 0]
    result: torch.Tensor = engine.embedding(indices, weight, padding=padding)
    return result


def _golden_embedding_bw(
    input_tensor: torch.Tensor, weight_tensor: torch.Tensor, output_gradient_tensor: torch.Tensor, **_: Any
) -> torch.Tensor:
    rows = weight_tensor.shape[-2]
    return engine.embedding_gradient.torch(input_tensor, output_gradient_tensor, rows=rows)  # type: ignore[no-any-return]


@operation("ttnn.embedding_bw", golden=_golden_embedding_bw)
def embedding_bw(
    input_tensor: Tensor,
    weight_tensor: Tensor,
    output_gradient_tensor: Tensor,
    *,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """The gradient of an embedding's weight: rows of the output's gradient summed by index."""
    what = "embedding_bw"
    require_device(what, input_tensor, weight_tensor, output_gradient_tensor)
    gradient = output_gradient_tensor.spec
    out_dtype = dtype or (output_tensor.spec.dtype if output_tensor is not None else gradient.dtype)
    require(
        input_tensor.spec.dtype in (DataType.UINT32, DataType.BFLOAT16),
        f"{what}: Index tensor must be UINT32 or BFLOAT16, got {name_of(input_tensor.spec.dtype)}",
    )
    require(
        input_tensor.spec.dims[-1] % 32 == 0,
        f"{what}: Number of columns in the index tensor must be divisible by tile width, got {input_tensor.spec.dims[-1]}",
    )
    require(gradient.layout == Layout.TILE, f"{what}: the gradient must be in TILE layout, got {gradient.layout}")
    front = ((1,) * 4 + gradient.dims)[-4:-2]
    require(math.prod(front) == 1, f"{what}: First two dimensions for the gradient tensor must be 1, but found {front[0]} && {front[1]}.")
    require(
        gradient.dtype in (DataType.BFLOAT16, DataType.BFLOAT8_B),
        f"{what}: Output gradient tensor must be BFLOAT16 or BFLOAT8_B, got {name_of(gradient.dtype)}",
    )
    require(
        gradient.dtype == out_dtype,
        f"{what}: Output and input gradient tensors must have the same dtype, got {name_of(out_dtype)} and {name_of(gradient.dtype)}",
    )
    rows = weight_tensor.spec.dims[-2]
    config = memory_config if memory_config is not None else MemoryConfig()
    out = (
        TensorSpec.of(Shape.of((1, 1, rows, gradient.dims[-1])), out_dtype, Layout.TILE, config)
        if output_tensor is None
        else output_tensor.spec
    )
    return launch(
        "EmbeddingBackwardDeviceOperation",
        engine.embedding_gradient,
        [input_tensor, output_gradient_tensor],
        out,
        attributes={"rows": rows},
        into=output_tensor,
    )  # type: ignore[no-any-return]
