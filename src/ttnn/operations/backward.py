"""Gradients of unary operations: a row each.

A row says which program is differentiated and how the chip composes the gradient, as far as that can be seen from outside: the number of programs, whose dtype
the answer has, which mixtures, layouts and whole-number dtypes are refused. The value is always the derivative of the forward row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tessera.engine import backward as engine
from tessera.engine.unary import Program
from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch, on_host
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.activations import INT8, INT32, UINT16, UINT32, WHOLE, check_float8, fp32
from ttnn.operations.binary_rules import FLOAT32, broadcast
from ttnn.operations.rules import name_of, normalized_dim, require, require_device
from ttnn.operations.unary_goldens import grad_one
from ttnn.operations.unary_rules import placed

#: What becomes of whole numbers, by the dtype of the gradient: (dtype of the answer, additional programs).
Whole = dict[DataType, tuple[DataType, int]]
WIDENED: Whole = {INT32: (FLOAT32, 1), UINT32: (FLOAT32, 1)}
SCALED: Whole = {**WIDENED, UINT16: (UINT16, 0)}
KEPT: Whole = {INT32: (INT32, 1), UINT32: (UINT32, 1)}
SIGNED: Whole = {INT32: (INT32, 0)}


@dataclass(frozen=True, slots=True)
class Row:
    """One gradient. `like` names the operand whose dtype the answer has; None refuses operands of two dtypes. `rows`: takes ROW_MAJOR.
    `alike`: both operands must have one shape. `parameters` as in the unary table, `step` where it is not the name."""

    name: str
    programs: int
    like: str | None = "grad"
    rows: bool = True
    alike: bool = False
    whole: Whole | None = None
    parameters: tuple[tuple[str, Any], ...] = ()
    step: str = ""
    ready: bool = False
    linear: bool = False
    """The gradient does not look at the operand, and has its own shape."""


ROWS: tuple[Row, ...] = (
    Row("acos", 12, None, rows=False),
    Row("acosh", 16, None, rows=False),
    Row("asin", 10, None, rows=False),
    Row("asinh", 2),
    Row("atan", 2),
    Row("atanh", 9, None),
    Row("celu", 5, rows=False, whole=KEPT, parameters=(("alpha", 1.0),)),
    Row("cos", 3),
    Row("cosh", 5),
    Row("deg2rad", 1, whole=SCALED, linear=True),
    Row("digamma", 7, None),
    Row("elu", 5, rows=False, parameters=(("alpha", 1.0),)),
    Row("erf", 2, "input", whole=SCALED),
    Row("erfc", 5),
    Row("erfinv", 7, None, rows=False, whole=WIDENED),
    Row("exp", 2, "input", rows=False, ready=True),
    Row("exp2", 3),
    Row("expm1", 2),
    Row("hardshrink", 3, None, parameters=(("lambd", 0.5),)),
    Row("hardsigmoid", 5, None, whole={INT32: (FLOAT32, 1)}),
    Row("hardswish", 7, None, rows=False),
    Row("hardtanh", 3, None, whole=SIGNED, parameters=(("min", -1.0), ("max", 1.0))),
    Row("i0", 2),
    Row("leaky_relu", 3, rows=False, parameters=(("negative_slope", 0.01),)),
    Row("lgamma", 2),
    Row("log", 7, rows=False),
    Row("log10", 9, None, rows=False, whole={INT32: (FLOAT32, 1)}),
    Row("log1p", 10, rows=False),
    Row("log2", 9, None, rows=False, whole={INT32: (FLOAT32, 1)}),
    Row("log_sigmoid", 10),
    Row("logit", 12, None, rows=False),
    Row("logiteps", 13, "input", rows=False, parameters=(("eps", 0.0),), step="logit"),
    Row("multigammaln", 4),
    Row("neg", 1, "input", alike=True, whole={INT32: (INT32, 0), INT8: (INT8, 0)}, ready=True),
    Row("rad2deg", 1, whole=SCALED, linear=True),
    Row("relu", 2, None),
    Row("relu6", 4, None, whole=SIGNED),
    Row("rsqrt", 8, None, rows=False, alike=True, ready=True),
    Row("selu", 5, rows=False),
    Row("sigmoid", 1, "input", alike=True),
    Row("silu", 4, "input", rows=False, ready=True),
    Row("sin", 2),
    Row("sinh", 5),
    Row("softplus", 5, rows=False, whole=KEPT, parameters=(("beta", 1.0), ("threshold", 20.0))),
    Row("softshrink", 4, None, parameters=(("lambd", 0.5),)),
    Row("softsign", 2),
    Row("sqrt", 10, "input", rows=False, ready=True),
    Row("square", 2, whole=WIDENED),
    Row("tan", 4),
    Row("tanh", 1, "input", alike=True, ready=True),
    Row("tanhshrink", 3),
    Row("polygamma", 8, None, parameters=(("n", 1),)),
    Row("pow", 5, "input", parameters=(("exponent", 1.0),), step="power", ready=True),
    Row("rpow", 6, None, whole={INT32: (FLOAT32, 0)}, parameters=(("exponent", 1.0),)),
    Row("rdiv", 11, None, parameters=(("scalar", 1.0),)),
    Row("div_no_nan", 4, None, whole={INT32: (FLOAT32, 0), UINT32: (FLOAT32, 0)}, parameters=(("scalar", 1.0),), step="div_no_nan"),
    Row("threshold", 3, None, parameters=(("min", 0.0), ("max", 0.0))),
)

FLOATING_ONLY = frozenset({"sigmoid", "tanh", "gelu"})
"""Gradients with a device operation of their own, whose refusals bear its name."""


def golden_of(step: str, parameters: tuple[tuple[str, Any], ...]) -> Callable[..., list[torch.Tensor]]:
    def golden(grad_tensor: torch.Tensor, input_tensor: torch.Tensor, *given: Any, **words: Any) -> list[torch.Tensor]:
        chosen = list(given[: len(parameters)]) + [words.get(name, default) for name, default in parameters[len(given) :]]
        result: torch.Tensor = engine.unary_backward.torch(grad_tensor, input_tensor, program=((step, tuple(chosen)),))
        return [result.to(grad_tensor.dtype)]

    golden.__name__ = f"golden_{step}_bw"
    return grad_one(golden)


def check_floating(name: str, grad: Tensor, tensor: Tensor) -> None:
    for operand in (grad, tensor):
        if operand.spec.dtype in WHOLE or operand.spec.dtype in (INT8, DataType.FP8_E4M3):
            raise RuntimeError(
                f"{name.upper()}_BW operation only supports floating-point dtypes (bfloat16, float32, bfloat8_b, bfloat4_b), but the input has {name_of(operand.spec.dtype)}"
            )


def answer_dtype(row: Row, grad: Tensor, tensor: Tensor) -> tuple[DataType, int]:
    """The dtype of the gradient and the programs it costs beyond the row's, after what the chip refuses of the operands' dtypes."""
    first, second = grad.spec.dtype, tensor.spec.dtype
    for dtype in (first, second):
        check_float8(dtype)
        if dtype in WHOLE or dtype == INT8:
            answer = (row.whole or {}).get(dtype)
            require(
                answer is not None,
                f"{row.name}_bw: Unary: UnaryOpType::{row.name.upper()} does not support integer input dtype {name_of(dtype)} in its gradient",
            )
            assert answer is not None
            return answer
    require(
        row.like is not None or first == second,
        f"Mixed dtype is not supported for binary operation BinaryOpType::WHERE_TST, dtype A: {name_of(first)}, dtype B: {name_of(second)} in {row.name}_bw",
    )
    return (second if row.like == "input" else first), 0


def check_rows(row: Row, *tensors: Tensor) -> None:
    require(
        row.rows or all(t.spec.layout == Layout.TILE for t in tensors),
        f"{row.name}_bw: Ternary operation requires tensor to be in Tile layout when working with non-sharded input tensor, and "
        "Optional output tensor with Row Major input is not supported right now for Elementwise operations",
    )


def gradient_spec(grad: Tensor, dims: tuple[int, ...], dtype: DataType, memory_config: MemoryConfig | None, *tensors: Tensor) -> TensorSpec:
    layout = Layout.TILE if any(t.spec.layout == Layout.TILE for t in (grad, *tensors)) else Layout.ROW_MAJOR
    return grad.spec.replace(
        shape=Shape.of(dims), dtype=dtype, layout=layout, memory_config=placed(memory_config, grad, *tensors, dims=dims)
    )


def run_unary_backward(
    row: Row, program: Program, grad: Tensor, tensor: Tensor, memory_config: MemoryConfig | None, ready: Tensor | None
) -> list[Tensor]:
    """Check, launch, and answer the list that gradients come in."""
    name = f"{row.name}_bw"
    require_device(name, grad, tensor)
    if row.name in FLOATING_ONLY:
        check_floating(row.name, grad, tensor)
    dtype, further = answer_dtype(row, grad, tensor)
    check_rows(row, grad, tensor)
    require(
        not row.alike or grad.spec.dims == tensor.spec.dims,
        f"{row.name.upper()}_BW operation requires grad_output and input to have the same logical shape, but got {grad.spec.shape} and {tensor.spec.shape}; "
        f"Unary: Preallocated output shape must match computed shape",
    )
    dims = grad.spec.dims if row.linear else broadcast(grad.spec.dims, tensor.spec.dims)
    operands = [grad, grad if row.linear else tensor]
    if ready is not None:
        require(
            ready.spec.dims == dims,
            f"{name} requires a preallocated output tensor to have the same logical shape as the gradient {Shape(dims)}, got {ready.spec.shape}",
        )
        spec = ready.spec
    else:
        spec = gradient_spec(grad, dims, dtype, memory_config, tensor)
    made: Any = launch(
        name, engine.unary_backward, operands, spec, attributes={"program": program}, into=ready, programs=row.programs + further
    )
    return [made]


def declare(row: Row) -> None:
    """Turn a row into an operation."""
    step = row.step or row.name
    names = tuple(name for name, _ in row.parameters)
    defaults = tuple(float(default) for _, default in row.parameters)

    def call(
        grad_tensor: Tensor,
        input_tensor: Tensor,
        *given: Any,
        memory_config: MemoryConfig | None = None,
        input_grad: Tensor | None = None,
        **words: Any,
    ) -> list[Tensor]:
        mode = words.pop("rounding_mode", None)
        if mode not in (None, "None", "trunc", "floor"):
            raise RuntimeError(f"Incorrect rounding mode (expected None, 'trunc', or 'floor'), got rounding_mode={mode!r}")
        params = tuple(fp32(v) for v in given) + tuple(fp32(words.get(n, defaults[i])) for i, n in enumerate(names) if i >= len(given))
        return run_unary_backward(row, ((step, params),), grad_tensor, input_tensor, memory_config, input_grad)

    call.__doc__ = f"The gradient of {row.name}."
    operation(f"ttnn.{row.name}_bw", golden=golden_of(step, row.parameters))(call)


for _row in ROWS:
    declare(_row)


# -- gradients that are nothing, or the gradient itself


STORED_BY_PROGRAM = frozenset({DataType.BFLOAT16, FLOAT32, DataType.BFLOAT8_B})


def _declare_zero(name: str) -> None:
    def call(
        grad_tensor: Tensor, input_tensor: Tensor, *, memory_config: MemoryConfig | None = None, input_grad: Tensor | None = None
    ) -> list[Tensor]:
        require(
            grad_tensor.spec.dtype != DataType.FP8_E4M3,
            f"{name}_bw: full/zeros/ones: FP8_E4M3 is an output-only dtype that cannot be filled; typecast the gradient to bfloat16",
        )
        if grad_tensor.buffer.device is None:
            return [on_host(engine.zeros, [grad_tensor], grad_tensor.spec)]
        spec = input_grad.spec if input_grad is not None else grad_tensor.spec.replace(memory_config=placed(memory_config, grad_tensor))
        programs = int(spec.layout == Layout.TILE and spec.dtype in STORED_BY_PROGRAM)  # other formats are filled by the host
        made: Any = launch("FullLikeDeviceOperation", engine.zeros, [grad_tensor], spec, into=input_grad, programs=programs)
        return [made]

    call.__doc__ = f"The gradient of {name.removesuffix('_zero')}: zero everywhere."
    operation(f"ttnn.{name}_bw", golden=lambda grad_tensor, input_tensor, **_: [torch.zeros_like(grad_tensor)])(call)


for _name in ("ceil", "floor", "round", "sign", "trunc", "fill", "fill_zero"):
    _declare_zero(_name)


@operation("ttnn.frac_bw", golden=lambda grad_tensor, input_tensor, **_: [grad_tensor], planned=False)
def frac_bw(grad_tensor: Tensor, input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> list[Tensor]:
    """The gradient itself."""
    return [grad_tensor]


# -- gradients with a choice of step


def _golden_gelu_bw(
    grad_tensor: torch.Tensor, input_tensor: torch.Tensor, *_: Any, variant: Any = None, approximate: str = "none", **__: Any
) -> list[torch.Tensor]:
    step = "gelu_tanh" if approximate == "tanh" or getattr(variant, "name", "") == "Tanh" else "gelu"
    return [engine.unary_backward.torch(grad_tensor, input_tensor, program=((step, ()),)).to(grad_tensor.dtype)]


GELU = Row("gelu", 1, "input", alike=True, ready=True)


@operation("ttnn.gelu_bw", golden=_golden_gelu_bw)
def gelu_bw(
    grad_tensor: Tensor,
    input_tensor: Tensor,
    *,
    variant: Any = None,
    memory_config: MemoryConfig | None = None,
    input_grad: Tensor | None = None,
) -> list[Tensor]:
    """The gradient of gelu."""
    step = "gelu_tanh" if variant is not None and variant.name == "Tanh" else "gelu"
    return run_unary_backward(GELU, ((step, ()),), grad_tensor, input_tensor, memory_config, input_grad)


CLAMP = Row("clamp", 4, None, whole=SIGNED)


def _clamp_bw(name: str, grad: Tensor, tensor: Tensor, low: Any, high: Any, memory_config: MemoryConfig | None) -> list[Tensor]:
    require(low is not None or high is not None, f"{name}: Only one of 'min' or 'max' can be None. Please provide one value")
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        bounds = [tensor if bound is None else bound for bound in (low, high)]
        require_device(name, grad, tensor, *bounds)
        dims = broadcast(grad.spec.dims, tensor.spec.dims)
        spec = gradient_spec(grad, dims, grad.spec.dtype, memory_config, tensor)
        made: Any = launch(name, engine.clamp_backward, [grad, tensor, *bounds], spec, programs=4 if None not in (low, high) else 2)
        return [made]
    params = tuple(None if v is None else fp32(v) for v in (low, high))
    row = CLAMP if None not in (low, high) else Row("clamp", 2, None, whole=SIGNED)
    program: Any = (("clamp_float", params),)
    return run_unary_backward(row, program, grad, tensor, memory_config, None)


def _golden_clamp_bw(
    grad_tensor: torch.Tensor, input_tensor: torch.Tensor, min: Any = None, max: Any = None, **_: Any
) -> list[torch.Tensor]:
    inside = torch.ones_like(input_tensor, dtype=torch.bool)
    if min is not None:
        inside &= input_tensor >= min
    if max is not None:
        inside &= input_tensor <= max
    return [grad_tensor * inside]


def _declare_clamp(name: str) -> None:
    def call(
        grad_tensor: Tensor, input_tensor: Tensor, min: Any = None, max: Any = None, *, memory_config: MemoryConfig | None = None
    ) -> list[Tensor]:
        return _clamp_bw(name, grad_tensor, input_tensor, min, max, memory_config)

    call.__doc__ = "The gradient where the value was left as it is, zero where it was clamped."
    operation(f"ttnn.{name}", golden=_golden_clamp_bw)(call)


for _name in ("clamp_bw", "clip_bw"):
    _declare_clamp(_name)


# -- gradients that change the shape


def _golden_prod_bw(grad_tensor: torch.Tensor, input_tensor: torch.Tensor, *, dim: int | None = None, **_: Any) -> list[torch.Tensor]:
    return [engine.prod_backward.torch(grad_tensor, input_tensor, dim=dim).to(input_tensor.dtype)]


@operation("ttnn.prod_bw", golden=_golden_prod_bw)
def prod_bw(
    grad_tensor: Tensor, input_tensor: Tensor, *, dim: int | None = None, memory_config: MemoryConfig | None = None
) -> list[Tensor]:
    """The gradient of a product over everything, or along one dimension (kept with length 1)."""
    require_device("prod_bw", grad_tensor, input_tensor)
    dtype = input_tensor.spec.dtype
    require(
        dtype not in WHOLE and dtype not in (INT8, DataType.FP8_E4M3),
        f"prod_bw: Error - unsupported data type for prod, got {name_of(dtype)}; it takes floats",
    )
    require(
        not input_tensor.spec.is_sharded,
        "prod_bw: Memory layout must be INTERLEAVED, got a sharded input; bring it into one with ttnn.to_memory_config",
    )
    place = None if dim is None else normalized_dim(dim, len(input_tensor.spec.dims), "prod_bw")
    dims = input_tensor.spec.dims
    spec = input_tensor.spec.replace(layout=Layout.TILE, memory_config=placed(memory_config, input_tensor))
    whole_tiles = all(d % 32 == 0 for d in input_tensor.spec.dims[-2:]) and len(input_tensor.spec.dims) > 1
    programs = (5 if whole_tiles and dtype in (DataType.BFLOAT16, FLOAT32) else 6) if place is None else 8 if place == len(dims) - 2 else 9
    if place is None and (input_tensor.spec.layout != Layout.TILE or len(input_tensor.spec.dims) == 1):
        programs = 8
    made: Any = launch("prod_bw", engine.prod_backward, [grad_tensor, input_tensor], spec, attributes={"dim": place}, programs=programs)
    return [made]


@operation(
    "ttnn.repeat_bw",
    golden=lambda grad_tensor, input_tensor, shape, **_: [grad_tensor.reshape(shape[0], *input_tensor.shape).sum(0)],
    planned=False,
)
def repeat_bw(
    grad_tensor: Tensor, input_tensor: Tensor, shape: Sequence[int], *, memory_config: MemoryConfig | None = None
) -> list[Tensor]:
    """The gradient of repeating along one of the first two dimensions; an empty list where nothing was repeated along them."""
    repeats = list(shape)
    padded = input_tensor.spec.padded_dims
    require(padded[0] == 1, f"repeat_bw: Input shape[0] must be 1 but got {padded[0]}")
    for dim in (0, 1):
        if len(repeats) > dim and repeats[dim] > 1:
            require(all(r == 1 for i, r in enumerate(repeats) if i != dim), f"repeat_bw: repeats={repeats} must repeat one dimension only")
            require_device("repeat_bw", grad_tensor, input_tensor)
            spec = grad_tensor.spec.replace(shape=input_tensor.spec.shape, memory_config=placed(memory_config, grad_tensor))
            made: Any = launch(
                "MorehSumDeviceOperation", engine.repeat_backward, [grad_tensor], spec, attributes={"dim": dim, "count": repeats[dim]}
            )
            return [made]
    return []
