"""Products: of everything, or along one dimension.

The chip multiplies along the two outermost of four dimensions; any other dimension is brought there and back, which is what the programs count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import reduction as engine
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.reduction.along import _reshape_programs
from ttnn.operations.rules import name_of, require, require_device

_FLOATS = (DataType.BFLOAT16, DataType.FLOAT32, DataType.BFLOAT8_B, DataType.BFLOAT4_B)


def _golden(input_tensor: torch.Tensor, dim: int | None = None, keepdim: bool = False, **_: Any) -> torch.Tensor:
    if dim is None:
        found = torch.prod(input_tensor)
        return found.reshape((1,) * input_tensor.dim()) if keepdim else found
    return torch.prod(input_tensor, dim, keepdim)


@operation("ttnn.prod", golden=_golden)
def prod(
    input_tensor: Tensor,
    dim: int | Tensor | None = None,
    keepdim: bool = False,
    *,
    dims: Sequence[int] | None = None,
    output_tensor: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """The product of all elements or along a dimension; the form with `output_tensor` takes dims 0 or 1."""
    if isinstance(dim, Tensor):
        output_tensor, dim = dim, None
    spec = input_tensor.spec
    require_device("prod", input_tensor)
    rank = len(spec.dims)
    if output_tensor is not None:
        return _into(input_tensor, output_tensor, list(dims or []))
    require(
        spec.dtype in _FLOATS and not (dim is not None and spec.dtype == DataType.BFLOAT4_B),
        f"prod: unsupported data type, expected BFLOAT16, FLOAT32, BFLOAT8_B{'' if dim is not None else ' or BFLOAT4_B'} but got {name_of(spec.dtype)}",
    )
    if dim is not None:
        require(
            -max(rank, 1) <= dim < max(rank, 1),
            f"prod: Dimension for prod is out of range (expected to be in range of [{-rank}, {rank - 1}]), got {dim}",
        )
    along = tuple(range(rank)) if dim is None or rank == 0 else (dim % rank,)
    kept = tuple(1 if k in along else d for k, d in enumerate(spec.dims))
    dropped = kept if keepdim else tuple(d for k, d in enumerate(spec.dims) if k not in along)
    config = spec.memory_config if memory_config is None else memory_config
    out = TensorSpec.of(Shape.of(dropped), spec.dtype, Layout.TILE, config)
    return launch(  # type: ignore[no-any-return]
        "ProdDeviceOperation",
        engine.product,
        [input_tensor],
        out,
        attributes={"dims": along, "keepdim": keepdim},
        programs=_programs(spec, along, kept, dropped),
    )


def _programs(spec: TensorSpec, along: tuple[int, ...], kept: tuple[int, ...], dropped: tuple[int, ...]) -> int:
    rank, block = len(spec.dims), FORMATS[spec.dtype].is_block
    ragged = rank < 2 or any(d % 32 for d in spec.dims[-2:])
    rows = spec.layout == Layout.ROW_MAJOR
    if len(along) == rank:
        return rows + 1 + (ragged or block)
    axis = along[0] - rank
    shaping = _reshape_programs(spec.replace(layout=Layout.TILE), kept, dropped)
    if rank > 4:
        return rows + 4 + shaping
    moved = 0 if axis < -2 else 2 if axis == -2 else 3  # there and back; a last dimension is cut to size after
    return rows + 1 + ragged + moved * (1 if not block else 2) + (block and axis == -1) + shaping


def _into(tensor: Tensor, output: Tensor, dims: list[int]) -> Tensor:
    require(len(tensor.spec.dims) == 4, f"prod: the input must have four dimensions here, got {tensor.spec.shape}")
    for dim in dims:
        require(dim in (0, 1), f"prod: Dimension ({dim}) must be either 0 or 1")
    shape = tuple(1 if k in dims else d for k, d in enumerate(tensor.spec.dims))
    require(output.spec.dims == shape, f"prod: output_tensor must have shape {shape}, got {output.spec.shape}")
    require(tensor.spec.layout == Layout.TILE, "prod: the input must be in TILE layout")
    return launch(  # type: ignore[no-any-return]
        "ProdNcDeviceOperation",
        engine.product,
        [tensor],
        output.spec,
        attributes={"dims": tuple(dims), "keepdim": True},
        into=output,
        programs=max(1, len(dims)) if math.prod(shape) else 0,
    )
