"""Which N-d shards have a two-dimensional form, as official TT-NN answered for 480 specs."""

from __future__ import annotations

import json
from pathlib import Path

from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import BufferType, MemoryConfig, NdShardSpec, ShardDistributionStrategy, ShardOrientation
from tessera.memory.geometry import CoreCoord, CoreRange, CoreRangeSet
from tessera.memory.spec import TensorSpec

ROWS = json.loads((Path(__file__).parents[1] / "data" / "nd_to_legacy.json").read_text())


def test_the_two_dimensional_form_of_nd_shards() -> None:
    wrong = []
    for shape, shard, (x0, y0, x1, y1), orientation, layout, strategy, official, form in ROWS:
        grid = CoreRangeSet([CoreRange(CoreCoord(x0, y0), CoreCoord(x1, y1))])
        nd = NdShardSpec(shard, grid, ShardOrientation(orientation), ShardDistributionStrategy(strategy))
        try:
            config = TensorSpec.of(Shape(shape), DataType.UINT8, Layout[layout], MemoryConfig(BufferType.L1, nd)).memory_config
        except RuntimeError:
            found = "ERR", form
        else:
            found = config.memory_layout.name, config.shard_spec.shape if config.shard_spec is not None else None
        if found != (official, form):
            wrong.append((shape, shard, orientation, layout, strategy, official, form, found))
    assert not wrong
