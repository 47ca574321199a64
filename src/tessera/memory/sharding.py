"""How shards fit a tensor: what the chip refuses, and how the two tongues of sharding translate into each other.

Everything here works on the *physical* matrix of a tensor: all but the last dimension folded into the height, padding
included.
"""

from __future__ import annotations

from tessera.formats.dtype import Layout
from tessera.formats.shape import Shape, volume
from tessera.formats.tile import Tile
from tessera.memory.config import (
    MemoryConfig,
    NdShardSpec,
    ShardDistributionStrategy,
    ShardOrientation,
    ShardSpec,
    TensorMemoryLayout,
)

HEIGHT, WIDTH, BLOCK = TensorMemoryLayout.HEIGHT_SHARDED, TensorMemoryLayout.WIDTH_SHARDED, TensorMemoryLayout.BLOCK_SHARDED
ND = TensorMemoryLayout.ND_SHARDED


def div_up(a: int, b: int) -> int:
    return -(-a // b)


def round_up(a: int, b: int) -> int:
    return -(-a // b) * b


def check_tile_shard(shard: tuple[int, ...], layout: Layout, tile: Tile) -> None:
    """Shards of a TILE tensor are whole tiles."""
    if layout is not Layout.TILE:
        return
    height, width = shard[-2:] if len(shard) > 1 else (tile.height, *shard)
    if height % tile.height or width % tile.width:
        raise RuntimeError(f"Physical shard shape ({height}, {width}) must be tile {{{tile.height}, {tile.width}}} sized!")


def check_fit(config: MemoryConfig, physical: tuple[int, int]) -> None:
    """Refuse a two-dimensional shard that does not cover the tensor on its cores."""
    spec = config.shard_spec
    if spec is None or config.created_with_nd_shard_spec or config.memory_layout not in (HEIGHT, WIDTH, BLOCK):
        return
    (height, width), (shard_height, shard_width) = physical, spec.shard
    if not shard_height or not shard_width:
        raise RuntimeError(f"Shard shape ({shard_height}, {shard_width}) must not have a zero extent")
    rows, columns = div_up(height, shard_height), div_up(width, shard_width)
    cores = spec.num_cores()
    if config.memory_layout is HEIGHT:
        if shard_width != width:
            raise RuntimeError(f"Shard width {shard_width} must match physical width {width} for height sharded")
        if rows > cores:
            raise RuntimeError(f"Number of shards along height {rows} must not exceed number of cores {cores}")
    elif config.memory_layout is WIDTH:
        if shard_height != height:
            raise RuntimeError(f"Shard height {shard_height} must match physical height {height} for width sharded")
        if columns > cores:
            raise RuntimeError(f"Number of shards along width {columns} must not exceed number of cores {cores}")
    else:
        if spec.grid.size() != 1:
            raise RuntimeError(f"Shard grid must be one full rectangular grid for block sharded! It is {spec.grid}")
        grid = spec.grid.ranges()[0].grid_size()
        if spec.orientation is ShardOrientation.ROW_MAJOR:
            limits = (("height", rows, "rows", grid.y), ("width", columns, "columns", grid.x))
            order = "row"
        else:
            limits = (("height", rows, "columns", grid.x), ("width", columns, "rows", grid.y))
            order = "column"
        for side, shards, lines, limit in limits:
            if shards > limit:
                raise RuntimeError(
                    f"Number of shards along {side} {shards} must not exceed number of {lines} {limit} for {order} major orientation!"
                )


def nd_from_legacy(config: MemoryConfig) -> NdShardSpec | None:
    """The N-d form of a two-dimensional shard."""
    spec = config.shard_spec
    if spec is None:
        return None
    grid_2d = config.memory_layout is BLOCK
    strategy = ShardDistributionStrategy.GRID_2D if grid_2d else ShardDistributionStrategy.ROUND_ROBIN_1D
    return NdShardSpec(Shape.of(spec.shard), spec.grid, spec.orientation, strategy)


def legacy_from_nd(spec: NdShardSpec, padded: tuple[int, ...], physical: tuple[int, int]) -> tuple[TensorMemoryLayout, ShardSpec | None]:
    """The two-dimensional form of an N-d shard, when there is one: each core then holds at most one shard."""
    none = ND, None
    shard = spec.shard_shape.dims
    if len(shard) < 2 or spec.shard_distribution_strategy is ShardDistributionStrategy.CONTIGUOUS_1D:
        return none
    matrix = _as_matrix(shard, padded, physical)
    if matrix is None:
        return none
    (height, width), (shard_height, shard_width) = physical, matrix
    rows, columns = div_up(height, shard_height), div_up(width, shard_width)
    legacy = ShardSpec(spec.grid, matrix, spec.orientation)
    box = spec.grid.ranges()[0].grid_size() if spec.grid.size() == 1 else None
    if spec.shard_distribution_strategy is ShardDistributionStrategy.GRID_2D:
        return (BLOCK, legacy) if box is not None and _fits(rows, columns, box.y, box.x, spec.orientation) else none
    if rows * columns > spec.num_cores():
        return none
    if shard_height == height:
        return WIDTH, legacy
    if shard_width == width:
        return HEIGHT, legacy
    # Cores are filled along rows: what runs along them must be as many shards as a row has cores.
    if box is not None and box.x == (columns if spec.orientation is ShardOrientation.ROW_MAJOR else rows):
        return BLOCK, legacy
    return none


def _fits(rows: int, columns: int, grid_rows: int, grid_columns: int, orientation: ShardOrientation) -> bool:
    if orientation is ShardOrientation.COL_MAJOR:
        rows, columns = columns, rows
    return rows <= grid_rows and columns <= grid_columns


def _as_matrix(shard: tuple[int, ...], padded: tuple[int, ...], physical: tuple[int, int]) -> tuple[int, int] | None:
    """A shard as a block of consecutive rows of the folded tensor: ones, then one cut dimension, then whole ones."""
    if not all(shard):
        return None
    if len(shard) < len(padded):
        # A shard of lower rank lies on the tensor folded to that rank.
        keep = len(shard) - 1
        padded = (volume(padded[: len(padded) - keep]), *padded[len(padded) - keep :])
    elif len(shard) > len(padded):
        padded = (1,) * (len(shard) - len(padded)) + padded
    if len(shard) == 2:
        return shard[0], shard[1]
    whole = len(shard) - 1
    while whole > 0 and shard[whole - 1] == padded[whole - 1]:
        whole -= 1
    cut = whole - 1
    if cut >= 0:
        if any(s != 1 for s in shard[:cut]):
            return None
        if padded[cut] % shard[cut] and any(d != 1 for d in padded[:cut]):
            return None
    return volume(shard[:-1]), shard[-1]
