"""Collectives against torch on the parts: eight chips in two rows of four."""

from __future__ import annotations

import pytest
import torch

import ttnn


@pytest.fixture(scope="module")
def mesh():
    patch = pytest.MonkeyPatch()
    patch.setenv("TESSERA_BOARD", "t3000")
    ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
    device = ttnn.open_mesh_device(ttnn.MeshShape(2, 4))
    yield device
    ttnn.close_mesh_device(device)
    ttnn.set_fabric_config(ttnn.FabricConfig.DISABLED)
    patch.undo()


@pytest.fixture
def spread(mesh):
    given = torch.randn(8, 32, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    x = ttnn.from_torch(given, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=mesh, mesh_mapper=ttnn.ShardTensorToMesh(mesh, dim=0))
    return given, x


def parts(tensor):
    return [ttnn.to_torch(t) for t in ttnn.get_device_tensors(tensor)]


def test_sharding_and_composing(mesh, spread):
    given, x = spread
    assert list(x.shape) == [1, 32, 64]
    assert torch.equal(ttnn.to_torch(x, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0)), given)
    y = ttnn.add(x, x)
    assert torch.equal(ttnn.to_torch(y, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0)), given + given)


def test_two_dimensional_sharding(mesh):
    given = torch.arange(64 * 128, dtype=torch.float32).reshape(64, 128)
    mapper = ttnn.ShardTensor2dMesh(mesh, mesh_shape=(2, 4), dims=(0, 1))
    x = ttnn.from_torch(given, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=mesh, mesh_mapper=mapper)
    assert list(x.shape) == [32, 32]
    assert torch.equal(ttnn.to_torch(x, mesh_composer=ttnn.ConcatMesh2dToTensor(mesh, mesh_shape=(2, 4), dims=(0, 1))), given)


def test_all_gather(mesh, spread):
    given, x = spread
    for part in parts(ttnn.all_gather(x, 0)):
        assert torch.equal(part, given)
    rows = parts(ttnn.all_gather(x, 0, cluster_axis=1))
    assert torch.equal(rows[0], given[:4])
    assert torch.equal(rows[7], given[4:])
    columns = parts(ttnn.all_gather(x, 0, cluster_axis=0))
    assert torch.equal(columns[1], given[[1, 5]])


def test_sums(mesh, spread):
    given, x = spread
    total = given.float().sum(0, keepdim=True).bfloat16()
    for part in parts(ttnn.all_reduce(x)):
        assert torch.equal(part, total)
    row = given[:4].float().sum(0, keepdim=True).bfloat16()
    scattered = parts(ttnn.reduce_scatter(x, 2, cluster_axis=0))
    want = given[[2, 6]].float().sum(0, keepdim=True).bfloat16()
    assert torch.equal(torch.cat([scattered[2], scattered[6]], 2), want)
    assert torch.equal(parts(ttnn.all_reduce(x, cluster_axis=1))[3], row)


def test_partition_undoes_gather(mesh, spread):
    given, x = spread
    back = ttnn.mesh_partition(ttnn.all_gather(x, 0), 0)
    assert torch.equal(ttnn.to_torch(back, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0)), given)


def test_broadcasts(mesh, spread):
    given, x = spread
    for part in parts(ttnn.broadcast(x, ttnn.MeshCoordinate(1, 2))):
        assert torch.equal(part[0], given[6])
    lines = parts(ttnn.broadcast(x, ttnn.MeshCoordinate(0, 1), cluster_axis=1))
    assert torch.equal(lines[6][0], given[5])
    every = ttnn.all_broadcast(x)
    assert len(every) == 8
    assert all(torch.equal(p[0], given[3]) for p in parts(every[3]))
    sent = parts(ttnn.point_to_point(x, ttnn.MeshCoordinate(0, 0), ttnn.MeshCoordinate(1, 3)))
    assert torch.equal(sent[7][0], given[0])
    assert torch.equal(sent[1][0], given[1])


def test_one_chip_has_nobody_to_talk_to(device):
    x = ttnn.ones((32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    with pytest.raises(RuntimeError):
        ttnn.all_gather(x, 0)


def test_dealt_along_another_dimension(mesh, spread):
    given, x = spread
    got = ttnn.experimental.all_to_all_async_generic(x, 0, 2)
    assert list(got.shape) == [8, 32, 8]
    for chip, part in enumerate(parts(got)):
        assert torch.equal(part, given[..., chip * 8 : (chip + 1) * 8])
    rows = ttnn.experimental.all_to_all_async_generic(x, 0, 1, cluster_axis=1)
    for chip, part in enumerate(parts(rows)):
        row, column = divmod(chip, 4)
        assert torch.equal(part, given[row * 4 : row * 4 + 4, column * 8 : (column + 1) * 8])
    with pytest.raises(RuntimeError, match="must be two dimensions"):
        ttnn.experimental.all_to_all_async_generic(x, 1, 1)
    golden = ttnn.get_golden_function(ttnn.experimental.all_to_all_async_generic)
    assert all(torch.equal(a, b) for a, b in zip(golden(given.split(1), 0, 2), parts(got)))


def test_gathered_backwards(mesh, spread):
    given, x = spread
    semaphores = [
        ttnn.create_global_semaphore(mesh, ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 7))}), 0)
    ] * 2
    got = ttnn.experimental.all_gather_async_reversed(x, 0, semaphores)
    assert torch.equal(parts(got)[0], given.flip(0))
    plain = ttnn.experimental.strided_all_gather_async(x, None, 0, semaphores)
    assert torch.equal(parts(plain)[5], given)
