"""How a product is spread over cores: the program configs a caller may give, what the chip refuses of them, and where their results lie.

Every config cuts the result into blocks of `per_core_M` by `per_core_N` tiles, one for each core. From that follow both the refusals (do the
blocks fit the grid, do the inner blocks divide the inner dimension) and the shards of a sharded result. Without a config, one is chosen from where the
first operand lies and where the result should.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tessera.memory.config import BufferType, MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from tessera.memory.geometry import CoreCoord, CoreRangeSet, rectangle
from tessera.memory.spec import TensorSpec
from tessera.memory.work import num_cores_to_corerangeset
from tessera.runtime.device import Device
from ttnn.operations.circular import require_circular_room
from ttnn.operations.rules import name_of, require

HEIGHT, WIDTH, BLOCK = TensorMemoryLayout.HEIGHT_SHARDED, TensorMemoryLayout.WIDTH_SHARDED, TensorMemoryLayout.BLOCK_SHARDED
ROWS, COLUMNS = ShardOrientation.ROW_MAJOR, ShardOrientation.COL_MAJOR
#: Results that one core's destination registers hold at once, in tiles; half as many in fp32.
REGISTER_TILES = 8
#: A product this many times longer than wide (or wider than long) is spread in one dimension.
NARROW = 8


@dataclass(frozen=True, slots=True)
class Tiles:
    """A product in tiles: `batch` matrices of `m` by `k`, times `k` by `n`; `height` and `width` of one tile of the result."""

    batch: int
    m: int
    k: int
    n: int
    height: int
    width: int
    shares_weights: bool

    @property
    def rows(self) -> int:
        return self.batch * self.m


def tiles_of(a: TensorSpec, b: TensorSpec, shape: tuple[int, ...], transpose_a: bool) -> Tiles:
    (height, inner), (_, width) = a.tile.tile_shape, b.tile.tile_shape
    rows = shape[-2] if len(a.dims) > 1 and len(shape) > 1 else 1
    columns = shape[-1] if len(b.dims) > 1 else 1
    k = a.dims[-2] if transpose_a and len(a.dims) > 1 else a.dims[-1]
    return Tiles(
        math.prod(shape[:-2]), -(-rows // height), -(-k // inner), -(-columns // width), height, width, math.prod(b.dims[:-2]) == 1
    )


# -- what the chip refuses of a given config


def check_config(what: str, config: Any, device: Device, a: TensorSpec, b: TensorSpec, t: Tiles, out: MemoryConfig, kernel: Any) -> None:
    """Refuse a program config that does not fit the operands or the device."""
    kind = type(config).__name__
    gathers = getattr(config, "gather_in0", False)
    if not gathers:
        require(
            config.in0_block_w > 0 and t.k % config.in0_block_w == 0,
            f"{kind}: Kt ({t.k}) must be divisible by in0_block_w ({config.in0_block_w})",
        )
    _check_blocks(kind, config, kernel)
    grid = getattr(config, "compute_with_storage_grid_size", None)
    if grid is not None:
        x, y = device.board.compute_grid
        require(
            grid.x <= x and grid.y <= y,
            f"{kind}: compute_with_storage_grid_size ({grid.x}, {grid.y}) must fit within device grid ({x}, {y})",
        )
    check = _CHECKS.get(kind)
    if check is not None and not gathers:
        check(kind, config, a, b, t, out)


def _check_blocks(kind: str, config: Any, kernel: Any) -> None:
    height, width = getattr(config, "out_subblock_h", None), getattr(config, "out_subblock_w", None)
    require(
        config.per_core_M > 0 and config.per_core_N > 0,
        f"{kind}: per_core_M ({config.per_core_M}) and per_core_N ({config.per_core_N}) must be greater than 0",
    )
    if height is None or width is None:
        return
    require(height > 0 and width > 0, f"{kind}: out_subblock_h ({height}) and out_subblock_w ({width}) must be greater than 0")
    block_h = getattr(config, "out_block_h", None) or config.per_core_M
    block_w = getattr(config, "out_block_w", None) or config.per_core_N
    for per_core, block, subblock, letter in ((config.per_core_M, block_h, height, "h"), (config.per_core_N, block_w, width, "w")):
        require(
            per_core % block == 0,
            f"{kind}: per_core_{'M' if letter == 'h' else 'N'} ({per_core}) must be divisible by out_block_{letter} ({block})",
        )
        require(block % subblock == 0, f"{kind}: out_block_{letter} ({block}) must be divisible by out_subblock_{letter} ({subblock})")
    most = REGISTER_TILES // 2 if getattr(kernel, "fp32_dest_acc_en", False) else REGISTER_TILES
    require(
        height * width <= most,
        f"{kind}: out_subblock_w {width} times out_subblock_h {height} needs to be at most {most} to fit in hardware",
    )


def _shard_tiles(spec: TensorSpec, t: Tiles) -> tuple[int, int]:
    """Height and width of a tensor's shards, in tiles."""
    shard = spec.memory_config.shard_spec
    if shard is None:
        return t.rows, t.k
    return -(-shard.shape[0] // t.height), -(-shard.shape[1] // spec.tile.tile_shape[1])


def _check_first(kind: str, config: Any, a: TensorSpec, t: Tiles, layouts: tuple[TensorMemoryLayout, ...]) -> None:
    """A sharded first operand is read where it lies: its shards must be the config's blocks."""
    if not a.is_sharded:
        return
    layout = a.memory_config.memory_layout
    require(layout in layouts, f"{kind}: Input A memory layout must be {' or '.join(m.name for m in layouts)}, got: {name_of(layout)}")
    height, width = _shard_tiles(a, t)
    require(
        width % config.in0_block_w == 0,
        f"{kind}: the shards of input A are {width} tiles wide, which must be divisible by in0_block_w ({config.in0_block_w})",
    )
    require(
        layout == WIDTH or height == config.per_core_M,
        f"{kind}: the shards of input A are {height} tiles high; per_core_M must be equal to that, got {config.per_core_M}",
    )


def _require_layout(kind: str, out: MemoryConfig, layout: TensorMemoryLayout) -> None:
    require(
        not out.is_sharded() or out.memory_layout == layout,
        f"{kind}: Output memory layout must be {layout.name}, got: {name_of(out.memory_layout)}",
    )


def _check_2d(kind: str, config: Any, a: TensorSpec, b: TensorSpec, t: Tiles, out: MemoryConfig) -> None:
    require(t.shares_weights, f"{kind}: the second operand must not be batched; its blocks are sent to all rows of cores")
    rows, columns = -(-(t.rows if config.fuse_batch else t.m) // config.per_core_M), -(-t.n // config.per_core_N)
    grid = config.compute_with_storage_grid_size
    x, y = (rows, columns) if config.transpose_mcast else (columns, rows)
    require(
        x <= grid.x,
        f"{kind}: Num output blocks along x ({x}) must be smaller than or equal to the number of columns in compute grid ({grid.x})!",
    )
    require(
        y <= grid.y,
        f"{kind}: Num output blocks along y ({y}) must be smaller than or equal to the number of rows in compute grid ({grid.y})!",
    )
    _check_first(kind, config, a, t, (BLOCK, HEIGHT))
    _require_layout(kind, out, BLOCK)


def _check_1d(kind: str, config: Any, a: TensorSpec, b: TensorSpec, t: Tiles, out: MemoryConfig) -> None:
    require(t.shares_weights, f"{kind}: the second operand must not be batched")
    rows, columns = -(-(t.rows if config.fuse_batch else t.m) // config.per_core_M), -(-t.n // config.per_core_N)
    grid = config.compute_with_storage_grid_size
    if config.mcast_in0:
        _check_first(kind, config, a, t, (WIDTH,))
    else:
        require(
            columns == 1,
            f"{kind}: mcast_in1 requires N ({t.n}) to fit within a single per_core_N block ({config.per_core_N}), got num_blocks_x={columns}",
        )
        _check_first(kind, config, a, t, (HEIGHT,))
    require(
        rows * columns <= grid.x * grid.y,
        f"{kind}: Number of blocks exceeds number of cores: {rows * columns} blocks > {grid.x * grid.y} cores",
    )
    _require_layout(kind, out, WIDTH if config.mcast_in0 else HEIGHT)


def _check_reuse(kind: str, config: Any, a: TensorSpec, b: TensorSpec, t: Tiles, out: MemoryConfig) -> None:
    require(
        t.m % config.per_core_M == 0 or config.per_core_M % t.m == 0,
        f"{kind}: per_core_M ({config.per_core_M}) must divide, or be a multiple of, the {t.m} rows of tiles of a matrix",
    )
    require(t.n % config.per_core_N == 0, f"{kind}: N ({t.n}) must be divisible by per_core_N ({config.per_core_N})")
    _check_first(kind, config, a, t, (HEIGHT, BLOCK))


def _check_dram(kind: str, config: Any, a: TensorSpec, b: TensorSpec, t: Tiles, out: MemoryConfig) -> None:
    batched = kind.startswith("MatmulMultiCoreReuseMultiCastBatched")
    layout = HEIGHT if batched else WIDTH
    for letter, spec, buffer in (("A", a, BufferType.L1), ("B", b, BufferType.DRAM)):
        place = spec.memory_config
        require(
            place.is_sharded() and place.memory_layout == layout and place.buffer_type == buffer,
            f"{kind}: Input {letter} must be {layout.name} in {buffer.name}, got: {name_of(place.memory_layout)} in {place.buffer_type.name}",
        )
    require(
        out.is_sharded() and out.memory_layout == layout,
        f"{kind}: Output memory layout must be {layout.name}, got: {name_of(out.memory_layout)}",
    )
    if not batched:
        require(t.rows == config.per_core_M, f"{kind}: M ({t.rows}) must be equal to per_core_M ({config.per_core_M})")


_CHECKS = {
    "MatmulMultiCoreReuseMultiCastProgramConfig": _check_2d,
    "MatmulMultiCoreReuseMultiCast1DProgramConfig": _check_1d,
    "MatmulMultiCoreReuseProgramConfig": _check_reuse,
    "MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig": _check_dram,
    "MatmulMultiCoreReuseMultiCastBatchedDRAMShardedProgramConfig": _check_dram,
}


def check_room(what: str, config: Any, device: Device, a: TensorSpec, b: TensorSpec, out: TensorSpec) -> None:
    """The circular buffers of a given config must fit in L1 beside the tensors that are there."""
    grid = getattr(config, "compute_with_storage_grid_size", None)
    if grid is None or getattr(config, "gather_in0", False):
        return

    def tile(spec: TensorSpec) -> int:
        return spec.tile.get_tile_size(spec.dtype)

    block = (getattr(config, "out_block_h", None) or config.per_core_M) * (getattr(config, "out_block_w", None) or config.per_core_N)
    size = 2 * config.in0_block_w * config.per_core_N * tile(b)
    if not a.is_sharded:
        size += 2 * config.in0_block_w * config.per_core_M * tile(a)
    if not out.is_sharded:
        size += block * tile(out)
    require_circular_room(what, device, grid, size)


# -- where the result lies


def check_places(what: str, a: TensorSpec, out: MemoryConfig) -> None:
    """What a sharded first operand asks of itself and of the result."""
    if not a.is_sharded:
        return
    place = a.memory_config
    if out.is_sharded():
        require(
            place.buffer_type == out.buffer_type,
            f"{what}: Input A and output buffer types must match, got input: {name_of(place.buffer_type)} vs output: {name_of(out.buffer_type)}",
        )
        legacy = place.shard_spec is not None and place.memory_layout in (HEIGHT, WIDTH, BLOCK)
        require(
            not legacy or place.memory_layout == out.memory_layout,
            f"{what}: Input A and output memory layouts must match, got input: {name_of(place.memory_layout)} vs output: {name_of(out.memory_layout)}",
        )
    require(
        place.buffer_type != BufferType.DRAM,
        f"{what}: a sharded input A is read where it lies, so it must be in L1; got shards in {place.buffer_type.name} (L1 is required)",
    )


def placed(what: str, device: Device, a: TensorSpec, t: Tiles, asked: MemoryConfig | None, config: Any, core_grid: Any) -> MemoryConfig:
    """Where the product lies. The shards of a sharded result are the blocks of its program, whatever shards were asked for."""
    if asked is None:
        return MemoryConfig()
    if not asked.is_sharded() or asked.memory_layout not in (HEIGHT, WIDTH, BLOCK):
        return asked
    layout = asked.memory_layout
    if config is not None:
        shards = _config_shards(config, device, a, t, asked)
    elif a.memory_config.shard_spec is not None:
        shards = _shards_like(a, a.memory_config.shard_spec, device, t, layout)
    elif core_grid is not None and not _narrow(t):
        require(
            layout == BLOCK,
            f"MatmulMultiCoreReuseMultiCastProgramConfig: Output memory layout must be BLOCK_SHARDED, got: {name_of(layout)}",
        )
        shards = _blocks(t, -(-t.rows // core_grid.y), -(-t.n // core_grid.x), ROWS)
    else:
        shards = _spread(device.grid, t, layout)
    return MemoryConfig(layout, asked.buffer_type, shards)


def _narrow(t: Tiles) -> bool:
    high, wide = t.rows, t.n
    return min(high, wide) <= 1 or max(high, wide) > NARROW * min(high, wide)


def _line(t: Tiles, count: int, grid: Any, per_core_m: int, per_core_n: int) -> ShardSpec:
    """The first `count` cores of a grid, row by row."""
    cores = num_cores_to_corerangeset(count, CoreCoord(grid.x, grid.y), True)
    return ShardSpec(cores, [per_core_m * t.height, per_core_n * t.width], ROWS)


def _blocks(t: Tiles, per_core_m: int, per_core_n: int, orientation: ShardOrientation) -> ShardSpec:
    rows, columns = -(-t.rows // per_core_m), -(-t.n // per_core_n)
    x, y = (columns, rows) if orientation == ROWS else (rows, columns)
    return ShardSpec(CoreRangeSet([rectangle(0, 0, x - 1, y - 1)]), [per_core_m * t.height, per_core_n * t.width], orientation)


def _spread(grid: CoreCoord, t: Tiles, layout: TensorMemoryLayout) -> ShardSpec:
    """An interleaved first operand: as many cores of the device as there is work for."""
    cores = grid.x * grid.y
    if layout == HEIGHT:
        each = -(-t.rows // cores)
        return _line(t, -(-t.rows // each), grid, each, t.n)
    if layout == WIDTH:
        each = -(-t.n // cores)
        return _line(t, -(-t.n // each), grid, t.rows, each)
    return _blocks(t, -(-t.rows // grid.y), -(-t.n // grid.x), ROWS)


def _shards_like(a: TensorSpec, given: ShardSpec, device: Device, t: Tiles, layout: TensorMemoryLayout) -> ShardSpec:
    """A sharded first operand: its cores keep their rows."""
    height, _ = _shard_tiles(a, t)
    if layout == HEIGHT:
        return ShardSpec(given.grid, [height * t.height, t.n * t.width], given.orientation)
    if layout == WIDTH:
        each = -(-t.n // given.num_cores())
        return _line(t, -(-t.n // each), device.grid, t.rows, each)
    size = given.grid.bounding_box().grid_size()
    across = size.x if given.orientation == ROWS else size.y
    return _blocks(t, height, -(-t.n // across), given.orientation)


def _config_shards(config: Any, device: Device, a: TensorSpec, t: Tiles, asked: MemoryConfig) -> ShardSpec:
    kind, m, n = type(config).__name__, config.per_core_M, config.per_core_N
    given = a.memory_config.shard_spec
    if kind == "MatmulMultiCoreReuseMultiCastProgramConfig":
        return _blocks(t, m, n, COLUMNS if config.transpose_mcast else ROWS)
    if kind == "MatmulMultiCoreReuseMultiCast1DProgramConfig":
        if config.gather_in0:
            if asked.shard_spec is not None:
                return asked.shard_spec
            return ShardSpec(given.grid if given else CoreRangeSet([]), [m * t.height, n * t.width], ROWS)
        count = -(-t.n // n) if config.mcast_in0 else -(-t.rows // m)
        return _line(t, count, config.compute_with_storage_grid_size, m, n)
    if kind == "MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig":
        return _line(t, -(-t.n // n), device.grid, m, n)
    if given is not None:
        return ShardSpec(given.grid, [m * t.height, n * t.width], given.orientation)
    grid = getattr(config, "compute_with_storage_grid_size", device.grid)
    return _line(t, -(-t.rows // m) * -(-t.n // n), grid, m, n)
