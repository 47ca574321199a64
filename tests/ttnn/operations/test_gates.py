"""Gates of two tensors, membership, complex products, soft caps: what the chip has them for and on which boards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.engine.elementwise_references import ulp_errors

import ttnn


def put(values: torch.Tensor, device: Any, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT) -> Any:
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device)


@pytest.fixture
def blackhole(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("TESSERA_BOARD", "p150")
    device = ttnn.open_device(device_id=0)
    yield device
    ttnn.close_device(device)


def test_soft_caps_need_a_blackhole(device: Any) -> None:
    with pytest.raises(RuntimeError, match="implemented for Blackhole only"):
        ttnn.softcap(put(torch.ones(32, 32), device), 30.0)
    with pytest.raises(RuntimeError, match="implemented for Blackhole only"):
        ttnn.situ_glu(put(torch.ones(32, 32), device), put(torch.ones(32, 32), device), 1.0, 1.0)


def test_soft_caps_and_their_gate(blackhole: Any) -> None:
    gate, up = torch.randn(33, 65).bfloat16(), torch.randn(33, 65).bfloat16()
    g, u = put(gate, blackhole), put(up, blackhole)
    capped = 2.0 * torch.tanh(gate.double() / 2.0)
    assert float(ulp_errors(ttnn.to_torch(ttnn.softcap(g, 2.0)), capped).max()) <= 1.0
    exact = capped * torch.sigmoid(gate.double()) * 3.0 * torch.tanh(up.double() / 3.0)
    assert float(ulp_errors(ttnn.to_torch(ttnn.situ_glu(g, u, 2.0, 3.0)), exact).max()) <= 1.0
    with pytest.raises(RuntimeError, match="SOFTCAP supports BFLOAT16 and BFLOAT8_B"):
        ttnn.softcap(put(torch.ones(32, 32), blackhole, ttnn.float32), 2.0)


def test_clamped_gate(device: Any) -> None:
    gate, up = torch.randn(33, 65).bfloat16() * 4, torch.randn(33, 65).bfloat16() * 4
    result = ttnn.to_torch(ttnn.clamped_silu_glu(put(gate, device), put(up, device), 2.0))
    exact = torch.nn.functional.silu(gate.double().clamp(max=2.0)) * up.double().clamp(-2.0, 2.0)
    assert float(ulp_errors(result, exact).max()) <= 1.0


def test_membership(device: Any) -> None:
    elements = put(torch.arange(8, dtype=torch.int32), device, ttnn.int32, ttnn.ROW_MAJOR_LAYOUT)
    tested = put(torch.tensor([1, 5, 9], dtype=torch.int32), device, ttnn.int32, ttnn.ROW_MAJOR_LAYOUT)
    found = ttnn.experimental.isin(elements, tested)
    assert found.dtype == ttnn.uint32
    assert [bool(v) for v in found.to_list()] == [False, True, False, False, False, True, False, False]
    assert [bool(v) for v in ttnn.experimental.isin(elements, tested, invert=True).to_list()] == [
        True,
        False,
        True,
        True,
        True,
        False,
        True,
        True,
    ]


def test_complex_product_of_parts(device: Any) -> None:
    parts = [torch.randn(1, 1, 4, 8).bfloat16() for _ in range(4)]
    real, imag = ttnn.experimental.complex_mul(*(put(p, device, layout=ttnn.ROW_MAJOR_LAYOUT) for p in parts))
    a, b, c, d = (p.double() for p in parts)
    assert float(ulp_errors(ttnn.to_torch(real), a * c - b * d).max()) <= 1.0
    assert float(ulp_errors(ttnn.to_torch(imag), a * d + b * c).max()) <= 1.0
    with pytest.raises(RuntimeError, match="only ROW_MAJOR layout is supported"):
        ttnn.experimental.complex_mul(*(put(p, device) for p in parts))


def test_numbers_are_compared_in_the_precision_of_the_tensor(device: Any) -> None:
    tenth = put(torch.tensor([[0.1, 0.2]]), device)
    assert ttnn.eq(tenth, 0.1).to_list() == [[1.0, 0.0]]
    assert ttnn.gt(tenth, 0.1).to_list() == [[0.0, 1.0]]
    assert ttnn.eq(put(torch.tensor([[0.1]]), device, ttnn.float32), 0.1).to_list() == [[1.0]]


def test_polynomials_by_horner(device: Any) -> None:
    values = torch.randn(33, 65).bfloat16()
    result = ttnn.to_torch(ttnn.polyval(put(values, device), [0.5, -2.0, 3.0]))
    wide = values.double()
    assert float(ulp_errors(result, 0.5 * wide**2 - 2 * wide + 3).max()) <= 1.0
