"""Native forms of elementwise engine functions agree with their torch forms on every bfloat16 value."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("tessera._native")
from tessera.engine.binary import elementwise_binary, elementwise_scalar
from tessera.engine.native import FORMS, elementwise, form_of
from tessera.engine.unary import elementwise_unary

EVERY = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


def assert_close(got: torch.Tensor, want: torch.Tensor) -> None:
    want = want.to(torch.bfloat16)
    assert got.dtype is torch.bfloat16
    assert torch.equal(got.isnan(), want.isnan())
    # The smallest normal number may be a subnormal result that was rounded up before it was flushed.
    got, want = (torch.where(x.abs() <= 2.0**-126, 0, x) for x in (got, want))
    bits = [
        torch.where(x.view(torch.int16) < 0, 32768 - (x.view(torch.int16).int() & 0xFFFF), x.view(torch.int16).int()) for x in (got, want)
    ]
    assert int((bits[0] - bits[1]).abs()[~want.isnan()].max()) <= 1


@pytest.mark.parametrize("name", sorted(elementwise.UNARY))
def test_steps_agree_with_torch(name: str) -> None:
    program = ((name, ()),)
    assert_close(elementwise_unary(EVERY, program=program), elementwise_unary.torch(EVERY, program=program))


@pytest.mark.parametrize("program", [(("gelu", ()),), (("exp", ()), ("relu", ())), (("multiply", (0.5,)), ("tanh", ()))])
def test_other_programs_are_tables(program: elementwise.Program) -> None:
    large = EVERY.repeat(2)
    got = elementwise.elementwise_unary(large, program=program)
    assert_close(got, elementwise_unary.torch(large, program=program))


@pytest.mark.parametrize("name", sorted(elementwise.BINARY))
def test_pairs_agree_with_torch(name: str) -> None:
    other = EVERY.roll(4321)
    assert_close(elementwise_binary(EVERY, other, op=name), elementwise_binary.torch(EVERY, other, op=name))
    for reflected in (False, True):
        for scalar in (1.5, -0.375, 0.0):
            got = elementwise_scalar(EVERY, op=name, scalar=scalar, reflected=reflected)
            assert_close(got, elementwise_scalar.torch(EVERY, op=name, scalar=scalar, reflected=reflected))


def same_fp32(got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.dtype is torch.float32
    torch.testing.assert_close(got, want.float(), rtol=2e-7, atol=0, equal_nan=True)
    assert torch.equal(torch.signbit(got)[~got.isnan()], torch.signbit(want)[~want.isnan()])


@pytest.mark.parametrize("name", sorted(set(elementwise.BINARY) - elementwise.TWICE))
def test_wide_pairs_agree_with_torch(name: str) -> None:
    wide = torch.cat([EVERY.float(), torch.randn(1000)])
    operands = [
        (EVERY, EVERY.roll(4321)),
        (wide, wide.roll(99)),
        (wide[:65536].clone(), EVERY.roll(5)),
        (EVERY[:330].reshape(10, 33), wide[40000:40033].clone()),
    ]
    for a, b in operands:
        same_fp32(elementwise_binary(a, b, op=name, wide=True), elementwise_binary.torch(a, b, op=name, wide=True))
    for reflected in (False, True):
        for a in (EVERY, wide):
            got = elementwise_scalar(a, op=name, scalar=-1.25, reflected=reflected, wide=True)
            same_fp32(got, elementwise_scalar.torch(a, op=name, scalar=-1.25, reflected=reflected, wide=True))


@pytest.mark.parametrize("name", sorted(elementwise.EXACT))
def test_wide_steps_agree_with_torch(name: str) -> None:
    for x in (EVERY, torch.cat([EVERY.float(), torch.randn(1001)])):
        same_fp32(elementwise_unary(x, program=((name, ()),), wide=True), elementwise_unary.torch(x, program=((name, ()),), wide=True))


@pytest.mark.parametrize("program", [(("exp", ()),), (("tanh", ()), ("relu", ())), (("multiply", (0.5,)),)])
def test_fp32_steps_flush_in_place(program: elementwise.Program) -> None:
    x = torch.cat([EVERY.float(), torch.randn(1001) * 50])
    kept = x.clone()
    same_fp32(elementwise.elementwise_unary(x, program=program), elementwise_unary.torch(x, program=program))
    assert torch.equal(x.nan_to_num(), kept.nan_to_num())


def test_wide_programs_are_tables() -> None:
    large = EVERY.repeat(3)
    got = elementwise.elementwise_unary(large, program=(("gelu", ()),), wide=True)
    same_fp32(got, elementwise_unary.torch(large, program=(("gelu", ()),), wide=True))


@pytest.mark.parametrize("name", sorted(elementwise.WHOLE))
def test_whole_numbers_wrap(name: str) -> None:
    a = torch.randint(-(2**31), 2**31 - 1, (1000,), dtype=torch.int32)
    b = a.roll(7)
    want = elementwise_binary.torch(a, b, op=name)
    assert torch.equal(elementwise_binary(a, b, op=name).to(torch.int32), want.to(torch.int32))


def test_what_has_no_kernel_goes_to_torch() -> None:
    assert elementwise.elementwise_unary(torch.ones(3), program=(("gelu", ()),)) is NotImplemented
    assert elementwise.elementwise_unary(torch.ones(4, 4).bfloat16().t()[1:], program=(("exp", ()),)) is NotImplemented
    assert elementwise.elementwise_binary(EVERY, EVERY.int(), op="add") is NotImplemented
    assert elementwise_binary(torch.ones(3, dtype=torch.int32), torch.ones(3, dtype=torch.int32), op="add").tolist() == [2, 2, 2]


def test_every_listed_form_exists() -> None:
    for family, name in FORMS:
        assert callable(form_of(family, name))
