"""Attention in its forms, against sums written out in fp64."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ttnn


def put(values: torch.Tensor, device: Any, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT, **options: Any) -> Any:
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device, **options)


def table(values: torch.Tensor, device: Any) -> Any:
    return put(values.to(torch.int32), device, ttnn.int32, ttnn.ROW_MAJOR_LAYOUT)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(torch.bfloat16)


def plain(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor | None = None, sink: torch.Tensor | None = None
) -> torch.Tensor:
    """Attention in fp64, keys of all heads spelt out."""
    q, k, v = q.double(), k.double(), v.double()
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    scale = q.shape[-1] ** -0.5
    scores = q @ k.transpose(-1, -2) * scale
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf)
    powers = scores.exp()
    total = powers.sum(-1, keepdim=True)
    if sink is not None:
        total = total + (sink.double().reshape(1, -1, 1, 1) * scale).exp()
    return (powers / total) @ v


def close(result: Any, want: torch.Tensor) -> None:
    got = ttnn.to_torch(result).double()
    assert got.shape == want.shape
    assert float((got - want).abs().max() / want.abs().max()) <= 2**-7


@pytest.mark.parametrize(("heads", "shared", "rows"), [(1, 1, 1), (4, 2, 33), (8, 1, 100), (3, 3, 64)])
def test_causal(device: Any, heads: int, shared: int, rows: int) -> None:
    q, k, v = random(2, heads, rows, 64), random(2, shared, rows, 64, seed=1), random(2, shared, rows, 64, seed=2)
    result = ttnn.transformer.scaled_dot_product_attention(*(put(t, device) for t in (q, k, v)))
    close(result, plain(q, k, v, torch.ones(rows, rows, dtype=torch.bool).tril()))


def test_mask_and_joined_heads(device: Any) -> None:
    q, k, v = random(2, 4, 33, 64), random(2, 4, 65, 64, seed=1), random(2, 4, 65, 64, seed=2)
    hidden = torch.rand(2, 1, 33, 65, generator=torch.Generator().manual_seed(0)) < 0.3
    mask = put(torch.zeros(2, 1, 33, 65).masked_fill(hidden, -torch.inf), device)
    result = ttnn.transformer.scaled_dot_product_attention(
        *(put(t, device) for t in (q, k, v)), attn_mask=mask, is_causal=False, output_concat_heads=True
    )
    close(result, plain(q, k, v, ~hidden).transpose(1, 2).flatten(2).unsqueeze(1))


def test_window_and_sink(device: Any) -> None:
    q, k, v = (random(1, 4, 96, 64, seed=i) for i in range(3))
    row, column = torch.arange(96)[:, None], torch.arange(96)[None]
    sink = random(1, 4, 1, 1, seed=3)
    result = ttnn.transformer.scaled_dot_product_attention(
        *(put(t, device) for t in (q, k, v)), sliding_window_size=17, attention_sink=put(sink, device)
    )
    close(result, plain(q, k, v, (column <= row) & (column > row - 17), sink))


def test_windows_of_their_own(device: Any) -> None:
    q, k, v = (random(1, 2, 96, 64, seed=i) for i in range(3))
    part = torch.tensor([0] * 20 + [1] * 50 + [2] * 26)
    borders = table(torch.tensor([0, 20, 70, 96]), device)
    result = ttnn.transformer.scaled_dot_product_attention(*(put(t, device) for t in (q, k, v)), is_causal=False, cu_window_seqlens=borders)
    close(result, plain(q, k, v, part[:, None] == part[None]))


@pytest.mark.parametrize("given", ["list", "tensor"])
def test_decode(device: Any, given: str) -> None:
    users, heads, shared, length = 3, 8, 2, 64
    q, k, v = random(1, users, heads, 64), random(users, shared, length, 64, seed=1), random(users, shared, length, 64, seed=2)
    places = torch.tensor([5, 63, 0])
    words = {"cur_pos": places.tolist()} if given == "list" else {"cur_pos_tensor": table(places, device)}
    result = ttnn.transformer.scaled_dot_product_attention_decode(*(put(t, device) for t in (q, k, v)), **words)
    seen = torch.arange(length) <= places[:, None, None, None]
    close(result, plain(q[0].unsqueeze(2), k, v, seen).squeeze(2).unsqueeze(0))


@pytest.mark.parametrize("window", [None, 100])
def test_decode_of_long_texts(device: Any, window: int | None) -> None:
    q, k, v = random(1, 2, 8, 128), random(2, 2, 512, 128, seed=1), random(2, 2, 512, 128, seed=2)
    places, column = torch.tensor([500, 20]), torch.arange(512)
    result = ttnn.transformer.scaled_dot_product_attention_decode(
        *(put(t, device) for t in (q, k, v)), cur_pos=places.tolist(), sliding_window_size=window
    )
    place = places[:, None, None, None]
    seen = (column <= place) & (column > place - (window or 1000))
    close(result, plain(q[0].unsqueeze(2), k, v, seen).squeeze(2).unsqueeze(0))


def test_decode_of_nobody_is_zero(device: Any) -> None:
    q, k = random(1, 2, 8, 64), random(2, 8, 32, 64, seed=1)
    result = ttnn.to_torch(
        ttnn.transformer.scaled_dot_product_attention_decode(put(q, device), put(k, device), put(k, device), cur_pos=[-1, 3])
    )
    assert not result[0, 0].any() and result[0, 1].any()


def test_decode_with_mask_and_window(device: Any) -> None:
    q, k, v = random(1, 2, 8, 64), random(2, 8, 64, 64, seed=1), random(2, 8, 64, 64, seed=2)
    x = [put(t, device) for t in (q, k, v)]
    hidden = torch.rand(2, 1, 8, 64, generator=torch.Generator().manual_seed(1)) < 0.3
    mask = put(torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf), device)
    result = ttnn.transformer.scaled_dot_product_attention_decode(*x, is_causal=False, attn_mask=mask)
    close(result, plain(q[0].unsqueeze(2), k, v, ~hidden.transpose(1, 2)).squeeze(2).unsqueeze(0))
    windowed = ttnn.transformer.scaled_dot_product_attention_decode(*x, cur_pos=[40, 20], sliding_window_size=8)
    place, column = torch.tensor([40, 20])[:, None, None, None], torch.arange(64)
    close(windowed, plain(q[0].unsqueeze(2), k, v, (column <= place) & (column > place - 8)).squeeze(2).unsqueeze(0))


def paged(device: Any, users: int = 2, shared: int = 2, pages: int = 4, width: int = 64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pages in disorder, their table, and the caches they stand for."""
    cache = random(users * pages + 3, shared, 32, width, seed=7)
    order = torch.randperm(users * pages, generator=torch.Generator().manual_seed(0)).reshape(users, pages) + 2
    return cache, order, cache[order].transpose(1, 2).flatten(2, 3)


def test_paged_decode(device: Any) -> None:
    keys, order, k = paged(device)
    values = random(*keys.shape, seed=9)
    q, places = random(1, 2, 8, 64), torch.tensor([100, 31])
    result = ttnn.transformer.paged_scaled_dot_product_attention_decode(
        put(q, device), put(keys, device), put(values, device), table(order, device), cur_pos_tensor=table(places, device)
    )
    v = values[order].transpose(1, 2).flatten(2, 3)
    seen = torch.arange(128) <= places[:, None, None, None]
    close(result, plain(q[0].unsqueeze(2), k, v, seen).squeeze(2).unsqueeze(0))


@pytest.mark.parametrize("given", ["number", "tensor"])
def test_chunks(device: Any, given: str) -> None:
    keys, order, k = paged(device)
    q, start = random(2, 4, 64, 64), 32
    where = {"chunk_start_idx": start} if given == "number" else {"chunk_start_idx_tensor": table(torch.tensor([start]), device)}
    x = put(keys, device)
    result = ttnn.transformer.chunked_scaled_dot_product_attention(put(q, device), x, x, table(order, device), **where)
    seen = torch.arange(128)[None] <= torch.arange(64)[:, None] + start
    close(result, plain(q, k, k, seen))


def test_latent_forms(device: Any) -> None:
    q, k = random(1, 8, 64, 96), random(1, 1, 64, 96, seed=1)
    seen = torch.ones(64, 64, dtype=torch.bool).tril()
    close(ttnn.transformer.flash_mla_prefill(put(q, device), put(k, device), 64), plain(q, k, k[..., :64], seen))
    close(ttnn.transformer.flash_mla_prefill(put(q, device), put(k, device), head_dim_v=64), plain(q, k, k[..., :64], seen))
    v = random(1, 1, 64, 32, seed=2)
    close(ttnn.transformer.flash_mla_prefill(put(q, device), put(k, device), put(v, device)), plain(q, k, v, seen))
    step = random(1, 1, 8, 96, seed=3)
    config = ttnn.SDPAProgramConfig(compute_with_storage_grid_size=(8, 8), q_chunk_size=32, k_chunk_size=32, max_cores_per_head_batch=16)
    result = ttnn.transformer.flash_multi_latent_attention_decode(
        put(step, device), put(k, device), None, 64, cur_pos=[30], program_config=config
    )
    close(result, plain(step[0].unsqueeze(2), k, k[..., :64], torch.arange(64) <= 30).squeeze(2).unsqueeze(0))


@pytest.mark.parametrize("place", [0, 1])
def test_share_of_a_ring(device: Any, place: int) -> None:
    q, k, v = random(1, 4, 128, 64), random(1, 2, 128, 64, seed=1), random(1, 2, 128, 64, seed=2)
    result = ttnn.transformer.ring_distributed_scaled_dot_product_attention(*(put(t, device) for t in (q, k, v)), 2, place)
    rows = torch.arange(128).reshape(4, 32)[[place, 3 - place]].flatten()
    close(result, plain(q, k, v, torch.ones(128, 128, dtype=torch.bool).tril())[:, :, rows])


def test_chosen_blocks_need_blackhole(device: Any) -> None:
    q, k = put(random(1, 4, 32, 64), device, layout=ttnn.ROW_MAJOR_LAYOUT), put(random(1, 1, 256, 64), device)
    indices = put(torch.zeros(1, 1, 32, 1, dtype=torch.int32), device, ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT)
    with pytest.raises(RuntimeError, match="only supported on Blackhole"):
        ttnn.transformer.sparse_sdpa_msa(q, k, k, indices)
    golden = ttnn.get_golden_function(ttnn.transformer.sparse_sdpa_msa)
    q, k = random(1, 4, 3, 64), random(1, 1, 256, 64, seed=1)
    named = torch.tensor([[0, 9], [1, 9], [0, 1]]).reshape(1, 1, 3, 2)
    seen = torch.stack([torch.arange(256) < 128, torch.arange(256) >= 128, torch.ones(256, dtype=torch.bool)])
    assert torch.allclose(golden(q, k, k, named).double(), plain(q, k, k, seen), atol=1e-5)


def test_joint(device: Any) -> None:
    first, second = ([random(2, 4, rows, 64, seed=i) for i in range(3)] for rows in (64, 33))
    config = ttnn.SDPAProgramConfig(compute_with_storage_grid_size=(8, 8), q_chunk_size=32, k_chunk_size=32)
    a, b = ttnn.transformer.joint_scaled_dot_product_attention(
        *(put(t, device) for t in (*first, *second)), joint_strategy="rear", program_config=config
    )
    want = plain(*(torch.cat(pair, dim=2) for pair in zip(first, second)))
    close(a, want[:, :, :64])
    close(b, want[:, :, 64:])


def test_chunks_must_fit_in_l1(device: Any) -> None:
    q = put(random(1, 1, 32, 128), device)
    for size, fits in ((256, True), (512, False), (31, False)):
        config = ttnn.SDPAProgramConfig(compute_with_storage_grid_size=(8, 8), q_chunk_size=size, k_chunk_size=size)
        if fits:
            ttnn.transformer.scaled_dot_product_attention(q, q, q, program_config=config)
        else:
            with pytest.raises(RuntimeError, match="beyond max L1 size|multiple of TILE_SIZE"):
                ttnn.transformer.scaled_dot_product_attention(q, q, q, program_config=config)


def test_refusals(device: Any) -> None:
    q, k = put(random(1, 1, 8, 64), device), put(random(1, 3, 128, 64), device)
    with pytest.raises(RuntimeError, match="GQA expects Q to have a multiple of K heads"):
        ttnn.transformer.scaled_dot_product_attention_decode(q, k, k, cur_pos=[1])
    short = put(random(1, 8, 100, 64), device)
    with pytest.raises(RuntimeError, match="Chunk size must be multiple of 32"):
        ttnn.transformer.scaled_dot_product_attention_decode(q, short, short, cur_pos=[1])
    with pytest.raises(RuntimeError, match="beyond max L1 size"):
        wide = put(random(1, 1, 128, 576), device)
        ttnn.transformer.flash_multi_latent_attention_decode(put(random(1, 1, 32, 576), device), wide, None, 512, cur_pos=[5])


def test_gated_delta_rule(device: Any) -> None:
    q, k = random(1, 5, 2, 32), random(1, 5, 2, 32, seed=1)
    v, beta = random(1, 5, 4, 32, seed=2), torch.rand(1, 5, 4).to(torch.bfloat16)
    g = -torch.rand(1, 5, 4).to(torch.bfloat16)
    state = torch.zeros(1, 4, 32, 32, dtype=torch.float64)
    wide = [t.double() for t in (q.repeat_interleave(2, 2), k.repeat_interleave(2, 2), v, g, beta)]
    rows = []
    for t in range(5):
        query, key, value, gate, rate = (w[:, t] for w in wide)
        state = state * gate.exp()[..., None, None]
        found = torch.einsum("bhkv,bhk->bhv", state, key)
        state = state + torch.einsum("bhk,bhv->bhkv", key, (value - found) * rate[..., None])
        rows.append(torch.einsum("bhkv,bhk->bhv", state, query) * 32**-0.5)
    result, last = ttnn.transformer.fused_recurrent_gated_delta_rule(*(put(t, device) for t in (q, k, v, g, beta)), output_final_state=True)
    close(result, torch.stack(rows, dim=1))
    close(last, state)
    turned, none = ttnn.transformer.chunk_gated_delta_rule(*(put(t, device) for t in (q, k, v, g, beta)), output_head_major=True)
    assert none is None
    close(turned, torch.stack(rows, dim=2))


def test_softmax_of_scores(device: Any) -> None:
    scores, mask = random(2, 4, 33, 40), random(2, 1, 1, 40, seed=1)
    want = torch.softmax(scores.double() / 8 + mask.double(), dim=-1)
    close(ttnn.transformer.attention_softmax(put(scores, device), head_size=64, attention_mask=put(mask, device)), want)
    place = put(scores, device)
    assert (
        ttnn.transformer.attention_softmax_(place, head_size=64, attention_mask=put(mask, device)).buffer_address()
        == place.buffer_address()
    )
    close(place, want)
