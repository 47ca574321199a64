"""What the training operations share: which dtypes they read, how dimensions are named, and what a reduction leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.tensor import Tensor
from ttnn.operations.rules import name_of, require, require_device

BF16 = (DataType.BFLOAT16,)
WHOLE = (DataType.BFLOAT16, DataType.INT32)


def check(what: str, taken: Sequence[DataType], **tensors: Tensor | None) -> None:
    """Given tensors are on one device, in tiles, and of a dtype the kernel reads."""
    given = {name: t for name, t in tensors.items() if t is not None}
    require_device(what, *given.values())
    for name, tensor in given.items():
        require(
            tensor.spec.dtype in taken,
            f"{what}: {name} only supports specific data types. [{', '.join(d.name for d in taken)}], got {name_of(tensor.spec.dtype)}",
        )
        require(tensor.spec.layout == Layout.TILE, f"{what}: {name} must be in TILE layout, got {tensor.spec.layout}")


def named_dims(what: str, dim: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Dimensions counted from the front; none named means all. A vector is one row of a matrix, so that it has a dimension 1."""
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if not dims:
        dims = list(range(rank))
    for d in dims:
        require(0 <= d < 8, f"{what}: dim must be between 0 and 8. Got {d}; dimensions are counted from the front here")
        require(d < max(rank, 2), f"{what}: dim must be smaller than input tensor rank {max(rank, 2)}. Got {d}")
    require(len(set(dims)) == len(dims), f"{what}: dim={dim} names a dimension twice")
    return tuple(sorted(dims))


def reduced_shape(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """What a reduction leaves: matrices stay matrices, so that height and width become one and are never dropped."""
    rank = max(len(shape), 2)
    full = (1, *shape) if any(d >= len(shape) for d in dims) else shape
    return tuple(1 if k in dims else d for k, d in enumerate(full) if keepdim or k not in dims or k >= rank - 2)


def real_dims(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions as the values have them."""
    return dims if len(shape) > 1 else tuple(range(len(shape)))


def check_grad(what: str, grad: tuple[int, ...], shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    """A gradient has an element for each of a reduction's answers; a tensor as large as the input is read where its reduced dimensions begin."""
    answers = math.prod(1 if k in dims else d for k, d in enumerate(shape))
    same = len(grad) == len(shape) and all(g == d for k, (g, d) in enumerate(zip(grad, shape)) if k not in dims)
    require(
        math.prod(grad) == answers or same,
        f"{what}: output_grad of shape {grad} does not fit an input of shape {shape} reduced over {dims}",
    )


def fitting(what: str, like: TensorSpec, shape: tuple[int, ...], output: Tensor | None, memory_config: MemoryConfig | None) -> TensorSpec:
    """The spec of an output: that of the given one, which must have the expected tiles, or a new one."""
    config = like.memory_config if memory_config is None else memory_config
    made = like.replace(shape=Shape.of(shape), memory_config=config)
    if output is None:
        return made
    require(output.spec.dtype == made.dtype, f"{what}: output must be {name_of(made.dtype)}, got {name_of(output.spec.dtype)}")
    tiles = [tuple(t.padded_dims[k] for k in range(len(t.padded_dims)) if t.padded_dims[k] != 1) for t in (output.spec, made)]
    require(tiles[0] == tiles[1], f"{what}: output must have expected shape {made.shape} up to padding, got {output.spec.shape}")
    require(output.spec.volume == made.volume, f"{what}: output must have the elements of {made.shape}, got {output.spec.shape}")
    return output.spec
