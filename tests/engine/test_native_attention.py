"""Native attention against double precision, on every instruction set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tessera.engine.attention import scaled_dot_product

native = pytest.importorskip("tessera._native")
attention = pytest.importorskip("tessera.engine.native.attention")


@pytest.fixture(params=native.runnable_isas())
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    before = native.isa()
    native.set_isa(request.param)
    yield request.param
    native.set_isa(before)


# batch, heads, heads of keys, queries, keys, width, width of values
SIZES = [(1, 2, 2, 5, 7, 8, 8), (2, 4, 2, 33, 65, 64, 64), (1, 3, 1, 100, 100, 32, 130), (2, 2, 2, 1, 300, 64, 64), (1, 1, 1, 1, 1, 2, 1)]


@pytest.mark.parametrize(("b", "h", "s", "rows", "keys", "width", "wide"), SIZES)
def test_attention(b: int, h: int, s: int, rows: int, keys: int, width: int, wide: int, isa: str) -> None:
    torch.manual_seed(rows)
    q, k, v = torch.randn(b, h, rows, width).bfloat16(), torch.randn(b, s, keys, width).bfloat16(), torch.randn(b, s, keys, wide).bfloat16()
    masks = [torch.randn(shape).bfloat16() for shape in ((1, 1, rows, keys), (b, h, rows, keys), (b, 1, rows, keys))]
    masks[1][..., : keys // 2] = -torch.inf
    for mask in (None, *masks):
        got = attention.scaled_dot_product(q, k, v, *(() if mask is None else (mask,)), scale=0.3)
        want = scaled_dot_product.torch(*(t.double() for t in (q, k, v)), mask, scale=0.3)
        torch.testing.assert_close(got.double(), want.double(), rtol=2**-6, atol=0.02)
    if rows == keys:
        got = attention.scaled_dot_product(q, k, v, causal=True)
        want = scaled_dot_product.torch(*(t.double() for t in (q, k, v)), causal=True)
        torch.testing.assert_close(got.double(), want.double(), rtol=2**-6, atol=0.02)


def test_what_is_torchs() -> None:
    q = torch.randn(1, 2, 4, 8).bfloat16()
    assert attention.scaled_dot_product(q, q, q, window=2) is NotImplemented
    assert attention.scaled_dot_product(q.float(), q, q) is NotImplemented
    assert attention.scaled_dot_product(q[..., :7], q[..., :7], q) is NotImplemented
    assert attention.scaled_dot_product(q, q, q, torch.zeros(1, 1, 1, 4).bfloat16()) is NotImplemented
