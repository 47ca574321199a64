"""Observed calls as JSON rows, and as live objects.

A row names its arguments in a small language (`{"tensor": {...}}`, `{"dtype": "BFLOAT16"}`, ...) and its outcome in the same words.
`Decoder` makes the arguments on an open device; `encode` puts a result back into words. Both know TT-NN's public names only, so
the same rows can be put to any `ttnn`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy

import ttnn

#: The numpy types a host tensor of an integer dtype is made from; every other dtype is made from float32.
HOST_KINDS = {"UINT32": "uint32", "INT32": "int32", "UINT16": "uint16", "UINT8": "uint8", "INT8": "int8"}


def member(value: Any) -> str:
    """The bare name of an enum value."""
    return str(value).rsplit(".", 1)[-1]


def core_ranges(grid: list[list[int]]) -> Any:
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(x0, y0), ttnn.CoreCoord(x1, y1)) for x0, y0, x1, y1 in grid])


def memory_config(spec: Any) -> Any:
    if isinstance(spec, str):
        return {"DRAM": ttnn.DRAM_MEMORY_CONFIG, "L1": ttnn.L1_MEMORY_CONFIG}[spec]
    buffer = getattr(ttnn.BufferType, spec.get("buffer", "L1"))
    if "nd" in spec:
        nd = spec["nd"]
        orientation = getattr(ttnn.ShardOrientation, nd.get("orientation", "ROW_MAJOR"))
        dealt = {"shard_distribution_strategy": getattr(ttnn.ShardDistributionStrategy, nd["distribution"])} if "distribution" in nd else {}
        return ttnn.MemoryConfig(buffer, ttnn.NdShardSpec(ttnn.Shape(nd["shape"]), core_ranges(nd["grid"]), orientation, **dealt))
    layout = getattr(ttnn.TensorMemoryLayout, spec["layout"])
    if "grid" not in spec:
        return ttnn.MemoryConfig(layout, buffer)
    orientation = getattr(ttnn.ShardOrientation, spec.get("orientation", "ROW_MAJOR"))
    return ttnn.MemoryConfig(layout, buffer, ttnn.ShardSpec(core_ranges(spec["grid"]), spec["shape"], orientation))


def tensor(spec: dict[str, Any], device: Any) -> Any:
    """A tensor of zeros (host) or of whatever memory holds (device): rows are about specs, never about values."""
    dtype, layout = getattr(ttnn.DataType, spec["dtype"]), getattr(ttnn, f"{spec['layout']}_LAYOUT")
    tile = {"tile": ttnn.Tile(spec["tile"])} if "tile" in spec else {}
    if spec.get("storage") == "HOST":
        return ttnn.Tensor(numpy.zeros(spec["shape"], HOST_KINDS.get(spec["dtype"], "float32")), dtype, layout=layout, **tile)
    config, shape = memory_config(spec.get("memory_config", "DRAM")), ttnn.Shape(spec["shape"])
    if tile or spec.get("spec"):
        made = ttnn.allocate_tensor_on_device(ttnn.TensorSpec(shape, dtype, layout, memory_config=config, **tile), device)
    else:
        made = ttnn.allocate_tensor_on_device(shape, dtype, layout, device, config)
    if spec.get("deallocated"):
        ttnn.deallocate(made)
    return made


class Decoder:
    """Makes one row's arguments; remembers its tensors by path, for `same_as`."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.tensors: dict[str, Any] = {}
        self.words: dict[str, Callable[[Any, str], Any]] = {
            "tensor": self.tensor,
            "same_as": lambda value, path: self.tensors[value],
            "complex": lambda value, path: ttnn.complex_tensor(*(self(value[part], f"{path}.{part}") for part in ("real", "imag"))),
            "tuple": lambda value, path: tuple(self(value, path)),
            "dtype": lambda value, path: getattr(ttnn.DataType, value),
            "layout": lambda value, path: getattr(ttnn, f"{value}_LAYOUT"),
            "memory_config": lambda value, path: memory_config(value),
            "device": lambda value, path: self.device,
            "shape": lambda value, path: ttnn.Shape(value),
            "core_range_set": lambda value, path: core_ranges(value),
            "core_coord": lambda value, path: ttnn.CoreCoord(*value),
            "core_grid": lambda value, path: ttnn.CoreGrid(y=value[0], x=value[1]),
            "expr": lambda value, path: eval(value, {"ttnn": ttnn, "device": self.device}),
        }

    def tensor(self, spec: dict[str, Any], path: str) -> Any:
        self.tensors[path] = tensor(spec, self.device)
        return self.tensors[path]

    def __call__(self, value: Any, path: str) -> Any:
        if isinstance(value, list):
            return [self(item, f"{path}[{i}]") for i, item in enumerate(value)]
        if isinstance(value, dict):
            ((word, content),) = value.items()
            return self.words[word](content, path)
        return value


def encode_memory_config(config: Any) -> Any:
    def ranges(grid: Any) -> list[list[int]]:
        return [[r.start.x, r.start.y, r.end.x, r.end.y] for r in grid.ranges()]

    buffer, layout = member(config.buffer_type), member(config.memory_layout)
    if json.loads(config.to_json()).get("created_with_nd_shard_spec") and config.nd_shard_spec is not None:
        spec = config.nd_shard_spec
        nd = {"grid": ranges(spec.grid), "shape": list(spec.shard_shape), "orientation": member(spec.orientation)}
        if (distribution := member(spec.shard_distribution_strategy)) != "ROUND_ROBIN_1D":
            nd["distribution"] = distribution
        return {"nd": nd, "buffer": buffer, "layout": layout}
    if config.shard_spec is not None:
        spec = config.shard_spec
        shard = {"grid": ranges(spec.grid), "shape": list(spec.shape), "orientation": member(spec.orientation)}
        return {"layout": layout, "buffer": buffer, **shard}
    return buffer if layout == "INTERLEAVED" else {"layout": layout, "buffer": buffer}


def encode(result: Any) -> Any:
    if isinstance(result, ttnn.Tensor):
        out = {
            "shape": list(result.shape),
            "padded_shape": list(result.padded_shape),
            "dtype": member(result.dtype),
            "layout": member(result.layout),
            "memory_config": encode_memory_config(result.memory_config()),
        }
        if (storage := member(result.storage_type())) != "DEVICE":
            out["storage"] = storage
        if out["layout"] == "TILE" and (tile := list(result.tile.tile_shape)) != [32, 32]:
            out["tile"] = tile
        return {"tensor": out}
    if isinstance(result, (list, tuple)):
        return {type(result).__name__ if type(result) in (list, tuple) else "tuple": [encode(item) for item in result]}
    if result is None or isinstance(result, (bool, int, float, str)):
        return {"value": result}
    if type(result).__name__ == "ComplexTensor":
        return {"complex": {part: encode(getattr(result, part)) for part in ("real", "imag")}}
    return {"type": type(result).__name__}


#: What a row records beyond what must be equal: object identities, addresses, and the default storage.
INCIDENTAL = frozenset({"alias_of", "repr", "allocated"})


def comparable(outcome: Any) -> Any:
    if isinstance(outcome, dict):
        return {k: comparable(v) for k, v in outcome.items() if k not in INCIDENTAL and (k, v) != ("storage", "DEVICE")}
    return [comparable(item) for item in outcome] if isinstance(outcome, list) else outcome
