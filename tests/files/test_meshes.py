"""Files of tensors on meshes: shards with coordinates, replicas once, and what fits where on the way back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import samples
import torch

import ttnn
from tessera.files import tensors

OFFICIAL = samples.FOLDER / "official"
DATA = torch.arange(256.0).reshape(16, 16)


@pytest.fixture
def open_mesh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    opened: list[ttnn.MeshDevice] = []

    def open_one(rows: int, columns: int) -> ttnn.MeshDevice:
        monkeypatch.setenv("TESSERA_BOARD", {1: "n150", 2: "n300"}.get(rows * columns, "t3000"))
        opened.append(ttnn.open_mesh_device(ttnn.MeshShape(rows, columns)))
        return opened[-1]

    yield open_one
    for mesh in opened:
        ttnn.close_mesh_device(mesh)


def stored_bytes(path: Path) -> int:
    return path.stat().st_size - 8 - len(samples.header(path))


def test_official_placements() -> None:
    found = tensors.read(OFFICIAL / "mesh_2x4_shard1_replicate.tensorbin")
    assert repr(found.topology.placements()) == "[PlacementShard(1), PlacementReplicate()]"
    assert found.images[0] is found.images[3]
    assert found.images[0] is not found.images[4]


@pytest.mark.parametrize(
    ("name", "halves"),
    [
        ("mesh_2x4_shard0_shard1", [(0, 2), (1, 4)]),
        ("mesh_2x4_line_shard0", [(0, 8)]),
        ("mesh_2x4_replicate_replicate", []),
        ("mesh_1x2_replicate_shard_last", [(1, 2)]),
    ],
)
def test_official_parts_hold_the_right_slices(name: str, halves: list[tuple[int, int]]) -> None:
    parts = [DATA]
    for dim, count in halves:
        parts = [piece for part in parts for piece in part.chunk(count, dim)]
    loaded = ttnn.load_tensor(OFFICIAL / f"{name}.tensorbin")
    found = loaded.parts
    parts = parts * (len(found) // len(parts))
    assert all(torch.equal(a.float(), b) for a, b in zip(found, parts, strict=True))


def mapped(mesh: ttnn.MeshDevice, *dims: int | None) -> ttnn.Tensor:
    mapper = ttnn.ShardTensor2dMesh(mesh, tuple(mesh.shape), dims)
    return ttnn.from_torch(DATA, dtype=ttnn.bfloat16, device=mesh, mesh_mapper=mapper)


@pytest.mark.parametrize(
    ("dims", "name"),
    [
        ((None, None), "mesh_2x4_replicate_replicate"),
        ((None, 0), "mesh_2x4_replicate_shard0"),
        ((1, None), "mesh_2x4_shard1_replicate"),
        ((0, 1), "mesh_2x4_shard0_shard1"),
    ],
)
def test_mesh_tensors_are_byte_for_byte_official(tmp_path: Path, open_mesh: Any, dims: tuple[int | None, ...], name: str) -> None:
    path = tmp_path / "a.tensorbin"
    ttnn.dump_tensor(path, mapped(open_mesh(2, 4), *dims))
    assert path.read_bytes() == (OFFICIAL / f"{name}.tensorbin").read_bytes()


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("mesh_1x2_distinct", (1, 2), "bfloat16"),
        ("mesh_2x4_distinct", (2, 4), "int8"),
        ("mesh_2x2x2_distinct", (2, 2, 2), "bfloat16"),
        ("mesh_1x8_distinct", (1, 8), "bfloat16"),
    ],
)
def test_host_shards_are_byte_for_byte_official(tmp_path: Path, name: str, shape: tuple[int, ...], dtype: str) -> None:
    count = torch.Size(shape).numel()
    shards = [ttnn.from_torch(torch.arange(17.0) + i, dtype=getattr(ttnn, dtype)) for i in range(count)]
    ttnn.dump_tensor(tmp_path / "a.tensorbin", ttnn.from_host_shards(shards, ttnn.MeshShape(list(shape))))
    assert (tmp_path / "a.tensorbin").read_bytes() == (OFFICIAL / f"{name}.tensorbin").read_bytes()


def test_one_tensor_as_two_host_shards_is_stored_once(tmp_path: Path) -> None:
    shard = ttnn.from_torch(torch.arange(17.0), dtype=ttnn.bfloat16)
    ttnn.dump_tensor(tmp_path / "a.tensorbin", ttnn.from_host_shards([shard, shard], ttnn.MeshShape(1, 2)))
    assert (tmp_path / "a.tensorbin").read_bytes() == (OFFICIAL / "mesh_1x2_one_tensor.tensorbin").read_bytes()


@pytest.mark.parametrize(("name", "placement"), [("line_shard0", ttnn.PlacementShard(0)), ("line_replicate", ttnn.PlacementReplicate())])
def test_a_line_over_a_mesh_is_byte_for_byte_official(tmp_path: Path, open_mesh: Any, name: str, placement: Any) -> None:
    config = ttnn.MeshMapperConfig([placement], mesh_shape_override=ttnn.MeshShape([8]))
    mapper = ttnn.create_mesh_mapper(open_mesh(2, 4), config)
    ttnn.dump_tensor(tmp_path / "a.tensorbin", ttnn.from_torch(DATA, dtype=ttnn.bfloat16, mesh_mapper=mapper))
    assert (tmp_path / "a.tensorbin").read_bytes() == (OFFICIAL / f"mesh_2x4_{name}.tensorbin").read_bytes()


def test_replicas_are_stored_once(tmp_path: Path, open_mesh: Any) -> None:
    mesh = open_mesh(2, 4)
    path = tmp_path / "a.tensorbin"
    ttnn.dump_tensor(path, mapped(mesh, None, None))
    assert stored_bytes(path) == 512
    ttnn.dump_tensor(path, ttnn.from_torch(DATA, dtype=ttnn.bfloat16, device=mesh))
    assert stored_bytes(path) == 512
    assert len(tensors.read(path).images) == 8


def test_replicas_that_came_to_differ_are_all_stored(tmp_path: Path, open_mesh: Any) -> None:
    tensor = mapped(open_mesh(1, 2), None, None)
    tensor.put(1, tensor.part(1) + 1)
    ttnn.dump_tensor(tmp_path / "a.tensorbin", tensor)
    assert torch.equal(ttnn.load_tensor(tmp_path / "a.tensorbin").part(1).float(), DATA + 1)


@pytest.mark.parametrize("dims", [(0, 1), (None, 1), (0, None), (None, None)])
def test_reload_on_the_same_mesh(tmp_path: Path, open_mesh: Any, dims: tuple[int | None, ...]) -> None:
    mesh = open_mesh(2, 4)
    tensor = mapped(mesh, *dims)
    path = tmp_path / "a.tensorbin"
    ttnn.dump_tensor(path, tensor)
    loaded = ttnn.load_tensor(path, device=mesh)
    assert all(torch.equal(a, b) for a, b in zip(loaded.parts, tensor.parts, strict=True))
    assert loaded.tensor_topology().placements() == tensor.tensor_topology().placements()


def test_a_single_tensor_goes_to_every_chip(tmp_path: Path, open_mesh: Any) -> None:
    path = tmp_path / "a.tensorbin"
    ttnn.dump_tensor(path, ttnn.from_torch(DATA, dtype=ttnn.bfloat16))
    loaded = ttnn.load_tensor(path, device=open_mesh(1, 2))
    assert len(loaded.parts) == 2
    assert torch.equal(loaded.part(1).float(), DATA)


def test_a_replicated_tensor_goes_to_any_mesh(open_mesh: Any) -> None:
    loaded = ttnn.load_tensor(OFFICIAL / "mesh_2x4_replicate_replicate.tensorbin", device=open_mesh(1, 2))
    assert len(loaded.parts) == 2
    single = ttnn.load_tensor(OFFICIAL / "mesh_2x4_replicate_replicate.tensorbin", device=open_mesh(1, 1))
    assert torch.equal(ttnn.to_torch(single).float(), DATA)


def test_a_line_of_shards_goes_to_any_mesh_of_as_many_chips(open_mesh: Any) -> None:
    loaded = ttnn.load_tensor(OFFICIAL / "mesh_2x4_line_shard0.tensorbin", device=open_mesh(1, 8))
    assert torch.equal(torch.cat(loaded.parts).float(), DATA)


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        ("mesh_2x4_shard0_shard1", 1, 8),
        ("mesh_2x4_shard0_shard1", 1, 2),
        ("mesh_2x4_line_shard0", 1, 2),
        ("mesh_1x2_distinct", 2, 4),
        ("mesh_1x2_distinct", 1, 1),
    ],
)
def test_what_does_not_fit_is_refused(open_mesh: Any, name: str, rows: int, columns: int) -> None:
    with pytest.raises(RuntimeError, match=r"do not fit the device's mesh of shape"):
        ttnn.load_tensor(OFFICIAL / f"{name}.tensorbin", device=open_mesh(rows, columns))


# -- the cache


def test_a_replicated_entry_is_kept_once_and_serves_any_mesh(tmp_path: Path, open_mesh: Any) -> None:
    mesh = open_mesh(2, 4)

    def cached(on: ttnn.MeshDevice) -> ttnn.Tensor:
        return ttnn.as_tensor(
            DATA,
            dtype=ttnn.bfloat16,
            device=on,
            memory_config=ttnn.DRAM_MEMORY_CONFIG,
            cache_file_name=tmp_path / "w",
            mesh_mapper=ttnn.ReplicateTensorToMesh(on),
        )

    for _ in range(2):
        assert [torch.equal(part.float(), DATA) for part in cached(mesh).parts] == [True] * 8
    stored = tensors.read(tmp_path / "w_dtype_BFLOAT16_layout_ROW_MAJOR.tensorbin")
    assert len(stored.images) == 1
    assert len(cached(open_mesh(1, 2)).parts) == 2


def test_a_sharded_entry(tmp_path: Path, open_mesh: Any) -> None:
    mesh = open_mesh(2, 4)

    def cached(data: torch.Tensor, dim: int) -> ttnn.Tensor:
        return ttnn.as_tensor(
            data,
            dtype=ttnn.bfloat16,
            device=mesh,
            memory_config=ttnn.DRAM_MEMORY_CONFIG,
            cache_file_name=tmp_path / "w",
            mesh_mapper=ttnn.ShardTensorToMesh(mesh, dim),
        )

    first = cached(DATA, 0)
    hit = cached(torch.zeros(16, 16), 0)
    assert torch.equal(torch.cat(hit.parts).float(), DATA)
    assert [list(p.shape) for p in first.parts] == [[2, 16]] * 8
    other = cached(DATA, 1)
    assert torch.equal(torch.cat(other.parts, 1).float(), DATA)
    taller = cached(torch.ones(32, 16), 0)
    assert list(taller.shape) == [4, 16]
