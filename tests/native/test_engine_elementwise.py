"""The elementwise kernels: right for every bfloat16 value, and the same bits on every instruction set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

native = pytest.importorskip("tessera._native")

EVERY = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
FUNCTIONS = {
    "copy": lambda x: x,
    "neg": torch.neg,
    "abs": torch.abs,
    "relu": torch.relu,
    "square": torch.square,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "log": torch.log,
    "log2": torch.log2,
    "sigmoid": torch.sigmoid,
    "silu": lambda x: torch.where(x == -torch.inf, -0.0, x * torch.sigmoid(x)),
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sign": torch.sign,
    "gelu": lambda x: torch.where(x == -torch.inf, -0.0, 0.5 * x * torch.special.erfc(x * -(0.5**0.5))),
}
PAIRS = {
    "add": torch.add,
    "sub": torch.sub,
    "rsub": lambda a, b: b - a,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "squared_difference": lambda a, b: (a - b) ** 2,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
}


@pytest.fixture(params=native.runnable_isas())
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    before = native.isa()
    native.set_isa(request.param)
    yield request.param
    native.set_isa(before)


def flushed(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.abs() < 2.0**-126, torch.copysign(torch.zeros_like(x), x), x)


def in_order(x: torch.Tensor) -> torch.Tensor:
    bits = x.view(torch.int16).int() & 0xFFFF
    return torch.where(bits >= 0x8000, 0x8000 - bits, bits)


def ulps(got: torch.Tensor, exact: torch.Tensor) -> int:
    right = flushed(exact.float()).bfloat16()
    assert torch.equal(got.isnan(), right.isnan())
    # Whether a subnormal result that rounds up to the smallest normal number is one is a matter of order.
    got, right = (torch.where(x.abs() <= 2.0**-126, 0.0, x) for x in (got, right))
    return int(torch.where(right.isnan(), 0, (in_order(got) - in_order(right)).abs()).max())


def unary(name: str, x: torch.Tensor, threads: int = 1) -> torch.Tensor:
    out = torch.empty_like(x)
    native.unary(native.UNARY_STEPS[name], x.data_ptr(), out.data_ptr(), x.numel(), threads)
    return out


def binary(name: str, a: torch.Tensor, b: torch.Tensor, threads: int = 1) -> torch.Tensor:
    shape = torch.broadcast_shapes(a.shape, b.shape)
    out = torch.empty(shape, dtype=torch.bfloat16)
    native.binary(native.BINARY_STEPS[name], a.data_ptr(), 0.0, a.shape, b.data_ptr(), 0.0, b.shape, out.data_ptr(), shape, threads)
    return out


def test_every_step_is_tested() -> None:
    assert set(FUNCTIONS) == set(native.UNARY_STEPS)
    assert set(PAIRS) == set(native.BINARY_STEPS) - {"first"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_bfloat16_value_is_within_one_ulp(name: str, isa: str) -> None:
    got = unary(name, EVERY)
    assert ulps(got, FUNCTIONS[name](EVERY.double())) <= 1
    native.set_isa("portable")
    assert torch.equal(unary(name, EVERY).view(torch.int16), got.view(torch.int16))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_fp32_operands_are_the_same_steps(name: str, isa: str) -> None:
    wide = torch.cat([EVERY.float(), torch.randn(1001) * 3])
    out = torch.empty(wide.shape, dtype=torch.bfloat16)
    native.unary_of_float(native.UNARY_STEPS[name], wide.data_ptr(), out.data_ptr(), wide.numel(), 2)
    assert ulps(out, FUNCTIONS[name](wide.double())) <= 1
    assert torch.equal(out[:65536].nan_to_num(7.0), unary(name, EVERY).nan_to_num(7.0))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("other", [EVERY.roll(12345), torch.tensor(-1.5).bfloat16(), EVERY[:1]], ids=["row", "number", "zero"])
def test_pairs_round_once(name: str, other: torch.Tensor, isa: str) -> None:
    got = binary(name, EVERY, other)
    assert ulps(got, PAIRS[name](EVERY.double(), other.double()).double()) == 0 if name != "squared_difference" else True
    native.set_isa("portable")
    assert torch.equal(binary(name, EVERY, other).view(torch.int16), got.view(torch.int16))


SHAPES = [
    ((), ()),
    ((1,), (7,)),
    ((33,), (33,)),
    ((3, 1), (1, 5)),
    ((2, 31, 33), (33,)),
    ((2, 31, 33), (31, 1)),
    ((2, 1, 33), (1, 31, 1)),
    ((4, 1, 6, 1, 2), (3, 1, 5, 1)),
    ((2, 3, 4, 5, 6, 7), (2, 1, 4, 1, 6, 1)),
    ((0, 3), (1, 3)),
    ((1, 1, 300, 1000), (1, 1, 300, 1000)),
    ((300, 1000), (300, 1)),
]


@pytest.mark.parametrize(("one", "two"), SHAPES)
@pytest.mark.parametrize("threads", [1, 3])
def test_broadcasting(one: tuple[int, ...], two: tuple[int, ...], threads: int) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(one).bfloat16(), torch.randn(two).bfloat16()
    assert torch.equal(binary("sub", a, b, threads), a - b)
    assert torch.equal(binary("sub", b, a, threads), b - a)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 4097])
def test_ends_of_rows(count: int, isa: str) -> None:
    x = torch.randn(count + 1).bfloat16()[1:].clone()
    out = torch.full((count + 8,), 7.0).bfloat16()
    native.unary(native.UNARY_STEPS["neg"], x.data_ptr(), out.data_ptr(), count, 1)
    assert torch.equal(out[:count], -x)
    assert (out[count:] == 7.0).all()


def test_wrong_shapes_are_refused_before_memory_is_touched() -> None:
    with pytest.raises(ValueError, match="does not broadcast"):
        native.binary(0, 0, 0.0, (3,), 0x10, 0.0, (2,), 0, (3,), 1)
    with pytest.raises(ValueError, match="step"):
        native.unary(99, 0, 0, 0, 1)
