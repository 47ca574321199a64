"""`TensorSpec`: everything that is known of a tensor before its content.

Specs are interned: equal specs are one object, so comparing and hashing cost what they cost for any object, and
whatever is derived (padded shape, pages, bytes) is computed once for each distinct spec. Operations derive their output
specs from their inputs' with `replace`, which is a dictionary lookup after the first time.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any
from weakref import WeakValueDictionary

from tessera.formats.arguments import expect, refuse
from tessera.formats.dtype import BLOCK_FLOATS, FORMATS, DataType, Layout
from tessera.formats.shape import Shape, volume
from tessera.formats.tile import DEFAULT_TILE, Tile
from tessera.memory import sharding
from tessera.memory.config import (
    BufferType,
    MemoryConfig,
    NdShardSpec,
    ShardDistributionStrategy,
    ShardOrientation,
    ShardShapeAlignment,
    ShardSpec,
    TensorMemoryLayout,
)
from tessera.memory.geometry import CoreRange, CoreRangeSet
from tessera.memory.sharding import div_up, round_up

_SPECS: WeakValueDictionary[tuple[Any, ...], TensorSpec] = WeakValueDictionary()
_RECENT: deque[TensorSpec] = deque(maxlen=4096)
_LOCK = threading.Lock()
RECOMMENDED_ROW_BYTES = 64
"""What a row of a ROW_MAJOR shard is rounded up to where the caller asks for the recommended alignment."""


class TensorSpec:
    """Shape, dtype, layout, tile and memory config of a tensor, and what follows from them."""

    __slots__ = (
        "__weakref__",
        "alignment",
        "dims",
        "dtype",
        "image_size",
        "is_sharded",
        "layout",
        "memory_config",
        "num_pages",
        "padded_dims",
        "padded_shape",
        "page_size",
        "physical_shape",
        "shape",
        "tile",
        "volume",
    )
    shape: Shape
    """The logical shape."""
    dims: tuple[int, ...]
    """The logical shape as a plain tuple."""
    padded_shape: Shape
    padded_dims: tuple[int, ...]
    dtype: DataType
    layout: Layout
    tile: Tile
    memory_config: MemoryConfig
    """With both forms of sharding filled in where both exist."""
    alignment: tuple[int, ...]
    """What the last dimensions are rounded up to."""
    physical_shape: tuple[int, int]
    """Height and width in elements of the tensor folded to a matrix, padding included."""
    page_size: int
    num_pages: int
    image_size: int
    """Bytes of the bytes face."""
    volume: int
    """Elements of the logical shape."""
    is_sharded: bool

    def __new__(cls, *args: Any, **kwargs: Any) -> TensorSpec:
        return cls.of(**_bind(args, kwargs))

    @classmethod
    def of(
        cls,
        shape: Shape,
        dtype: DataType,
        layout: Layout,
        memory_config: MemoryConfig | None = None,
        tile: Tile | None = None,
        alignment: tuple[int, ...] | None = None,
    ) -> TensorSpec:
        """The one spec with these properties; arguments are of the right types already."""
        if layout is not Layout.TILE or tile is None:
            tile = DEFAULT_TILE
        config = _INTERLEAVED if memory_config is None else memory_config
        key = (shape.dims, dtype, layout, tile.height, tile.width, tile.transposed, config.identity, alignment)
        spec = _SPECS.get(key)
        if spec is None:
            spec = object.__new__(cls)
            spec._derive(shape, dtype, layout, config, tile, alignment)
            full = (*key[:-2], spec.memory_config.identity, spec.alignment)
            with _LOCK:
                # The same spec may be asked for with its alignment and its N-d layout spelt out or left to the rule.
                spec = _SPECS.setdefault(full, spec)
                _SPECS[key] = spec
                _RECENT.append(spec)
        return spec

    def replace(
        self,
        shape: Shape | tuple[int, ...] | list[int] | None = None,
        dtype: DataType | None = None,
        layout: Layout | None = None,
        memory_config: MemoryConfig | None = None,
        tile: Tile | None = None,
    ) -> TensorSpec:
        """This spec with some properties changed; padding follows the rule of the new ones."""
        if shape is None:
            shape = self.shape
        elif type(shape) is not Shape:
            shape = Shape(shape)
        return TensorSpec.of(
            shape,
            self.dtype if dtype is None else dtype,
            self.layout if layout is None else layout,
            self.memory_config if memory_config is None else memory_config,
            self.tile if tile is None else tile,
        )

    def padded_to(self, padded: Any) -> TensorSpec:
        """This spec with the given padded shape in place of the one that follows from its layout."""
        target = Shape(padded).dims
        alignment = _alignment_for(self.dims, target, self.memory_config, self.layout, self.tile)
        spec = TensorSpec.of(self.shape, self.dtype, self.layout, self.memory_config, self.tile, alignment)
        if spec.padded_dims != target:
            raise RuntimeError(f"padded shape {list(target)} cannot be had: {self.shape} in {self.layout} pads to {list(spec.padded_dims)}")
        return spec

    def _derive(
        self, shape: Shape, dtype: DataType, layout: Layout, config: MemoryConfig, tile: Tile, alignment: tuple[int, ...] | None
    ) -> None:
        put = object.__setattr__
        if dtype not in FORMATS or layout is Layout.INVALID:
            raise RuntimeError(f"TensorSpec: a tensor needs a dtype and a layout, got dtype={dtype} and layout={layout}")
        row = FORMATS[dtype]
        if dtype in BLOCK_FLOATS and layout is not Layout.TILE:
            raise RuntimeError(f"Only TILE layout is supported for {dtype.name} dtype! layout={layout}")
        if dtype is DataType.FP8_E4M3 and layout is not Layout.ROW_MAJOR:
            raise RuntimeError(f"Only ROW_MAJOR layout is supported for FP8_E4M3 dtype! layout={layout}")
        shard = _shard_of(config)
        if shard is not None:
            sharding.check_tile_shard(shard, layout, tile)
        rule = (tile.height, tile.width) if layout is Layout.TILE else (1,) if not shard or not shard[-1] else (shard[-1],)
        alignment = rule if alignment is None else _at_least(alignment, rule)
        padded = _padded(shape.dims, alignment)
        physical = _physical(shape.dims, alignment)
        sharding.check_fit(config, physical)
        put(self, "shape", shape)
        put(self, "dims", shape.dims)
        put(self, "volume", volume(shape.dims))
        put(self, "dtype", dtype)
        put(self, "layout", layout)
        put(self, "tile", tile)
        put(self, "alignment", alignment)
        put(self, "padded_dims", padded)
        put(self, "padded_shape", Shape.of(padded))
        put(self, "physical_shape", physical)
        config = _populate(config, padded, physical)
        put(self, "memory_config", config)
        put(self, "is_sharded", config.is_sharded())
        height, width = physical
        if layout is Layout.TILE:
            page_elements, page_size = tile.height * tile.width, row.bytes_for(tile.height * tile.width)
        else:
            page_elements = _row_page(config, width)
            page_size = page_elements * row.element_size
        pages = height * width // page_elements if page_elements else 0
        put(self, "num_pages", pages)
        put(self, "page_size", page_size if pages or layout is Layout.TILE else 4)
        put(self, "image_size", pages * page_size)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"can't set attribute '{name}' of a TensorSpec: it does not change")

    def __copy__(self) -> TensorSpec:
        return self

    def __deepcopy__(self, memo: object) -> TensorSpec:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorSpec.of, (self.shape, self.dtype, self.layout, self.memory_config, self.tile, self.alignment)

    # Sharding builders, as official specs have them.

    def height_sharded(self, grid: Any, orientation: Any = ShardOrientation.ROW_MAJOR) -> TensorSpec:
        """Rows dealt evenly to the cores of `grid`."""
        expect("height_sharded", "grid", grid, CoreRangeSet)
        height, width = self._physical_with_content("height_sharded")
        return self._sharded((div_up(height, grid.num_cores()), width), grid, orientation)

    def width_sharded(self, grid: Any, orientation: Any = ShardOrientation.ROW_MAJOR) -> TensorSpec:
        """Columns dealt evenly to the cores of `grid`."""
        expect("width_sharded", "grid", grid, CoreRangeSet)
        height, width = self._physical_with_content("width_sharded")
        return self._sharded((height, div_up(width, grid.num_cores())), grid, orientation)

    def block_sharded(self, grid: Any, orientation: Any = ShardOrientation.ROW_MAJOR) -> TensorSpec:
        """Blocks dealt to a rectangle of cores."""
        expect("block_sharded", "grid", grid, (CoreRange, CoreRangeSet))
        cores = CoreRangeSet([grid]) if isinstance(grid, CoreRange) else grid
        if cores.size() != 1:
            raise RuntimeError(f"block_sharded: grid must be one full rectangular grid, got {cores}")
        size = cores.ranges()[0].grid_size()
        rows, columns = (size.y, size.x) if orientation is ShardOrientation.ROW_MAJOR else (size.x, size.y)
        height, width = self._physical_with_content("block_sharded")
        shard = (div_up(height, rows), div_up(width, columns))
        return self._sharded(shard, cores, orientation, ShardDistributionStrategy.GRID_2D)

    def sharded_across_dims(self, dims: Any, grid: Any, orientation: Any = ShardOrientation.ROW_MAJOR) -> TensorSpec:
        """Cut into slices of one along each of `dims`."""
        chosen = {self._dim(d) for d in dims}
        shard = tuple(1 if i in chosen else d for i, d in enumerate(self.padded_dims))
        return self._sharded(shard, grid, orientation)

    def sharded_across_dims_except(self, dims: Any, grid: Any, orientation: Any = ShardOrientation.ROW_MAJOR) -> TensorSpec:
        """Cut into slices of one along every dimension but `dims`."""
        kept = {self._dim(d) for d in dims}
        shard = tuple(d if i in kept else 1 for i, d in enumerate(self.padded_dims))
        return self._sharded(shard, grid, orientation)

    def sharded(self, *args: Any, **kwargs: Any) -> TensorSpec:
        """`sharded(shard_shape, grid, alignment, orientation, strategy)` or `sharded(nd_shard_spec, alignment)`."""
        if (args and isinstance(args[0], NdShardSpec)) or "nd_shard_spec" in kwargs:
            nd, alignment = _sharded_with_spec(*args, **kwargs)
        else:
            nd, alignment = _sharded_with_shape(*args, **kwargs)
        shard = self._aligned_shard(nd.shard_shape.dims, alignment)
        return self._sharded(shard, nd.grid, nd.orientation, nd.shard_distribution_strategy, align=False)

    def _physical_with_content(self, call: str) -> tuple[int, int]:
        if not self.volume:
            raise RuntimeError(f"{call}: a tensor without elements, {self.shape}, cannot be cut into shards")
        return self.physical_shape

    def _dim(self, dim: int) -> int:
        rank = len(self.padded_dims)
        if not -rank <= dim < rank:
            raise RuntimeError(f"sharded_across_dims: dimension {dim} is not in [{-rank}, {rank})")
        return dim % rank

    def _aligned_shard(self, shard: tuple[int, ...], alignment: ShardShapeAlignment) -> tuple[int, ...]:
        if alignment is ShardShapeAlignment.NONE:
            return shard
        steps: tuple[int, ...] = (self.tile.height, self.tile.width) if self.layout is Layout.TILE else (1,)
        if self.layout is not Layout.TILE and alignment is ShardShapeAlignment.RECOMMENDED:
            steps = (max(1, RECOMMENDED_ROW_BYTES // FORMATS[self.dtype].element_size),)
        steps = steps[-len(shard) :] if shard else ()
        start = len(shard) - len(steps)
        return shard[:start] + tuple(round_up(d, s) for d, s in zip(shard[start:], steps))

    def _sharded(
        self,
        shard: tuple[int, ...],
        grid: CoreRangeSet,
        orientation: ShardOrientation,
        strategy: ShardDistributionStrategy = ShardDistributionStrategy.ROUND_ROBIN_1D,
        align: bool = True,
    ) -> TensorSpec:
        if align:
            shard = self._aligned_shard(shard, ShardShapeAlignment.REQUIRED)
        nd = NdShardSpec(shard, grid, orientation, strategy)
        config = MemoryConfig(self.memory_config.buffer_type, nd)
        return TensorSpec.of(self.shape, self.dtype, self.layout, config, self.tile)

    def __repr__(self) -> str:
        return f"TensorSpec({self.shape!r}, {self.dtype!r}, {self.layout!r}, {self.memory_config!r}, tile={self.tile.tile_shape})"


_INTERLEAVED = MemoryConfig()


def _shard_of(config: MemoryConfig) -> tuple[int, ...] | None:
    """The shard of the form the config was made with."""
    if config.created_with_nd_shard_spec:
        return config.nd_shard_spec.shard_shape.dims if config.nd_shard_spec is not None else None
    return config.shard_spec.shard if config.is_sharded() and config.shard_spec is not None else None


def _populate(config: MemoryConfig, padded: tuple[int, ...], physical: tuple[int, int]) -> MemoryConfig:
    """`config` with both forms of sharding, where both exist."""
    if config.created_with_nd_shard_spec:
        assert config.nd_shard_spec is not None
        layout, legacy = sharding.legacy_from_nd(config.nd_shard_spec, padded, physical)
        return MemoryConfig.populated(config, layout, legacy, config.nd_shard_spec)
    if config.shard_spec is None:
        if config.is_sharded():
            raise RuntimeError(f"TensorSpec: memory_layout={config.memory_layout} needs a shard spec, and the memory config has none")
        return config
    return MemoryConfig.populated(config, config.memory_layout, config.shard_spec, sharding.nd_from_legacy(config))


def _row_page(config: MemoryConfig, width: int) -> int:
    """Elements of a ROW_MAJOR page: a row of the tensor, or of a shard where rows are cut."""
    if config.memory_layout in (TensorMemoryLayout.INTERLEAVED, TensorMemoryLayout.HEIGHT_SHARDED):
        return width
    shard = _shard_of(config)
    return shard[-1] if shard else width


def _at_least(alignment: tuple[int, ...], rule: tuple[int, ...]) -> tuple[int, ...]:
    """A given alignment, lengthened and rounded up to what the layout needs."""
    length = max(len(alignment), len(rule))
    given, need = (1,) * (length - len(alignment)) + alignment, (1,) * (length - len(rule)) + rule
    return tuple(round_up(max(g, 1), n) for g, n in zip(given, need))


def _padded(dims: tuple[int, ...], alignment: tuple[int, ...]) -> tuple[int, ...]:
    """Each of the last two dimensions is rounded up by itself, those before on top of what lies behind them."""
    padded = list((1,) * (len(alignment) - len(dims)) + dims)
    accumulated = 1
    for i in range(1, len(alignment) + 1):
        step = alignment[-i]
        if i <= 2:
            padded[-i] = round_up(padded[-i], step)
        elif accumulated % step:
            if step % accumulated:
                raise RuntimeError(f"Padded shape can't be deduced from alignment {list(alignment)} and shape {list(dims)}")
            padded[-i] = round_up(padded[-i], step // accumulated)
        if i > 1:
            accumulated *= padded[-i]
    return tuple(padded)


def _physical(dims: tuple[int, ...], alignment: tuple[int, ...]) -> tuple[int, int]:
    """The tensor folded to (height, width), each step aligned on the way."""
    height = width = 1
    for i in range(1, max(len(dims), len(alignment), 2) + 1):
        side = width if i == 1 else height
        side *= dims[-i] if i <= len(dims) else 1
        if i <= len(alignment):
            side = round_up(side, alignment[-i])
        if i == 1:
            width = side
        else:
            height = side
    return height, width


def _alignment_for(
    dims: tuple[int, ...], padded: tuple[int, ...], config: MemoryConfig, layout: Layout, tile: Tile
) -> tuple[int, ...] | None:
    """The alignment that pads `dims` to `padded`; None where the rule of the layout does."""
    rule = (tile.height, tile.width) if layout is Layout.TILE else (1,)
    full = (1,) * (len(padded) - len(dims)) + dims
    outer_same = full[:-2] == padded[:-2]
    if config.is_sharded():
        if not outer_same:
            raise RuntimeError(f"a sharded tensor is padded in its last two dimensions only, {list(dims)} to {list(padded)} is not")
        return None
    if (
        tuple(round_up(d, s) for d, s in zip(full[-len(rule) :], rule)) == padded[-len(rule) :]
        and full[: -len(rule)] == padded[: -len(rule)]
    ):
        return None
    if outer_same:
        return tuple(max(d, 1) for d in padded[-2:])
    values = list(padded)
    for i in range(len(values) - 3, -1, -1):
        values[i] = padded[i] * values[i + 1]
    return tuple(max(v, 1) for v in values)


def _bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The three official signatures, told apart by their fourth argument. None takes a memory config: inside, `of` does."""
    call = "__init__"
    fourth = args[3] if len(args) > 3 else None
    names: tuple[str, ...] = ("shape", "dtype", "layout")
    if isinstance(fourth, TensorMemoryLayout) or "memory_layout" in kwargs or "shard_spec" in kwargs:
        names += ("memory_layout", "shard_spec", "buffer_type", "tile")
    elif isinstance(fourth, NdShardSpec) or "nd_shard_spec" in kwargs:
        names += ("nd_shard_spec", "buffer_type", "tile")
    else:
        names += ("buffer_type", "tile")
    given = dict(zip(names, args))
    if len(args) > len(names) or given.keys() & kwargs.keys() or not kwargs.keys() <= set(names) or len(given | kwargs) < 3:
        refuse(call, "arguments", (args, kwargs), f"must be {', '.join(names)}")
    given |= kwargs
    for name, kind in _KINDS.items():
        if name in given and not (given[name] is None and name in ("shard_spec", "tile")):
            expect(call, name, given[name], kind)
    for name in ("shape", "dtype", "layout"):
        if name not in given:
            refuse(call, name, None, "is missing")
    buffer_type = given.get("buffer_type", BufferType.DRAM)
    if "nd_shard_spec" in given:
        config = MemoryConfig(buffer_type, given["nd_shard_spec"])
    elif "memory_layout" in given:
        config = MemoryConfig(given["memory_layout"], buffer_type, given.get("shard_spec"))
    else:
        config = MemoryConfig(buffer_type=buffer_type)
    shape, tile = Shape(given["shape"]), given.get("tile")
    return {"shape": shape, "dtype": given["dtype"], "layout": given["layout"], "memory_config": config, "tile": tile}


_KINDS: dict[str, type] = {
    "dtype": DataType,
    "layout": Layout,
    "memory_layout": TensorMemoryLayout,
    "shard_spec": ShardSpec,
    "nd_shard_spec": NdShardSpec,
    "buffer_type": BufferType,
    "tile": Tile,
}


def _sharded_with_spec(
    nd_shard_spec: NdShardSpec, shard_alignment: ShardShapeAlignment = ShardShapeAlignment.RECOMMENDED
) -> tuple[NdShardSpec, ShardShapeAlignment]:
    return nd_shard_spec, shard_alignment


def _sharded_with_shape(
    shard_shape: Any,
    grid: CoreRangeSet,
    shard_alignment: ShardShapeAlignment = ShardShapeAlignment.RECOMMENDED,
    orientation: ShardOrientation = ShardOrientation.ROW_MAJOR,
    shard_distribution_strategy: ShardDistributionStrategy = ShardDistributionStrategy.ROUND_ROBIN_1D,
) -> tuple[NdShardSpec, ShardShapeAlignment]:
    return NdShardSpec(shard_shape, grid, orientation, shard_distribution_strategy), shard_alignment
