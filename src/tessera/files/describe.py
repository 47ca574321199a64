"""Records of a header into specs and topologies, and back.

A record that passed the schema may still describe a tensor that cannot exist. What could cost time or memory before it is
refused (absurd shapes, grids of billions of cores) is bounded here; the rest is refused by the constructors of the machine's own
types, whose sentences are passed on.
"""

from __future__ import annotations

import math
from typing import Any

from tessera.files import records
from tessera.files.schema import SCHEMA
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.shape import Shape
from tessera.formats.tile import Tile
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
from tessera.memory.mesh import MeshCoordinate, MeshShape, Placement, PlacementReplicate, PlacementShard, TensorTopology
from tessera.memory.spec import TensorSpec

MAX_RANK = 64
MAX_RANGES = 256
MAX_CORE = 255
_REPLICATE, _SHARD = 0, 1


def _file_numbers(enum: str) -> dict[str, int]:
    return SCHEMA.enums[enum][1]


DTYPE_NUMBERS = _file_numbers("DataType")
_DTYPES: dict[int, DataType] = {number: DataType[name] for name, number in DTYPE_NUMBERS.items()}


def _refuse(what: str) -> RuntimeError:
    return RuntimeError(
        f"the header describes a tensor that cannot be: {what}. Cannot validate tensor data; this most likely indicates data corruption."
    )


def _needed(value: Any, what: str) -> Any:
    if value is None:
        raise _refuse(f"{what} is missing")
    return value


# -- specs


def dtype_number(dtype: DataType) -> int:
    number = DTYPE_NUMBERS.get(dtype.name)
    if number is None or dtype is DataType.INVALID:
        raise RuntimeError(f"dtype={dtype} cannot be serialized: the .tensorbin format has no number for it")
    return number


def dtype_of(number: int) -> DataType:
    dtype = _DTYPES[number]
    if dtype not in FORMATS:
        raise _refuse(f"data_type is {dtype}")
    return dtype


def spec_record(spec: TensorSpec) -> records.TensorSpec:
    """A spec as the header holds it."""
    page: records.RowMajorPageConfig | records.TilePageConfig = records.RowMajorPageConfig()
    if spec.layout is Layout.TILE:
        page = records.TilePageConfig(records.Tile(spec.tile.height, spec.tile.width, spec.tile.transposed))
    config = _config_record(spec.memory_config)
    layout = records.TensorLayout(dtype_number(spec.dtype), page, config, spec.alignment)
    return records.TensorSpec(tuple(spec.dims), layout)


def _config_record(config: MemoryConfig) -> records.MemoryConfig:
    old, nd = config.shard_spec, config.nd_shard_spec
    return records.MemoryConfig(
        config.memory_layout.value,
        config.buffer_type.value,
        None if old is None else records.ShardSpec(grid_record(old.grid), old.shard[0], old.shard[1], old.orientation.value),
        None
        if nd is None
        else records.NdShardSpec(tuple(nd.shard_shape), grid_record(nd.grid), nd.orientation.value, nd.shard_distribution_strategy.value),
        config.created_with_nd_shard_spec,
        config.per_core_allocation,
    )


def spec_of(record: records.TensorSpec | None, available: int) -> TensorSpec:
    """The spec that a record describes. `available` is the size of the data region: nothing larger than it is considered."""
    record = _needed(record, "tensor_spec")
    shape = record.shape or ()
    layout = _needed(record.tensor_layout, "tensor_layout")
    dtype = dtype_of(layout.data_type)
    if len(shape) > MAX_RANK:
        raise _refuse(f"its shape has {len(shape)} dimensions, more than {MAX_RANK}")
    least = math.prod(shape) * FORMATS[dtype].bits // 8
    if least > available:
        raise _refuse(f"shape {list(shape)} of {dtype} needs at least {least} bytes and the data region has {available}")
    if layout.alignment is not None and not 0 < len(layout.alignment) <= MAX_RANK:
        raise _refuse(f"its alignment has {len(layout.alignment)} numbers")
    page = _needed(layout.page_config, "page_config")
    words: dict[str, Any] = {"memory_config": _config_of(_needed(layout.memory_config, "memory_config"))}
    kind = Layout.ROW_MAJOR
    try:
        if isinstance(page, records.TilePageConfig):
            tile = _needed(page.tile, "tile")
            kind, words["tile"] = Layout.TILE, Tile((tile.tile_shape_h, tile.tile_shape_w), transpose_tile=tile.transpose_tile)
        spec = TensorSpec.of(Shape(list(shape)), dtype, kind, alignment=layout.alignment, **words)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise _refuse(str(error)) from error
    if layout.alignment is not None and layout.alignment != spec.alignment:
        raise _refuse(f"alignment is {list(layout.alignment)}, and {kind} of this tensor needs {list(spec.alignment)}")
    return spec


def _config_of(record: records.MemoryConfig) -> MemoryConfig:
    layout, buffer_type = TensorMemoryLayout(record.memory_layout), record.buffer_type
    if buffer_type == SCHEMA.enums["BufferType"][1]["SYSTEM_MEMORY"]:
        raise _refuse("its buffer_type is SYSTEM_MEMORY, where no tensor of a device lives")
    kind = BufferType(buffer_type)
    try:
        if record.created_with_nd_shard_spec:
            config = MemoryConfig(kind, _nd_shard_spec_of(_needed(record.nd_shard_spec, "nd_shard_spec")))
        else:
            shard = None if record.shard_spec is None else _shard_spec_of(record.shard_spec)
            if (shard is None) != (layout is TensorMemoryLayout.INTERLEAVED):
                raise _refuse(f"{layout} {'without a' if shard is None else 'with a'} shard_spec")
            config = MemoryConfig(layout, kind, shard)
        if record.per_core_allocation:
            config.experimental_set_per_core_allocation(True)
    except (TypeError, ValueError, OverflowError) as error:
        raise _refuse(str(error)) from error
    return config


def _shard_spec_of(record: records.ShardSpec) -> ShardSpec:
    return ShardSpec(grid_of(record.grid), [record.shape_h, record.shape_w], ShardOrientation(record.orientation))


def _nd_shard_spec_of(record: records.NdShardSpec) -> NdShardSpec:
    shape = record.shard_shape or ()
    if not 0 < len(shape) <= MAX_RANK or 0 in shape:
        raise _refuse(f"the shape of its shards is {list(shape)[:MAX_RANK]}")
    strategy = ShardDistributionStrategy(record.shard_distribution_strategy)
    return NdShardSpec(list(shape), grid_of(record.grid), ShardOrientation(record.orientation), strategy)


def grid_record(grid: CoreRangeSet) -> records.CoreRangeSet:
    boxes = [r.box for r in grid.ranges()]
    return records.CoreRangeSet(tuple(records.CoreRange(records.CoreCoord(*box[:2]), records.CoreCoord(*box[2:])) for box in boxes))


def grid_of(record: records.CoreRangeSet | None) -> CoreRangeSet:
    ranges = _needed(record, "the grid of its shards").ranges or ()
    if len(ranges) > MAX_RANGES:
        raise _refuse(f"its grid has {len(ranges)} rectangles, more than {MAX_RANGES}")
    made = []
    for r in ranges:
        start, end = _needed(r.start, "the start of a core range"), _needed(r.end, "the end of a core range")
        numbers = (start.x, start.y, end.x, end.y)
        if any(not 0 <= n <= MAX_CORE for n in numbers):
            raise _refuse(f"its grid names core {numbers}; no chip has cores beyond {MAX_CORE}")
        made.append(CoreRange(CoreCoord(start.x, start.y), CoreCoord(end.x, end.y)))
    return CoreRangeSet(made)


# -- meshes


def coordinate_record(place: MeshCoordinate) -> records.MeshCoordinate:
    return records.MeshCoordinate(tuple(place))


def topology_record(topology: TensorTopology) -> records.TensorTopology:
    placements = tuple(
        records.MeshMapperPlacement(_SHARD, p.dim) if isinstance(p, PlacementShard) else records.MeshMapperPlacement(_REPLICATE, -1)
        for p in topology.placed
    )
    shape = records.MeshShape(tuple(topology.shape))
    return records.TensorTopology(shape, placements, tuple(map(coordinate_record, topology.coords)))


def mesh_shape_of(record: records.MeshShape | None) -> MeshShape:
    dims = _needed(record, "mesh_shape").dimensions or ()
    if not 0 < len(dims) <= MAX_RANK or 0 in dims:
        raise _refuse(f"mesh_shape is {list(dims)[:MAX_RANK]}")
    return MeshShape(list(dims))


def place_of(record: records.MeshCoordinate | None, mesh: MeshShape) -> MeshCoordinate:
    values = _needed(record, "the mesh coordinate of a shard").values or ()
    if len(values) != mesh.dims() or any(v >= d for v, d in zip(values, mesh)):
        raise _refuse(f"a shard lies at {list(values)[:MAX_RANK]}, outside the mesh {list(mesh)}")
    return MeshCoordinate(list(values))


def replicated(places: tuple[MeshCoordinate, ...]) -> TensorTopology:
    """Every one of these places holds the same."""
    return TensorTopology(MeshShape(len(places)), (PlacementReplicate(),), places)


def topology_of(record: records.TensorTopology | None, mesh: MeshShape, places: tuple[MeshCoordinate, ...], rank: int) -> TensorTopology:
    """How the shards at `places` are laid over the mesh; a file that does not say is fully replicated."""
    if record is None:
        return replicated(places)
    shape = mesh_shape_of(record.distribution_shape)
    given = record.placements or ()
    if len(given) != shape.dims():
        raise _refuse(f"its topology has {len(given)} placements for a distribution over {list(shape)}")
    placed: list[Placement] = []
    for p in given:
        if p.type == _SHARD and not -max(rank, 1) <= p.tensor_dim < max(rank, 1):
            raise _refuse(f"its topology shards dimension {p.tensor_dim} of a tensor of rank {rank}")
        placed.append(PlacementShard(p.tensor_dim) if p.type == _SHARD else PlacementReplicate())
    for place in record.mesh_coords or ():
        place_of(place, mesh)
    return TensorTopology(shape, tuple(placed), places)
