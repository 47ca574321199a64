"""Operations of two operands: a row each, and the in-place form that most of them have.

A row says the official name, the pair it computes, the `BinaryOpType` that names it in refusals, and its family. What is more than a row, because
the chip takes several programs or another road for constants, is a function below the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tessera.engine import ternary as engine_ternary
from tessera.engine.binary import elementwise_binary, elementwise_scalar
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import also_known_as, operation
from ttnn.operations import binary_rules as rules
from ttnn.operations.activations import INT32, UINT32, WHOLE, WIDE, as_program, check_whole, fp32, whole
from ttnn.operations.binary_rules import FLOAT32, Family, Number, Options, run_binary
from ttnn.operations.rules import name_of, require, require_device
from ttnn.operations.unary_goldens import two
from ttnn.operations.unary_rules import output_spec, run_unary

Operand = Tensor | Number


@dataclass(frozen=True, slots=True)
class Row:
    """One operation and, when `in_place`, its form with an underscore. Other names for the same thing are `aliases`."""

    name: str
    op: str
    op_type: str
    family: Family
    aliases: tuple[str, ...] = ()
    in_place: bool = True


ROWS: tuple[Row, ...] = (
    Row("add", "add", "ADD", rules.ARITHMETIC),
    Row("subtract", "subtract", "SUB", rules.ARITHMETIC, ("sub",)),
    Row("rsub", "rsub", "RSUB", rules.ARITHMETIC),
    Row("multiply", "multiply", "MUL", rules.MULTIPLICATION, ("mul",)),
    Row("squared_difference", "squared_difference", "SQUARED_DIFFERENCE", rules.ARITHMETIC),
    *(Row(name, name, name.upper(), rules.COMPARISON) for name in ("eq", "ne", "gt", "ge", "lt", "le")),
    *(Row(name, name, name.upper(), rules.ARITHMETIC) for name in ("logical_and", "logical_or", "logical_xor")),
    *(Row(name, name, name.upper(), rules.FLOAT_ONLY) for name in ("ldexp", "logaddexp", "logaddexp2")),
    Row("xlogy", "xlogy", "XLOGY", rules.FLOAT_ONLY, in_place=False),
    Row("logical_right_shift", "logical_right_shift", "LOGICAL_RIGHT_SHIFT", rules.UNSIGNED_SHIFT, in_place=False),
    Row("gcd", "gcd", "GCD", rules.INTEGER, in_place=False),
    Row("lcm", "lcm", "LCM", rules.INTEGER, in_place=False),
    Row("atan2", "atan2", "ATAN2", rules.FLOAT_ONLY, in_place=False),
    Row("hypot", "hypot", "HYPOT", rules.FLOAT_ONLY, in_place=False),
    Row("nextafter", "nextafter", "NEXTAFTER", rules.NEIGHBOUR, in_place=False),
)

IGNORED = ("sub_core_grids", "sub_device_id", "fast_and_approximate_mode")
"""Arguments that choose cores or an approximation; the values do not depend on them here."""
RENAMES = {"input_a": "input_tensor_a", "input_b": "input_tensor_b", "value": "input_tensor_b"}


def options_of(words: dict[str, Any]) -> Options:
    for ignored in IGNORED:
        words.pop(ignored, None)
    return Options(**words)


def golden_of(op: str, in_place: bool = False) -> Callable[..., torch.Tensor]:
    """The pair in torch, as programs call golden functions."""

    def golden(input_tensor_a: Any, input_tensor_b: Any, *_: Any, activations: Any = None, dtype: Any = None, **__: Any) -> torch.Tensor:
        program = as_program(activations, DataType.FLOAT32)
        if not isinstance(input_tensor_a, torch.Tensor):
            result: torch.Tensor = elementwise_scalar.torch(input_tensor_b, op=op, scalar=input_tensor_a, reflected=True, program=program)
            return result.to(input_tensor_b.dtype)
        if isinstance(input_tensor_b, torch.Tensor):
            result = elementwise_binary.torch(input_tensor_a, input_tensor_b, op=op, program=program)
        else:
            result = elementwise_scalar.torch(input_tensor_a, op=op, scalar=input_tensor_b, program=program)
        result = result.to(input_tensor_a.dtype)
        return input_tensor_a.copy_(result) if in_place else result

    golden.__name__ = f"golden_{op}"
    return two(golden)


def declare(row: Row) -> None:
    """Turn a row into its operations."""

    def call(input_tensor_a: Operand, input_tensor_b: Operand, **words: Any) -> Tensor:
        return run_binary(row.name, row.op, row.op_type, row.family, input_tensor_a, input_tensor_b, options_of(words))

    def write(input_tensor_a: Tensor, input_tensor_b: Operand, **words: Any) -> Tensor:
        return run_binary(
            f"{row.name}_",
            row.op,
            row.op_type,
            row.family,
            input_tensor_a,
            input_tensor_b,
            options_of({**words, "output_tensor": input_tensor_a}),
        )

    call.__doc__ = f"`{row.op}` of two tensors, broadcast, or of a tensor and a number."
    write.__doc__ = f"`{row.op}`, written into the first tensor."
    operation(f"ttnn.{row.name}", golden=golden_of(row.op), renames=RENAMES)(call)
    if row.in_place:
        operation(f"ttnn.{row.name}_", golden=golden_of(row.op, in_place=True), renames=RENAMES)(write)
    for alias in row.aliases:
        also_known_as(f"ttnn.{row.name}", f"ttnn.{alias}")
        also_known_as(f"ttnn.{row.name}_", f"ttnn.{alias}_")


for _row in ROWS:
    declare(_row)


# -- division


def _divide(name: str, a: Operand, b: Operand, rounding_mode: str | None, options: Options) -> Tensor:
    """Division; whole numbers divide into FLOAT32 unless they are asked to round."""
    first = a.spec.dtype if isinstance(a, Tensor) else b.spec.dtype if isinstance(b, Tensor) else None
    second = b.spec.dtype if isinstance(b, Tensor) else None
    number = b if isinstance(a, Tensor) else a
    integral = first == INT32 and (second == INT32 or (isinstance(number, int) and rules.fits_whole(number, INT32)))  # type: ignore[arg-type]
    if integral:
        if rounding_mode in ("floor", "trunc"):
            family = Family(frozenset({INT32}))
            return run_binary(name, f"div_{rounding_mode}", f"DIV_{rounding_mode.upper()}", family, a, b, options, result=INT32)
        require(
            options.dtype in (None, FLOAT32),
            f"Incorrect output_dtype value for Integer Division(rounding_mode=None) ; valid input values are None or ttnn.float32, got dtype={options.dtype}",
        )
        require(
            options.output_tensor is None or options.output_tensor.spec.dtype == FLOAT32,
            f"For integer division, supported output dtype is FLOAT32; the output tensor has {options.output_tensor.spec.dtype if options.output_tensor else None}",
        )
        return run_binary(name, "divide", "DIV", rules.DIVISION, a, b, options)
    require(
        rounding_mode in (None, "trunc", "floor"),
        f"Incorrect rounding mode (expected None, 'trunc', or 'floor'), got rounding_mode={rounding_mode!r}",
    )
    op = "divide" if rounding_mode is None else f"div_{rounding_mode}"
    return run_binary(name, op, "DIV", rules.DIVISION, a, b, options, programs=1 if rounding_mode is None else 2)


def _golden_divide(input_tensor_a: Any, input_tensor_b: Any, *_: Any, rounding_mode: str | None = None, **__: Any) -> torch.Tensor:
    return torch.div(input_tensor_a, input_tensor_b, rounding_mode=rounding_mode)


def divide(input_tensor_a: Operand, input_tensor_b: Operand, *, rounding_mode: str | None = None, **words: Any) -> Tensor:
    """a / b, rounded down or towards zero when asked."""
    return _divide("divide", input_tensor_a, input_tensor_b, rounding_mode, options_of(words))


def divide_(input_tensor_a: Tensor, input_tensor_b: Operand, **words: Any) -> Tensor:
    """a / b, written into the first tensor."""
    return _divide("divide_", input_tensor_a, input_tensor_b, None, options_of({**words, "output_tensor": input_tensor_a}))


for _name in ("divide", "div"):
    operation(f"ttnn.{_name}", golden=two(_golden_divide), renames=RENAMES)(divide)
operation("ttnn.divide_", golden=two(_golden_divide), renames=RENAMES)(divide_)
also_known_as("ttnn.divide_", "ttnn.div_")


@operation(
    "ttnn.div_no_nan", golden=two(lambda a, b, **_: torch.where(torch.as_tensor(b) == 0, torch.zeros_like(a), a / b)), renames=RENAMES
)
def div_no_nan(input_tensor_a: Tensor, input_tensor_b: Operand, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """a / b, and zero where b is zero."""
    options = Options(memory_config=memory_config)
    if not isinstance(input_tensor_b, Tensor):
        return run_binary("div_no_nan", "div_no_nan", "MUL", rules.MULTIPLICATION, input_tensor_a, fp32(input_tensor_b), options)
    a, b = input_tensor_a.spec.dtype, input_tensor_b.spec.dtype
    rules.check_dtypes(rules.DIVISION, "DIV", a, b)
    require(
        a == b or INT32 in (a, b),
        f"Mixed dtype is not supported for binary operation BinaryOpType::WHERE_TST, dtype A: {name_of(b)}, dtype B: {name_of(a)}",
    )
    return run_binary(
        "div_no_nan", "div_no_nan", "DIV", rules.DIVISION, input_tensor_a, input_tensor_b, options, programs=4 if a == b == INT32 else 3
    )


@operation("ttnn.floor_div", golden=two(lambda a, b, **_: torch.div(a, b, rounding_mode="floor")), renames=RENAMES)
def floor_div(input_tensor_a: Tensor, input_tensor_b: Operand, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """a / b rounded down; infinite or not a number where b is zero."""
    options = Options(memory_config=memory_config)
    require_device("floor_div", input_tensor_a)
    if not isinstance(input_tensor_b, Tensor):
        dtype = input_tensor_a.spec.dtype
        rules.check_dtypes(rules.MULTIPLICATION, "MUL", dtype)
        if dtype in (INT32, UINT32):
            family = Family(frozenset({INT32, UINT32}))
            number = input_tensor_b
            if rules.fits_whole(number, dtype):
                return run_binary(
                    "floor_div", "div_floor_float", "MUL", family, input_tensor_a, number, options, result=FLOAT32, programs=3
                )
            return run_binary(
                "floor_div", "div_floor", "MUL", rules.MULTIPLICATION, input_tensor_a, number, options, result=FLOAT32, programs=2
            )
        check_whole("FLOOR", dtype)
        return run_binary(
            "floor_div",
            "div_floor",
            "MUL",
            rules.MULTIPLICATION,
            input_tensor_a,
            input_tensor_b,
            options,
            programs=2 if input_tensor_b else 4,
        )
    require_device("floor_div", input_tensor_a, input_tensor_b)
    require(
        Layout.TILE in (input_tensor_a.spec.layout, input_tensor_b.spec.layout) or input_tensor_a.spec.is_sharded,
        "floor_div: Ternary operation requires tensor to be in Tile layout when working with non-sharded input tensor; both operands are ROW_MAJOR",
    )
    integral = input_tensor_a.spec.dtype == input_tensor_b.spec.dtype == INT32
    return run_binary(
        "floor_div",
        "div_floor_float" if integral else "div_floor",
        "DIV",
        rules.DIVISION,
        input_tensor_a,
        input_tensor_b,
        options,
        programs=4,
    )


# -- operations whose constants go through a unary step


def _stepped(
    name: str, step: str, op_type: str, tensor: Tensor, number: Number, options: Options, *, exact: bool, dtype: DataType | None = None
) -> Tensor:
    """A constant operand as a parameter of a unary step."""
    value: Number = whole(number, tensor.spec.dtype) if exact and not FORMATS[tensor.spec.dtype].is_float else fp32(number)
    program = (
        as_program(options.input_tensor_a_activations, tensor.spec.dtype)
        + ((step, (value,)),)
        + as_program(options.activations, tensor.spec.dtype)
    )
    wanted = options.dtype or dtype
    return run_unary(
        name,
        tensor,
        (op_type,),
        program,
        options.memory_config,
        options.output_tensor,
        dtype=wanted,
        programs=1 if wanted in (None, tensor.spec.dtype) else 2,
    )


def _declare_order(name: str) -> None:
    def call(input_tensor_a: Tensor, input_tensor_b: Operand, **words: Any) -> Tensor:
        options = options_of(words)
        if isinstance(input_tensor_b, Tensor):
            return run_binary(name, name, name.upper(), rules.ORDER, input_tensor_a, input_tensor_b, options)
        return _stepped(name, name, name.upper(), input_tensor_a, input_tensor_b, options, exact=True)

    call.__doc__ = f"The {name} of two tensors, broadcast, or of a tensor and a number."
    operation(f"ttnn.{name}", golden=golden_of(name), renames=RENAMES)(call)


for _name in ("maximum", "minimum"):
    _declare_order(_name)


def _declare_bits(name: str, op: str, op_type: str) -> None:
    def call(input_tensor_a: Tensor, input_tensor_b: Operand, **words: Any) -> Tensor:
        options = options_of(words)
        if isinstance(input_tensor_b, Tensor):
            return run_binary(name, op, op_type, rules.BITS, input_tensor_a, input_tensor_b, options)
        require_device(name, input_tensor_a)
        require(
            input_tensor_a.spec.dtype in WIDE,
            f"Unsupported input dtype for bitwise/shift op_type UnaryOpType::{op_type}: expected Int32, UInt32, or UInt16, got {name_of(input_tensor_a.spec.dtype)}",
        )
        return _stepped(name, op, op_type, input_tensor_a, input_tensor_b, options, exact=True)

    call.__doc__ = f"`{op}` of whole numbers, bit by bit."
    operation(f"ttnn.{name}", golden=golden_of(op), renames=RENAMES)(call)


for _name, _op in {
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "logical_left_shift": "left_shift",
}.items():
    _declare_bits(_name, _op, _op.upper())


def _modulo(name: str, family: Family, a: Tensor, b: Operand, options: Options) -> Tensor:
    if isinstance(b, Tensor):
        return run_binary(name, name, name.upper(), family, a, b, options)
    require_device(name, a)
    dtype = a.spec.dtype
    if dtype == UINT32 and dtype in family.dtypes:
        require(float(b).is_integer(), f"{name}: Expected integer scalar divisor (uint32 or int32), got {b}")
    if dtype == INT32 and not rules.fits_whole(b, INT32):
        return _stepped(name, f"{name}_float", name.upper(), a, b, options, exact=False, dtype=FLOAT32)
    return _stepped(name, name, name.upper(), a, b, options, exact=True)


@operation("ttnn.remainder", golden=two(lambda a, b, **_: torch.remainder(a, b)), renames=RENAMES)
def remainder(input_tensor_a: Tensor, input_tensor_b: Operand, **words: Any) -> Tensor:
    """The remainder of a / b with the sign of b."""
    return _modulo("remainder", rules.REMAINDER, input_tensor_a, input_tensor_b, options_of(words))


@operation("ttnn.fmod", golden=two(lambda a, b, **_: torch.fmod(a, b)), renames={**RENAMES, "scalar": "input_tensor_b"})
def fmod(input_tensor_a: Tensor, input_tensor_b: Operand, **words: Any) -> Tensor:
    """The remainder of a / b with the sign of a."""
    return _modulo("fmod", rules.FMOD, input_tensor_a, input_tensor_b, options_of(words))


@operation("ttnn.pow", golden=two(lambda a, b, **_: torch.pow(a, b)))
def pow(input_tensor: Operand, exponent: Operand, **words: Any) -> Tensor:
    """input ** exponent; either may be a number."""
    options = options_of(words)
    if isinstance(exponent, Tensor):
        if not isinstance(input_tensor, Tensor):
            return run_binary("pow", "pow", "POWER", rules.FLOAT_ONLY, input_tensor, exponent, options, programs=2)
        return run_binary("pow", "pow", "POWER", rules.FLOAT_ONLY, input_tensor, exponent, options)
    assert isinstance(input_tensor, Tensor)
    require_device("pow", input_tensor)
    dtype = input_tensor.spec.dtype
    integral = float(exponent).is_integer()
    if dtype in WHOLE:
        check_whole("POWER_ITERATIVE", dtype)
        require(
            integral and exponent >= 0,
            f"pow: {name_of(dtype)} input requires an integral exponent, got {exponent}; negative powers are no whole numbers",
        )
        require(input_tensor.spec.layout == Layout.TILE, f"pow_int: input must be in TILE layout, got {name_of(input_tensor.spec.layout)}")
        return _stepped("pow", "power_iterative", "POWER_ITERATIVE", input_tensor, int(exponent), options, exact=True)
    step = "power_iterative" if integral and exponent >= 0 else "power"
    return _stepped("pow", step, step.upper(), input_tensor, exponent, options, exact=False)


def _bias_gelu(name: str, a: Tensor, b: Operand, options: Options) -> Tensor:
    if isinstance(b, Tensor):
        return run_binary(name, "bias_gelu", "BIAS_GELU", rules.FLOAT_ONLY, a, b, options)
    if options.output_tensor is a:
        return run_binary(name, "bias_gelu", "BIAS_GELU", rules.FLOAT_ONLY, a, b, options)
    require_device(name, a)
    rules.check_dtypes(rules.ARITHMETIC, "ADD", a.spec.dtype)
    if a.spec.dtype in WHOLE:
        rules.whole_scalar(b, a.spec.dtype, "ADD")
        check_whole("GELU", a.spec.dtype)
    return run_binary(name, "bias_gelu", "ADD", rules.ARITHMETIC, a, b, options, programs=2)


def _golden_bias_gelu(input_tensor_a: torch.Tensor, input_tensor_b: Any, *_: Any, **__: Any) -> torch.Tensor:
    return torch.nn.functional.gelu(input_tensor_a + input_tensor_b)


@operation("ttnn.bias_gelu", golden=two(_golden_bias_gelu), renames=RENAMES)
def bias_gelu(input_tensor_a: Tensor, input_tensor_b: Operand, **words: Any) -> Tensor:
    """gelu(a + b)."""
    return _bias_gelu("bias_gelu", input_tensor_a, input_tensor_b, options_of(words))


@operation("ttnn.bias_gelu_", golden=two(_golden_bias_gelu), renames=RENAMES)
def bias_gelu_(input_tensor_a: Tensor, input_tensor_b: Operand, **words: Any) -> Tensor:
    """gelu(a + b), written into the first tensor."""
    return _bias_gelu("bias_gelu_", input_tensor_a, input_tensor_b, options_of({**words, "output_tensor": input_tensor_a}))


# -- pairs with further parameters


def _declare_alpha(name: str, op_type: str, sign: int) -> None:
    def call(
        input_tensor_a: Tensor,
        input_tensor_b: Tensor,
        alpha: float,
        *,
        memory_config: MemoryConfig | None = None,
        output_tensor: Tensor | None = None,
    ) -> Tensor:
        options = Options(memory_config=memory_config, output_tensor=output_tensor)
        return run_binary(name, name, op_type, rules.ARITHMETIC, input_tensor_a, input_tensor_b, options, params=(fp32(alpha),))

    call.__doc__ = f"a {'+' if sign > 0 else '-'} alpha * b."
    operation(f"ttnn.{name}", golden=two(lambda a, b, alpha=1.0, **_: a + sign * alpha * b))(call)


_declare_alpha("addalpha", "ADD", 1)
_declare_alpha("subalpha", "SUB", -1)


@operation("ttnn.isclose", golden=two(lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False, **_: torch.isclose(a, b, rtol, atol, equal_nan)))
def isclose(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """One where |a - b| <= atol + rtol * |b|."""
    params = (fp32(rtol), fp32(atol), float(equal_nan))
    return run_binary(
        "isclose",
        "isclose",
        "ISCLOSE",
        rules.CLOSENESS,
        input_tensor_a,
        input_tensor_b,
        Options(memory_config=memory_config),
        params=params,
    )


def _golden_prelu(input_tensor_a: torch.Tensor, weight: Any, **_: Any) -> torch.Tensor:
    if isinstance(weight, torch.Tensor):
        weight = weight.reshape(-1)
        if weight.numel() > 1:
            weight = weight.reshape(1, -1, *(1,) * (input_tensor_a.dim() - 2))
    elif isinstance(weight, Sequence):
        weight = weight[0]
    return torch.where(input_tensor_a < 0, input_tensor_a * weight, input_tensor_a)


@operation("ttnn.prelu", golden=two(_golden_prelu))
def prelu(input_tensor_a: Tensor, weight: Tensor | Number | Sequence[float], *, memory_config: MemoryConfig | None = None) -> Tensor:
    """x where positive, weight * x elsewhere; a weight tensor holds one number for each channel (dimension 1)."""
    if not isinstance(weight, Tensor):
        if not isinstance(weight, (int, float)) and len(weight) != 1:
            raise TypeError(
                f"\nttnn.prelu(): incompatible function arguments. weight={weight!r} must be one number; slopes for each channel are given as a tensor"
            )
        slope = weight if isinstance(weight, (int, float)) else weight[0]
        return run_unary("prelu", input_tensor_a, ("PRELU_SFPU",), (("prelu", (fp32(slope),)),), memory_config)
    dims = input_tensor_a.spec.dims
    require(
        len(dims) > 1,
        f"prelu: ShapeBase[] index out of range. 1 not in [-4, {len(dims)}); a weight tensor needs an input with channels in dimension 1",
    )
    require(
        weight.spec.volume == dims[1],
        f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.spec.volume} and channel size = {dims[1]}.",
    )
    require_device("prelu", input_tensor_a, weight)
    require(
        input_tensor_a.spec.layout == Layout.TILE or input_tensor_a.spec.is_sharded,
        "prelu: Ternary operation requires tensor to be in Tile layout when working with non-sharded input tensor",
    )
    rules.check_dtypes(rules.MULTIPLICATION, "MUL", input_tensor_a.spec.dtype, weight.spec.dtype)
    made: Any = launch(
        "TernaryDeviceOperation",
        engine_ternary.channel_prelu,
        [input_tensor_a, weight],
        output_spec(input_tensor_a, memory_config),
        programs=3 if weight.spec.volume == 1 else 4,
    )
    return made  # type: ignore[no-any-return]
