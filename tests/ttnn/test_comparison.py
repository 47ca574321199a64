"""The two figures results are judged by."""

import math

import pytest
import torch

import ttnn
from ttnn.comparison import comp_pcc, comp_ulp, ulp


def test_correlation_is_that_of_torch_and_one_for_equal_tensors() -> None:
    torch.manual_seed(0)
    a = torch.randn(40, 30)
    b = a + torch.randn(40, 30) / 10
    want = float(torch.corrcoef(torch.stack([a.double().flatten(), b.double().flatten()]))[0, 1])
    assert ttnn.pearson_correlation_coefficient(a, b) == pytest.approx(want, abs=1e-12)
    assert ttnn.pearson_correlation_coefficient(a, a) == 1.0
    assert comp_pcc(a, -a) == (False, -1.0)


@pytest.mark.parametrize(
    ("golden", "calculated", "expected"),
    [
        ([1.0, 1.0], [1.0, 1.00001], 1.0),
        ([1.0, 1.0], [2.0, 2.0], 0.0),
        ([math.nan, 1.0, 2.0], [math.nan, 1.0, 2.0], 1.0),
        ([math.nan, 1.0, 2.0], [0.0, 1.0, 2.0], 0.0),
        ([math.inf, 1.0, 2.0], [math.inf, 1.0, 2.0], 1.0),
        ([math.inf, 1.0, 2.0], [-math.inf, 1.0, 2.0], 0.0),
        ([], [], 1.0),
    ],
)
def test_correlation_where_it_is_not_defined(golden: list[float], calculated: list[float], expected: float) -> None:
    assert ttnn.pearson_correlation_coefficient(torch.tensor(golden), torch.tensor(calculated)) == expected


def test_shapes_must_be_equal() -> None:
    with pytest.raises(RuntimeError, match=r"\[2\] and \[3\]"):
        comp_pcc(torch.zeros(2), torch.zeros(3))
    assert comp_ulp(torch.zeros(2), torch.zeros(3), 1)[0] is False


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_ulp_is_the_step_to_the_next_number(dtype: torch.dtype) -> None:
    x = torch.tensor([1.0, -2.0, 3.5, torch.finfo(dtype).max], dtype=dtype)
    eps = torch.finfo(dtype).eps
    assert ulp(x)[:3].tolist() == [eps, 2 * eps, 2 * eps]
    assert math.isfinite(ulp(x)[3])


def test_distance_in_last_places() -> None:
    x = torch.tensor([1.0, 100.0], dtype=torch.bfloat16)
    near = torch.nextafter(x, torch.full_like(x, math.inf))
    assert comp_ulp(x, near, 1)[0]
    assert not comp_ulp(x, near, 0.5)[0]
    assert not comp_ulp(torch.tensor([math.nan]), torch.tensor([math.nan]), 1)[0]
    assert comp_ulp(torch.tensor([math.nan]), torch.tensor([math.nan]), 1, allow_nonfinite=True)[0]


def test_tensors_of_a_device_are_read() -> None:
    with ttnn.manage_device(0) as device:
        x = torch.randn(32, 32)
        t = ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
        assert ttnn.pearson_correlation_coefficient(x, t) > 0.9999
        assert torch.equal(ttnn.to_torch(ulp(t)), ulp(x.bfloat16()))
