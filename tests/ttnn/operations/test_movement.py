"""Data movement is exact: every dtype, both layouts, awkward shapes, bit for bit what torch does."""

from __future__ import annotations

import pytest
import torch

import ttnn

DTYPES = [ttnn.bfloat16, ttnn.float32, ttnn.int32, ttnn.uint32, ttnn.uint16]
SHAPES = [(1,), (31,), (33, 65), (3, 1, 33), (2, 3, 31, 33), (2, 1, 2, 5, 7), (1, 2, 1, 2, 3, 4)]


def made(shape, dtype, layout, device):
    numbers = torch.arange(torch.Size(shape).numel()).reshape(shape) % 251
    given = numbers.to(torch.float32) if dtype in (ttnn.bfloat16, ttnn.float32) else numbers.to(torch.int32)
    return given, ttnn.from_torch(given, dtype=dtype, layout=layout, device=device)


def reshapes(x):
    """The chip has no kernel that reshapes 16-bit whole numbers in tiles."""
    return not (x.dtype == ttnn.uint16 and x.layout == ttnn.TILE_LAYOUT)


def same(got, want):
    back = ttnn.to_torch(got).to(torch.float64)
    assert tuple(got.shape) == tuple(want.shape)
    assert torch.equal(back, want.to(torch.float64))


@pytest.mark.parametrize("layout", [ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_permute_reshape_and_back(device, shape, dtype, layout):
    given, x = made(shape, dtype, layout, device)
    order = tuple(reversed(range(len(shape))))
    same(ttnn.permute(x, order), given.permute(order))
    same(ttnn.unsqueeze(x, 0), given.unsqueeze(0))
    same(ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT), given)
    if not reshapes(x):
        return
    same(ttnn.reshape(x, [-1]), given.reshape(-1))
    same(ttnn.reshape(ttnn.reshape(x, [-1]), list(shape)), given)
    same(ttnn.squeeze(x), given.squeeze())


@pytest.mark.parametrize("layout", [ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT])
@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_and_wholes(device, dtype, layout):
    given, x = made((2, 3, 33, 65), dtype, layout, device)
    for dim in range(-4, 4):
        size = given.shape[dim]
        same(ttnn.concat([x, x], dim), torch.cat([given, given], dim))
        for got, want in zip(ttnn.split(x, max(1, size // 2), dim), torch.split(given, max(1, size // 2), dim), strict=True):
            same(got, want)
    same(ttnn.slice(x, [0, 1, 5, 7], [2, 3, 33, 64]), given[:, 1:, 5:33, 7:64])
    same(ttnn.slice(x, [0, 0, 0, 0], [2, 3, 33, 65], [1, 1, 2, 3]), given[:, :, ::2, ::3])
    if reshapes(x):
        same(x[1, :, 3:9, -1], given[1, :, 3:9, -1])
        same(x[..., 5], given[..., 5])
    same(ttnn.repeat(x, [1, 2, 1, 3]), given.repeat(1, 2, 1, 3))
    same(ttnn.repeat_interleave(x, 2, 2), given.repeat_interleave(2, 2))
    same(ttnn.stack([x, x], 1), torch.stack([given, given], 1))
    same(ttnn.roll(x, 3, 1), torch.roll(given, 3, 1))
    for got, want in zip(ttnn.chunk(x, 2, 1), torch.chunk(given, 2, 1), strict=True):
        same(got, want)


def test_pad_fills_and_keeps(device):
    given, x = made((1, 2, 5, 7), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device)
    same(ttnn.pad(x, [(0, 0), (1, 0), (2, 1), (0, 3)], -2.0), torch.nn.functional.pad(given, (0, 3, 2, 1, 1, 0), value=-2.0))
    tiled = ttnn.to_layout(x, ttnn.TILE_LAYOUT)
    same(ttnn.pad(tiled, [(0, 0), (0, 0), (0, 1), (0, 3)], 4.0), torch.nn.functional.pad(given, (0, 3, 0, 1), value=4.0))
    with pytest.raises(RuntimeError, match="front padding"):
        ttnn.pad(tiled, [(0, 0), (0, 0), (1, 0), (0, 0)], 0.0)


def test_gather_and_scatter(device):
    given, x = made((4, 33), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device)
    index = torch.randint(0, 33, (4, 7), generator=torch.Generator().manual_seed(1))
    where = ttnn.from_torch(index.to(torch.int32), dtype=ttnn.uint32, device=device)
    same(ttnn.gather(x, 1, where), given.gather(1, index))
    source = torch.arange(28, dtype=torch.float32).reshape(4, 7)
    s = ttnn.from_torch(source, dtype=ttnn.bfloat16, device=device)
    distinct = torch.stack([torch.randperm(33, generator=torch.Generator().manual_seed(i))[:7] for i in range(4)])
    d = ttnn.from_torch(distinct.to(torch.int32), dtype=ttnn.uint32, device=device)
    same(ttnn.scatter(x, 1, d, s), given.scatter(1, distinct, source))
    same(ttnn.scatter_add(x, 1, d, s), given.scatter_add(1, distinct, source))


@pytest.mark.parametrize("shape", [(33, 65), (2, 3, 32, 64)])
def test_triangles(device, shape):
    given, x = made(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
    for diagonal in (-2, 0, 3):
        same(ttnn.tril(x, diagonal=diagonal), torch.tril(given, diagonal))
        same(ttnn.triu(x, diagonal=diagonal), torch.triu(given, diagonal))


def test_views_share_memory_and_copies_do_not(device):
    given, x = made((2, 32, 64), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
    view = ttnn.reshape(x, (64, 64))
    assert view.buffer_address() == x.buffer_address()
    other = ttnn.from_torch(given + 1, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.copy(other, x)
    same(view, (given + 1).reshape(64, 64))
    moved = ttnn.reshape(x, (2, 64, 32))
    assert moved.buffer_address() != x.buffer_address()
    ttnn.deallocate(x)
    with pytest.raises(RuntimeError, match="not allocated"):
        ttnn.to_torch(view)
    same(moved, (given + 1).reshape(2, 64, 32))


def test_zero_volume(device):
    x = ttnn.from_torch(torch.zeros(0, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    same(ttnn.permute(x, (1, 0)), torch.zeros(32, 0))
    same(ttnn.concat([x, x], 0), torch.zeros(0, 32))


def test_embedding(device):
    weight = torch.randn(50, 33, generator=torch.Generator().manual_seed(2)).bfloat16()
    ids = torch.randint(0, 50, (3, 7), generator=torch.Generator().manual_seed(3))
    i = ttnn.from_torch(ids.to(torch.int32), dtype=ttnn.uint32, device=device)
    for layout in (ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT):
        w = ttnn.from_torch(weight, dtype=ttnn.bfloat16, layout=layout, device=device)
        same(ttnn.embedding(i, w), torch.nn.functional.embedding(ids, weight))
    same(
        ttnn.embedding(i, w, padding_idx=int(ids[0, 0])),
        torch.nn.functional.embedding(ids, weight).masked_fill((ids == ids[0, 0])[..., None], 0),
    )


def sharded(device, height, width, layout, columns, rows, shard):
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(columns - 1, rows - 1))})
    place = ttnn.MemoryConfig(layout, ttnn.BufferType.L1, ttnn.ShardSpec(cores, shard, ttnn.ShardOrientation.ROW_MAJOR))
    x = torch.randn(1, 1, height, width, generator=torch.Generator().manual_seed(0)).bfloat16()
    return x, ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=place)


SHARDED = ttnn.TensorMemoryLayout
GROWN = [
    # (layout, tensor, cores, shard, cores after twice the rows, shard then)
    (SHARDED.HEIGHT_SHARDED, (256, 64), (8, 1), [32, 64], (8, 2), [32, 64]),
    (SHARDED.BLOCK_SHARDED, (128, 256), (4, 4), [32, 64], (8, 8), [32, 32]),
    (SHARDED.WIDTH_SHARDED, (32, 512), (8, 1), [32, 64], (8, 1), [64, 64]),
]


@pytest.mark.parametrize(("layout", "size", "cores", "shard", "after", "grown"), GROWN)
def test_repeated_shards_spread_over_more_cores(device, layout, size, cores, shard, after, grown):
    x, tensor = sharded(device, *size, layout, *cores, shard)
    got = ttnn.repeat(tensor, [1, 1, 2, 1])
    assert torch.equal(ttnn.to_torch(got), x.repeat(1, 1, 2, 1))
    place = got.memory_config()
    grid = place.shard_spec.grid.bounding_box().grid_size()
    assert (place.memory_layout, (grid.x, grid.y), list(place.shard_spec.shape)) == (layout, after, grown)


def test_turned_shards(device):
    x, tensor = sharded(device, 128, 256, SHARDED.BLOCK_SHARDED, 4, 4, [32, 64])
    for got in (ttnn.transpose(tensor, -2, -1), ttnn.permute(tensor, [0, 1, 3, 2])):
        assert torch.equal(ttnn.to_torch(got), x.mT)
        assert list(got.memory_config().shard_spec.shape) == [64, 32]
    x, tensor = sharded(device, 32, 512, SHARDED.WIDTH_SHARDED, 8, 1, [32, 64])
    got = ttnn.permute(tensor, [0, 1, 3, 2])
    assert torch.equal(ttnn.to_torch(got), x.mT)
    assert got.memory_config() == ttnn.L1_MEMORY_CONFIG


def test_padded_shards_and_tiles(device):
    x, tensor = sharded(device, 256, 64, SHARDED.HEIGHT_SHARDED, 8, 1, [32, 64])
    got = ttnn.pad(tensor, [(0, 0), (0, 0), (0, 0), (0, 64)], 1.0)
    assert torch.equal(ttnn.to_torch(got), torch.nn.functional.pad(x, (0, 64), value=1.0))
    assert list(got.memory_config().shard_spec.shape) == [32, 128]
    y = ttnn.from_torch(x[..., :32, :32], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    got = ttnn.pad(y, [1, 1, 16, 64], [0, 0, 0, 0], 0.0)
    assert torch.equal(ttnn.to_torch(got), torch.nn.functional.pad(x[..., :16, :32], (0, 32)))
    with pytest.raises(TypeError, match="incompatible function arguments"):
        ttnn.pad(y, [(0, 0), (0, 0), (-1, 0), (0, 0)], 0.0)


def test_fold_by_transposes(device):
    """Images are [N, C, H, W] to it, filled up to whole tiles."""
    x = torch.randn(1, 8, 40, 6, generator=torch.Generator().manual_seed(1)).bfloat16()
    got = ttnn.fold(ttnn.from_torch(x, dtype=ttnn.bfloat16, device=device), 2, 2, True)
    filled = torch.nn.functional.pad(x, (0, 26, 0, 24)).permute(0, 2, 3, 1)
    want = filled.reshape(1, 32, 2, 16, 2, 8).permute(0, 1, 3, 2, 4, 5).reshape(1, 32, 16, 32)
    assert torch.equal(ttnn.to_torch(got), want)
    assert got.memory_config() == ttnn.L1_MEMORY_CONFIG


def test_padding_on_the_host():
    x = torch.arange(6.0).reshape(2, 3).bfloat16()
    got = ttnn.pad(ttnn.from_torch(x, dtype=ttnn.bfloat16), [(1, 0), (0, 2)], 7.0)
    assert torch.equal(ttnn.to_torch(got), torch.nn.functional.pad(x, (0, 2, 1, 0), value=7.0))
    four = ttnn.pad(ttnn.from_torch(x.reshape(1, 1, 2, 3), dtype=ttnn.bfloat16), [(0, 0), (0, 0), (0, 2), (0, 1)], 7.0)
    assert (list(four.shape), list(four.padded_shape)) == ([1, 1, 2, 3], [1, 1, 4, 4])
    assert torch.equal(ttnn.to_torch(four), x.reshape(1, 1, 2, 3))
