"""Heads split and joined, rotary embeddings, caches written in place: moves are exact, rotations right to one rounding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ttnn

HEIGHT = ttnn.TensorMemoryLayout.HEIGHT_SHARDED


def put(values: torch.Tensor, device: Any, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT, **options: Any) -> Any:
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device, **options)


def table(values: list[Any], device: Any) -> Any:
    return put(torch.tensor(values, dtype=torch.int32), device, ttnn.int32, ttnn.ROW_MAJOR_LAYOUT)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(torch.bfloat16)


def each_user(values: torch.Tensor, device: Any, first: int = 0) -> Any:
    """[1, users, heads, width], a user to a core."""
    users, high = values.shape[1], -(-values.shape[2] // 32) * 32
    cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, first), ttnn.CoreCoord(users - 1, first))])
    spec = ttnn.ShardSpec(cores, [high, -(-values.shape[3] // 32) * 32], ttnn.ShardOrientation.ROW_MAJOR)
    return put(values, device, memory_config=ttnn.MemoryConfig(HEIGHT, ttnn.BufferType.L1, spec))


def same(result: Any, want: torch.Tensor) -> None:
    assert torch.equal(ttnn.to_torch(result), want)


# -- heads


@pytest.mark.parametrize(("batch", "rows", "heads", "shared", "width"), [(1, 1, 1, 1, 32), (2, 33, 8, 2, 64), (3, 64, 4, 4, 32)])
@pytest.mark.parametrize("turn", [True, False])
def test_split_and_join(device: Any, batch: int, rows: int, heads: int, shared: int, width: int, turn: bool) -> None:
    values = random(batch, rows, (heads + 2 * shared) * width)
    q, k, v = (
        part.unflatten(-1, (count, width)).transpose(1, 2)
        for part, count in zip(values.split([heads * width, shared * width, shared * width], dim=-1), (heads, shared, shared))
    )
    x = put(values, device)
    results = [
        ttnn.transformer.split_query_key_value_and_split_heads(x, num_heads=heads, num_kv_heads=shared, transpose_key=turn),
        ttnn.experimental.nlp_create_qkv_heads(
            put(values.unsqueeze(1), device), num_heads=heads, num_kv_heads=shared, transpose_k_heads=turn
        ),
        ttnn.transformer.split_query_key_value_and_split_heads(
            put(values[..., : heads * width], device),
            put(values[..., heads * width :], device),
            num_heads=heads,
            num_kv_heads=shared,
            transpose_key=turn,
        ),
    ]
    for query, key, value in results:
        same(query, q)
        same(key, k.transpose(-1, -2) if turn else k)
        same(value, v)
    same(ttnn.transformer.concatenate_heads(results[0][0]), values[..., : heads * width])
    same(ttnn.experimental.nlp_concat_heads(results[0][0]), values[..., : heads * width].unsqueeze(1))


def test_boltz_undoes_itself(device: Any) -> None:
    values = random(1, 3, 33, 6 * 32)
    q, k, v = ttnn.experimental.nlp_create_qkv_heads_boltz(put(values, device), num_heads=2, transpose_k_heads=False)
    for part, want in zip((q, k, v), values.chunk(3, dim=-1)):
        assert tuple(part.shape) == (2, 3, 33, 32)
        same(ttnn.experimental.nlp_concat_heads_boltz(part), want)


def test_decode_heads(device: Any) -> None:
    values = random(1, 1, 5, 12 * 64)
    q, k, v = ttnn.experimental.nlp_create_qkv_heads_decode(put(values, device), num_heads=8, num_kv_heads=2)
    rows = values[0, 0].unflatten(-1, (12, 64)).unsqueeze(0)
    for part, want in zip((q, k, v), rows.split([8, 2, 2], dim=2)):
        same(part, want)
        assert part.memory_config().memory_layout == HEIGHT and part.memory_config().shard_spec.num_cores() == 5
    apart = ttnn.experimental.nlp_create_qkv_heads_decode(put(values, device), num_heads=8, num_kv_heads=2, overlap_qk_coregrid=False)
    grids = [part.memory_config().shard_spec.grid for part in apart]
    assert grids[0] == grids[2] and not any(grids[0].contains(core) for core in ttnn.corerange_to_cores(grids[1]))
    joined = ttnn.experimental.nlp_concat_heads_decode(q, num_heads=8)
    assert tuple(joined.shape) == (1, 1, 32, 512)
    same(joined[:, :, :5], values[..., :512])


def test_grouped_heads(device: Any) -> None:
    cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(1, 0))])
    spec = ttnn.ShardSpec(cores, [32, 128], ttnn.ShardOrientation.ROW_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1, spec)
    values = random(1, 1, 32, 256)
    out = ttnn.MemoryConfig(HEIGHT, ttnn.BufferType.L1)
    q, k, v = ttnn.experimental.create_qkv_heads(
        put(values, device, memory_config=config), num_heads=4, num_kv_heads=2, transpose_k_heads=False, memory_config=out
    )
    columns = values[0, 0].unflatten(-1, (2, 4, 32)).permute(1, 2, 0, 3)
    same(q, columns[:, :2].flatten(0, 1).unsqueeze(0))
    same(k, columns[:, 2].unsqueeze(0))
    same(v, columns[:, 3].unsqueeze(0))


def test_heads_refuse(device: Any) -> None:
    with pytest.raises(RuntimeError, match="Invalid head size: 41"):
        ttnn.transformer.split_query_key_value_and_split_heads(put(random(1, 64, 1000), device), num_heads=8)
    with pytest.raises(RuntimeError, match="Head size must be a multiple of 32"):
        ttnn.transformer.concatenate_heads(put(random(2, 4, 33, 40), device))
    with pytest.raises(RuntimeError, match="Unsupported input shape"):
        ttnn.experimental.nlp_create_qkv_heads(put(random(1, 1, 64, 1000), device), num_heads=8)


# -- rotary embeddings


def angles(rows: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    half = torch.outer(torch.arange(rows).float(), 10000.0 ** -(torch.arange(0, width, 2).float() / width))
    both = torch.cat([half, half], dim=-1).reshape(1, 1, rows, width)
    return both.cos().to(torch.bfloat16), both.sin().to(torch.bfloat16)


def turned(x: torch.Tensor) -> torch.Tensor:
    low, high = x.double().chunk(2, dim=-1)
    return torch.cat([-high, low], dim=-1)


def near(result: Any, want: torch.Tensor) -> None:
    got = ttnn.to_torch(result).double()
    assert got.shape == want.shape
    assert torch.allclose(got, want, rtol=2**-8, atol=2**-9)


@pytest.mark.parametrize("rows", [1, 33, 64])
@pytest.mark.parametrize("module", ["experimental", "transformer"])
def test_rotary(device: Any, rows: int, module: str) -> None:
    x, (cos, sin) = random(2, 3, rows, 64), angles(96, 64)
    args = put(x, device), put(cos, device), put(sin, device)
    rotate = getattr(ttnn, module).rotary_embedding
    want = x.double() * cos[:, :, :rows].double() + turned(x) * sin[:, :, :rows].double()
    near(rotate(*args)[:, :, :rows], want)
    near(rotate(*args, 7)[:, :, :rows], x.double() * cos[:, :, 7:8].double() + turned(x) * sin[:, :, 7:8].double())
    near(ttnn.experimental.rotary_embedding_hf(*args), want)
    same(ttnn.experimental.rotate_half(args[0]), turned(x).to(torch.bfloat16))
    with pytest.raises(RuntimeError, match="token_index=96"):
        rotate(*args, 96)


def neighbours() -> torch.Tensor:
    matrix = torch.zeros(1, 1, 32, 32)
    for i in range(0, 32, 2):
        matrix[..., i, i + 1], matrix[..., i + 1, i] = 1.0, -1.0
    return matrix.to(torch.bfloat16)


def swapped(x: torch.Tensor) -> torch.Tensor:
    pairs = x.double().unflatten(-1, (-1, 2))
    return torch.stack([-pairs[..., 1], pairs[..., 0]], dim=-1).flatten(-2)


def test_rotary_of_neighbours(device: Any) -> None:
    x, (cos, sin) = random(1, 3, 33, 64), angles(64, 64)
    result = ttnn.experimental.rotary_embedding_llama(*(put(t, device) for t in (x, cos, sin, neighbours())))
    near(result, x.double() * cos[:, :, :33].double() + swapped(x) * sin[:, :, :33].double())


def test_rotary_of_a_step(device: Any) -> None:
    x, (cos, sin) = random(1, 4, 8, 64), angles(4, 64)
    cos, sin = (t.reshape(1, 4, 1, 64) for t in (cos, sin))
    matrix = each_user(neighbours().expand(1, 4, 32, 32), device)
    want = x.double() * cos.double() + swapped(x) * sin.double()
    tables = [each_user(t, device) for t in (cos, sin)]
    near(ttnn.experimental.rotary_embedding_llama(each_user(x, device), *tables, matrix, is_decode_mode=True), want)
    doubled = [each_user(torch.cat([t, t], dim=1), device) for t in (cos, sin)]
    q, k = ttnn.experimental.rotary_embedding_llama_fused_qk(each_user(x, device), each_user(x[:, :, :2], device, 1), *doubled, matrix)
    near(q, want)
    near(k, want[:, :, :2])


# -- caches


@pytest.mark.parametrize("dtype", [ttnn.bfloat16, ttnn.float32, ttnn.bfloat8_b])
def test_plain_caches(device: Any, dtype: Any) -> None:
    values, prompt, step = random(3, 2, 64, 32), random(1, 2, 33, 32, seed=1), random(1, 2, 3, 32, seed=2)
    cache = put(values, device, dtype)
    address, want = cache.buffer_address(), ttnn.to_torch(cache)
    assert ttnn.fill_cache(cache, put(prompt, device, dtype), 1).buffer_address() == address
    want[1, :, :33] = ttnn.to_torch(put(prompt, device, dtype))[0]
    same(cache, want)
    ttnn.update_cache(cache, put(step, device, dtype), 40)
    want[:, :, 40] = ttnn.to_torch(put(step, device, dtype))[0].transpose(0, 1)
    same(cache, want)
    ttnn.kv_cache.fill_cache_for_user_(cache, put(prompt[:, :, :5], device, dtype), 2, update_idx=10)
    want[2, :, 10:15] = ttnn.to_torch(put(prompt[:, :, :5], device, dtype))[0]
    ttnn.kv_cache.update_cache_for_token_(cache, put(step, device, dtype), 0)
    want[:, :, 0] = ttnn.to_torch(put(step, device, dtype))[0].transpose(0, 1)
    same(cache, want)


def test_an_update_does_not_reach_copies(device: Any) -> None:
    source = random(1, 2, 32, 32)
    cache = put(source, device)
    before, copy = ttnn.to_torch(cache).clone(), ttnn.clone(cache)
    ttnn.fill_cache(cache, put(random(1, 2, 32, 32, seed=1), device), 0)
    same(copy, before)
    assert torch.equal(source, before)


def test_steps_share_a_program(device: Any) -> None:
    cache, step = put(random(1, 2, 64, 32), device), put(random(1, 2, 1, 32, seed=1), device)
    device.clear_program_cache()
    for place in range(5):
        ttnn.update_cache(cache, step, place)
    assert device.num_program_cache_entries() == 1


def test_pages(device: Any) -> None:
    pages = random(9, 2, 32, 64)
    order = [[4, 2, 7], [1, 8, -1]]
    for dtype in (ttnn.bfloat16, ttnn.bfloat8_b):
        cache, where = put(pages, device, dtype), table(order, device)
        want = ttnn.to_torch(cache)
        prompt = put(random(1, 2, 40, 64, seed=1), device, dtype)
        ttnn.experimental.paged_fill_cache(cache, prompt, where, batch_idx=1)
        rows = ttnn.to_torch(prompt)[0]
        want[1], want[8, :, :8] = rows[:, :32], rows[:, 32:]
        same(cache, want)
        step = random(1, 2, 2, 64, seed=2)
        ttnn.experimental.paged_update_cache(cache, each_user(step, device), update_idxs_tensor=table([70, -1], device), page_table=where)
        want[7, :, 6] = ttnn.to_torch(put(step, device, dtype))[0, 0]
        same(cache, want)


def test_two_caches_at_once(device: Any) -> None:
    keys, values = (put(random(2, 4, 32, 64, seed=i), device) for i in range(2))
    want = [ttnn.to_torch(t).clone() for t in (keys, values)]
    k, v = random(1, 2, 4, 64, seed=2), random(1, 2, 4, 64, seed=3)
    ttnn.experimental.paged_fused_update_cache(keys, each_user(k, device), values, each_user(v, device, 1), update_idxs=[3, 30])
    for w, row in zip(want, (k, v)):
        w[0, :, 3], w[1, :, 30] = row[0, 0], row[0, 1]
    same(keys, want[0])
    same(values, want[1])
    with pytest.raises(RuntimeError, match="must not overlap"):
        ttnn.experimental.paged_fused_update_cache(keys, each_user(k, device), values, each_user(v, device), update_idxs=[3, 30])


def test_places_over_all_pages(device: Any) -> None:
    keys, values = (put(random(3, 4, 32, 64, seed=i), device) for i in range(2))
    want = [ttnn.to_torch(t).clone() for t in (keys, values)]
    k, v = random(1, 2, 4, 64, seed=2), random(1, 2, 4, 64, seed=3)
    places = table([70, 5], device)
    ttnn.experimental.indexed_fused_update_cache(keys, each_user(k, device), values, each_user(v, device, 1), places)
    for cache, w, row in zip((keys, values), want, (k, v)):
        w[2, :, 6], w[0, :, 5] = row[0, 0], row[0, 1]
        same(cache, w)


def test_rows_of_a_cache(device: Any) -> None:
    cache = random(1, 4, 96, 64)
    result = ttnn.experimental.nlp_kv_cache_load_slice(put(cache, device), seq_len_start=32, seq_len_end=96)
    same(result, cache[:, :, 32:])
    assert result.memory_config().memory_layout == HEIGHT


def test_caches_refuse(device: Any) -> None:
    cache = put(random(2, 4, 64, 64), device)
    with pytest.raises(RuntimeError, match=r"Batch index \(5\)"):
        ttnn.fill_cache(cache, put(random(1, 4, 32, 64), device), 5)
    with pytest.raises(RuntimeError, match=r"Input tensor width \(32\)"):
        ttnn.update_cache(cache, put(random(1, 4, 2, 32), device), 0)
    with pytest.raises(RuntimeError, match="Expect input_tensor to be sharded"):
        ttnn.experimental.paged_update_cache(cache, put(random(1, 2, 4, 64), device), update_idxs=[0, 0])
    with pytest.raises(RuntimeError, match="Not both or neither"):
        ttnn.experimental.paged_update_cache(cache, each_user(random(1, 2, 4, 64), device))
