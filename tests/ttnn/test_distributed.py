"""Tensors over meshes: cut by mappers, taken apart, written part by part, put together by composers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import ttnn

TILE = ttnn.TILE_LAYOUT


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    """A t3000: two rows of four chips."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TESSERA_BOARD", "t3000")
    opened = ttnn.open_mesh_device(ttnn.MeshShape(2, 4))
    yield opened
    ttnn.close_mesh_device(opened)
    patch.undo()


def rows(*dims: int) -> torch.Tensor:
    return torch.arange(torch.Size(dims).numel()).reshape(dims).to(torch.int32)


def on(mesh: Any, given: torch.Tensor, mapper: Any = None) -> Any:
    return ttnn.from_torch(given, dtype=ttnn.int32, layout=TILE, device=mesh, mesh_mapper=mapper)


class TestMappersAndComposers:
    def test_without_a_mapper_every_chip_has_all(self, mesh) -> None:
        given = rows(4, 4)
        x = on(mesh, given)
        assert [ttnn.to_torch(part).tolist() for part in ttnn.get_device_tensors(x)] == [given.tolist()] * 8
        assert x.tensor_topology().placements() == [ttnn.PlacementReplicate()]
        with pytest.raises(RuntimeError, match="mesh_composer"):
            ttnn.to_torch(x)

    @pytest.mark.parametrize("dim", [0, 1, -1])
    def test_along_one_dimension(self, mesh, dim) -> None:
        given = rows(8, 16, 24)
        x = on(mesh, given, ttnn.ShardTensorToMesh(mesh, dim))
        assert torch.equal(ttnn.to_torch(x, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim)), given)
        parts = [ttnn.to_torch(part) for part in ttnn.get_device_tensors(x)]
        assert all(torch.equal(a, b) for a, b in zip(parts, given.chunk(8, dim)))
        assert x.tensor_topology().placements() == [ttnn.PlacementShard(dim)]

    @pytest.mark.parametrize("dims", [(0, 1), (2, 0), (None, 1), (0, None)])
    def test_along_both_dimensions_of_the_mesh(self, mesh, dims) -> None:
        given = rows(8, 16, 24)
        x = on(mesh, given, ttnn.ShardTensor2dMesh(mesh, (2, 4), dims))
        for place, part in zip(mesh.coordinates(), ttnn.get_device_tensors(x)):
            want = given
            for at, count, dim in zip(place, (2, 4), dims):
                want = want if dim is None else want.chunk(count, dim)[at]
            assert torch.equal(ttnn.to_torch(part), want)
        if None not in dims:
            assert torch.equal(ttnn.to_torch(x, mesh_composer=ttnn.ConcatMesh2dToTensor(mesh, (2, 4), dims)), given)

    def test_by_configuration(self, mesh) -> None:
        given = rows(8, 16, 24)
        config = ttnn.MeshMapperConfig([ttnn.PlacementShard(0), ttnn.PlacementShard(2)])
        x = on(mesh, given, ttnn.create_mesh_mapper(mesh, config))
        composer = ttnn.create_mesh_composer(mesh, ttnn.MeshComposerConfig([0, 2]))
        assert torch.equal(ttnn.to_torch(x, mesh_composer=composer), given)
        assert ttnn.to_torch(ttnn.aggregate_tensor(x, composer)).tolist() == given.tolist()
        with pytest.raises(RuntimeError, match="give one for each dimension"):
            ttnn.create_mesh_mapper(mesh, ttnn.MeshMapperConfig([ttnn.PlacementShard(0)]))

    def test_for_a_block(self, mesh) -> None:
        given = rows(8, 4)
        with ttnn.distribute(ttnn.ShardTensorToMesh(mesh, 0)):
            x = ttnn.from_torch(given, dtype=ttnn.int32, device=mesh)
        with ttnn.distribute(ttnn.ConcatMeshToTensor(mesh, 0)):
            assert torch.equal(ttnn.to_torch(x), given)

    def test_a_mapper_in_its_wrapping(self, mesh) -> None:
        wrapped = ttnn.ReplicateTensorToMeshWrapper(ttnn.ReplicateTensorToMesh(mesh))
        assert ttnn.to_torch(on(mesh, rows(2, 2), wrapped), mesh_composer=ttnn.ConcatMeshToTensor(mesh, 0)).shape == (16, 2)
        assert wrapped.unwrap() == ttnn.ReplicateTensorToMesh(mesh)

    def test_what_does_not_divide_is_refused(self, mesh) -> None:
        with pytest.raises(RuntimeError, match="does not divide into 8 equal shards"):
            on(mesh, rows(7, 4), ttnn.ShardTensorToMesh(mesh, 0))
        with pytest.raises(RuntimeError, match="dim=3 is out of range"):
            on(mesh, rows(8, 4), ttnn.ShardTensorToMesh(mesh, 3))


class TestParts:
    """`get_device_tensors` answers views, as official TT-NN's shards of one mesh buffer are."""

    def test_a_part_lies_where_the_whole_lies(self, mesh) -> None:
        x = on(mesh, rows(8, 32, 32), ttnn.ShardTensorToMesh(mesh, 0))
        part = ttnn.get_device_tensors(x)[5]
        assert part.buffer_address() == x.buffer_address()
        assert part.buffer_page_size() == x.buffer_page_size()
        assert part.device() is mesh

    def test_what_is_written_to_a_part_is_in_the_whole(self, mesh) -> None:
        x = on(mesh, rows(2, 2))  # replicated: the chips share the values until one of them is written
        parts = ttnn.get_device_tensors(x)
        ttnn.copy_host_to_device_tensor(ttnn.from_torch(rows(2, 2) + 100, dtype=ttnn.int32, layout=TILE), parts[3])
        parts[4].writable().add_(1)
        found = [ttnn.to_torch(part)[0, 0].item() for part in ttnn.get_device_tensors(x)]
        assert found == [0, 0, 0, 100, 1, 0, 0, 0]
        ttnn.copy_host_to_device_tensor(ttnn.from_torch(rows(2, 2) + 7, dtype=ttnn.int32, layout=TILE), x)
        assert ttnn.to_torch(parts[3])[0, 0].item() == 7

    def test_parts_end_with_the_whole(self, mesh) -> None:
        before = ttnn.get_memory_view(mesh, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank
        x = on(mesh, rows(2, 2))
        parts = ttnn.get_device_tensors(x)
        del x  # a view holds the room
        assert ttnn.to_torch(parts[0]).tolist() == [[0, 1], [2, 3]]
        ttnn.deallocate(parts[0])
        assert not parts[1].is_allocated()
        with pytest.raises(RuntimeError, match="not allocated"):
            ttnn.to_torch(parts[1])
        assert ttnn.get_memory_view(mesh, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank == before

    def test_together_again(self, mesh) -> None:
        x = on(mesh, rows(8, 2), ttnn.ShardTensorToMesh(mesh, 0))
        whole = ttnn.combine_device_tensors(ttnn.get_device_tensors(x))
        assert whole.buffer_address() == x.buffer_address()
        hosts = [ttnn.from_torch(rows(2, 2) + i, dtype=ttnn.int32, layout=TILE) for i in range(8)]
        spread = ttnn.to_device(ttnn.from_host_shards(hosts, ttnn.MeshShape(2, 4)), mesh)
        assert [ttnn.to_torch(part)[0, 0].item() for part in ttnn.get_device_tensors(spread)] == list(range(8))
        with pytest.raises(RuntimeError, match="do not fill a mesh"):
            ttnn.from_host_shards(hosts[:3], ttnn.MeshShape(2, 4))

    def test_operations_run_on_every_part(self, mesh) -> None:
        given = rows(8, 32, 32)
        y = ttnn.add(on(mesh, given, ttnn.ShardTensorToMesh(mesh, 0)), 5)
        assert torch.equal(ttnn.to_torch(y, mesh_composer=ttnn.ConcatMeshToTensor(mesh, 0)), given + 5)


@pytest.mark.parametrize(
    ("distribution", "count", "last"),
    [((2, 2), 4, [1, 1]), ((2, 4), 8, [1, 3]), ((2, 1), 2, [1, 0]), ((4, 1), 4, [0, 3]), ((1, 8), 8, [1, 3]), ((3, 3), 8, [1, 3])],
)
def test_where_a_distribution_lies(distribution, count, last) -> None:
    """As measured: at its own coordinates where it fits, along the mesh otherwise."""
    places = ttnn.compute_distribution_to_mesh_mapping(ttnn.MeshShape(*distribution), ttnn.MeshShape(2, 4))
    assert (len(places), list(places[-1])) == (count, last)


def test_submeshes_have_chips_and_memory_of_their_own(mesh) -> None:
    rows_of_mesh = mesh.create_submeshes(ttnn.MeshShape(1, 4))
    assert [sub.get_device_ids() for sub in rows_of_mesh] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    x = on(rows_of_mesh[1], rows(4, 2), ttnn.ShardTensorToMesh(rows_of_mesh[1], 0))
    assert torch.equal(ttnn.to_torch(x, mesh_composer=ttnn.ConcatMeshToTensor(rows_of_mesh[1], 0)), rows(4, 2))
    with pytest.raises(RuntimeError):
        mesh.create_submesh(ttnn.MeshShape(3, 1))


def test_random_numbers_are_cut_like_anything_else(mesh) -> None:
    config = ttnn.MeshMapperConfig([ttnn.PlacementReplicate(), ttnn.PlacementShard(1)])
    x = ttnn.rand((4, 64), mesh, dtype=ttnn.float32, seed=4, mesh_mapper=config)
    assert x.shape == (4, 16)
    assert x.tensor_topology().placements() == [ttnn.PlacementReplicate(), ttnn.PlacementShard(1)]
    whole = ttnn.to_torch(ttnn.get_device_tensors(ttnn.rand((4, 64), mesh, dtype=ttnn.float32, seed=4))[0])
    assert torch.equal(torch.cat([ttnn.to_torch(part) for part in ttnn.get_device_tensors(x)[4:]], 1), whole)
