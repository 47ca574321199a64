"""Row kernels against torch in double precision, on awkward widths and every instruction set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F

native = pytest.importorskip("tessera._native")

WIDTHS = [1, 5, 16, 31, 32, 33, 64, 100, 1025]
BF16 = torch.bfloat16


@pytest.fixture(params=native.runnable_isas())
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    before = native.isa()
    native.set_isa(request.param)
    yield request.param
    native.set_isa(before)


@pytest.fixture(params=WIDTHS)
def rows(request: pytest.FixtureRequest) -> torch.Tensor:
    torch.manual_seed(request.param)
    return (torch.randn(7, request.param) * 3).bfloat16()


def softmax(x: torch.Tensor, mask: torch.Tensor | None = None, scale: float = 1.0, repeat: int = 1) -> torch.Tensor:
    out = torch.empty_like(x)
    native.softmax(
        x.data_ptr(), 0 if mask is None else mask.data_ptr(), 1 if mask is None else len(mask), repeat, scale, out.data_ptr(), *x.shape, 2
    )
    return out


def norm(x: torch.Tensor, centered: bool, **further: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    addresses = [further[name].data_ptr() if name in further else 0 for name in ("residual", "weight", "bias")]
    native.norm(x.data_ptr(), *addresses, 1e-5, centered, out.data_ptr(), *x.shape, 2)
    return out


def reduced(kind: int, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(len(x))
    native.reduce(kind, x.data_ptr(), 1.0, out.data_ptr(), *x.shape, 2)
    return out


def place(kind: int, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(len(x), dtype=torch.int64)
    native.arg(kind, x.data_ptr(), out.data_ptr(), *x.shape, 2)
    return out


def ordered(x: torch.Tensor, keep: int, descending: bool) -> tuple[torch.Tensor, torch.Tensor]:
    values, places = torch.empty(len(x), keep, dtype=BF16), torch.empty(len(x), keep, dtype=torch.int64)
    native.sort(x.data_ptr(), values.data_ptr(), places.data_ptr(), *x.shape, keep, descending, 2)
    return values, places


def permuted(x: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    out = torch.empty([x.shape[i] for i in order], dtype=x.dtype)
    native.permute(x.data_ptr(), out.data_ptr(), x.element_size(), x.shape, order, 2)
    return out


def test_softmax(rows: torch.Tensor, isa: str) -> None:
    torch.testing.assert_close(softmax(rows).double(), torch.softmax(rows.double(), -1), rtol=2**-8, atol=1e-30)
    mask = torch.randn(7, rows.shape[1]).bfloat16()
    mask[:, 1::3] = -torch.inf
    want = torch.softmax(rows.double() * 0.125 + mask.double(), -1)
    torch.testing.assert_close(softmax(rows, mask, 0.125).double(), want, rtol=2**-8, atol=1e-30)
    want = torch.softmax(rows.double() + mask.double()[[0, 0, 0, 1, 1, 1, 0]], -1)
    torch.testing.assert_close(softmax(rows, mask[:2], 1.0, 3).double(), want, rtol=2**-7, atol=1e-30)


def test_softmax_of_what_is_not_finite() -> None:
    x = torch.tensor([[1.0, -torch.inf, 2.0], [torch.nan, 0.0, 1.0], [-torch.inf] * 3, [torch.inf, 0.0, 0.0]]).bfloat16()
    assert torch.equal(softmax(x).isnan(), torch.softmax(x.double(), -1).isnan())
    assert softmax(x)[0, 1] == 0


def test_norms(rows: torch.Tensor, isa: str) -> None:
    width = rows.shape[1]
    weight, bias, residual = torch.randn(width).bfloat16(), torch.randn(width).bfloat16(), torch.randn(7, width).bfloat16()
    total = rows.double() + residual.double()
    want = F.layer_norm(total, (width,), weight.double(), bias.double(), 1e-5)
    torch.testing.assert_close(norm(rows, True, weight=weight, bias=bias, residual=residual).double(), want, rtol=2**-8, atol=1e-4)
    want = F.rms_norm(total, (width,), weight.double(), 1e-5)
    torch.testing.assert_close(norm(rows, False, weight=weight, residual=residual).double(), want, rtol=2**-8, atol=0)


def test_reductions(rows: torch.Tensor, isa: str) -> None:
    torch.testing.assert_close(reduced(0, rows).double(), rows.double().sum(-1), rtol=1e-6, atol=1e-5)
    assert torch.equal(reduced(1, rows), rows.float().amax(-1))
    assert torch.equal(reduced(2, rows), rows.float().amin(-1))
    assert torch.equal(place(1, rows), (rows == rows.amax(-1, keepdim=True)).int().argmax(-1))
    assert torch.equal(place(2, rows), (rows == rows.amin(-1, keepdim=True)).int().argmax(-1))


def test_nan_is_the_largest_and_the_smallest(isa: str) -> None:
    x = torch.zeros(3, 77).bfloat16()
    x[0, 76] = x[1, 0] = x[2, 40] = torch.nan
    assert reduced(1, x).isnan().all()
    assert reduced(2, x).isnan().all()
    assert place(1, x).tolist() == [76, 0, 40]


def test_running_sums(rows: torch.Tensor, isa: str) -> None:
    out = torch.empty_like(rows)
    native.cumsum(rows.data_ptr(), out.data_ptr(), *rows.shape, 2)
    torch.testing.assert_close(out.double(), rows.double().cumsum(-1), rtol=2**-8, atol=1e-5)


@pytest.mark.parametrize("descending", [True, False])
def test_sorting_keeps_equals_in_place(rows: torch.Tensor, descending: bool) -> None:
    rows = rows.round()
    rows[2, -1] = torch.nan
    rows[3, 0] = -torch.inf
    values, places = torch.sort(rows, stable=True, dim=-1, descending=descending)
    for keep in {rows.shape[1], min(rows.shape[1], 4), 1}:
        got = ordered(rows, keep, descending)
        assert torch.equal(got[0].nan_to_num(7e7), values[:, :keep].nan_to_num(7e7))
        assert torch.equal(got[1], places[:, :keep])


ORDERS = [
    ((5,), (0,)),
    ((3, 5), (1, 0)),
    ((33, 70), (1, 0)),
    ((2, 3, 4), (2, 0, 1)),
    ((2, 3, 4, 5), (0, 2, 1, 3)),
    ((2, 65, 4, 37), (3, 1, 2, 0)),
    ((3, 1, 200, 130), (0, 1, 3, 2)),
    ((2, 3, 2, 3, 2, 3), (5, 3, 1, 0, 2, 4)),
    ((1, 1, 1), (2, 0, 1)),
    ((0, 3), (1, 0)),
]


@pytest.mark.parametrize(("shape", "order"), ORDERS)
@pytest.mark.parametrize("dtype", [BF16, torch.float32, torch.uint8, torch.int64])
def test_permuting(shape: tuple[int, ...], order: tuple[int, ...], dtype: torch.dtype) -> None:
    x = (torch.randn(shape) * 50).abs().to(dtype)
    assert torch.equal(permuted(x, order), x.permute(order))


def test_wrong_orders_are_refused() -> None:
    with pytest.raises(ValueError, match="permutation"):
        permuted(torch.zeros(2, 3), (0, 0))
    with pytest.raises(ValueError, match="keep"):
        native.sort(0, 0, 0, 1, 3, 4, True, 1)
