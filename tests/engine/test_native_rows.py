"""Native forms of softmax, norms and permutations agree with their torch forms, or step aside."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("tessera._native")
from tessera.engine.embedding import embedding
from tessera.engine.movement import permute, transpose
from tessera.engine.native import movement, norm
from tessera.engine.norm import layer_norm, rms_norm, scaled_masked_softmax, softmax


def close(got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.dtype is torch.bfloat16
    torch.testing.assert_close(got.float(), want.float(), rtol=2**-7, atol=1e-6)


@pytest.mark.parametrize("shape", [(1,), (33,), (2, 3, 31), (1, 2, 32, 65)])
def test_rows(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, residual = torch.randn(shape).bfloat16(), torch.randn(shape).bfloat16()
    weight, bias = torch.randn(1, 1, 1, shape[-1]).bfloat16(), torch.randn(shape[-1]).bfloat16()
    close(softmax(x, dim=-1), softmax.torch(x, dim=-1))
    roles = ("weight", "bias", "residual")
    for function in (layer_norm, rms_norm):
        want = function.torch(x, weight, bias, residual, epsilon=1e-6, roles=roles)
        torch.testing.assert_close(function(x, weight, bias, residual, epsilon=1e-6, roles=roles).float(), want, rtol=2**-7, atol=1e-3)
        torch.testing.assert_close(function(x, epsilon=1e-6).float(), function.torch(x, epsilon=1e-6), rtol=2**-7, atol=1e-3)


@pytest.mark.parametrize("mask", [(33,), (1, 1, 5, 33), (2, 1, 1, 33), (2, 3, 5, 33), (2, 1, 5, 33), (1, 3, 1, 33), (2, 3, 5, 1)])
def test_masks(mask: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, m = torch.randn(2, 3, 5, 33).bfloat16(), torch.randn(mask).bfloat16()
    got = scaled_masked_softmax(x, m, scale=0.5)
    torch.testing.assert_close(got.float(), scaled_masked_softmax.torch(x, m, scale=0.5), rtol=2**-7, atol=1e-6)


def test_permutations() -> None:
    x = torch.randn(4, 33, 70)
    assert torch.equal(movement.permute(x, dims=(2, 0, -2)), x.permute(2, 0, 1))
    assert torch.equal(transpose(x, first=-1, second=0), x.transpose(-1, 0))
    assert torch.equal(permute(x[:, 1:], dims=(1, 0, 2)), x[:, 1:].permute(1, 0, 2))


def test_what_has_no_kernel_goes_to_torch() -> None:
    assert norm.softmax(torch.zeros(2, 3), dim=-1) is NotImplemented
    assert norm.softmax(torch.zeros(2, 3).bfloat16(), dim=0) is NotImplemented
    assert norm.softmax(torch.zeros(()).bfloat16(), dim=-1) is NotImplemented
    assert norm.layer_norm(torch.zeros(2, 3).bfloat16(), torch.zeros(3), epsilon=1e-5, roles=("weight",)) is NotImplemented


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int32])
def test_rows_by_index(dtype: torch.dtype) -> None:
    table, index = (torch.randn(1, 1, 50, 33) * 9).to(dtype), torch.tensor([[0, 49, 7, 7], [-3, 1000, 2, 31]])
    for given in (index, index.int(), index.to(torch.bfloat16)):
        assert torch.equal(embedding(given, table), embedding.torch(given, table))
    assert torch.equal(embedding(index, table, padding=7), embedding.torch(index, table, padding=7))
    assert movement.embedding(index, table.transpose(-1, -2)) is NotImplemented
