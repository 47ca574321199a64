"""Native reductions agree with their torch forms, or step aside."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("tessera._native")
from tessera.engine import reduction
from tessera.engine.ternary import where

SHAPES = [(1,), (5, 33), (2, 3, 4, 65)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("name", ["total", "mean", "largest", "smallest"])
def test_reductions(shape: tuple[int, ...], keepdim: bool, name: str) -> None:
    torch.manual_seed(0)
    x, function = torch.randn(shape).bfloat16(), getattr(reduction, name)
    choices: list[tuple[int, ...]] = [(-1,), tuple(range(len(shape))), (0,), (-2, -1) if len(shape) > 1 else (0,)]
    for dims in choices:
        for scalar in (1.0, 0.5):
            got = function(x, dims=dims, keepdim=keepdim, scalar=scalar)
            want = function.torch(x, dims=dims, keepdim=keepdim, scalar=scalar)
            assert got.shape == want.shape
            torch.testing.assert_close(got.float(), want.float(), rtol=2**-7, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dim", [-1, 0, None])
def test_places(shape: tuple[int, ...], dim: int | None) -> None:
    x = torch.randn(shape).bfloat16()
    for keepdim in (True, False):
        got, want = (f(x, dim=dim, keepdim=keepdim) for f in (reduction.argmax, reduction.argmax.torch))
        assert got.shape == want.shape
        assert torch.equal(got, want)


@pytest.mark.parametrize("shape", SHAPES)
def test_orders(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape).bfloat16().round()
    for flag in (True, False):
        pairs: list[tuple[Any, Any]] = [
            (reduction.sort(x, dim=-1, descending=flag), reduction.sort.torch(x, dim=-1, descending=flag)),
            (reduction.topk(x, k=1, dim=-1, largest=flag), reduction.topk.torch(x, k=1, dim=-1, largest=flag)),
        ]
        for got, want in pairs:
            assert torch.equal(got[0], want[0])
            assert torch.equal(got[1], want[1])
    torch.testing.assert_close(
        reduction.running_total(x, dim=-1, reverse=False).double(),
        reduction.running_total.torch(x, dim=-1, reverse=False),
        rtol=2**-8,
        atol=1e-5,
    )


def test_where_keeps_every_bit() -> None:
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    condition, other = every.roll(77), every.roll(999)
    for rest, words in (((every, other), {}), ((every,), {"false_value": 0.5}), ((other,), {"true_value": -2.0})):
        got, want = where(condition, *rest, **words), where.torch(condition, *rest, **words).to(torch.bfloat16)
        assert torch.equal(got.view(torch.int16), want.view(torch.int16))
    got, want = (
        f(condition.reshape(256, 256)[:, :1].contiguous(), every.reshape(256, 256), other[:256].clone()) for f in (where, where.torch)
    )
    assert torch.equal(got.view(torch.int16), want.view(torch.int16))
