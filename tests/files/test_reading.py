"""Whole files: official ones are read with their specs and bytes, damaged and hostile ones are refused with a reason."""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import samples
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.files import overlapped, records, tensors
from tessera.files.reading import read
from tessera.files.writing import write
from tessera.formats.packing import unpack

GOOD = samples.FOLDER / "bfloat16_row_major_17_randn.tensorbin"
TILED = samples.FOLDER / "bfloat16_tile_33x47_special.tensorbin"


@pytest.mark.parametrize("row", samples.ROWS, ids=lambda row: row["name"])
def test_official_files_hold_what_their_manifest_says(row: dict[str, Any]) -> None:
    found = tensors.read(samples.FOLDER / f"{row['name']}.tensorbin")
    assert (found.spec.dtype.name, found.spec.layout.name, list(found.spec.dims)) == (row["dtype"], row["layout"], row["shape"])
    assert list(found.spec.padded_shape) == row["padded_shape"]
    assert repr(found.spec.memory_config) == row["memory_config"]
    want = np.load(samples.FOLDER / f"{row['name']}.val.npy").astype(np.float64)
    got = unpack(found.images[0], found.spec).to(torch.float64).numpy().reshape(want.shape)
    assert np.array_equal(got, want, equal_nan=True)


@pytest.mark.parametrize("path", samples.PLAIN + samples.SPREAD, ids=lambda p: p.stem)
def test_what_was_read_is_written_byte_for_byte(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.tensorbin"
    tensors.dump(copy, tensors.read(path))
    assert copy.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("path", samples.OVERLAPPED, ids=lambda p: p.stem)
def test_fused_tensors_are_written_byte_for_byte(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.overlappedtensorbin"
    views = overlapped.load(path)
    overlapped.dump(copy, views)
    assert copy.read_bytes() == path.read_bytes()
    assert views["b"].tensor_shape == (32, 64)
    assert views["b"].get_tile().tile_shape == [16, 32]
    assert views["a"].fused_tensor is views["b"].fused_tensor


def test_opening_reads_no_data(tmp_path: Path) -> None:
    path = tmp_path / "sparse.tensorbin"
    record = read(samples.header(GOOD))
    rows = 1 << 20
    spec = replace(record.tensor_spec, shape=(rows, 512))
    shard = replace(record.shards[0], buffer=records.InlineFileStorage(0, rows * 1024))
    start = samples.with_header(write(replace(record, tensor_spec=spec, shards=(shard,))), b"")
    with open(path, "wb") as file:  # 1 GiB of holes
        file.write(start)
        file.truncate(len(start) + rows * 1024)

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    found = tensors.read(path)
    tensor = tensors.host_tensor(found)
    assert resident() - before < 1 << 24
    assert tensor.spec.image_size == 1 << 30
    assert float(tensor.values[5].float().sum()) == 0.0  # a row-major value is a view of the mapped pages
    assert resident() - before < 1 << 24


def test_nobody_writes_into_the_file_through_a_tensor(tmp_path: Path) -> None:
    path = tmp_path / "a.tensorbin"
    path.write_bytes(GOOD.read_bytes())
    tensor = tensors.load(path)
    tensor.values.zero_()
    assert path.read_bytes() == GOOD.read_bytes()
    kept = tensors.load(path)
    tensor = tensors.load(path)
    tensor.writable().fill_(3)
    assert torch.equal(tensors.load(path).values, kept.values)


# -- damaged and hostile files


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(RuntimeError) as caught:
        tensors.load(path)
    return str(caught.value)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 100, 383])
def test_truncated_headers_are_called_so(tmp_path: Path, length: int) -> None:
    assert "truncated or corrupt (header_size=" in refused(tmp_path / "a.tensorbin", GOOD.read_bytes()[:length])


@pytest.mark.parametrize("length", [384, 400, 417])
def test_truncated_data_are_called_so(tmp_path: Path, length: int) -> None:
    said = refused(tmp_path / "a.tensorbin", GOOD.read_bytes()[:length])
    assert "truncated" in said or "needs at least" in said


@pytest.mark.parametrize("size", [0, 4, 375, 377, 1 << 30, (1 << 64) - 1, (1 << 64) - 8])
def test_absurd_header_sizes(tmp_path: Path, size: int) -> None:
    assert "truncated or corrupt" in refused(tmp_path / "a.tensorbin", struct.pack("<Q", size) + GOOD.read_bytes()[8:])


RECORD = read(samples.header(GOOD))
SPEC, SHARD = RECORD.tensor_spec, RECORD.shards[0]
LAYOUT = SPEC.tensor_layout
MESH = read(samples.header(samples.FOLDER / "official" / "mesh_1x2_distinct.tensorbin"))


def with_layout(**changes: Any) -> records.Tensor:
    return replace(RECORD, tensor_spec=replace(SPEC, tensor_layout=replace(LAYOUT, **changes)))


def with_shards(*places: tuple[int, int]) -> records.Tensor:
    shards = [replace(s, buffer=records.InlineFileStorage(*place)) for s, place in zip(MESH.shards, places)]
    return replace(MESH, shards=tuple(shards))


def grid(*ranges: tuple[int, int, int, int]) -> records.CoreRangeSet:
    return records.CoreRangeSet(tuple(records.CoreRange(records.CoreCoord(*r[:2]), records.CoreCoord(*r[2:])) for r in ranges))


def sharded(cores: records.CoreRangeSet | None, height: int = 32, width: int = 32) -> records.Tensor:
    return with_layout(memory_config=records.MemoryConfig(2, 1, records.ShardSpec(cores, height, width)))


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (records.Tensor(), "tensor_spec is missing"),
        (replace(RECORD, tensor_spec=replace(SPEC, tensor_layout=None)), "tensor_layout is missing"),
        (replace(RECORD, tensor_spec=replace(SPEC, shape=(18,))), "needs at least 36 bytes"),
        (replace(RECORD, tensor_spec=replace(SPEC, shape=(16,))), "takes 32"),
        (replace(RECORD, tensor_spec=replace(SPEC, shape=(0xFFFFFFFF,) * 8)), "needs at least"),
        (replace(RECORD, tensor_spec=replace(SPEC, shape=(0, 0xFFFFFFFF))), "has 34 bytes"),
        (replace(RECORD, tensor_spec=replace(SPEC, shape=(1,) * 65)), "65 dimensions"),
        (with_layout(data_type=1), "needs at least 68 bytes"),
        (with_layout(data_type=9), "data_type is DataType.INVALID"),
        (with_layout(data_type=3), "Only TILE layout is supported"),
        (with_layout(page_config=None), "page_config is missing"),
        (with_layout(memory_config=None), "memory_config is missing"),
        (with_layout(page_config=records.TilePageConfig()), "tile is missing"),
        (with_layout(page_config=records.TilePageConfig(records.Tile(7, 32))), "Tile size is not valid"),
        (with_layout(page_config=records.TilePageConfig(records.Tile(32, 32)), alignment=(1,)), "needs"),
        (with_layout(alignment=(1 << 31,)), "bytes"),
        (with_layout(memory_config=records.MemoryConfig(0, 2)), "SYSTEM_MEMORY"),
        (with_layout(memory_config=records.MemoryConfig(2, 1)), "without a shard_spec"),
        (with_layout(memory_config=records.MemoryConfig(0, 1, created_with_nd_shard_spec=True)), "nd_shard_spec is missing"),
        (sharded(None), "grid of its shards is missing"),
        (sharded(grid((0, 0, 0x7FFFFFFF, 0x7FFFFFFF))), "no chip has cores beyond"),
        (sharded(grid((-1, 0, 0, 0))), "no chip has cores beyond"),
        (sharded(grid((3, 0, 0, 0))), "Invalid core range"),
        (sharded(grid((0, 0, 1, 0), (1, 0, 2, 0))), "overlap"),
        (sharded(grid(*[(i % 255, i // 255, i % 255, i // 255) for i in range(300)])), "300 rectangles"),
        (sharded(grid((0, 0, 0, 0)), 0, 0), ""),
        (replace(RECORD, mesh_shape=None), "mesh_shape is missing"),
        (replace(RECORD, mesh_shape=records.MeshShape((0, 1))), "mesh_shape is"),
        (replace(RECORD, shards=None), "it has no shards"),
        (replace(RECORD, shards=(replace(SHARD, buffer=None),)), "has no buffer"),
        (replace(RECORD, shards=(replace(SHARD, mesh_coordinate=records.MeshCoordinate((0, 1))),)), "outside the mesh"),
        (replace(RECORD, shards=(replace(SHARD, mesh_coordinate=records.MeshCoordinate((0,))),)), "outside the mesh"),
        (replace(RECORD, shards=(SHARD, SHARD)), "two shards lie at one mesh coordinate"),
        (replace(RECORD, shards=(replace(SHARD, buffer=records.InlineFileStorage(1, 34)),)), "truncated"),
        (replace(RECORD, shards=(replace(SHARD, buffer=records.InlineFileStorage((1 << 64) - 34, 34)),)), "truncated"),
        (replace(RECORD, shards=(replace(SHARD, buffer=records.InlineFileStorage(0, 1 << 63)),)), "takes 34"),
        (replace(RECORD, tensor_topology=replace(RECORD.tensor_topology, placements=())), "0 placements"),
        (replace(RECORD, tensor_topology=replace(RECORD.tensor_topology, placements=(records.MeshMapperPlacement(1, 5),))), "dimension 5"),
        (with_shards((0, 34), (33, 34)), "multiple of"),
        (with_shards((0, 34), (32, 34)), "buffers overlap"),
    ],
)
def test_impossible_tensors_are_refused_with_a_reason(tmp_path: Path, record: records.Tensor, says: str) -> None:
    data = bytes(98 if record.shards is not None and len(record.shards) == 2 else 34)
    assert says in refused(tmp_path / "a.tensorbin", samples.with_header(write(record), data))


def test_gaps_and_odd_orders_of_buffers_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "a.tensorbin"
    path.write_bytes(samples.with_header(write(with_shards((128, 34), (64, 34))), bytes(200)))
    assert len(tensors.read(path).images) == 2


def test_a_file_without_topology_is_replicated(tmp_path: Path) -> None:
    path = tmp_path / "a.tensorbin"
    path.write_bytes(samples.with_header(write(replace(with_shards((0, 34), (0, 34)), tensor_topology=None)), bytes(34)))
    found = tensors.read(path)
    assert repr(found.topology.placements()) == "[PlacementReplicate()]"
    assert found.images[0] is found.images[1]


@pytest.mark.parametrize("name", ["a.bin", "a.tensorbin.tmp", "a", "a.TENSORBIN"])
def test_the_extension_is_required(tmp_path: Path, name: str) -> None:
    with pytest.raises(RuntimeError, match=r"must have \.tensorbin extension"):
        tensors.load(tmp_path / name)


def test_a_missing_file_is_called_missing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"Unable to load the tensor from .*a\.tensorbin\.  The file does not exist\."):
        tensors.load(tmp_path / "a.tensorbin")


def test_what_is_not_a_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tensorbin")
    (tmp_path / "folder.tensorbin").mkdir()
    for name in ("pipe.tensorbin", "folder.tensorbin"):
        with pytest.raises(RuntimeError, match="not a regular file"):
            tensors.load(tmp_path / name)


def test_views_beyond_the_fused_tensor_are_refused(tmp_path: Path) -> None:
    good = samples.OVERLAPPED[0]
    root = read(samples.header(good), "OverlappedTensors")
    data = good.read_bytes()[8 + len(samples.header(good)) :]
    for change, says in (
        ({"byte_offset": 1 << 40}, "of a fused tensor of"),
        ({"name": None}, "has no name"),
        ({"name": "b"}, "of another"),
        ({"tile_h": 3}, "Tile size is not valid"),
        ({"core_range_set": None}, "missing"),
    ):
        views = (replace(root.views[0], **change), root.views[1])
        path = tmp_path / "a.overlappedtensorbin"
        path.write_bytes(samples.with_header(write(replace(root, views=views)), data))
        with pytest.raises(RuntimeError, match=says):
            overlapped.load(path)


# -- anything at all

FILES = [p.read_bytes() for p in samples.PLAIN + samples.SPREAD]


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A real file, cut, or with some of its bytes or words replaced (mostly in the header)."""
    data = bytearray(draw(st.sampled_from(FILES)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, min(len(data), 700) - 1 if data else 0))
        match draw(st.sampled_from(("byte", "word", "cut", "copy", "insert"))):
            case "byte":
                data[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case "word":
                word = draw(st.sampled_from((0, 1, 4, 8, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)))
                data[at & ~3 : (at & ~3) + 4] = struct.pack("<I", word)
            case "cut":
                del data[draw(st.integers(at, len(data))) :]
            case "copy":
                start = draw(st.integers(0, max(len(data) - 4, 0)))
                data[at & ~3 : (at & ~3) + 4] = data[start : start + 4]
            case _:
                data[at:at] = draw(st.binary(max_size=9))
        if not data:
            break
    return bytes(data)


def read_or_refuse(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        tensor = tensors.load(path)
    except RuntimeError as error:
        assert str(path) in str(error)
        return
    for part in tensor.parts:
        assert part.shape == tensor.spec.dims


@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=mutations())
def test_mutated_files_load_or_are_refused(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    read_or_refuse(tmp_path_factory.getbasetemp() / "mutated.tensorbin", data)


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None)
@given(data=mutations())
def test_ten_thousand_mutated_files(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    read_or_refuse(tmp_path_factory.getbasetemp() / "mutated.tensorbin", data)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(header=st.binary(max_size=200), data=st.binary(max_size=64))
def test_noise_is_refused(header: bytes, data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    read_or_refuse(tmp_path_factory.getbasetemp() / "noise.tensorbin", samples.with_header(header, data))
