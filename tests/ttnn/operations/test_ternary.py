"""Operations of three operands, clamping, quantization, typecasts and complex tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.engine.elementwise_references import ulp_errors

import ttnn

DEVICE_DATA = Path(__file__).parents[2] / "data" / "device"


def put(values: torch.Tensor, device: Any, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT, **options: Any) -> Any:
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device, **options)


def three(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(shape, generator=generator).bfloat16() for shape in shapes]


REFERENCES = {
    "addcmul": torch.addcmul,
    "addcdiv": torch.addcdiv,
    "lerp": torch.lerp,
    "mac": lambda a, b, c: a * b + c,
}


@pytest.mark.parametrize("shapes", [((33, 65),) * 3, ((64, 96), (1, 96), (64, 1)), ((1, 1), (2, 3, 31, 33), (33,))], ids=str)
@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_right_to_the_last_place(device: Any, name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    values = three(*shapes)
    result = ttnn.to_torch(getattr(ttnn, name)(*(put(v, device) for v in values)))
    exact = REFERENCES[name](*torch.broadcast_tensors(*(v.double() for v in values)))
    assert float(ulp_errors(result, exact).max()) <= 1.0


def test_parameters_and_constants(device: Any) -> None:
    a, b, c = three((32, 32), (32, 32), (32, 32))
    ta, tb, tc = (put(v, device) for v in (a, b, c))
    wide = [v.double() for v in (a, b, c)]
    assert float(ulp_errors(ttnn.to_torch(ttnn.addcmul(ta, tb, tc, value=0.5)), torch.addcmul(*wide, value=0.5)).max()) <= 1
    assert float(ulp_errors(ttnn.to_torch(ttnn.lerp(ta, tb, 0.25)), torch.lerp(wide[0], wide[1], 0.25)).max()) <= 1
    assert float(ulp_errors(ttnn.to_torch(ttnn.mac(ta, 2.0, 3.0)), wide[0] * 2 + 3).max()) <= 1


def test_where_takes_tensors_and_numbers(device: Any) -> None:
    condition = (torch.randn(33, 65) > 0).bfloat16()
    a, b = three((33, 65), (33, 65))
    tc, ta, tb = put(condition, device), put(a, device), put(b, device)
    chosen = condition.bool()
    assert torch.equal(ttnn.to_torch(ttnn.where(tc, ta, tb)), torch.where(chosen, a, b))
    assert torch.equal(ttnn.to_torch(ttnn.where(tc, ta, -1.0)), torch.where(chosen, a, -1.0))
    assert torch.equal(ttnn.to_torch(ttnn.where(tc, 2.5, tb)), torch.where(chosen, 2.5, b))
    assert torch.equal(ttnn.to_torch(ttnn.where(tc, 1, 0)), condition)
    nan = put(torch.full((33, 65), float("nan")), device)
    assert not ttnn.to_torch(ttnn.where(tc, ta, nan))[chosen].isnan().any()


def test_clamp(device: Any) -> None:
    (values,) = three((33, 65))
    tensor = put(values, device)
    assert torch.equal(ttnn.to_torch(ttnn.clamp(tensor, -0.5, 0.5)), values.clamp(-0.5, 0.5))
    assert torch.equal(ttnn.to_torch(ttnn.clamp(tensor, min=0.0)), values.clamp(min=0))
    assert torch.equal(ttnn.to_torch(ttnn.clip(tensor, 2.0, 1.0)), values.clamp(2.0, 1.0))
    low = torch.full((33, 65), -0.25).bfloat16()
    assert torch.equal(ttnn.to_torch(ttnn.clamp(tensor, put(low, device), None)), torch.maximum(values, low))
    whole = put(torch.arange(-5, 5, dtype=torch.int32).reshape(1, 10), device, ttnn.int32)
    assert ttnn.clamp(whole, -2, 2).to_list() == [[-2, -2, -2, -2, -1, 0, 1, 2, 2, 2]]
    with pytest.raises(RuntimeError, match="Only one of 'min' or 'max' can be None"):
        ttnn.clamp(tensor)


@pytest.mark.parametrize("dtype", [ttnn.int32, ttnn.uint8, ttnn.int8])
def test_quantization_there_and_back(device: Any, dtype: Any) -> None:
    values = torch.linspace(-3, 3, 1024).reshape(32, 32)
    quantized = ttnn.quantize(put(values, device, ttnn.float32), 0.05, 10, dtype=dtype)
    low, high = {ttnn.int32: (-(2**31), 2**31 - 1), ttnn.uint8: (0, 255), ttnn.int8: (-128, 127)}[dtype]
    expected = (torch.round(values.double() / torch.tensor(0.05).double()) + 10).clamp(low, high)
    assert torch.equal(torch.tensor(quantized.to_list()).double(), expected)
    back = ttnn.to_torch(ttnn.dequantize(quantized, 0.05, 10, dtype=ttnn.float32))
    assert torch.allclose(back, ((expected - 10) * 0.05).float(), atol=1e-6)
    again = ttnn.requantize(quantized, 0.05, 10, 0.1, 3, dtype=ttnn.int32)
    assert again.dtype == ttnn.int32


def test_quantization_by_channel(device: Any) -> None:
    values = torch.randn(4, 32)
    scales, zeros = torch.linspace(0.01, 0.1, 32), torch.arange(32, dtype=torch.int32)
    quantized = ttnn.quantize(put(values, device, ttnn.float32), put(scales, device, ttnn.float32), put(zeros, device, ttnn.int32), axis=-1)
    assert torch.equal(ttnn.to_torch(quantized).double(), torch.round(values.double() / scales.double()) + zeros)
    with pytest.raises(RuntimeError, match="scalar-tensor scales"):
        ttnn.quantize(put(values, device), put(scales, device), 0)


@pytest.mark.parametrize("case", sorted(p.stem for p in DEVICE_DATA.glob("typecast_*.npz")))
def test_typecasts_agree_with_the_device_bit_for_bit(device: Any, case: str) -> None:
    names = ["bfloat16", "float32", "bfloat8_b", "bfloat4_b", "int32", "uint32", "uint16"]
    rest = case.removeprefix("typecast_")
    source, target = next((s, t) for s in names for t in names if rest == f"{s}_{t}")
    data = np.load(DEVICE_DATA / f"{case}.npz")
    given = torch.from_numpy(data["a"].astype(np.int64 if source == "uint32" else data["a"].dtype)).reshape(64, 64)
    result = ttnn.typecast(put(given, device, getattr(ttnn, source)), getattr(ttnn, target))
    found = ttnn.to_torch(result).reshape(-1)
    seen = data["y"].reshape(-1)
    if target == "bfloat16":
        assert np.array_equal(found.view(torch.int16).numpy().view(np.uint16), seen)
    else:
        assert np.array_equal(found.double().numpy(), seen.astype(np.float64))


def test_typecasts_saturate_or_wrap(device: Any) -> None:
    floats = put(torch.tensor([[-1.5, 2.5, 70000.0, 3e9, -3e9, 300.7]]), device, ttnn.float32)
    assert ttnn.typecast(floats, ttnn.uint16).to_list() == [[0, 3, 65535, 65535, 0, 301]]
    assert ttnn.typecast(floats, ttnn.int32).to_list() == [[-1, 2, 70000, 2**31 - 1, -(2**31), 300]]
    assert ttnn.typecast(floats, ttnn.uint32).to_list() == [[0, 2, 70000, 3000000000, 0, 300]]
    assert ttnn.typecast(put(torch.tensor([[300, 7]], dtype=torch.int32), device, ttnn.int32), ttnn.uint8).to_list() == [[44, 7]]
    host = ttnn.from_torch(torch.tensor([[1.0, 2.0]]), dtype=ttnn.float32)
    assert ttnn.typecast(host, ttnn.int32).to_list() == [[1, 2]]


def test_bitcast_keeps_the_bits(device: Any) -> None:
    values = torch.tensor([[1.0, -2.5, 0.0, float("inf")]])
    bits = ttnn.bitcast(put(values, device, ttnn.float32), ttnn.uint32)
    assert bits.to_list() == [[0x3F800000, 0xC0200000, 0, 0x7F800000]]
    assert torch.equal(ttnn.to_torch(ttnn.bitcast(bits, ttnn.float32)), values)
    half = ttnn.bitcast(put(values, device), ttnn.uint16)
    assert half.to_list() == [[0x3F80, 0xC020, 0, 0x7F80]]


def complex_pair(device: Any) -> tuple[Any, torch.Tensor]:
    real, imag = three((32, 32), (32, 32))
    return ttnn.complex_tensor(put(real, device), put(imag, device)), torch.complex(real.double(), imag.double())


def test_complex_tensors(device: Any) -> None:
    z, exact = complex_pair(device)
    place = {"memory_config": ttnn.DRAM_MEMORY_CONFIG}
    assert torch.equal(ttnn.to_torch(ttnn.real(z)).double(), exact.real)
    assert torch.equal(ttnn.to_torch(ttnn.imag(z)).double(), exact.imag)
    assert float(ulp_errors(ttnn.to_torch(ttnn.abs(z, **place)), exact.abs()).max()) <= 1
    assert float(ulp_errors(ttnn.to_torch(ttnn.angle(z)), exact.angle()).max()) <= 1
    for made, want in (
        (ttnn.reciprocal(z, **place), 1 / exact),
        (ttnn.conj(z), exact.conj()),
        (ttnn.polar(z), torch.polar(exact.real, exact.imag)),
    ):
        assert float(ulp_errors(ttnn.to_torch(made.real), want.real).max()) <= 1
        assert float(ulp_errors(ttnn.to_torch(made.imag), want.imag).max()) <= 1
    assert not ttnn.to_torch(ttnn.is_real(z)).any()
    with pytest.raises(TypeError, match="incompatible function arguments"):
        ttnn.add(z, z)


@pytest.mark.parametrize("name", ["mul", "div"])
def test_complex_gradients(device: Any, name: str) -> None:
    (g, grad), (a, first), (b, second) = (complex_pair(device) for _ in range(3))
    leaves = [first.clone().requires_grad_(), second.clone().requires_grad_()]
    getattr(torch, name)(*leaves).backward(grad)
    found = getattr(ttnn, f"{name}_bw")(g, a, b, memory_config=ttnn.DRAM_MEMORY_CONFIG)
    for leaf, made in zip(leaves, found):
        assert leaf.grad is not None
        assert torch.allclose(ttnn.to_torch(made.real).double(), leaf.grad.real, rtol=1e-2)
        assert torch.allclose(ttnn.to_torch(made.imag).double(), leaf.grad.imag, rtol=1e-2, atol=1e-6)
