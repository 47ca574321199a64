"""Tensor files both ways between official ttnn 0.81.1 and us: every dtype, layout, tile and sharding, and meshes of 1, 2 and 8 shards.

What official TT-NN wrote must load with its values and be written again byte for byte. What we wrote must load there with our values; that it
writes the same bytes again shows that it read every word of the header as we meant it.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ttnn
from tessera.files import overlapped, tensors

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent
PYTHON = Path(os.environ.get("TESSERA_OFFICIAL", HERE.parents[1] / ".interop" / "official" / "bin" / "python"))


def official(script: str, *args: object, board: str = "n150") -> str:
    if not PYTHON.exists():
        pytest.skip("the official wheel is not installed; `make interop` does that")
    environment = os.environ | {"TT_METAL_MOCK_CLUSTER_DESC_PATH": str(HERE / "mock" / f"{board}.yaml"), "TT_METAL_LOGGER_LEVEL": "FATAL"}
    environment.pop("PYTHONPATH", None)
    ran = subprocess.run(
        [PYTHON, HERE / script, *map(str, args)], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 0, f"{script} ended with {ran.returncode}; its last words:\n{ran.stderr[-2000:]}"
    return ran.stdout


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("theirs")
    official("official_write.py", folder)
    return folder, json.loads((folder / "manifest.json").read_text())


def values_of(tensor: ttnn.Tensor) -> np.ndarray[Any, Any]:
    return np.stack([part.to(torch.float64).numpy() for part in tensor.parts])


def test_their_files_load_with_their_values(theirs: tuple[Path, dict[str, dict[str, Any]]]) -> None:
    folder, manifest = theirs
    wrong, compared = [], 0
    for name in manifest:
        tensor = ttnn.load_tensor(folder / f"{name}.tensorbin")
        known = folder / f"{name}.val.npy"
        if known.exists():
            compared += 1
            want = np.load(known)
            if not np.array_equal(values_of(tensor).reshape(want.shape), want, equal_nan=True):
                wrong.append(name)
        elif "zeros" in manifest[name]:
            compared += 1
            if values_of(tensor).any() or list(tensor.shape) != manifest[name]["zeros"]:
                wrong.append(name)
    assert not wrong
    assert compared > 500


def test_their_files_are_written_again_byte_for_byte(theirs: tuple[Path, dict[str, dict[str, Any]]], tmp_path: Path) -> None:
    folder, manifest = theirs
    wrong = []
    for name in manifest:
        path, copy = folder / f"{name}.tensorbin", tmp_path / "copy.tensorbin"
        tensor = tensors.load(path)
        _ = tensor.parts  # through values, not only the bytes as they were
        tensor.buffer.images = None
        ttnn.dump_tensor(copy, tensor)
        if copy.read_bytes() != path.read_bytes():
            wrong.append(name)
    views = overlapped.load(folder / "fused.overlappedtensorbin")
    overlapped.dump(tmp_path / "copy.overlappedtensorbin", views)
    assert (tmp_path / "copy.overlappedtensorbin").read_bytes() == (folder / "fused.overlappedtensorbin").read_bytes()
    assert not wrong, f"{len(wrong)} of {len(manifest)}"


def test_the_same_tensors_make_the_same_files(theirs: tuple[Path, dict[str, dict[str, Any]]], tmp_path: Path) -> None:
    folder, manifest = theirs
    wrong, tried = [], 0
    for name, about in manifest.items():
        if "source" not in about:
            continue
        tried += 1
        source = np.load(folder / f"{about['source']}.npy")
        words = {"tile": ttnn.Tile(about["tile"], transpose_tile=about["turned"])} if about["layout"] == "TILE" else {}
        tensor = ttnn.Tensor(source, getattr(ttnn.DataType, about["dtype"]), layout=getattr(ttnn.Layout, about["layout"]), **words)
        ttnn.dump_tensor(tmp_path / "mine.tensorbin", tensor)
        if (tmp_path / "mine.tensorbin").read_bytes() != (folder / f"{name}.tensorbin").read_bytes():
            wrong.append(name)
    assert not wrong, f"{len(wrong)} of {tried}"
    assert tried > 300


# -- ours, read there

DTYPES = ("bfloat16", "float32", "uint32", "bfloat8_b", "bfloat4_b", "uint8", "uint16", "int32", "int8")
TILES = ((32, 32), (16, 32), (8, 32), (4, 32), (2, 32), (1, 32), (32, 16), (16, 16))


def random(dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    draw = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, generator=draw) if "float" in dtype else torch.randint(0, 100, shape, generator=draw, dtype=torch.int32)


def write_ours(folder: Path) -> None:
    for dtype, shape in itertools.product(DTYPES, ((), (17,), (33, 47), (2, 3, 40, 70))):
        kind, values = getattr(ttnn, dtype), random(dtype, shape)
        if "_b" not in dtype:
            ttnn.dump_tensor(folder / f"{dtype}_row_major_{len(shape)}.tensorbin", ttnn.from_torch(values, dtype=kind))
        for tile, turned in itertools.product(TILES, (False, True)):
            if turned and tile[0] < 16:
                continue
            tensor = ttnn.from_torch(values, dtype=kind, layout=ttnn.TILE_LAYOUT, tile=ttnn.Tile(tile, transpose_tile=turned))
            ttnn.dump_tensor(folder / f"{dtype}_tile_{len(shape)}_{tile[0]}x{tile[1]}{'_turned' * turned}.tensorbin", tensor)


def write_our_shardings(folder: Path) -> None:
    def grid(*boxes: tuple[int, int, int, int]) -> ttnn.CoreRangeSet:
        return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(a, b), ttnn.CoreCoord(c, d)) for a, b, c, d in boxes])

    layouts, orientations, l1 = ttnn.TensorMemoryLayout, ttnn.ShardOrientation, ttnn.BufferType.L1
    rows, columns = orientations.ROW_MAJOR, orientations.COL_MAJOR
    configs = {
        "height": ttnn.MemoryConfig(layouts.HEIGHT_SHARDED, l1, ttnn.ShardSpec(grid((0, 0, 0, 0), (2, 1, 2, 1)), [32, 96], rows)),
        "width": ttnn.MemoryConfig(layouts.WIDTH_SHARDED, l1, ttnn.ShardSpec(grid((0, 0, 2, 0)), [64, 32], columns)),
        "block": ttnn.MemoryConfig(layouts.BLOCK_SHARDED, l1, ttnn.ShardSpec(grid((0, 0, 2, 1)), [32, 32], rows)),
        "nd": ttnn.MemoryConfig(l1, ttnn.NdShardSpec([32, 32], grid((0, 0, 3, 3)), rows, ttnn.ShardDistributionStrategy.GRID_2D)),
        "nd_dram": ttnn.MemoryConfig(ttnn.BufferType.DRAM, ttnn.NdShardSpec([64, 32], grid((0, 0, 2, 0)))),
        "l1": ttnn.L1_MEMORY_CONFIG,
    }
    device = ttnn.open_device(device_id=0)
    for (name, config), dtype in itertools.product(configs.items(), DTYPES):
        for layout in (ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT):
            if layout == ttnn.ROW_MAJOR_LAYOUT and "_b" in dtype:
                continue
            tensor = ttnn.from_torch(
                random(dtype, (64, 96)), dtype=getattr(ttnn, dtype), layout=layout, device=device, memory_config=config
            )
            ttnn.dump_tensor(folder / f"sharded_{name}_{dtype}_{layout.name}.tensorbin", tensor)
    fused = ttnn.from_torch(random("bfloat16", (64, 64)), dtype=ttnn.bfloat8_b, device=device, memory_config=configs["l1"])
    views = {
        "gate": ttnn.OverlappedTensor(fused, [32, 32], [32, 32], grid((0, 0, 0, 0)), ttnn.bfloat8_b, [32, 32], 0, 1088),
        "up": ttnn.OverlappedTensor(fused, [32, 64], [32, 32], grid((0, 0, 1, 0), (3, 3, 3, 3)), ttnn.bfloat16, [16, 32], 1088, 512),
    }
    ttnn.dump_overlapped_tensors(folder / "fused.overlappedtensorbin", views)
    ttnn.close_device(device)


def write_our_meshes(folder: Path, board: pytest.MonkeyPatch) -> None:
    for shape, dims in itertools.product(((1, 1), (1, 2), (2, 4), (1, 8)), ((None, None), (0, None), (None, 1), (0, 1))):
        board.setenv("TESSERA_BOARD", {1: "n150", 2: "n300"}.get(shape[0] * shape[1], "t3000"))
        mesh = ttnn.open_mesh_device(ttnn.MeshShape(*shape))
        for dtype in DTYPES:
            mapper = ttnn.ShardTensor2dMesh(mesh, shape, dims)
            layout = ttnn.TILE_LAYOUT if "_b" in dtype or shape == (1, 2) else ttnn.ROW_MAJOR_LAYOUT
            tensor = ttnn.from_torch(random(dtype, (32, 32)), dtype=getattr(ttnn, dtype), layout=layout, device=mesh, mesh_mapper=mapper)
            ttnn.dump_tensor(folder / f"mesh_{shape[0]}x{shape[1]}_{dims[0]}_{dims[1]}_{dtype}.tensorbin", tensor)
        ttnn.close_mesh_device(mesh)


def test_our_files_load_there_with_our_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, again = tmp_path / "ours", tmp_path / "again"
    ours.mkdir()
    again.mkdir()
    write_ours(ours)
    write_our_shardings(ours)
    write_our_meshes(ours, monkeypatch)
    official("official_read.py", ours, again)
    said = json.loads((again / "said.json").read_text())
    wrong, compared = [], 0
    for path in sorted(ours.glob("*bin")):
        if path.read_bytes() != (again / path.name).read_bytes():
            wrong.append(f"{path.name}: bytes")
        if path.suffix == ".overlappedtensorbin":
            assert said[path.name]["up"] == [[32, 64], [32, 32], 1088, 512]
            continue
        tensor = ttnn.load_tensor(path)
        mine = [list(tensor.shape), list(tensor.padded_shape), str(tensor.dtype), str(tensor.layout), str(tensor.memory_config())]
        if said[path.name] != mine:
            wrong.append(f"{path.name}: spec {said[path.name]} is not {mine}")
        known = again / f"{path.stem}.npy"
        if known.exists():
            compared += 1
            want = np.load(known)
            if not np.array_equal(values_of(tensor).reshape(want.shape), want):
                wrong.append(f"{path.name}: values")
    assert not wrong, f"{len(wrong)} of {len(said)}: {wrong[:5]}"
    assert compared > 400
    print(f"{len(said)} of our files, {compared} with values compared", file=sys.stderr)
