"""Runs under the official wheel: writes a tensor file of every kind and, beside each, the values that official TT-NN reads from it.

python official_write.py FOLDER
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import numpy as np

import ttnn

FOLDER = Path(sys.argv[1])
DTYPES = ("BFLOAT16", "FLOAT32", "UINT32", "BFLOAT8_B", "BFLOAT4_B", "UINT8", "UINT16", "INT32", "INT8")
TILES = ((32, 32), (16, 32), (8, 32), (4, 32), (2, 32), (1, 32), (32, 16), (16, 16))
SHAPES = ((), (17,), (33, 47), (2, 3, 40, 70))
R, S = ttnn.PlacementReplicate, ttnn.PlacementShard
L1, LAYOUTS, ORIENTATIONS = ttnn.BufferType.L1, ttnn.TensorMemoryLayout, ttnn.ShardOrientation
manifest: dict[str, dict[str, object]] = {}


def source(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    draw = np.random.default_rng(len(shape))
    if "FLOAT" in dtype:
        return np.asarray(draw.standard_normal(shape), dtype=np.float32)
    return np.asarray(draw.integers(0, 100, shape), dtype=np.float32)


def keep(name: str, tensor: ttnn.Tensor, **about: object) -> None:
    ttnn.dump_tensor(FOLDER / f"{name}.tensorbin", tensor)
    manifest[name] = about


def plain() -> None:
    for dtype, shape in itertools.product(DTYPES, SHAPES):
        kind, values = getattr(ttnn.DataType, dtype), source(dtype, shape)
        np.save(FOLDER / f"{dtype}_{len(shape)}.npy", values)
        for layout in ("ROW_MAJOR", "TILE"):
            if layout == "ROW_MAJOR" and dtype.endswith("_B"):
                continue
            for tile, turned in itertools.product(TILES if layout == "TILE" else ((32, 32),), (False, True)):
                if turned and (layout == "ROW_MAJOR" or tile[0] < 16 or len(shape) < 2):
                    continue
                words = {"tile": ttnn.Tile(tile, transpose_tile=turned)} if layout == "TILE" else {}
                tensor = ttnn.Tensor(values, data_type=kind, layout=getattr(ttnn.Layout, layout), **words)
                name = f"{dtype}_{layout}_{len(shape)}_{tile[0]}x{tile[1]}{'_turned' * turned}"
                keep(name, tensor, source=f"{dtype}_{len(shape)}", dtype=dtype, layout=layout, tile=tile, turned=turned)
                if not turned:  # official to_numpy does not turn transposed tiles back
                    np.save(FOLDER / f"{name}.val.npy", np.array(tensor.to_list(), dtype=np.float64))


def grid(*boxes: tuple[int, int, int, int]) -> ttnn.CoreRangeSet:
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(a, b), ttnn.CoreCoord(c, d)) for a, b, c, d in boxes])


def shardings() -> dict[str, ttnn.MemoryConfig]:
    def old(layout: str, cores: ttnn.CoreRangeSet, shape: list[int], orientation: str = "ROW_MAJOR") -> ttnn.MemoryConfig:
        return ttnn.MemoryConfig(getattr(LAYOUTS, layout), L1, ttnn.ShardSpec(cores, shape, getattr(ORIENTATIONS, orientation)))

    def nd(buffer: ttnn.BufferType, shape: list[int], cores: ttnn.CoreRangeSet, *rest: object) -> ttnn.MemoryConfig:
        return ttnn.MemoryConfig(buffer, ttnn.NdShardSpec(shape, cores, *rest))

    dram = ttnn.BufferType.DRAM
    return {
        "height": old("HEIGHT_SHARDED", grid((0, 0, 1, 0)), [32, 96]),
        "height_two_ranges": old("HEIGHT_SHARDED", grid((0, 0, 0, 0), (2, 1, 2, 1)), [32, 96]),
        "height_spare_core": old("HEIGHT_SHARDED", grid((0, 0, 2, 0)), [32, 96]),
        "width": old("WIDTH_SHARDED", grid((0, 0, 2, 0)), [64, 32]),
        "width_columns": old("WIDTH_SHARDED", grid((0, 0, 2, 0)), [64, 32], "COL_MAJOR"),
        "block": old("BLOCK_SHARDED", grid((0, 0, 2, 1)), [32, 32]),
        "block_columns": old("BLOCK_SHARDED", grid((0, 0, 1, 2)), [32, 32], "COL_MAJOR"),
        "nd_block": nd(L1, [32, 32], grid((0, 0, 2, 1))),
        "nd_columns": nd(L1, [32, 32], grid((0, 0, 2, 1)), ORIENTATIONS.COL_MAJOR),
        "nd_grid": nd(L1, [32, 32], grid((0, 0, 3, 3)), ORIENTATIONS.ROW_MAJOR, ttnn.ShardDistributionStrategy.GRID_2D),
        "nd_contiguous": nd(L1, [32, 32], grid((0, 0, 2, 0)), ORIENTATIONS.ROW_MAJOR, ttnn.ShardDistributionStrategy.CONTIGUOUS_1D),
        "nd_dram": nd(dram, [64, 32], grid((0, 0, 3, 0), (5, 0, 5, 0))),
        "l1": ttnn.L1_MEMORY_CONFIG,
    }


def sharded() -> None:
    device = ttnn.open_device(device_id=0)
    for name, config in shardings().items():
        for dtype, layout in itertools.product(DTYPES, ("ROW_MAJOR", "TILE")):
            if layout == "ROW_MAJOR" and dtype.endswith("_B"):
                continue
            values = np.zeros((64, 96), np.float32)  # a mock device reads zeros
            host = ttnn.Tensor(values, data_type=getattr(ttnn.DataType, dtype), layout=getattr(ttnn.Layout, layout))
            keep(f"sharded_{name}_{dtype}_{layout}", host.to(device, config).cpu(), zeros=[64, 96])
    fused = (
        ttnn.Tensor(np.zeros((64, 64), np.float32), data_type=ttnn.bfloat4_b, layout=ttnn.TILE_LAYOUT).to(device, shardings()["l1"]).cpu()
    )
    views = {
        "query": ttnn.OverlappedTensor(fused, [32, 32], [32, 32], grid((0, 0, 0, 0)), ttnn.bfloat8_b, [32, 32], 0, 1088),
        "key": ttnn.OverlappedTensor(fused, [32, 64], [32, 32], grid((0, 0, 1, 0), (3, 3, 3, 3)), ttnn.bfloat16, [16, 32], 1088, 512),
    }
    ttnn._ttnn.tensor.dump_overlapped_tensors(str(FOLDER / "fused.overlappedtensorbin"), views)
    ttnn.close_device(device)


def meshes() -> None:
    values = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
    np.save(FOLDER / "mesh.npy", values)
    cases = {
        "1x1_replicate": ((1, 1), [R(), R()], None),
        "1x2_shard0": ((1, 2), [R(), S(0)], None),
        "1x2_shard_last": ((1, 2), [R(), S(-1)], None),
        "1x2_replicate": ((1, 2), [R(), R()], None),
        "2x4_shard0_shard1": ((2, 4), [S(0), S(1)], None),
        "2x4_shard1_replicate": ((2, 4), [S(1), R()], None),
        "2x4_replicate_shard0": ((2, 4), [R(), S(0)], None),
        "2x4_replicate": ((2, 4), [R(), R()], None),
        "2x4_line_shard0": ((2, 4), [S(0)], [8]),
        "1x8_shard1": ((1, 8), [R(), S(1)], None),
    }
    for name, (shape, placements, override) in cases.items():
        words = {} if override is None else {"mesh_shape_override": ttnn.MeshShape(override)}
        mapper = ttnn.create_mesh_mapper(ttnn.MeshShape(*shape), ttnn.MeshMapperConfig(placements, **words))
        for dtype in DTYPES:
            layout = ttnn.TILE_LAYOUT if dtype.endswith("_B") or shape == (1, 2) else ttnn.ROW_MAJOR_LAYOUT
            tensor = ttnn.Tensor(values % 100, data_type=getattr(ttnn.DataType, dtype), layout=layout, mesh_mapper=mapper)
            full = f"mesh_{name}_{dtype}"
            keep(full, tensor, parts=len(ttnn.get_device_tensors(tensor)))
            parts = [np.array(part.to_list(), dtype=np.float64) for part in ttnn.get_device_tensors(tensor)]
            np.save(FOLDER / f"{full}.val.npy", np.stack(parts))


if __name__ == "__main__":
    plain()
    meshes()
    sharded()
    (FOLDER / "manifest.json").write_text(json.dumps(manifest))
    print(len(manifest))
