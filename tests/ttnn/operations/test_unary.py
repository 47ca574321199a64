"""Operations of one tensor: right on every bfloat16 value, in every format and layout, and refusing what the chip refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tests.engine.elementwise_references import PARAMETERS, UNARY, every_bfloat16, ulp_errors

import ttnn
from ttnn.operations.activations import ACTIVATIONS

SHAPES = [(1,), (31,), (33,), (), (1, 1), (3, 33, 65), (2, 3, 31, 33), (2, 1, 3, 32, 64), (2, 2, 2, 2, 5, 7), (0, 32)]
HEIGHT_SHARDED = ttnn.create_sharded_memory_config(
    (1, 1, 256, 64), core_grid=ttnn.CoreGrid(y=1, x=8), strategy=ttnn.ShardStrategy.HEIGHT, orientation=ttnn.ShardOrientation.ROW_MAJOR
)


def put(values: torch.Tensor, device: Any, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT, **options: Any) -> Any:
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device, **options)


@pytest.mark.parametrize("name", sorted(UNARY))
def test_right_on_every_bfloat16_value(device: Any, name: str) -> None:
    values = every_bfloat16().reshape(256, 256)
    exact = UNARY[name](values.double())
    assert float(ulp_errors(ttnn.to_torch(getattr(ttnn, name)(put(values, device))), exact).max()) <= 1.0
    part = values[64:72]  # small tensors take another road than large ones
    assert float(ulp_errors(ttnn.to_torch(getattr(ttnn, name)(put(part, device))), UNARY[name](part.double())).max()) <= 1.0


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_right_with_parameters(device: Any, name: str) -> None:
    params, reference = PARAMETERS[name]
    values = every_bfloat16().reshape(256, 256)
    result = ttnn.to_torch(getattr(ttnn, name)(put(values, device), *params))
    assert float(ulp_errors(result, reference(values.double(), *params)).max()) <= 1.0


@pytest.mark.parametrize("name", sorted(UNARY))
def test_right_in_float32(device: Any, name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    values = torch.cat([torch.randn(640, generator=generator) * s for s in (1e-3, 0.1, 1, 10, 60)]).reshape(-1, 32)
    result = ttnn.to_torch(getattr(ttnn, name)(put(values, device, ttnn.float32)))
    assert float(ulp_errors(result, UNARY[name](values.double()), 23).max()) <= 1.0


@pytest.mark.parametrize("layout", [ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_and_layouts(device: Any, shape: tuple[int, ...], layout: Any) -> None:
    values = torch.randn(shape).bfloat16()
    result = ttnn.exp(put(values, device, layout=layout))
    assert list(result.shape) == list(shape)
    assert result.layout == layout
    assert torch.equal(ttnn.to_torch(result), torch.exp(values))


@pytest.mark.parametrize("dtype", [ttnn.bfloat8_b, ttnn.bfloat4_b])
def test_block_floats_are_the_rounded_exact_result(device: Any, dtype: Any) -> None:
    stored = put(torch.randn(64, 64), device, dtype)
    exact = torch.sigmoid(ttnn.to_torch(stored).double()).float()
    assert torch.equal(ttnn.to_torch(ttnn.sigmoid(stored)), ttnn.to_torch(ttnn.from_torch(exact, dtype=dtype, layout=ttnn.TILE_LAYOUT)))


def test_sharded_and_interleaved(device: Any) -> None:
    values = torch.randn(1, 1, 256, 64).bfloat16()
    sharded = put(values, device, memory_config=HEIGHT_SHARDED)
    kept = ttnn.relu(sharded)
    assert kept.memory_config() == HEIGHT_SHARDED
    moved = ttnn.relu(sharded, memory_config=ttnn.DRAM_MEMORY_CONFIG)
    assert moved.memory_config() == ttnn.DRAM_MEMORY_CONFIG
    for result in (kept, moved):
        assert torch.equal(ttnn.to_torch(result), torch.relu(values))


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("neg", ttnn.int32, lambda x: -x),
        ("abs", ttnn.int32, torch.abs),
        ("relu", ttnn.int32, torch.relu),
        ("square", ttnn.int32, torch.square),
        ("bitwise_not", ttnn.int32, torch.bitwise_not),
        ("eqz", ttnn.int32, lambda x: (x == 0).int()),
        ("gtz", ttnn.int32, lambda x: (x > 0).int()),
        ("signbit", ttnn.int32, lambda x: (x < 0).int()),
    ],
)
def test_whole_numbers_are_exact(device: Any, name: str, dtype: Any, expected: Any) -> None:
    values = torch.tensor([[0, 1, -1, 2**31 - 1, -(2**31), 40000, -123456789, 77]], dtype=torch.int32)
    assert torch.equal(ttnn.to_torch(getattr(ttnn, name)(put(values, device, dtype))), expected(values))


@pytest.mark.parametrize(("name", "dtype"), [("exp", ttnn.int32), ("neg", ttnn.uint16), ("sin", ttnn.uint32), ("eqz", ttnn.uint8)])
def test_steps_without_a_form_for_whole_numbers_refuse_them(device: Any, name: str, dtype: Any) -> None:
    tensor = put(torch.zeros(32, 32, dtype=torch.int32), device, dtype)
    with pytest.raises(RuntimeError, match="does not support integer input dtype DataType::"):
        getattr(ttnn, name)(tensor)


def test_subnormal_results_are_zero_with_their_sign(device: Any) -> None:
    tiny = put(torch.tensor([[1e-39, -1e-39, 2.0**-126, -0.0]], dtype=torch.float32), device, ttnn.float32)
    result = ttnn.to_torch(ttnn.identity(tiny))
    assert result.tolist() == [[0.0, -0.0, 2.0**-126, -0.0]]
    assert torch.signbit(result).tolist() == [[False, True, False, True]]


def test_ready_made_outputs(device: Any) -> None:
    values = torch.randn(32, 64).bfloat16()
    tensor = put(values, device)
    output = put(torch.zeros(32, 64), device, ttnn.float32)
    address = output.buffer_address()
    result = ttnn.exp(tensor, output_tensor=output)
    assert result is output and result.buffer_address() == address
    assert torch.allclose(ttnn.to_torch(output), torch.exp(values.float()))
    with pytest.raises(RuntimeError, match="Preallocated output shape must match"):
        ttnn.exp(tensor, output_tensor=put(torch.zeros(32, 32), device))
    with pytest.raises(RuntimeError, match="Output format"):
        ttnn.exp(tensor, output_tensor=put(torch.zeros(32, 64), device, layout=ttnn.ROW_MAJOR_LAYOUT))


def test_chains_are_one_program(device: Any) -> None:
    values = torch.randn(32, 32).bfloat16()
    tensor = put(values, device)
    device.clear_program_cache()
    steps = [
        ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU),
        ttnn.UnaryWithParam(ttnn.UnaryOpType.POWER, 2.0),
        ttnn.UnaryWithParam(ttnn.UnaryOpType.NEG),
    ]
    result = ttnn.to_torch(ttnn.unary_chain(tensor, steps))
    assert device.num_program_cache_entries() == 1
    assert torch.equal(result, (-(values.relu().float() ** 2)).bfloat16())
    with pytest.raises(RuntimeError, match="Op chain cannot be empty"):
        ttnn.unary_chain(tensor, [])


def test_every_unary_op_type_can_be_fused(device: Any) -> None:
    values = torch.rand(32, 32).bfloat16() * 0.5 + 0.25
    tensor = put(values, device)
    for name, row in ACTIVATIONS.items():
        chain = [ttnn.UnaryWithParam(getattr(ttnn.UnaryOpType, name), *(1.0,) * row.parameters)]
        if name != "SOFTCAP":  # Blackhole only
            assert list(ttnn.unary_chain(tensor, chain).shape) == [32, 32]
    assert set(ttnn.UnaryOpType.__members__) - set(ACTIVATIONS) == {"TILED_PROD"}
    with pytest.raises(RuntimeError, match=r"POWER needs 1 parameter"):
        ttnn.unary_chain(tensor, [ttnn.UnaryWithParam(ttnn.UnaryOpType.POWER)])


def test_programs_are_counted_by_shape_and_parameter(device: Any) -> None:
    tensor = put(torch.ones(32, 32), device)
    device.clear_program_cache()
    for slope in (0.1, 0.1, 0.2):
        ttnn.leaky_relu(tensor, slope)
    assert device.num_program_cache_entries() == 2


def test_remembered_calls_answer_as_first_calls(device: Any) -> None:
    first, second = (torch.randn(32, 32).bfloat16() for _ in range(2))
    for values in (first, second, first):
        assert torch.equal(ttnn.to_torch(ttnn.leaky_relu(put(values, device), 0.5)), torch.where(values > 0, values, values * 0.5))


def test_dropout_scales_what_it_keeps(device: Any) -> None:
    tensor = put(torch.ones(256, 256), device)
    result = ttnn.to_torch(ttnn.experimental.dropout(tensor, 0.25, 2.0, 124)).float()
    assert set(result.unique().tolist()) == {0.0, 2.0}
    assert abs(float((result == 0).float().mean()) - 0.25) < 0.02
    assert torch.equal(result, ttnn.to_torch(ttnn.experimental.dropout(tensor, 0.25, 2.0, 124)).float())


@pytest.mark.parametrize("name", ["glu", "reglu", "geglu", "swiglu"])
def test_gated_linear_units(device: Any, name: str) -> None:
    values = torch.randn(2, 3, 64, 128).bfloat16()
    operation = getattr(ttnn, name)
    result = ttnn.to_torch(operation(put(values, device)))
    golden = ttnn.get_golden_function(operation)(values.double())
    assert float(ulp_errors(result, golden).max()) <= 1.0
    with pytest.raises(RuntimeError, match="only support the last dimension"):
        operation(put(values, device), 1)


def test_golden_functions_take_torch_tensors() -> None:
    values = torch.randn(5, 7)
    assert torch.equal(ttnn.get_golden_function(ttnn.relu)(values), values.relu())
    assert torch.allclose(
        ttnn.get_golden_function(ttnn.leaky_relu)(values, negative_slope=0.3), torch.nn.functional.leaky_relu(values, 0.3)
    )
    assert math.isclose(float(ttnn.get_golden_function(ttnn.gelu)(torch.ones(1))), 0.8413447, rel_tol=1e-6)
