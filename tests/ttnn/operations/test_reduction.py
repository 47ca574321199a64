"""Reductions, products, orders and running totals against fp64 torch on awkward shapes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.engine.elementwise_references import ulp_errors

import ttnn

SHAPES = [(1,), (50,), (33, 65), (3, 31, 33), (2, 3, 33, 65), (2, 2, 3, 33, 5), (1, 2, 1, 3, 4, 7)]


def put(values: torch.Tensor, device: Any, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT, **options: Any) -> Any:
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device, **options)


def some(shape: tuple[int, ...], seed: int = 3) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def choices(rank: int) -> list[Any]:
    return [None, 0, -1, [0], list(range(rank)), *([[0, -1], [-2, -1], 1] if rank > 1 else [])]


@pytest.mark.parametrize("layout", [ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT], ids=["tile", "rows"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "var", "std"])
def test_reductions_round_once(device: Any, name: str, shape: tuple[int, ...], layout: Any) -> None:
    values = some(shape)
    reference = {"max": torch.amax, "min": torch.amin}.get(name) or getattr(torch, name)
    tensor = put(values, device, layout=layout)
    for dim in choices(len(shape)):
        for keepdim in (False, True):
            dims = tuple(range(len(shape))) if dim is None else dim if isinstance(dim, int) else tuple(dim)
            if name in ("var", "std") and any(values.shape[d] == 1 for d in ([dims] if isinstance(dims, int) else dims)):
                continue  # the deviation of one element is not a number, which torch warns of
            exact = reference(values.double(), dims, keepdim=keepdim)
            found = ttnn.to_torch(getattr(ttnn, name)(tensor, dim, keepdim))
            assert found.shape == exact.shape
            if not exact.isnan().any():
                # A sum that cancels is as exact as fp32 sums are; elsewhere it is the nearest bfloat16.
                small = (found.double() - exact).abs() <= 1e-5 * values.double().abs().sum()
                assert bool((small | (ulp_errors(found, exact) <= 1.0)).all())


@pytest.mark.parametrize("dtype", [ttnn.int32, ttnn.uint32], ids=str)
def test_whole_numbers_are_exact(device: Any, dtype: Any) -> None:
    values = torch.arange(0, 33 * 65 * 7, 7, dtype=torch.int32).reshape(33, 65)
    tensor = put(values, device, dtype)
    assert torch.equal(ttnn.to_torch(ttnn.sum(tensor, 0)).long(), values.long().sum(0))
    assert torch.equal(ttnn.to_torch(ttnn.max(tensor, 1)).long(), values.long().amax(1))
    assert torch.equal(ttnn.to_torch(ttnn.min(tensor)).long(), values.long().amin())


def test_padding_never_counts(device: Any) -> None:
    below = put(torch.full((33, 65), -3.0).bfloat16(), device)
    assert float(ttnn.to_torch(ttnn.max(below))) == -3.0
    assert float(ttnn.to_torch(ttnn.mean(below))) == -3.0
    assert float(ttnn.to_torch(ttnn.var(below))) == 0.0
    assert float(ttnn.to_torch(ttnn.prod(put(torch.full((2, 3), 2.0), device)))) == 64.0


def test_not_a_number_goes_through(device: Any) -> None:
    values = some((4, 40))
    values[1, 7] = float("nan")
    for name in ("sum", "mean", "max", "min", "std"):
        found = ttnn.to_torch(getattr(ttnn, name)(put(values, device), -1))
        assert found.isnan().tolist() == [False, True, False, False]


def test_scalar_and_correction(device: Any) -> None:
    values = some((5, 40))
    tensor = put(values, device)
    assert torch.allclose(ttnn.to_torch(ttnn.sum(tensor, -1, scalar=0.5)).float(), 0.5 * values.float().sum(-1), rtol=0.01, atol=1e-3)
    exact = values.double().var(-1, correction=0)
    assert float(ulp_errors(ttnn.to_torch(ttnn.var(tensor, -1, correction=False)), exact).max()) <= 1.0


@pytest.mark.parametrize("dim", [None, 0, -1, 1], ids=str)
def test_product(device: Any, dim: int | None) -> None:
    values = some((3, 33, 5)) + 1.5
    exact = torch.prod(values.double()) if dim is None else torch.prod(values.double(), dim)
    found = ttnn.to_torch(ttnn.prod(put(values, device, ttnn.float32), dim))
    assert torch.allclose(found.double(), exact, rtol=1e-4)


def test_product_into_a_tensor(device: Any) -> None:
    values = some((2, 3, 32, 32))
    out = put(torch.zeros(1, 3, 32, 32), device)
    assert ttnn.prod(put(values, device), out, dims=[0]) is out
    assert float(ulp_errors(ttnn.to_torch(out), values.double().prod(0, keepdim=True)).max()) <= 1.0


# -- sharded


def height_sharded(device: Any, rows: int, width: int, cores: int) -> Any:
    grid = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(cores - 1, 0))})
    shard = ttnn.ShardSpec(grid, [rows // cores, width], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, shard)


@pytest.mark.parametrize("dim", [-1, -2])
def test_a_sharded_tensor_stays_on_its_cores(device: Any, dim: int) -> None:
    values = some((1, 1, 256, 64))
    tensor = put(values, device, memory_config=height_sharded(device, 256, 64, 8))
    found = ttnn.sum(tensor, dim)
    assert found.memory_config().is_sharded()
    assert float(ulp_errors(ttnn.to_torch(found), values.double().sum(dim)).max()) <= 1.0


def test_refusals(device: Any) -> None:
    tensor = put(some((33, 65)), device)
    with pytest.raises(RuntimeError, match="Unsupported dim 7"):
        ttnn.sum(tensor, 7)
    with pytest.raises(RuntimeError, match="duplicate axis"):
        ttnn.sum(tensor, [0, 0])
    with pytest.raises(RuntimeError, match="does not support integer inputs"):
        ttnn.mean(put(torch.ones(32, 32), device, ttnn.int32))
    with pytest.raises(RuntimeError, match="non-zero size"):
        ttnn.max(put(torch.zeros(0, 32), device), 0)
    with pytest.raises(RuntimeError, match="dim parameter must be specified"):
        ttnn.argmax(tensor)
    with pytest.raises(TypeError):
        ttnn.topk(tensor, -1)
    with pytest.raises(RuntimeError, match="K cannot be larger"):
        ttnn.topk(tensor, 100)


# -- where things are


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_argmax(device: Any, shape: tuple[int, ...]) -> None:
    values = some(shape)
    tensor = put(values, device, layout=ttnn.ROW_MAJOR_LAYOUT)
    for dim in (None, 0, -1):
        assert torch.equal(ttnn.to_torch(ttnn.argmax(tensor, dim)).long(), torch.argmax(values, dim))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("shape", "k", "dim"), [((2, 33, 65), 5, -1), ((40,), 40, 0), ((33, 65), 7, 0), ((1, 2, 3, 64), 1, -1)], ids=str)
def test_topk(device: Any, shape: tuple[int, ...], k: int, dim: int, largest: bool) -> None:
    values = torch.randperm(torch.Size(shape).numel(), generator=torch.Generator().manual_seed(1)).reshape(shape).float()
    exact = torch.topk(values, k, dim, largest)
    found = [ttnn.to_torch(t) for t in ttnn.topk(put(values, device, ttnn.float32), k, dim, largest)]
    assert torch.equal(found[0], exact.values)
    assert torch.equal(found[1].long(), exact.indices)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("shape", "dim"), [((2, 33, 65), -1), ((2, 33, 65), 1), ((50,), 0), ((2, 3, 4, 5, 6), 2)], ids=str)
def test_sort(device: Any, shape: tuple[int, ...], dim: int, descending: bool) -> None:
    values = some(shape)
    exact = torch.sort(values, dim=dim, descending=descending, stable=True)
    found = [ttnn.to_torch(t) for t in ttnn.sort(put(values, device), dim, descending)]
    assert torch.equal(found[0], exact.values)
    assert torch.equal(found[1].long(), exact.indices)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "dim"), [((33, 65), 0), ((33, 65), -1), ((2, 3, 5, 7), 1), ((50,), 0), ((), 0)], ids=str)
def test_running_totals(device: Any, shape: tuple[int, ...], dim: int, reverse: bool) -> None:
    values = some(shape) * 0.5 + 1.0
    for name in ("cumsum", "cumprod"):
        turned = values.double().flip(dim) if reverse and shape else values.double()
        exact = getattr(torch, name)(turned, dim)
        exact = exact.flip(dim) if reverse and shape else exact
        found = ttnn.to_torch(getattr(ttnn, name)(put(values, device, ttnn.float32), dim, reverse_order=reverse))
        assert torch.allclose(found.double(), exact, rtol=1e-5, atol=1e-6)


def test_running_totals_of_whole_numbers_and_other_dtypes(device: Any) -> None:
    values = torch.arange(1, 41, dtype=torch.int32).reshape(1, 40)
    assert torch.equal(ttnn.to_torch(ttnn.cumsum(put(values, device, ttnn.int32), 1)), values.cumsum(1).int())
    found = ttnn.cumsum(put(values.bfloat16(), device), 1, dtype=ttnn.float32)
    assert found.dtype == ttnn.float32
    assert torch.equal(ttnn.to_torch(found), values.cumsum(1).float())


def test_moving_average(device: Any) -> None:
    values = some((1, 2, 3, 40))
    found = ttnn.to_torch(ttnn.ema(put(values, device), 0.75)).double()
    state = torch.zeros(1, 2, 3, dtype=torch.float64)
    for t in range(40):
        state = 0.75 * state + 0.25 * values[..., t].double()
        assert torch.allclose(found[..., t], state, rtol=0.01, atol=1e-3)


@pytest.mark.parametrize("name", ["var_hw", "std_hw"])
def test_over_height_and_width(device: Any, name: str) -> None:
    values = some((2, 3, 33, 65))
    exact = getattr(torch, name[:3])(values.double(), (2, 3), correction=0, keepdim=True)
    assert float(ulp_errors(ttnn.to_torch(getattr(ttnn, name)(put(values, device))), exact).max()) <= 1.0


def test_sampling_takes_the_likeliest_when_one_is_asked_for(device: Any) -> None:
    values = torch.stack([torch.randperm(64, generator=torch.Generator().manual_seed(i)) for i in range(32)]).reshape(1, 1, 32, 64)
    names = torch.arange(100, 164, dtype=torch.int32).expand(1, 1, 32, 64).contiguous()
    rows = {"layout": ttnn.ROW_MAJOR_LAYOUT}
    ones = put(torch.ones(32), device, **rows)
    k = put(torch.ones(32, dtype=torch.int32), device, ttnn.uint32, **rows)
    found = ttnn.sampling(put(values.bfloat16(), device), put(names, device, ttnn.int32, **rows), k, ones, ones, seed=3)
    assert torch.equal(ttnn.to_torch(found).long().reshape(-1), 100 + values.reshape(32, 64).argmax(-1))


def test_sampling_stays_within_k_and_repeats_with_its_seed(device: Any) -> None:
    values, names = some((1, 1, 32, 64)), torch.arange(64, dtype=torch.int32).expand(1, 1, 32, 64).contiguous()
    rows = {"layout": ttnn.ROW_MAJOR_LAYOUT}
    ones = put(torch.ones(32), device, **rows)
    k = put(torch.full((32,), 5, dtype=torch.int32), device, ttnn.uint32, **rows)
    best = values.reshape(32, 64).topk(5).indices
    drawn = []
    for seed in (7, 7, 8):
        found = ttnn.sampling(put(values, device), put(names, device, ttnn.int32, **rows), k, ones, ones, seed=seed)
        drawn.append(ttnn.to_torch(found).long().reshape(-1, 1))
        assert bool((best == drawn[-1]).any(-1).all())
    assert torch.equal(drawn[0], drawn[1])


def test_share_of_the_first_expert(device: Any) -> None:
    logits, experts, chosen = some((1, 1, 32, 64)), torch.zeros(1, 1, 1, 64), torch.zeros(1, 1, 1, 32)
    experts[..., 8:], chosen[..., 2:] = float("-inf"), float("-inf")
    best, places = (logits.float() + experts).topk(2, -1)
    exact = (torch.softmax(best.double(), -1) * (places == 0)).sum(-1, keepdim=True)
    found = ttnn.moe(put(logits, device), put(experts, device), put(chosen, device), 32)
    assert float(ulp_errors(ttnn.to_torch(found), exact).max()) <= 1.0


def test_golden_functions() -> None:
    values = some((3, 5)).float()
    assert torch.equal(ttnn.get_golden_function(ttnn.sum)(values, -1), values.sum(-1))
    assert torch.equal(ttnn.get_golden_function(ttnn.cumsum)(values, 0, reverse_order=True), values.flip(0).cumsum(0).flip(0))
    assert torch.equal(ttnn.get_golden_function(ttnn.topk)(values, 2).values, values.topk(2).values)
