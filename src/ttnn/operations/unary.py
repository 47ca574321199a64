"""Operations of one tensor: a row each.

A row says the official name, the step it computes, the `UnaryOpType` that names it in refusals, and its own parameters. Where an operation
is more than a row (a parameter that chooses the step, several programs on the chip) it is a function below the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tessera.engine.unary import elementwise_unary
from tessera.formats.dtype import DataType
from tessera.memory.config import MemoryConfig
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.activations import ACTIVATIONS, INT32, UINT32, as_steps, check_whole, fp32, parameter
from ttnn.operations.binary_rules import FLOAT32, MULTIPLICATION, check_dtypes
from ttnn.operations.rules import name_of, require, require_device
from ttnn.operations.unary_rules import run_unary

REQUIRED = object()


@dataclass(frozen=True, slots=True)
class Row:
    """One operation. `parameters` are (official name, default); `unused` are accepted and change nothing in the result."""

    name: str
    op_type: str
    parameters: tuple[tuple[str, Any], ...] = ()
    unused: tuple[str, ...] = ()
    step: str = ""


FAST = ("fast_and_approximate_mode",)

PLAIN = (
    "abs acos acosh alt_complex_rotate90 asin asinh atan atanh bitwise_not cbrt ceil cos cosh digamma eqz erfc erfinv exp2 expm1 floor frac gez "
    "gtz hardmish hardsigmoid hardswish i0 i1 identity isfinite isinf isnan isneginf isposinf lez lgamma ltz neg nez relu relu6 sign "
    "signbit silu sin sinh softsign square tan tanhshrink trunc"
)

ROWS: tuple[Row, ...] = (
    *(Row(name, name.upper()) for name in PLAIN.split()),
    *(Row(name, name.upper(), unused=FAST) for name in ["erf", "exp", "log", "log10", "log1p", "log2", "mish", "rsqrt", "sqrt", "tanh"]),
    Row("sigmoid", "SIGMOID", unused=("vector_mode", "mode")),
    Row("sigmoid_accurate", "SIGMOID", unused=FAST),
    Row("swish", "SILU"),
    Row("log_sigmoid", "LOGSIGMOID"),
    Row("logical_not", "LOGICAL_NOT_UNARY"),
    Row("reciprocal", "RECIP"),
    Row("deg2rad", "MUL_UNARY_SFPU", step="deg2rad"),
    Row("rad2deg", "MUL_UNARY_SFPU", step="rad2deg"),
    Row("celu", "CELU", (("alpha", 1.0),)),
    Row("elu", "ELU", (("alpha", 1.0),)),
    Row("selu", "SELU", (("scale", 1.0507009873554805), ("alpha", 1.6732632423543772))),
    Row("xielu", "XIELU", (("alpha_p", 0.8), ("alpha_n", 0.8))),
    Row("hardshrink", "HARDSHRINK", (("lambd", 0.5),)),
    Row("softshrink", "SOFTSHRINK", (("lambd", 0.5),)),
    Row("hardtanh", "HARDTANH", (("min_val", -1.0), ("max_val", 1.0))),
    Row("softplus", "SOFTPLUS", (("beta", 1.0), ("threshold", 20.0))),
    Row("heaviside", "HEAVISIDE", (("value", REQUIRED),)),
    Row("leaky_relu", "LEAKY_RELU", (("negative_slope", REQUIRED),)),
    Row("relu_max", "RELU_MAX", (("upper_limit", REQUIRED),)),
    Row("relu_min", "RELU_MIN", (("lower_limit", REQUIRED),)),
    Row("threshold", "THRESHOLD", (("threshold", REQUIRED), ("value", REQUIRED))),
    Row("fill", "FILL", (("fill_value", REQUIRED),)),
    Row("rpow", "RPOW", (("exponent", REQUIRED),)),
    Row("round", "ROUND", (("decimals", 0),)),
)


def golden_of(step: str, parameters: tuple[tuple[str, Any], ...]) -> Callable[..., torch.Tensor]:
    """The step in torch, as programs call golden functions: tensor first, then parameters by place or name."""

    def golden(input_tensor: torch.Tensor, *given: Any, **words: Any) -> torch.Tensor:
        chosen = list(given[: len(parameters)]) + [words.get(name, default) for name, default in parameters[len(given) :]]
        result: torch.Tensor = elementwise_unary.torch(input_tensor, program=((step, tuple(chosen)),))
        return result.to(input_tensor.dtype)

    golden.__name__ = f"golden_{step}"
    return golden


def declare(row: Row) -> None:
    """Turn a row into an operation."""
    step = row.step or ACTIVATIONS[row.op_type].step
    names = tuple(name for name, _ in row.parameters)
    defaults = tuple(None if default is REQUIRED else float(default) for _, default in row.parameters)
    plain = ((step, ()),)
    op_types = (row.op_type,)

    def call(
        input_tensor: Tensor,
        *given: Any,
        memory_config: MemoryConfig | None = None,
        output_tensor: Tensor | None = None,
        sub_core_grids: Any = None,
        **words: Any,
    ) -> Tensor:
        program = plain
        if names:
            dtype = input_tensor.spec.dtype
            chosen = [*given, *(words.get(n) for n in names[len(given) :])]
            params = tuple(defaults[i] if v is None else parameter(v, dtype) for i, v in enumerate(chosen))
            program = ((step, params),)  # type: ignore[assignment]
        return run_unary(row.name, input_tensor, op_types, program, memory_config, output_tensor)

    call.__name__ = row.name
    call.__doc__ = f"`{step}` of each element{' with ' + ', '.join(names) if names else ''}."
    operation(f"ttnn.{row.name}", golden=golden_of(step, row.parameters))(call)


COMPLEX_TOO = ("abs", "reciprocal")
"""Operations that complex tensors have as well; `complex` declares them for both."""

for _row in ROWS:
    if _row.name not in COMPLEX_TOO:
        declare(_row)


@operation(
    "ttnn.gelu",
    golden=lambda input_tensor, *_, variant=None, **__: torch.nn.functional.gelu(
        input_tensor.float(), approximate="tanh" if getattr(variant, "name", "") == "Tanh" else "none"
    ).to(input_tensor.dtype),
)
def gelu(
    input_tensor: Tensor,
    *,
    variant: Any = None,
    fast_and_approximate_mode: bool = False,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """x times the normal distribution function of x; `GeluVariant.Tanh` by its tanh approximation."""
    step = "gelu_tanh" if variant is not None and variant.name == "Tanh" else "gelu"
    return run_unary("gelu", input_tensor, ("GELU",), ((step, ()),), memory_config, output_tensor)


@operation("ttnn.logit", golden=lambda input_tensor, *_, eps=None, **__: torch.logit(input_tensor.float(), eps=eps).to(input_tensor.dtype))
def logit(
    input_tensor: Tensor,
    *,
    eps: float | None = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """log(x / (1 - x)), of x kept at least `eps` away from 0 and 1."""
    params = () if eps is None or eps < 0 else (fp32(eps),)
    return run_unary("logit", input_tensor, ("LOGIT",), (("logit", params),), memory_config, output_tensor)


@operation("ttnn.softcap", golden=lambda input_tensor, beta, **_: (beta * torch.tanh(input_tensor.float() / beta)).to(input_tensor.dtype))
def softcap(
    input_tensor: Tensor,
    beta: float,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """beta * tanh(x / beta)."""
    require_device("softcap", input_tensor)
    check_softcap(input_tensor)
    return run_unary("softcap", input_tensor, ("SOFTCAP",), (("softcap", (fp32(beta),)),), memory_config, output_tensor)


def check_softcap(tensor: Tensor) -> None:
    """The chip has this step on Blackhole only, for two dtypes."""
    check_whole("SOFTCAP", tensor.spec.dtype)
    device = tensor.buffer.device
    arch = device.board.arch if device is not None else ""
    require("blackhole" in str(arch).lower(), f"Unary: SOFTCAP is implemented for Blackhole only, got arch {arch}")
    require(
        tensor.spec.dtype in (DataType.BFLOAT16, DataType.BFLOAT8_B),
        f"Unary: SOFTCAP supports BFLOAT16 and BFLOAT8_B inputs, got dtype {name_of(tensor.spec.dtype)}",
    )


def _golden_rdiv(input_tensor: torch.Tensor, value: float, *_: Any, rounding_mode: str | None = None, **__: Any) -> torch.Tensor:
    return torch.div(torch.full_like(input_tensor, value), input_tensor, rounding_mode=rounding_mode)


@operation("ttnn.rdiv", golden=_golden_rdiv)
def rdiv(
    input_tensor: Tensor,
    value: float,
    *,
    rounding_mode: str | None = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """value / x."""
    require(
        rounding_mode in (None, "trunc", "floor"),
        f"Incorrect rounding mode (expected None, 'trunc', or 'floor'), got rounding_mode={rounding_mode!r}",
    )
    program = (("rdiv", (fp32(value),)),)
    if rounding_mode is not None:
        program += ((rounding_mode, ()),)  # type: ignore[assignment]
    return run_unary("rdiv", input_tensor, ("RDIV",), program, memory_config, output_tensor)


@operation("ttnn.polygamma", golden=lambda input_tensor, k, **_: torch.special.polygamma(k, input_tensor.float()).to(input_tensor.dtype))
def polygamma(input_tensor: Tensor, k: int, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """The k-th derivative of digamma."""
    require(k >= 0, f"polygamma: k={k} must not be negative")
    step = ("polygamma", (float(k),)) if k else ("digamma", ())
    return run_unary("polygamma", input_tensor, ("POLYGAMMA",), (step,), memory_config)


@operation("ttnn.multigammaln", golden=lambda input_tensor, **_: torch.special.multigammaln(input_tensor.float(), 4).to(input_tensor.dtype))
def multigammaln(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension four."""
    return run_unary("multigammaln", input_tensor, ("LGAMMA",), (("multigammaln", ()),), memory_config, programs=4)


@operation("ttnn.logical_not_", golden=lambda input_tensor, **_: torch.logical_not(input_tensor).to(input_tensor.dtype))
def logical_not_(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """One where the element is zero, written into the tensor itself."""
    return run_unary("logical_not_", input_tensor, ("LOGICAL_NOT_UNARY",), (("logical_not", ()),), memory_config, input_tensor)


def _golden_chain(input_tensor: torch.Tensor, ops_chain: Sequence[Any], **_: Any) -> torch.Tensor:
    program = tuple(step for activation in ops_chain for step in as_steps(activation))
    result: torch.Tensor = elementwise_unary.torch(input_tensor, program=program)
    return result.to(input_tensor.dtype)


@operation("ttnn.unary_chain", golden=_golden_chain)
def unary_chain(
    input_tensor: Tensor,
    ops_chain: Sequence[Any],
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """Several unary steps as one device operation."""
    require(len(ops_chain) > 0, "unary_chain: Op chain cannot be empty; ops_chain=[]")
    program = tuple(step for activation in ops_chain for step in as_steps(activation))
    return run_unary(
        "unary_chain", input_tensor, tuple(getattr(a, "op_type", a).name for a in ops_chain), program, memory_config, output_tensor
    )


@operation(
    "ttnn.polyval",
    golden=lambda input_tensor_a, coeffs, **_: sum(
        (c * input_tensor_a.float() ** i for i, c in enumerate(reversed(coeffs))), torch.zeros_like(input_tensor_a.float())
    ).to(input_tensor_a.dtype),
)
def polyval(input_tensor_a: Tensor, coeffs: Sequence[float], *, memory_config: MemoryConfig | None = None) -> Tensor:
    """The polynomial with these coefficients, highest power first, by Horner's rule."""
    require(len(coeffs) > 0, "polyval: coeffs must not be empty")
    require_device("polyval", input_tensor_a)
    dtype = input_tensor_a.spec.dtype
    check_dtypes(MULTIPLICATION, "MUL", dtype)
    widened = dtype in (INT32, UINT32)
    program = (("polyval", tuple(fp32(c) for c in coeffs)),)
    programs = min(len(coeffs), 3) + widened
    return run_unary("polyval", input_tensor_a, (), program, memory_config, dtype=FLOAT32 if widened else None, programs=programs)


# -- the operations that official TT-NN carries as examples of composing


@operation("ttnn.composite_example", golden=lambda input_tensor, **_: input_tensor)
def composite_example(input_tensor: Tensor) -> Tensor:
    """A copy of the tensor."""
    return run_unary("composite_example", input_tensor, ("IDENTITY",), (("identity", ()),), device_operation="ExampleDeviceOperation")


@operation("ttnn.composite_example_multiple_return", golden=lambda input_tensor, *_, **__: [input_tensor, input_tensor], planned=False)
def composite_example_multiple_return(
    input_tensor: Tensor, return_output1: bool = True, return_output2: bool = True
) -> list[Tensor | None]:
    """Two copies of the tensor, those that are asked for."""
    require_device("composite_example_multiple_return", input_tensor)
    program, name = (("identity", ()),), "ExampleMultipleReturnDeviceOperation"
    copies = [
        run_unary(name, input_tensor, ("IDENTITY",), program, programs=1, device_operation=name) if r else None
        for r in (return_output1, return_output2)
    ]
    return list(copies)
