"""Tensors keep their values wherever they live, and creation gives what it says."""

from __future__ import annotations

import pytest
import torch

import ttnn


def sharded(layout, grid, shape, orientation=ttnn.ShardOrientation.ROW_MAJOR):
    cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(grid[0] - 1, grid[1] - 1))])
    return ttnn.MemoryConfig(layout, ttnn.BufferType.L1, ttnn.ShardSpec(cores, shape, orientation))


PLACES = [
    ttnn.DRAM_MEMORY_CONFIG,
    ttnn.L1_MEMORY_CONFIG,
    sharded(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, (8, 1), [32, 128]),
    sharded(ttnn.TensorMemoryLayout.WIDTH_SHARDED, (4, 1), [256, 32]),
    sharded(ttnn.TensorMemoryLayout.BLOCK_SHARDED, (4, 8), [32, 32]),
]


@pytest.mark.parametrize("start", range(len(PLACES)))
@pytest.mark.parametrize("dtype", [ttnn.bfloat16, ttnn.bfloat8_b, ttnn.float32])
def test_a_round_trip_through_every_place(device, start, dtype):
    given = torch.randn(2, 128, 128, generator=torch.Generator().manual_seed(start))
    x = ttnn.from_torch(given, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device, memory_config=PLACES[start])
    want = ttnn.to_torch(x)
    for place in PLACES:
        y = ttnn.to_memory_config(x, place)
        assert y.memory_config() == place
        assert torch.equal(ttnn.to_torch(y), want)
    if x.is_sharded():
        assert torch.equal(ttnn.to_torch(ttnn.sharded_to_interleaved(x)), want)
        assert torch.equal(ttnn.to_torch(ttnn.reshard(x, PLACES[2])), want)
    else:
        assert torch.equal(ttnn.to_torch(ttnn.interleaved_to_sharded(x, PLACES[4])), want)


def test_memory_comes_back(device):
    def taken():
        return ttnn.get_memory_view(device, ttnn.BufferType.L1).total_bytes_allocated_per_bank

    before = taken()
    x = ttnn.zeros((1, 1, 256, 256), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
    y = ttnn.clone(x)
    assert taken() > before
    ttnn.deallocate(x)
    y = ttnn.reallocate(y)
    assert torch.equal(ttnn.to_torch(y), torch.zeros(1, 1, 256, 256).bfloat16())
    del y
    assert taken() == before


def test_running_out_says_what_was_asked(device):
    with pytest.raises(RuntimeError, match="Out of Memory: Not enough space to allocate"):
        ttnn.empty((1, 1, 65536, 65536), dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)


def test_the_device_does_not_see_later_changes_of_torch_memory(device):
    given = torch.ones(32, 32)
    x = ttnn.from_torch(given, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)
    given.zero_()
    answer = ttnn.to_torch(x)
    assert torch.equal(answer, torch.ones(32, 32))
    answer.zero_()
    assert torch.equal(ttnn.to_torch(x), torch.ones(32, 32))


def test_creation(device):
    where = {"device": device, "layout": ttnn.TILE_LAYOUT}
    assert torch.equal(ttnn.to_torch(ttnn.full((3, 33), 2.5, dtype=ttnn.bfloat16, **where)), torch.full((3, 33), 2.5).bfloat16())
    assert torch.equal(ttnn.to_torch(ttnn.ones((), dtype=ttnn.float32, **where)), torch.ones(()))
    assert torch.equal(ttnn.to_torch(ttnn.arange(3, 40, 4, dtype=ttnn.int32, device=device)), torch.arange(3, 40, 4, dtype=torch.int32))
    x = ttnn.zeros_like(ttnn.ones((5, 5), dtype=ttnn.uint32, **where))
    assert x.dtype == ttnn.uint32
    assert not ttnn.to_torch(x).to(torch.int64).any()


def test_random_numbers_follow_their_seed(device):
    a, b, c = (ttnn.to_torch(ttnn.rand((64, 64), device=device, dtype=ttnn.float32, low=-1.0, high=3.0, seed=s)) for s in (7, 7, 8))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
    assert a.min() >= -1
    assert a.max() < 3
    assert abs(a.mean() - 1) < 0.1
    n = ttnn.to_torch(ttnn.randn((64, 64), device=device, dtype=ttnn.float32, seed=5))
    assert abs(n.std() - 1) < 0.1
    coin = ttnn.to_torch(ttnn.bernoulli(ttnn.full((64, 64), 0.25, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device), 3))
    assert set(coin.unique().tolist()) == {0.0, 1.0}
    assert abs(coin.mean() - 0.25) < 0.05


@pytest.mark.parametrize("layout", [ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT])
def test_a_partial_copy_writes_the_shards_of_its_cores(device, layout):
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(1, 1))})
    place = ttnn.MemoryConfig(
        ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1, ttnn.ShardSpec(cores, [32, 64], ttnn.ShardOrientation.ROW_MAJOR)
    )
    old, new = torch.zeros(64, 128).bfloat16(), torch.ones(64, 128).bfloat16()
    tensor = ttnn.from_torch(old, dtype=ttnn.bfloat16, layout=layout, device=device, memory_config=place)
    some = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(1, 0), ttnn.CoreCoord(1, 0))})
    ttnn.copy_host_to_device_tensor_partial(ttnn.from_torch(new, dtype=ttnn.bfloat16, layout=layout), tensor, some)
    want = old.clone()
    want[:32, 64:] = 1
    assert torch.equal(ttnn.to_torch(tensor), want)
    whole = ttnn.from_torch(old, dtype=ttnn.bfloat16, layout=layout, device=device)
    with pytest.raises(RuntimeError, match="must be sharded"):
        ttnn.copy_host_to_device_tensor_partial(ttnn.from_torch(new, dtype=ttnn.bfloat16, layout=layout), whole, some)
