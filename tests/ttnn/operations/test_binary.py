"""Operations of two operands: exact to the last place, broadcast as the chip does, with fused activations and in place."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tests.engine.elementwise_references import BINARY, WHOLE, ulp_errors

import ttnn

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 3.4e38, -3.4e38, 1.2e-38, math.inf, -math.inf, math.nan, 7.0, -7.0, 100.0, 1e-3, 256.0]


def put(values: torch.Tensor, device: Any, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT, **options: Any) -> Any:
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device, **options)


def operands(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    edges = torch.tensor(EDGES)
    a = torch.cat([torch.randn(3840, generator=generator) * 3, edges.repeat(16)])
    b = torch.cat([torch.randn(3840, generator=generator) * 3, edges.repeat_interleave(16)])
    return a.reshape(-1, 32).to(dtype), b.reshape(-1, 32).to(dtype)


@pytest.mark.parametrize(("dtype", "torch_dtype", "fraction"), [(ttnn.bfloat16, torch.bfloat16, 7), (ttnn.float32, torch.float32, 23)])
@pytest.mark.parametrize("name", sorted(BINARY))
def test_right_to_the_last_place(device: Any, name: str, dtype: Any, torch_dtype: torch.dtype, fraction: int) -> None:
    a, b = operands(torch_dtype)
    result = ttnn.to_torch(getattr(ttnn, name)(put(a, device, dtype), put(b, device, dtype)))
    assert float(ulp_errors(result, BINARY[name](a.double(), b.double()), fraction).max()) <= 1.0


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_whole_numbers_are_exact(device: Any, name: str) -> None:
    generator = torch.Generator().manual_seed(3)
    bound = 30000 if name == "lcm" else 2**31 - 1
    a = torch.randint(-bound, bound, (31, 33), generator=generator, dtype=torch.int32)
    b = torch.randint(-50000, 50000, (31, 33), generator=generator, dtype=torch.int32)
    result = getattr(ttnn, name)(put(a, device, ttnn.int32), put(b, device, ttnn.int32))
    assert torch.equal(ttnn.to_torch(result), WHOLE[name](a, b))


def test_narrow_whole_numbers_wrap(device: Any) -> None:
    a = put(torch.tensor([[65535, 1, 0]], dtype=torch.int32), device, ttnn.uint16)
    b = put(torch.tensor([[1, 2, 1]], dtype=torch.int32), device, ttnn.uint16)
    assert ttnn.add(a, b).to_list() == [[0, 3, 1]]
    assert ttnn.subtract(a, b).to_list() == [[65534, 65535, 65535]]


def test_shifts(device: Any) -> None:
    values = torch.tensor([[-8, 7, 2**31 - 1, -1]], dtype=torch.int32)
    by = torch.tensor([[1, 2, 31, 40]], dtype=torch.int32)
    a, b = put(values, device, ttnn.int32), put(by, device, ttnn.int32)
    assert ttnn.bitwise_left_shift(a, b).to_list() == [[-16, 28, -(2**31), 0]]
    assert ttnn.bitwise_right_shift(a, b).to_list() == [[-4, 1, 0, -1]]
    assert ttnn.logical_right_shift(a, b).to_list() == [[2**31 - 4, 1, 0, 0]]
    assert ttnn.bitwise_and(a, 6).to_list() == [[0, 6, 6, 6]]


BROADCASTS = [
    ((64, 96), (1, 96)),
    ((64, 96), (64, 1)),
    ((64, 1), (1, 96)),
    ((2, 3, 33, 65), (65,)),
    ((2, 1, 31, 33), (1, 3, 31, 33)),
    ((5, 2, 3, 33, 65), (2, 1, 33, 1)),
    ((32, 32), ()),
    ((1,), (3, 1)),
    ((0, 32), (1, 32)),
]


@pytest.mark.parametrize("layout", [ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT])
@pytest.mark.parametrize(("first", "second"), BROADCASTS, ids=str)
def test_broadcasting(device: Any, first: tuple[int, ...], second: tuple[int, ...], layout: Any) -> None:
    a, b = torch.randn(first).bfloat16(), torch.randn(second).bfloat16()
    result = ttnn.subtract(put(a, device, layout=layout), put(b, device, layout=layout))
    assert torch.equal(ttnn.to_torch(result), a - b)


@pytest.mark.parametrize(("first", "second"), [((64, 96), (32, 96)), ((2, 32, 32), (3, 32, 32)), ((64, 96), (64,))], ids=str)
def test_shapes_that_do_not_broadcast(device: Any, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match="Invalid subtile broadcast type|Broadcasting rule violation"):
        ttnn.add(put(torch.zeros(first), device), put(torch.zeros(second), device))


def test_constants_on_either_side(device: Any) -> None:
    values = torch.randn(33, 65).bfloat16()
    tensor = put(values, device)
    assert torch.equal(ttnn.to_torch(ttnn.add(2.5, tensor)), values + 2.5)
    assert torch.equal(ttnn.to_torch(tensor - 1), values - 1)
    assert torch.equal(ttnn.to_torch(1 - tensor), 1 - values)
    assert torch.equal(ttnn.to_torch(2.0 / tensor), (2.0 / values.float()).bfloat16())
    assert torch.equal(ttnn.to_torch(tensor / 3.0), (values.float() / 3.0).bfloat16())
    assert torch.equal(ttnn.to_torch(tensor > 0), (values > 0).bfloat16())
    assert torch.equal(ttnn.to_torch(ttnn.pow(2.0, tensor)), torch.pow(2.0, values.double()).bfloat16())


def test_mixed_dtypes(device: Any) -> None:
    a, b = torch.randn(32, 32).bfloat16(), torch.randn(32, 32)
    mixed = ttnn.add(put(a, device), put(b, device, ttnn.float32))
    assert mixed.dtype == ttnn.bfloat16
    assert torch.equal(ttnn.to_torch(mixed), (a.float() + b).bfloat16())
    assert ttnn.add(put(b, device, ttnn.float32), put(a, device)).dtype == ttnn.float32
    assert ttnn.add(put(a, device), put(a, device), dtype=ttnn.float32).dtype == ttnn.float32
    whole = put(torch.ones(32, 32, dtype=torch.int32), device, ttnn.int32)
    with pytest.raises(RuntimeError, match="Mixed dtype is not supported"):
        ttnn.add(put(a, device), whole)
    with pytest.raises(RuntimeError, match=r"cannot represent the scalar 1\.5"):
        ttnn.add(whole, 1.5)
    with pytest.raises(RuntimeError, match="Input tensor A dtype DataType::BFLOAT16 is not supported"):
        ttnn.gcd(put(a, device), put(a, device))


def test_whole_division(device: Any) -> None:
    a = put(torch.tensor([[7, -7, 5, 9]], dtype=torch.int32), device, ttnn.int32)
    b = put(torch.tensor([[2, 2, -3, 0]], dtype=torch.int32), device, ttnn.int32)
    quotient = ttnn.divide(a, b)
    assert quotient.dtype == ttnn.float32
    assert quotient.to_list() == [[3.5, -3.5, torch.tensor(-5 / 3).item(), math.inf]]
    assert ttnn.div(a, b, rounding_mode="floor").to_list()[0][:3] == [3, -4, -2]
    assert ttnn.div(a, b, rounding_mode="trunc").to_list()[0][:3] == [3, -3, -1]
    with pytest.raises(RuntimeError, match="Incorrect rounding mode"):
        ttnn.div(put(torch.ones(1, 4), device), 2.0, rounding_mode="ceil")


def test_fused_activations(device: Any) -> None:
    a, b = torch.randn(33, 65).bfloat16(), torch.randn(33, 65).bfloat16()
    relu, neg = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU), ttnn.UnaryWithParam(ttnn.UnaryOpType.NEG)
    scale = ttnn.UnaryWithParam(ttnn.UnaryOpType.MUL_UNARY_SFPU, 2.0)
    ta, tb = put(a, device), put(b, device)
    device.clear_program_cache()
    result = ttnn.add(ta, tb, activations=[relu, scale], input_tensor_a_activations=[neg], input_tensor_b_activations=[relu])
    assert device.num_program_cache_entries() == 1
    assert torch.equal(ttnn.to_torch(result), (2 * (-a.float() + b.float().relu()).relu()).bfloat16())


def test_in_place(device: Any) -> None:
    a, b = torch.randn(33, 65).bfloat16(), torch.randn(33, 65).bfloat16()
    ta, tb = put(a, device), put(b, device)
    address = ta.buffer_address()
    assert ttnn.multiply_(ta, tb) is ta
    assert ta.buffer_address() == address
    assert torch.equal(ttnn.to_torch(ta), a * b)
    ta += tb
    assert torch.equal(ttnn.to_torch(ta), a * b + b)
    assert torch.equal(ttnn.to_torch(tb), b)
    with pytest.raises(RuntimeError, match="does not match the broadcasted output shape"):
        ttnn.add_(put(torch.zeros(1, 65), device), tb)


def test_an_input_may_be_the_output(device: Any) -> None:
    values = torch.randn(32, 32).bfloat16()
    tensor = put(values, device)
    result = ttnn.add(tensor, tensor, output_tensor=tensor)
    assert result.buffer_address() == tensor.buffer_address()
    assert torch.equal(ttnn.to_torch(tensor), values * 2)


def test_the_first_sharded_operand_places_the_output(device: Any) -> None:
    config = ttnn.create_sharded_memory_config((1, 1, 256, 64), core_grid=ttnn.CoreGrid(y=1, x=8), strategy=ttnn.ShardStrategy.HEIGHT)
    values = torch.randn(1, 1, 256, 64).bfloat16()
    sharded, plain = put(values, device, memory_config=config), put(values, device)
    for first, second in ((sharded, plain), (plain, sharded), (sharded, sharded)):
        result = ttnn.add(first, second)
        assert result.memory_config() == config
        assert torch.equal(ttnn.to_torch(result), values + values)
    assert ttnn.add(plain, put(values, device, memory_config=ttnn.L1_MEMORY_CONFIG)).memory_config() == ttnn.DRAM_MEMORY_CONFIG


def test_host_tensors_are_refused(device: Any) -> None:
    host = ttnn.from_torch(torch.zeros(32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
    with pytest.raises(RuntimeError, match="Input tensor B must be on device, got storage type: StorageType::HOST"):
        ttnn.add(put(torch.zeros(32, 32), device), host)


def test_calls_that_fit_no_overload(device: Any) -> None:
    tensor = put(torch.zeros(32, 32), device)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        ttnn.add(tensor, "1")
    with pytest.raises(TypeError, match="incompatible function arguments"):
        ttnn.maximum(tensor, tensor, sub_core_grids=None, bogus=1)


def test_prelu_has_a_slope_for_each_channel(device: Any) -> None:
    values, slopes = torch.randn(2, 3, 32, 32).bfloat16(), torch.tensor([0.5, 0.25, 2.0]).bfloat16()
    result = ttnn.prelu(put(values, device), put(slopes.reshape(1, 3), device))
    assert torch.equal(ttnn.to_torch(result), torch.nn.functional.prelu(values, slopes))
    with pytest.raises(RuntimeError, match="Mismatch of parameter numbers and input channel size"):
        ttnn.prelu(put(values, device), put(torch.zeros(1, 4), device))


def test_isclose(device: Any) -> None:
    a = torch.tensor([[1.0, 1.0, math.nan, math.inf]])
    b = torch.tensor([[1.0 + 1e-6, 1.1, math.nan, math.inf]])
    ta, tb = put(a, device, ttnn.float32), put(b, device, ttnn.float32)
    assert ttnn.isclose(ta, tb).to_list() == [[1.0, 0.0, 0.0, 1.0]]
    assert ttnn.isclose(ta, tb, rtol=0.2, equal_nan=True).to_list() == [[1.0, 1.0, 1.0, 1.0]]


def test_legacy_broadcast(device: Any) -> None:
    a, row = torch.randn(2, 3, 64, 96).bfloat16(), torch.randn(1, 1, 1, 96).bfloat16()
    result = ttnn.bcast(put(a, device), put(row, device), ttnn.BcastOpMath.MUL, ttnn.BcastOpDim.H)
    assert torch.equal(ttnn.to_torch(result), a * row)
    with pytest.raises(RuntimeError, match="width broadcast"):
        ttnn.bcast(put(a, device), put(row, device), ttnn.BcastOpMath.MUL, ttnn.BcastOpDim.W)


def test_shards_grow_with_a_broadcast_tensor(device: Any) -> None:
    config = ttnn.create_sharded_memory_config((1, 1, 32, 256), core_grid=ttnn.CoreGrid(y=1, x=8), strategy=ttnn.ShardStrategy.WIDTH)
    row, values = torch.randn(1, 1, 32, 256).bfloat16(), torch.randn(1, 2, 32, 256).bfloat16()
    result = ttnn.add(put(row, device, memory_config=config), put(values, device))
    assert list(result.memory_config().shard_spec.shape) == [64, 32]
    assert torch.equal(ttnn.to_torch(result), row + values)


def test_sharded_outputs_without_a_shard_are_dealt_to_all_cores(device: Any) -> None:
    values = torch.randn(1, 1, 256, 64).bfloat16()
    result = ttnn.add(put(values, device), 1.0, memory_config=ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG)
    assert list(result.memory_config().shard_spec.shape) == [32, 64]
    assert result.memory_config().shard_spec.grid.num_cores() == 64
    assert torch.equal(ttnn.to_torch(result), values + 1)


def test_other_names_are_the_same_operation() -> None:
    assert ttnn.mul is ttnn.multiply
    assert ttnn.sub_ is ttnn.subtract_
    assert ttnn.div is not ttnn.divide
    names = [o.python_fully_qualified_name for o in ttnn.query_registered_operations()]
    assert len(names) == len(set(names))
    assert "ttnn.mul" not in names
