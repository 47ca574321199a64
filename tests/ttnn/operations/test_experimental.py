"""The generic part of ttnn.experimental: sums, moves, scans and transforms."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ttnn


def put(values: torch.Tensor, device: Any, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT, **options: Any) -> Any:
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device, **options)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(torch.bfloat16)


def near(result: Any, want: torch.Tensor, relative: float = 2**-8) -> None:
    got = ttnn.to_torch(result).double()
    assert got.shape == want.shape
    assert float((got - want.double()).abs().max()) <= relative * float(want.abs().max())


@pytest.mark.parametrize("dims", [[0], [1], [0, 1], [-3]])
def test_outer_sums(device: Any, dims: list[int]) -> None:
    values = random(2, 3, 33, 65)
    result = ttnn.experimental.fast_reduce_nc(put(values, device), dims=dims)
    assert tuple(result.shape)[-2:] == (64, 96)  # whole tiles
    near(result[:, :, :33, :65], values.double().sum(dims, keepdim=True))
    assert not ttnn.to_torch(result)[:, :, 33:].any()


def test_outer_sums_in_parts(device: Any) -> None:
    values = random(4, 3, 32, 96)
    first, second = ttnn.experimental.fast_reduce_nc_split(put(values, device), dim=1, split_output_width=32)
    want = values.double().sum(1, keepdim=True)
    near(first, want[..., :32])
    near(second, want[..., 32:])
    for part, wanted in zip(
        ttnn.experimental.deepseek_moe_fast_reduce_nc(put(values, device), 0, split_size=32), values.double().sum(0, True).split(32, -1)
    ):
        near(part, wanted)


def test_broadcast(device: Any) -> None:
    values = random(1, 3, 1, 33)
    result = ttnn.experimental.broadcast_to(put(values, device), ttnn.Shape([2, 3, 31, 33]))
    assert torch.equal(ttnn.to_torch(result), values.expand(2, 3, 31, 33))
    with pytest.raises(RuntimeError, match="cannot be broadcast to output dimension -3"):
        ttnn.experimental.broadcast_to(put(values, device), ttnn.Shape([2, 5, 31, 33]))


def test_channels_first_and_last(device: Any) -> None:
    cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(3, 0))])
    spec = ttnn.ShardSpec(cores, [32, 32], ttnn.ShardOrientation.ROW_MAJOR)
    values = random(1, 1, 128, 5)
    last = put(values, device, memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec))
    first = ttnn.experimental.convert_to_chw(last)
    assert torch.equal(ttnn.to_torch(first), values.transpose(-1, -2))
    back = ttnn.experimental.convert_to_hwc(first)
    assert tuple(back.shape) == (1, 1, 128, 8)
    assert torch.equal(ttnn.to_torch(back)[..., :5], values)
    flat = put(random(1, 2, 31, 33), device, ttnn.float32, ttnn.ROW_MAJOR_LAYOUT)
    assert torch.equal(ttnn.to_torch(ttnn.experimental.transpose_rm(flat)), ttnn.to_torch(flat).transpose(-1, -2))


def test_slice_write(device: Any) -> None:
    target, values = random(1, 5, 8, 3), random(1, 2, 4, 3, seed=1)
    whole = put(target, device, layout=ttnn.ROW_MAJOR_LAYOUT)
    args = [0, 1, 0, 0], [1, 5, 8, 3], [1, 2, 2, 1]
    result = ttnn.experimental.slice_write(put(values, device, layout=ttnn.ROW_MAJOR_LAYOUT), whole, *args)
    want = target.clone()
    want[:, 1:5:2, 0:8:2] = values
    assert torch.equal(ttnn.to_torch(whole), want) and result.buffer_address() == whole.buffer_address()


def test_scans(device: Any) -> None:
    a, bx, before = random(1, 1, 33, 64), random(1, 1, 33, 64, seed=1), random(1, 1, 1, 64, seed=2)
    state, rows = before[0, 0, 0].double(), []
    for t in range(33):
        state = a[0, 0, t].double() * state + bx[0, 0, t].double()
        rows.append(state)
    near(ttnn.experimental.prefix_scan(*(put(t, device) for t in (a, bx, before))), torch.stack(rows)[None, None])
    wide = random(1, 1, 31, 2048)
    near(ttnn.experimental.hc_sum_reduce(put(wide, device)), wide.double().unflatten(-1, (-1, 32)).sum(-1))
    short, long = random(1, 1, 31, 32), random(1, 1, 31, 64)
    result = ttnn.experimental.repeat_and_interleave_eltwise_mul(put(short, device), put(long, device))
    near(result, short.double().repeat(1, 1, 1, 64) * long.double().repeat_interleave(32, -1))


def test_moving_average(device: Any) -> None:
    values = random(1, 2, 3, 50)
    state, rows = torch.zeros(1, 2, 3, dtype=torch.float64), []
    for t in range(50):
        state = 0.25 * state + 0.75 * values[..., t].double()
        rows.append(state)
    near(ttnn.ema(put(values, device), 0.25), torch.stack(rows, dim=-1))


@pytest.mark.parametrize("length", [1, 12, 64])
def test_fourier(device: Any, length: int) -> None:
    real, imag = (random(2, 3, length, seed=i).float() for i in range(2))
    x, y = (put(t, device, ttnn.float32, ttnn.ROW_MAJOR_LAYOUT) for t in (real, imag))
    want = torch.fft.fft(torch.complex(real.double(), imag.double()))
    for result in (ttnn.experimental.fft(x, y), ttnn.experimental.bluestein_fft(x, y, length)):
        near(result[0], want.real, 2**-20)
        near(result[1], want.imag, 2**-20)
    near(ttnn.experimental.fft(x)[0], torch.fft.fft(real.double()).real, 2**-20)
    back = ttnn.experimental.ifft(*ttnn.experimental.fft(x, y))
    near(back[0], real, 2**-18)
    near(back[1], imag, 2**-18)


def test_integral_image(device: Any) -> None:
    values = random(1, 5, 7, 3)
    near(ttnn.experimental.intimg(put(values, device, layout=ttnn.ROW_MAJOR_LAYOUT)), values.double().cumsum(1).cumsum(2))


def test_fused_forms(device: Any) -> None:
    a, b, term, factor = random(1, 33, 64), random(64, 96, seed=1), random(1, 33, 96, seed=2), random(1, 1, 96, seed=3)
    result = ttnn.experimental.dit_minimal_matmul_addcmul_fused(
        *(put(t, device) for t in (a, b)), 0.5, *(put(t, device) for t in (term, factor))
    )
    near(result, term.double() + 0.5 * (a.double() @ b.double()) * factor.double())
    weight = random(96, seed=4)
    normed = ttnn.experimental.dit_rms_norm_unary_fused(put(term, device), 1e-5, put(weight, device), activation="silu")
    near(normed, torch.nn.functional.silu(torch.nn.functional.rms_norm(term.double(), (96,), weight.double(), 1e-5)))


def test_largest_places_need_blackhole(device: Any) -> None:
    with pytest.raises(RuntimeError, match="only supported on Blackhole"):
        ttnn.experimental.topk_large_indices(put(random(1, 1, 32, 64), device), k=32)


def test_norms_of_gathered_rows(device: Any) -> None:
    x, weight = random(1, 1, 33, 128), random(1, 128, seed=1)
    put_x, put_weight = put(x, device), put(weight, device)
    stats = ttnn.experimental.wan_fused_rmsnorm_pre_allgather(put_x)
    normed = torch.nn.functional.rms_norm(x.double(), (128,), eps=1e-5) * weight.double()
    cos, sin, swap = random(1, 1, 33, 64, seed=2), random(1, 1, 33, 64, seed=3), random(1, 1, 32, 32, seed=4)
    result = ttnn.experimental.wan_fused_rmsnorm_post_allgather(put_x, stats, weight=put_weight, num_heads_per_device=2)
    heads = normed.unflatten(-1, (2, 64)).squeeze(1).transpose(1, 2)
    near(result, heads, 2**-6)
    turned = ttnn.experimental.wan_fused_rmsnorm_post_allgather(
        put_x,
        stats,
        weight=put_weight,
        num_heads_per_device=2,
        transformation_mat=put(swap, device),
        rope_cos=put(cos, device),
        rope_sin=put(sin, device),
    )
    swapped = (heads.unflatten(-1, (2, 32)) @ swap[0, 0].double()).flatten(-2)
    near(turned, heads * cos.double() + swapped * sin.double(), 2**-5)
    layer = ttnn.experimental.dit_layernorm_post_allgather(
        put_x, ttnn.experimental.dit_layernorm_pre_allgather(put_x, put_x), weight=put_weight
    )
    near(layer, torch.nn.functional.layer_norm(x.double(), (128,), eps=1e-5) * weight.double(), 2**-6)


def test_weights_quantized_by_the_host(device: Any) -> None:
    values = random(64, 96)
    result = ttnn.experimental.quantize_weights_via_host(put(values, device), dtype=ttnn.bfloat4_b, memory_config=ttnn.L1_MEMORY_CONFIG)
    assert result.dtype == ttnn.bfloat4_b and result.memory_config() == ttnn.L1_MEMORY_CONFIG
    assert torch.equal(ttnn.to_torch(result), ttnn.to_torch(put(values, device, ttnn.bfloat4_b)))
