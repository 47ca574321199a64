"""Reductions: sum, mean, max, min, std, var, prod and argmax.

How many programs the chip runs follows from what it can reduce at once: rows or columns of tiles. Outer dimensions are brought there by
transposes (a sum has a kernel of its own for them), edges that stick out of tiles are filled first, and a dropped dimension may need a reshape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tessera.engine import reduction as engine
from tessera.engine.choice import EngineFunction
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import BufferType, MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import Operation, operation
from ttnn.operations.reshaping import reshaped_spec, same_bytes
from ttnn.operations.rules import name_of, require

_FLOATS = (DataType.FLOAT32, DataType.BFLOAT16, DataType.BFLOAT8_B)


@dataclass(frozen=True, slots=True)
class Reduction:
    """One row of the table: what computes it and what it takes."""

    engine: EngineFunction
    golden: Any
    whole: tuple[DataType, ...]
    outer_kernel: bool = False
    has_correction: bool = False


ROWS: dict[str, Reduction] = {
    "sum": Reduction(engine.total, torch.sum, (DataType.UINT32, DataType.INT32), outer_kernel=True),
    "mean": Reduction(engine.mean, torch.mean, (DataType.UINT32,)),
    "max": Reduction(engine.largest, torch.amax, (DataType.UINT32, DataType.INT32)),
    "min": Reduction(engine.smallest, torch.amin, (DataType.UINT32, DataType.INT32)),
    "std": Reduction(engine.deviation, torch.std, (DataType.UINT32,), has_correction=True),
    "var": Reduction(engine.variance, torch.var, (DataType.UINT32,), has_correction=True),
}


def wanted_dims(what: str, dim: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The dimensions to reduce, counted from the front; none named means all."""
    named = list(range(rank)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if not named:
        named = list(range(rank))
    found = []
    for index, d in enumerate(named):
        adjusted = d + rank if d < 0 and rank else d
        if rank == 0 and d in (0, -1):
            continue
        require(
            0 <= adjusted < rank,
            f"{what}: Unsupported dim {d} at index {index}. After possible adjustment, needs to be at least 0 and less than rank {rank}",
        )
        found.append(adjusted)
    found.sort()
    for index, (a, b) in enumerate(zip(found, found[1:])):
        require(a != b, f"{what}: reduce dim list contains a duplicate axis after sorting (indices {index} and {index + 1}, value {a})")
    return tuple(found)


def _programs(row: Reduction, spec: TensorSpec, dims: tuple[int, ...], kept: tuple[int, ...], out: tuple[int, ...]) -> int:
    if not spec.volume:
        return 0
    rank = len(spec.dims)
    ragged = not spec.dims or any(d % t for d, t in zip(reversed(spec.dims), (32, 32))) or rank < 2
    outer = [d for d in dims if d < rank - 2]
    inner = max(1, len([d for d in dims if d >= rank - 2])) if not outer or len(outer) < len(dims) else 0
    count = int(ragged) + inner
    if outer:
        count += (len(outer) + ragged) if row.outer_kernel else 3 * len(outer)
    tiled = spec if spec.layout == Layout.TILE else TensorSpec.of(spec.shape, DataType.BFLOAT16, Layout.TILE)
    if kept != out and not same_bytes(tiled.replace(shape=kept), out):
        count += 1
    return count + (spec.layout == Layout.ROW_MAJOR)


def reduce(
    name: str,
    tensor: Tensor,
    dim: int | Sequence[int] | None,
    keepdim: bool,
    memory_config: MemoryConfig | None,
    scalar: float,
    correction: bool | None,
) -> Tensor:
    """The one body of all table rows."""
    row = ROWS[name]
    spec = tensor.spec
    require(tensor.buffer.device is not None, f"{name}: Expected input tensor to be on device, got one on the host")
    require(tensor.buffer.allocated, f"{name}: No device found, move input_tensor to device; it was deallocated")
    dims = wanted_dims(name, dim, len(spec.dims))
    kept = tuple(1 if k in dims else d for k, d in enumerate(spec.dims))
    dropped = kept if keepdim else tuple(d for k, d in enumerate(spec.dims) if k not in dims)
    narrow = spec.dtype == DataType.FP8_E4M3
    require(
        spec.dtype in _FLOATS or spec.dtype in row.whole or (narrow and row.has_correction),
        f"{name}: Only FLOAT32, BFLOAT16, BFLOAT8_B, and UINT32 are supported for generic reduction"
        f" (INT32 is supported for MAX/MIN/SUM) - got {name_of(spec.dtype)}",
    )
    if spec.is_sharded and memory_config is None:
        require(spec.memory_config.buffer_type == BufferType.L1 or not FORMATS[spec.dtype].is_block, f"{name}: Input tensor must be in L1")
    if not spec.volume and math.prod(dropped) == 0 and memory_config is None:
        from tessera.runtime.launch import alias

        return alias(tensor, spec.replace(shape=Shape.of(dropped)))
    layout = Layout.TILE
    if (
        name == "sum"
        and spec.layout == Layout.ROW_MAJOR
        and spec.dtype in (DataType.BFLOAT16, DataType.FLOAT32)
        and dims
        and dims[0] >= len(spec.dims) - 2
    ):
        layout = Layout.ROW_MAJOR
    wide = DataType.FLOAT32 if narrow else spec.dtype
    base = spec.replace(
        shape=Shape.of(kept), dtype=wide, layout=layout, memory_config=MemoryConfig(buffer_type=spec.memory_config.buffer_type)
    )
    if memory_config is not None:
        out = base.replace(shape=Shape.of(dropped), memory_config=memory_config)
    elif spec.is_sharded:
        out = reshaped_spec(spec.replace(layout=layout, dtype=wide), dropped, None)
    else:
        out = base.replace(shape=Shape.of(dropped), memory_config=spec.memory_config)
    attributes: dict[str, Any] = {"dims": dims, "keepdim": keepdim, "scalar": scalar}
    if row.has_correction:
        attributes["correction"] = True if correction is None else correction
    return launch(
        "ReduceDeviceOperation",
        row.engine,
        [tensor],
        out,
        attributes=attributes,
        key=name,
        programs=_programs(row, spec, dims, kept, dropped),
    )  # type: ignore[no-any-return]


def _declare(name: str) -> Operation:
    row = ROWS[name]

    def golden(input_tensor: torch.Tensor, dim: Any = None, keepdim: bool = False, **words: Any) -> torch.Tensor:
        dims = tuple(range(input_tensor.dim())) if dim is None else dim
        found: torch.Tensor = row.golden(input_tensor, dims, keepdim=keepdim)
        return found

    def body(
        input_tensor: Tensor,
        dim: int | Sequence[int] | None = None,
        keepdim: bool = False,
        *,
        memory_config: MemoryConfig | None = None,
        compute_kernel_config: Any = None,
        scalar: float = 1.0,
        correction: bool | None = None,
        sub_core_grids: Any = None,
        fast_and_approximate_mode: bool = False,
        output_layout: Layout | None = None,
    ) -> Tensor:
        return reduce(name, input_tensor, dim, keepdim, memory_config, scalar, correction)

    body.__doc__ = f"The {name} along dimensions; all of them when none is named."
    return operation(f"ttnn.{name}", golden=golden)(body)


for _name in ROWS:
    _declare(_name)


def _golden_argmax(input_tensor: torch.Tensor, dim: int | None = None, keepdim: bool = False, **_: Any) -> torch.Tensor:
    return torch.argmax(input_tensor, dim, keepdim)


@operation("ttnn.argmax", golden=_golden_argmax)
def argmax(
    input_tensor: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    sub_core_grids: Any = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    enable_secondary_dm: bool | None = None,
) -> Tensor:
    """Where the largest element is: an index as UINT32 in rows."""
    spec = input_tensor.spec
    rank = len(spec.dims)
    require(input_tensor.buffer.device is not None, "argmax: Device Operations expect device tensors as inputs, got one on the host")
    require(input_tensor.buffer.allocated, "argmax: Tensor is not allocated; it was deallocated")
    require(
        spec.dtype in (DataType.BFLOAT16, DataType.FLOAT32, DataType.INT32, DataType.UINT32, DataType.UINT16),
        f"argmax: Only BFLOAT16, FLOAT32, INT32, UINT32, and UINT16 are supported for inputs, got {name_of(spec.dtype)}",
    )
    along = None
    if dim is not None:
        require(-max(rank, 1) <= dim < max(rank, 1), f"argmax: Invalid dim argument. dim={dim} is out of range for a tensor of rank {rank}")
        along = dim % max(rank, 1) if rank else None
    if along is None:
        shape: tuple[int, ...] = (1,) * rank if keepdim else ()
    else:
        shape = tuple(1 if k == along else d for k, d in enumerate(spec.dims) if keepdim or k != along)
    config = memory_config if memory_config is not None else MemoryConfig(buffer_type=spec.memory_config.buffer_type)
    out = TensorSpec.of(Shape.of(shape), DataType.UINT32, Layout.ROW_MAJOR, config) if output_tensor is None else output_tensor.spec
    outer = (along is not None and along < rank - 2) or (along == 0 and rank == 2)
    programs = 0 if not rank or not spec.volume else 1 + outer + (keepdim and along is not None and along != rank - 1)
    return launch(
        "ArgMaxDeviceOperation",
        engine.argmax,
        [input_tensor],
        out,
        attributes={"dim": along, "keepdim": keepdim},
        into=output_tensor,
        programs=programs,
    )  # type: ignore[no-any-return]
