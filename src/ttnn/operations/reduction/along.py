"""Reductions along dimensions: sum, mean, max, min, std, var, and the deviation over height and width.

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
from tessera.memory.config import (
    BufferType,
    MemoryConfig,
    NdShardSpec,
    ShardDistributionStrategy,
    ShardOrientation,
    ShardSpec,
    TensorMemoryLayout,
)
from tessera.memory.geometry import CoreCoord, CoreRange, CoreRangeSet
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import alias, launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import Operation, operation
from ttnn.operations.reshaping import same_bytes
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
    in_rows: bool = False
    """Rows of floats are reduced as rows; the others are put into tiles first."""
    needs_elements: bool = False
    """There is no largest of nothing."""
    takes_narrow: bool = False


ROWS: dict[str, Reduction] = {
    "sum": Reduction(engine.total, torch.sum, (DataType.UINT32, DataType.INT32), outer_kernel=True, in_rows=True),
    "mean": Reduction(engine.mean, torch.mean, (), in_rows=True),
    "max": Reduction(engine.largest, torch.amax, (DataType.UINT32, DataType.INT32), needs_elements=True),
    "min": Reduction(engine.smallest, torch.amin, (DataType.UINT32, DataType.INT32), needs_elements=True, takes_narrow=True),
    "std": Reduction(engine.deviation, torch.std, (), has_correction=True, takes_narrow=True),
    "var": Reduction(engine.variance, torch.var, (), has_correction=True, takes_narrow=True),
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


def _reshape_programs(spec: TensorSpec, kept: tuple[int, ...], out: tuple[int, ...]) -> int:
    """What leaving the reduced dimensions out costs: nothing where the bytes stay."""
    tiled = TensorSpec.of(Shape.of(kept), DataType.BFLOAT16, Layout.TILE)
    if kept == out or same_bytes(tiled, out):
        return 0
    if not FORMATS[spec.dtype].is_block:
        return 1
    whole = all(d % 32 == 0 for d in (*kept[-2:], *out[-2:])) and len(out) > 1
    return 6 if spec.is_sharded else 3 if whole else 4


def _programs(row: Reduction, spec: TensorSpec, dims: tuple[int, ...], kept: tuple[int, ...], out: tuple[int, ...], rows: bool) -> int:
    if not spec.volume:
        return 0
    if not spec.dims:
        return 0 if row.has_correction else 2
    rank = len(spec.dims)
    ragged = any(d % t for d, t in zip(reversed(spec.dims), (32, 32))) or rank < 2
    outer = [d for d in dims if d < rank - 2]
    shaping = _reshape_programs(spec, kept, out)
    laid_out = int(spec.layout == Layout.ROW_MAJOR and not rows)
    if row.has_correction:  # one kernel for height and width; outer dimensions are brought there and back
        all_of_them = len(dims) == rank
        return laid_out + (3 if outer and not all_of_them else 1 + shaping)
    if spec.is_sharded and len(dims) == rank:
        return laid_out + ragged + 4
    inner = max(1, len([d for d in dims if d >= rank - 2])) if not outer or len(outer) < len(dims) else 0
    count = int(ragged) + inner
    if outer:
        ones = any(spec.dims[d] == 1 for d in outer)  # extents of one are brought in together
        count += (len(outer) + ragged) if row.outer_kernel else 3 * (sum(spec.dims[d] > 1 for d in outer) + ones)
    return count + shaping + laid_out


def _sharded_config(spec: TensorSpec, dims: tuple[int, ...], kept: tuple[int, ...], out: TensorSpec, wanted: MemoryConfig) -> MemoryConfig:
    """Where the reduced tensor of a sharded one lives: on the same cores, its shards as small as what is left.

    A width that shrinks keeps its cut; a height that shrinks turns height shards into width shards, since one row of shards remains. Leaving
    a dimension out that moves bytes ends in an N-d sharding of the new matrix.
    """
    rank = len(spec.dims)
    shard = wanted.shard_spec or spec.memory_config.shard_spec
    if shard is None or out.layout == Layout.ROW_MAJOR or (len(dims) < rank and any(d < rank - 2 for d in dims)):
        return MemoryConfig(buffer_type=wanted.buffer_type)
    layout = wanted.memory_layout if wanted.memory_layout != TensorMemoryLayout.ND_SHARDED else TensorMemoryLayout.HEIGHT_SHARDED
    across, down = rank - 1 in dims, rank - 2 in dims
    shape = [32 if gone else math.ceil(extent / 32) * 32 for gone, extent in zip((down, across), shard.shape)]
    require(
        not (across and down and spec.dtype == DataType.FLOAT32),
        "reduce: Changing the last dimension of a sharded tensor is not supported unless the shard width matches the input last dimension; "
        f"a FLOAT32 tensor of {spec.shape} with shards of {shard.shape} is reduced over both",
    )
    if down and layout == TensorMemoryLayout.HEIGHT_SHARDED and (across or spec.physical_shape[0] == spec.padded_dims[-2]):
        layout = TensorMemoryLayout.WIDTH_SHARDED
    if kept == out.dims or (across and down) or same_bytes(out.replace(shape=kept, layout=Layout.TILE), out.dims):
        return MemoryConfig(layout, wanted.buffer_type, ShardSpec(shard.grid, shape, shard.orientation))
    height, width = out.physical_shape
    old = spec.memory_config.shard_spec or shard
    parts = (math.ceil(spec.physical_shape[0] / old.shape[0]), math.ceil(spec.physical_shape[1] / old.shape[1]))
    grid, how = shard.grid, ShardDistributionStrategy.ROUND_ROBIN_1D
    high, broad = (math.ceil(math.ceil(total / n) / 32) * 32 for total, n in zip((height, width), parts))
    if layout == TensorMemoryLayout.HEIGHT_SHARDED:
        broad = width
    elif layout == TensorMemoryLayout.WIDTH_SHARDED:
        high = height
    else:
        how, box = ShardDistributionStrategy.GRID_2D, grid.bounding_box()
        rows, columns = math.ceil(height / high), math.ceil(width / broad)
        if shard.orientation == ShardOrientation.COL_MAJOR:
            rows, columns = columns, rows
        grid = CoreRangeSet({CoreRange(box.start, CoreCoord(box.start.x + columns - 1, box.start.y + rows - 1))})
    return MemoryConfig(wanted.buffer_type, NdShardSpec(Shape.of((high, broad)), grid, shard.orientation, how))


def check_dtype(name: str, spec: TensorSpec) -> None:
    """What the reduction kernels read: floats everywhere, whole numbers where order or sums are asked for."""
    row = ROWS[name]
    if name == "mean":
        require(
            spec.dtype not in (DataType.INT32, DataType.UINT32),
            f"mean: ttnn.mean does not support integer inputs - got {name_of(spec.dtype)}",
        )
    require(
        spec.dtype in _FLOATS or spec.dtype in row.whole or (row.takes_narrow and spec.dtype == DataType.FP8_E4M3),
        f"{name}: Only FLOAT32, BFLOAT16, and BFLOAT8_B are supported for this reduction"
        f"{' beside ' + ', '.join(d.name for d in row.whole) if row.whole else ''} - got {name_of(spec.dtype)}",
    )


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
    rank = len(spec.dims)
    dims = wanted_dims(name, dim, rank)
    kept = tuple(1 if k in dims else d for k, d in enumerate(spec.dims))
    dropped = kept if keepdim else tuple(d for k, d in enumerate(spec.dims) if k not in dims)
    check_dtype(name, spec)
    if row.needs_elements:
        for d in dims:
            require(spec.dims[d] > 0, f"{name}: Expected reduction dim {d} to have non-zero size; the shape is {spec.shape}")
    if spec.is_sharded and memory_config is None and rank - 1 in dims:
        require(spec.memory_config.buffer_type == BufferType.L1 or not FORMATS[spec.dtype].is_block, f"{name}: Input tensor must be in L1")
    if not spec.volume and math.prod(dropped) == 0 and memory_config is None:
        return alias(tensor, spec.replace(shape=Shape.of(dropped)))
    rows = bool(
        row.in_rows
        and spec.layout == Layout.ROW_MAJOR
        and spec.dtype in (DataType.BFLOAT16, DataType.FLOAT32)
        and dims
        and (name == "mean" or dims[0] >= rank - 2)
    )
    out = spec.replace(
        shape=Shape.of(dropped),
        dtype=DataType.FLOAT32 if spec.dtype == DataType.FP8_E4M3 else spec.dtype,
        layout=Layout.ROW_MAJOR if rows else Layout.TILE,
        memory_config=MemoryConfig(buffer_type=spec.memory_config.buffer_type),
    )
    wanted = spec.memory_config if memory_config is None else memory_config
    if wanted.is_sharded() and spec.is_sharded and dims and spec.volume:
        wanted = _sharded_config(spec, dims, kept, out, wanted)
    out = out.replace(memory_config=wanted)
    attributes: dict[str, Any] = {"dims": dims, "keepdim": keepdim, "scalar": scalar}
    if row.has_correction:
        attributes["correction"] = True if correction is None else correction
    return launch(  # type: ignore[no-any-return]
        "ReduceDeviceOperation",
        row.engine,
        [tensor],
        out,
        attributes=attributes,
        key=name,
        programs=_programs(row, spec, dims, kept, dropped, rows),
    )


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


# -- over height and width at once


def _golden_hw(name: str) -> Any:
    return lambda input_tensor, **_: ROWS[name].golden(input_tensor, (2, 3), correction=0, keepdim=True)


def check_hw(what: str, tensor: Tensor) -> None:
    """What is taken over height and width: four dimensions of floats, interleaved or in height shards."""
    spec = tensor.spec
    wanted_dims(what, (2, 3), len(spec.dims))
    require(len(spec.dims) == 4, f"{what}: the input must have four dimensions, got {spec.shape}")
    require(tensor.buffer.device is not None, f"{what}: Expected input tensor to be on device, got one on the host")
    require(tensor.buffer.allocated, f"{what}: the tensor is not allocated; it was deallocated")
    require(spec.dtype != DataType.FP8_E4M3, f"{what}: Only ROW_MAJOR layout is supported for FP8_E4M3 dtype!")
    check_dtype("mean", spec)
    require(
        spec.memory_config.memory_layout not in (TensorMemoryLayout.WIDTH_SHARDED, TensorMemoryLayout.BLOCK_SHARDED),
        f"{what}: HW bcast in0 supports Height Sharding or Interleaving, got {spec.memory_config.memory_layout}",
    )


def hw_programs(spec: TensorSpec) -> int:
    """Two means, a subtraction and a square; float32 has a kernel for height and width at once."""
    count = (4 if spec.dtype == DataType.FLOAT32 else 6) + (spec.layout == Layout.ROW_MAJOR)
    return count + (-1 if spec.dims[2:] == (1, 1) else any(d % 32 for d in spec.dims[2:]))


def _declare_hw(name: str) -> Operation:
    row = ROWS[name]

    def body(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
        what, spec = f"{name}_hw", input_tensor.spec
        check_hw(what, input_tensor)
        shape = (*spec.dims[:2], 1, 1)
        out = TensorSpec.of(Shape.of(shape), spec.dtype, Layout.TILE, MemoryConfig(buffer_type=spec.memory_config.buffer_type))
        wanted = spec.memory_config if memory_config is None else memory_config
        if wanted.is_sharded():
            shard = wanted.shard_spec or spec.memory_config.shard_spec
            require(shard is not None, f"{what}: memory_config has no shard spec")
            assert shard is not None
            layout = wanted.memory_layout
            if name == "std":
                layout = layout if layout == TensorMemoryLayout.BLOCK_SHARDED else TensorMemoryLayout.WIDTH_SHARDED
                wanted = MemoryConfig(layout, wanted.buffer_type, ShardSpec(shard.grid, [32, 32], shard.orientation))
            else:
                how = ShardDistributionStrategy
                deal = how.GRID_2D if layout == TensorMemoryLayout.BLOCK_SHARDED else how.ROUND_ROBIN_1D
                wanted = MemoryConfig(wanted.buffer_type, NdShardSpec(Shape.of((32, 32)), shard.grid, shard.orientation, deal))
        return launch(  # type: ignore[no-any-return]
            "ReduceDeviceOperation",
            row.engine,
            [input_tensor],
            out.replace(memory_config=wanted),
            attributes={"dims": (2, 3), "keepdim": True, "correction": False},
            key=what,
            programs=hw_programs(spec) + (name == "std"),
        )

    body.__doc__ = f"The {name} over height and width of a four-dimensional tensor, of all elements (no correction)."
    return operation(f"ttnn.{name}_hw", golden=_golden_hw(name))(body)


for _name in ("var", "std"):
    _declare_hw(_name)
