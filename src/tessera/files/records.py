"""What the header of a file says, as plain frozen records: the tables of `tensorbin.fbs` by the same names.

Nothing in here has been judged beyond the schema: a record may well describe a tensor that cannot exist. `describe` turns
records into specs and refuses those.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CoreCoord:
    x: int = 0
    y: int = 0


@dataclass(frozen=True)
class CoreRange:
    start: CoreCoord | None = None
    end: CoreCoord | None = None


@dataclass(frozen=True)
class CoreRangeSet:
    ranges: tuple[CoreRange, ...] | None = None


@dataclass(frozen=True)
class ShardShape:
    height: int = 0
    width: int = 0


@dataclass(frozen=True)
class ShardSpec:
    grid: CoreRangeSet | None = None
    shape_h: int = 0
    shape_w: int = 0
    orientation: int = 0
    shard_mode_deprecated: int = 0
    physical_shard_shape_deprecated: ShardShape | None = None


@dataclass(frozen=True)
class NdShardSpec:
    shard_shape: tuple[int, ...] | None = None
    grid: CoreRangeSet | None = None
    orientation: int = 0
    shard_distribution_strategy: int = 0


@dataclass(frozen=True)
class MemoryConfig:
    memory_layout: int = 0
    buffer_type: int = 0
    shard_spec: ShardSpec | None = None
    nd_shard_spec: NdShardSpec | None = None
    created_with_nd_shard_spec: bool = False
    per_core_allocation: bool = False


@dataclass(frozen=True)
class Tile:
    tile_shape_h: int = 0
    tile_shape_w: int = 0
    transpose_tile: bool = False


@dataclass(frozen=True)
class RowMajorPageConfig:
    pass


@dataclass(frozen=True)
class TilePageConfig:
    tile: Tile | None = None


@dataclass(frozen=True)
class TensorLayout:
    data_type: int = 0
    page_config: RowMajorPageConfig | TilePageConfig | None = None
    memory_config: MemoryConfig | None = None
    alignment: tuple[int, ...] | None = None


@dataclass(frozen=True)
class TensorSpec:
    shape: tuple[int, ...] | None = None
    tensor_layout: TensorLayout | None = None


@dataclass(frozen=True)
class MeshShape:
    dimensions: tuple[int, ...] | None = None


@dataclass(frozen=True)
class MeshCoordinate:
    values: tuple[int, ...] | None = None


@dataclass(frozen=True)
class MeshMapperPlacement:
    type: int = 0
    tensor_dim: int = 0


@dataclass(frozen=True)
class TensorTopology:
    distribution_shape: MeshShape | None = None
    placements: tuple[MeshMapperPlacement, ...] | None = None
    mesh_coords: tuple[MeshCoordinate, ...] | None = None


@dataclass(frozen=True)
class InlineFileStorage:
    offset: int = 0
    size: int = 0


@dataclass(frozen=True)
class TensorShard:
    buffer: InlineFileStorage | None = None
    mesh_coordinate: MeshCoordinate | None = None


@dataclass(frozen=True)
class Tensor:
    tensor_spec: TensorSpec | None = None
    mesh_shape: MeshShape | None = None
    shards: tuple[TensorShard, ...] | None = None
    tensor_topology: TensorTopology | None = None


@dataclass(frozen=True)
class OverlappedView:
    name: str | None = None
    tensor_shape_h: int = 0
    tensor_shape_w: int = 0
    shard_shape_h: int = 0
    shard_shape_w: int = 0
    core_range_set: CoreRangeSet | None = None
    dtype: int = 0
    tile_h: int = 0
    tile_w: int = 0
    byte_offset: int = 0
    total_size: int = 0


@dataclass(frozen=True)
class OverlappedTensors:
    fused_tensor: Tensor | None = None
    views: tuple[OverlappedView, ...] | None = None
