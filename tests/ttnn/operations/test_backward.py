"""Gradients: against torch's autograd of an independent forward function, with the conventions of required outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.engine.elementwise_references import BINARY, UNARY, ulp_errors

import ttnn

STEEP = {"floor", "ceil", "trunc", "round", "sign"}
UNARY_GRADIENTS: list[str] = sorted(
    name for name in UNARY if hasattr(ttnn, f"{name}_bw") and name not in STEEP | {"gelu", "multigammaln", "identity", "logical_not"}
)
DOMAIN: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "acos": torch.tanh,
    "asin": torch.tanh,
    "atanh": torch.tanh,
    "erfinv": torch.tanh,
    "logit": torch.sigmoid,
    "acosh": lambda x: 1.5 + x.abs(),
    **{name: lambda x: 0.1 + x.abs() for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "digamma", "lgamma")},
}


def put(values: torch.Tensor, device: Any, dtype: Any = ttnn.bfloat16, **options: Any) -> Any:
    return ttnn.from_torch(values, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device, **options)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def autograd(forward: Callable[..., torch.Tensor], grad: torch.Tensor, *operands: torch.Tensor) -> list[torch.Tensor]:
    leaves = [o.double().requires_grad_() for o in operands]
    out = forward(*leaves)
    return list(torch.autograd.grad(out, leaves, grad.double().expand(out.shape)))


@pytest.mark.parametrize("size", [(31, 33), (160, 160)], ids=["computed", "looked up"])
@pytest.mark.parametrize("name", UNARY_GRADIENTS)
def test_gradients_of_one_operand(device: Any, name: str, size: tuple[int, int]) -> None:
    values = DOMAIN.get(name, lambda x: x)(random(*size).float()).bfloat16()
    grad = random(*size, seed=1)
    (found,) = getattr(ttnn, f"{name}_bw")(put(grad, device), put(values, device))
    reference = UNARY[name] if name != "abs" else torch.abs
    (exact,) = autograd(reference, grad, values)
    assert float(ulp_errors(ttnn.to_torch(found), exact).max()) <= 1.0


@pytest.mark.parametrize(
    ("name", "params", "words", "forward"),
    [
        ("leaky_relu", (), {"negative_slope": 0.25}, lambda x: F.leaky_relu(x, 0.25)),
        ("elu", (), {"alpha": 0.5}, lambda x: F.elu(x, 0.5)),
        ("celu", (), {"alpha": 2.0}, lambda x: F.celu(x, 2.0)),
        ("hardtanh", (), {"min": -0.5, "max": 0.75}, lambda x: F.hardtanh(x, -0.5, 0.75)),
        ("softplus", (), {"beta": 2.0, "threshold": 5.0}, lambda x: F.softplus(x, 2.0, 5.0)),
        ("hardshrink", (), {"lambd": 0.25}, lambda x: F.hardshrink(x, 0.25)),
        ("threshold", (0.1, 2.0), {}, lambda x: F.threshold(x, 0.1, 2.0)),
        ("clamp", (-0.5, 0.5), {}, lambda x: x.clamp(-0.5, 0.5)),
        ("pow", (3.0,), {}, lambda x: x**3),
        ("rdiv", (2.0,), {}, lambda x: 2.0 / x),
        ("rpow", (2.0,), {}, lambda x: 2.0**x),
        ("mul", (2.5,), {}, lambda x: x * 2.5),
        ("div", (4.0,), {}, lambda x: x / 4.0),
        ("add", (4.0,), {}, lambda x: x + 4.0),
        ("gelu", (), {}, F.gelu),
        ("gelu", (), {"variant": ttnn.GeluVariant.Tanh}, lambda x: F.gelu(x, approximate="tanh")),
    ],
)
def test_gradients_with_parameters(device: Any, name: str, params: tuple[float, ...], words: dict[str, Any], forward: Any) -> None:
    values, grad = random(32, 64), random(32, 64, seed=1)
    (found,) = getattr(ttnn, f"{name}_bw")(put(grad, device), put(values, device), *params, **words)
    (exact,) = autograd(forward, grad, values)
    assert float(ulp_errors(ttnn.to_torch(found), exact).max()) <= 1.0


PAIRS = {
    "add": BINARY["add"],
    "sub": BINARY["subtract"],
    "rsub": BINARY["rsub"],
    "mul": BINARY["multiply"],
    "div": BINARY["divide"],
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "ldexp": BINARY["ldexp"],
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "max": torch.maximum,
    "min": torch.minimum,
    "squared_difference": BINARY["squared_difference"],
    "xlogy": torch.special.xlogy,
    "bias_gelu": lambda a, b: F.gelu(a + b),
}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_gradients_of_two_operands(device: Any, name: str) -> None:
    a, b, grad = random(33, 65), random(33, 65, seed=1).abs() + 0.5, random(33, 65, seed=2)
    found = getattr(ttnn, f"{name}_bw")(put(grad, device), put(a, device), put(b, device))
    for made, exact in zip(found, autograd(PAIRS[name], grad, a, b)):
        assert float(ulp_errors(ttnn.to_torch(made), exact).max()) <= 1.0


def test_only_required_gradients_are_computed(device: Any) -> None:
    a, b, grad = (put(random(32, 32, seed=s), device) for s in range(3))
    first, second = ttnn.div_bw(grad, a, b, are_required_outputs=[True, False])
    assert second is None
    first_alone = ttnn.to_torch(first)
    assert torch.equal(first_alone, ttnn.to_torch(ttnn.div_bw(grad, a, b)[0]))
    with pytest.raises(RuntimeError, match="At least one gradient is expected to be calculated"):
        ttnn.add_bw(grad, a, b, are_required_outputs=[False, False])
    output = put(torch.zeros(32, 32), device)
    made, _ = ttnn.mul_bw(grad, a, b, input_grad=output)
    assert made is output
    assert torch.equal(ttnn.to_torch(output), random(32, 32, seed=2) * random(32, 32, seed=1))


def test_gradients_of_three_operands(device: Any) -> None:
    a, b, c, grad = (random(32, 64, seed=s) for s in range(4))
    c = c.abs() + 0.5
    tensors = [put(v, device) for v in (grad, a, b, c)]
    for name, forward in (("addcmul", torch.addcmul), ("addcdiv", torch.addcdiv)):
        found = getattr(ttnn, f"{name}_bw")(*tensors, 0.5)
        exact = autograd(lambda x, y, z, f=forward: f(x, y, z, value=0.5), grad, a, b, c)
        for made, want in zip(found, exact):
            assert float(ulp_errors(ttnn.to_torch(made), want).max()) <= 1.0
    for made, want in zip(ttnn.lerp_bw(*tensors), autograd(torch.lerp, grad, a, b, c)):
        assert float(ulp_errors(ttnn.to_torch(made), want).max()) <= 1.0
    condition = (a > 0).bfloat16()
    yes, no = ttnn.where_bw(tensors[0], put(condition, device), tensors[1], tensors[2])
    assert torch.equal(ttnn.to_torch(yes), torch.where(condition.bool(), grad, 0))
    assert torch.equal(ttnn.to_torch(no), torch.where(condition.bool(), 0, grad))


def test_gradients_of_steps_are_zero(device: Any) -> None:
    grad, values = put(random(32, 32), device), put(random(32, 32, seed=1), device)
    for name in sorted(STEEP) + ["fill"]:
        assert not ttnn.to_torch(getattr(ttnn, f"{name}_bw")(grad, values)[0]).any()
    assert ttnn.frac_bw(grad, values) == [grad]


def test_gradient_of_a_product_is_right_where_elements_are_zero(device: Any) -> None:
    values = torch.tensor([[2.0, 0.0, 3.0], [1.0, 4.0, 0.5]])
    (found,) = ttnn.prod_bw(put(torch.ones(2, 1), device, ttnn.float32), put(values, device, ttnn.float32), dim=1)
    assert ttnn.to_torch(found).tolist() == [[0.0, 6.0, 0.0], [2.0, 0.5, 4.0]]


def test_concatenation_gives_each_its_part(device: Any) -> None:
    grad = random(1, 1, 32, 96)
    first, second = ttnn.concat_bw(put(grad, device), put(random(1, 1, 32, 32), device), put(random(1, 1, 32, 64), device), 3)
    assert torch.equal(ttnn.to_torch(first), grad[..., :32])
    assert torch.equal(ttnn.to_torch(second), grad[..., 32:])


def test_whole_numbers_have_no_gradient(device: Any) -> None:
    whole = put(torch.ones(32, 32, dtype=torch.int32), device, ttnn.int32)
    with pytest.raises(RuntimeError, match="does not support integer input dtype|only supports floating-point"):
        ttnn.exp_bw(whole, whole)
    with pytest.raises(RuntimeError, match="only supports floating-point"):
        ttnn.tanh_bw(whole, whole)
