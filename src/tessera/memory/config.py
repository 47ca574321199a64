"""Where a tensor lives: which kind of memory, and how it is cut into shards.

A sharded config speaks one of two tongues: the older two-dimensional `ShardSpec` or the newer `NdShardSpec`. The one it
was made with is its authority: equality and hashing look at that one only, and a `TensorSpec` derives the other.

Configs are compared and hashed under every operation, so equal ones share a number (`identity`) and that is all
comparing looks at.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

from tessera.formats.arguments import expect, refuse, uints
from tessera.formats.enums import OfficialEnum
from tessera.formats.shape import Shape
from tessera.memory.geometry import CoreRangeSet, set_from_json


class BufferType(OfficialEnum):
    DRAM = 0
    L1 = 1
    L1_SMALL = 3
    TRACE = 4


class TensorMemoryLayout(OfficialEnum):
    INTERLEAVED = 0
    HEIGHT_SHARDED = 2
    WIDTH_SHARDED = 3
    BLOCK_SHARDED = 4
    ND_SHARDED = 5


class ShardOrientation(OfficialEnum):
    ROW_MAJOR = 0
    COL_MAJOR = 1


class ShardDistributionStrategy(OfficialEnum):
    ROUND_ROBIN_1D = 0
    GRID_2D = 1
    CONTIGUOUS_1D = 2


class ShardShapeAlignment(OfficialEnum):
    NONE = 0
    REQUIRED = 1
    RECOMMENDED = 2


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _rectangles(grid: CoreRangeSet, join: str, close: str) -> str:
    """The rectangles of a shard spec as official TT-NN prints them; the older kind leaves the last brace out."""
    one = '{{"start":{{"x":{},"y":{}}},"end":{{"x":{},"y":{}}}' + close
    return join.join(one.format(*r.box) for r in grid.ranges())


class ShardSpec:
    """A two-dimensional shard: height and width of the tensor folded to a matrix. Configs hold it by value."""

    __slots__ = ("grid", "orientation", "shard")
    grid: CoreRangeSet
    shard: tuple[int, ...]
    orientation: ShardOrientation

    def __init__(self, grid: Any, shard_shape: Any, shard_orientation: Any) -> None:
        expect("__init__", "grid", grid, CoreRangeSet)
        expect("__init__", "shard_orientation", shard_orientation, ShardOrientation)
        self.grid = grid
        self.shard = uints("__init__", "shard_shape", shard_shape, length=2)
        self.orientation = shard_orientation

    @property
    def shape(self) -> list[int]:
        return list(self.shard)

    @shape.setter
    def shape(self, value: Any) -> None:
        self.shard = uints("shape", "value", value, length=2)

    def copy(self) -> ShardSpec:
        return ShardSpec(self.grid, self.shard, self.orientation)

    def num_cores(self) -> int:
        return self.grid.num_cores()

    @property
    def key(self) -> tuple[Any, ...]:
        return self.grid, self.shard, self.orientation

    def as_json(self) -> dict[str, Any]:
        return {"grid": self.grid.as_json(), "orientation": self.orientation.value, "shape": list(self.shard)}

    def to_json(self) -> str:
        return _dump(self.as_json())

    @staticmethod
    def from_json(text: str) -> ShardSpec:
        return _shard_spec(json.loads(text))

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardSpec, self.key

    def __eq__(self, other: object) -> bool:
        return type(other) is ShardSpec and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"ShardSpec{{grid=[{_rectangles(self.grid, ', ', '')}], shape={list(self.shard)}, orientation={self.orientation.cpp}}}"


class NdShardSpec:
    """A shard of any rank, and the rule by which shards are dealt to cores. Configs hold it by value."""

    __slots__ = ("grid", "orientation", "shard_distribution_strategy", "shard_shape")
    shard_shape: Shape
    grid: CoreRangeSet
    orientation: ShardOrientation
    shard_distribution_strategy: ShardDistributionStrategy

    def __init__(
        self,
        shard_shape: Any,
        grid: Any,
        orientation: Any = ShardOrientation.ROW_MAJOR,
        shard_distribution_strategy: Any = ShardDistributionStrategy.ROUND_ROBIN_1D,
    ) -> None:
        expect("__init__", "grid", grid, CoreRangeSet)
        expect("__init__", "orientation", orientation, ShardOrientation)
        expect("__init__", "shard_distribution_strategy", shard_distribution_strategy, ShardDistributionStrategy)
        self.shard_shape = Shape(shard_shape)
        self.grid = grid
        self.orientation = orientation
        self.shard_distribution_strategy = shard_distribution_strategy

    def copy(self) -> NdShardSpec:
        return NdShardSpec(self.shard_shape, self.grid, self.orientation, self.shard_distribution_strategy)

    def num_cores(self) -> int:
        return self.grid.num_cores()

    @property
    def key(self) -> tuple[Any, ...]:
        return self.shard_shape, self.grid, self.orientation, self.shard_distribution_strategy

    def as_json(self) -> dict[str, Any]:
        # Official TT-NN cannot write a shape here and says so in its place; readers of that text know it as it is.
        return {
            "grid": self.grid.as_json(),
            "orientation": self.orientation.value,
            "shard_distribution_strategy": self.shard_distribution_strategy.value,
            "shard_shape": "ttsl::json::to_json_t: Unsupported type span<const unsigned int>",
        }

    def to_json(self) -> str:
        return _dump(self.as_json())

    @staticmethod
    def from_json(text: str) -> NdShardSpec:
        return _nd_shard_spec(json.loads(text))

    def __reduce__(self) -> tuple[Any, ...]:
        return NdShardSpec, self.key

    def __eq__(self, other: object) -> bool:
        return type(other) is NdShardSpec and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        grid = _rectangles(self.grid, ", ", "}}")
        return (
            f'{{"shard_shape":{list(self.shard_shape)},"grid":[{grid}],"orientation":"{self.orientation.cpp}",'
            f'"shard_distribution_strategy":"{self.shard_distribution_strategy.cpp}"}}'
        )


_IDENTITIES: dict[tuple[Any, ...], int] = {}
_COUNTER = itertools.count()


class MemoryConfig:
    """`MemoryConfig(memory_layout, buffer_type, shard_spec)` or `MemoryConfig(buffer_type, nd_shard_spec)`."""

    __slots__ = (
        "_nd_shard_spec",
        "_shard_spec",
        "buffer_type",
        "created_with_nd_shard_spec",
        "identity",
        "memory_layout",
        "per_core_allocation",
        "range_lockstep_allocation",
    )
    memory_layout: TensorMemoryLayout
    buffer_type: BufferType
    _shard_spec: ShardSpec | None
    _nd_shard_spec: NdShardSpec | None
    created_with_nd_shard_spec: bool
    per_core_allocation: bool
    range_lockstep_allocation: bool
    identity: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names: tuple[str, ...] = ("memory_layout", "buffer_type", "shard_spec")
        if (args and isinstance(args[0], BufferType)) or "nd_shard_spec" in kwargs:
            names = ("buffer_type", "nd_shard_spec")
        given = dict(zip(names, args))
        if len(args) > len(names) or given.keys() & kwargs.keys() or not kwargs.keys() <= set(names):
            refuse("__init__", "arguments", (args, kwargs), f"must be {', '.join(names)}")
        given |= kwargs
        nd = given.get("nd_shard_spec")
        if len(names) == 2:
            expect("__init__", "buffer_type", given.get("buffer_type"), BufferType)
            expect("__init__", "nd_shard_spec", nd, NdShardSpec)
            self._fill(TensorMemoryLayout.ND_SHARDED, given["buffer_type"], None, nd, True)
            return
        layout = given.get("memory_layout", TensorMemoryLayout.INTERLEAVED)
        buffer_type = given.get("buffer_type", BufferType.DRAM)
        expect("__init__", "memory_layout", layout, TensorMemoryLayout)
        expect("__init__", "buffer_type", buffer_type, BufferType)
        expect("__init__", "shard_spec", given.get("shard_spec"), (ShardSpec, type(None)))
        self._fill(layout, buffer_type, given.get("shard_spec"), None, False)

    def _fill(
        self,
        layout: TensorMemoryLayout,
        buffer_type: BufferType,
        shard_spec: ShardSpec | None,
        nd_shard_spec: NdShardSpec | None,
        with_nd: bool,
        per_core: bool = False,
        lockstep: bool = False,
    ) -> None:
        put = object.__setattr__
        put(self, "memory_layout", layout)
        put(self, "buffer_type", buffer_type)
        put(self, "_shard_spec", shard_spec and shard_spec.copy())
        put(self, "_nd_shard_spec", nd_shard_spec and nd_shard_spec.copy())
        put(self, "created_with_nd_shard_spec", with_nd)
        put(self, "per_core_allocation", per_core)
        put(self, "range_lockstep_allocation", lockstep)
        authority = nd_shard_spec if with_nd else shard_spec
        key = (buffer_type, layout, with_nd, per_core, lockstep, authority and authority.key)
        identity = _IDENTITIES.get(key)
        put(self, "identity", _IDENTITIES.setdefault(key, next(_COUNTER)) if identity is None else identity)

    @classmethod
    def populated(
        cls, config: MemoryConfig, layout: TensorMemoryLayout, shard_spec: ShardSpec | None, nd_shard_spec: NdShardSpec | None
    ) -> MemoryConfig:
        """`config` with the tongue it was not made with filled in."""
        self = object.__new__(cls)
        flags = config.per_core_allocation, config.range_lockstep_allocation
        self._fill(layout, config.buffer_type, shard_spec, nd_shard_spec, config.created_with_nd_shard_spec, *flags)
        return self

    def with_buffer_type(self, buffer_type: BufferType) -> MemoryConfig:
        """The same layout in another kind of memory."""
        other = object.__new__(MemoryConfig)
        flags = self.per_core_allocation, self.range_lockstep_allocation
        other._fill(self.memory_layout, buffer_type, self.shard_spec, self.nd_shard_spec, self.created_with_nd_shard_spec, *flags)
        return other

    def with_shard_spec(self, shard_spec: ShardSpec | None) -> MemoryConfig:
        """The same layout and memory with another two-dimensional shard."""
        other = object.__new__(MemoryConfig)
        other._fill(self.memory_layout, self.buffer_type, shard_spec, None, False)
        return other

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"can't set attribute '{name}' of a MemoryConfig: it does not change")

    @property
    def shard_spec(self) -> ShardSpec | None:
        return self._shard_spec and self._shard_spec.copy()

    @property
    def nd_shard_spec(self) -> NdShardSpec | None:
        return self._nd_shard_spec and self._nd_shard_spec.copy()

    @property
    def interleaved(self) -> bool:
        return not self.is_sharded()

    def is_sharded(self) -> bool:
        return self.memory_layout is not TensorMemoryLayout.INTERLEAVED

    def experimental_set_per_core_allocation(self, enable: bool) -> None:
        """Let each core place its shard on its own: for sharded L1 only."""
        self._set_flags("per_core_allocation", bool(enable), self.range_lockstep_allocation)

    def experimental_set_range_lockstep_allocation(self, enable: bool) -> None:
        """Let the cores of the shard grid, and only they, place their shards together: for sharded L1 only."""
        self._set_flags("range_lockstep_allocation", self.per_core_allocation, bool(enable))

    def _set_flags(self, what: str, per_core: bool, lockstep: bool) -> None:
        if self.buffer_type is not BufferType.L1:
            raise RuntimeError(f"{what} is only supported for L1 buffers, got buffer_type={self.buffer_type}")
        if not self.is_sharded():
            raise RuntimeError(f"{what} requires a sharded memory layout, got memory_layout={self.memory_layout}")
        state = self.memory_layout, self.buffer_type, self._shard_spec, self._nd_shard_spec, self.created_with_nd_shard_spec
        self._fill(*state, per_core, lockstep)

    def as_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "buffer_type": self.buffer_type.value,
            "created_with_nd_shard_spec": self.created_with_nd_shard_spec,
            "memory_layout": self.memory_layout.value,
            "per_core_allocation": self.per_core_allocation,
        }
        # Only the form the config was made with is written; a spec derives the other again.
        if self.created_with_nd_shard_spec:
            out["nd_shard_spec"] = self._nd_shard_spec and self._nd_shard_spec.as_json()
        elif self._shard_spec is not None:
            out["shard_spec"] = self._shard_spec.as_json()
        return dict(sorted(out.items()))

    def to_json(self) -> str:
        return _dump(self.as_json())

    @staticmethod
    def from_json(text: str) -> MemoryConfig:
        j = json.loads(text)
        shard, nd = j.get("shard_spec"), j.get("nd_shard_spec")
        with_nd = bool(j.get("created_with_nd_shard_spec", False))
        config = object.__new__(MemoryConfig)
        config._fill(
            TensorMemoryLayout(j["memory_layout"]),
            BufferType(j["buffer_type"]),
            None if shard is None else _shard_spec(shard),
            _nd_shard_spec(nd) if nd is not None and with_nd else None,
            with_nd,
            bool(j.get("per_core_allocation", False)),
        )
        return config

    def __eq__(self, other: object) -> bool:
        return type(other) is MemoryConfig and self.identity == other.identity

    def __hash__(self) -> int:
        return self.identity

    def __repr__(self) -> str:
        shard = "std::nullopt" if self.shard_spec is None else repr(self.shard_spec)
        nd = "std::nullopt" if self.nd_shard_spec is None else repr(self.nd_shard_spec)
        return (
            f"MemoryConfig(memory_layout={self.memory_layout.cpp},buffer_type={self.buffer_type.cpp},shard_spec={shard},nd_shard_spec={nd},"
            f"created_with_nd_shard_spec={int(self.created_with_nd_shard_spec)},per_core_allocation={int(self.per_core_allocation)},"
            f"range_lockstep_allocation={int(self.range_lockstep_allocation)})"
        )

    def __copy__(self) -> MemoryConfig:
        return MemoryConfig.populated(self, self.memory_layout, self.shard_spec, self.nd_shard_spec)

    def __deepcopy__(self, memo: object) -> MemoryConfig:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.memory_layout, self.buffer_type, self.shard_spec, self.nd_shard_spec, self.created_with_nd_shard_spec)


def _restore(*state: Any) -> MemoryConfig:
    config = object.__new__(MemoryConfig)
    config._fill(*state)
    return config


def _shard_spec(j: dict[str, Any]) -> ShardSpec:
    return ShardSpec(set_from_json(j["grid"]), j["shape"], ShardOrientation(j["orientation"]))


def _nd_shard_spec(j: dict[str, Any]) -> NdShardSpec:
    if not isinstance(j["shard_shape"], list):
        raise RuntimeError(f"NdShardSpec.from_json: shard_shape={j['shard_shape']!r} is not a list of extents")
    strategy = ShardDistributionStrategy(j["shard_distribution_strategy"])
    return NdShardSpec(j["shard_shape"], set_from_json(j["grid"]), ShardOrientation(j["orientation"]), strategy)


DRAM = MemoryConfig()
L1 = MemoryConfig(buffer_type=BufferType.L1)
