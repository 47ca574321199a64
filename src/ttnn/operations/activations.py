"""Unary steps under their official names: what a `UnaryOpType` computes, which whole-number dtypes it takes, how a fused activation becomes a program."""

from __future__ import annotations

import functools
import inspect
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tessera.engine.steps import STEPS
from tessera.engine.unary import Program
from tessera.formats.dtype import FORMATS, DataType
from ttnn.operations.rules import name_of, require

INT32, UINT32, UINT16, UINT8, INT8 = DataType.INT32, DataType.UINT32, DataType.UINT16, DataType.UINT8, DataType.INT8
#: The dtypes that a step without a whole-number form refuses. INT8 is not among them: the chip's check does not know it.
WHOLE = frozenset({INT32, UINT32, UINT16, UINT8})
UNSIGNED = frozenset({UINT32, UINT16, UINT8})
WIDE = frozenset({INT32, UINT32, UINT16})
SIGNED = frozenset({INT32})
NONE: frozenset[DataType] = frozenset()


@dataclass(frozen=True, slots=True)
class Activation:
    """One member of `UnaryOpType`: its step, how many of its parameters are the step's, and the whole-number dtypes it takes."""

    step: str
    parameters: int = 0
    whole: frozenset[DataType] = NONE


def _table() -> dict[str, Activation]:
    same = (
        "EXP SQRT LOG LOG1P TANH LOG2 LOG10 SIN COS COSH SINH SIGN EXP2 EXPM1 ASIN ACOS ACOSH RSQRT ATAN ASINH ATANH ERF ERFC ISINF "
        "ISPOSINF ISNEGINF ISNAN ISFINITE ERFINV I0 I1 TAN SILU SIGMOID FLOOR CEIL TRUNC FRAC ALT_COMPLEX_ROTATE90 MISH HARDMISH "
        "TANHSHRINK HARDSIGMOID HARDSWISH SOFTSIGN CBRT LGAMMA DIGAMMA"
    )
    rows = {name: Activation(name.lower()) for name in same.split()}
    rows |= {
        "RECIP": Activation("reciprocal"),
        "GELU": Activation("gelu"),
        "GELU_TANH": Activation("gelu_tanh"),
        "LOGSIGMOID": Activation("log_sigmoid"),
        "LOGIT": Activation("logit", 1),
        "SOFTPLUS": Activation("softplus", 2),
        "POWER": Activation("power", 1),
        "POWER_ITERATIVE": Activation("power_iterative", 1, WIDE),
        "RPOW": Activation("rpow", 1),
        "ELU": Activation("elu", 1),
        "CELU": Activation("celu", 1),
        "SELU": Activation("selu", 2),
        "XIELU": Activation("xielu", 2),
        "HEAVISIDE": Activation("heaviside", 1),
        "PRELU_SFPU": Activation("prelu", 1),
        "HARDSHRINK": Activation("hardshrink", 1),
        "SOFTSHRINK": Activation("softshrink", 1),
        "HARDTANH": Activation("hardtanh", 2),
        "THRESHOLD": Activation("threshold", 2),
        "ROUND": Activation("round", 1),
        "RDIV": Activation("rdiv", 1),
        "POLYGAMMA": Activation("polygamma", 1),
        "SOFTCAP": Activation("softcap", 1),
        "DROPOUT": Activation("identity"),
        "ZERO_POINT": Activation("add", 1),
        "DIV_UNARY_SFPU": Activation("divide", 1),
        "MUL_UNARY_SFPU": Activation("multiply", 1),
        "MAC_TSS": Activation("mac", 2),
        "WHERE_TSS": Activation("where", 2, WIDE),
        "TYPECAST": Activation("identity", 0, WHOLE),
        "BITCAST": Activation("identity", 0, WHOLE),
        "IDENTITY": Activation("identity", 0, WHOLE),
        "ABS": Activation("abs", 0, WHOLE),
        "ABS_INT32": Activation("abs", 0, WHOLE),
        "RELU": Activation("relu", 0, WHOLE),
        "RELU6": Activation("relu6", 0, WHOLE),
        "RELU_MAX": Activation("relu_max", 1, WHOLE),
        "RELU_MIN": Activation("relu_min", 1, WHOLE),
        "LEAKY_RELU": Activation("leaky_relu", 1, UNSIGNED),
        "SQUARE": Activation("square", 0, WIDE),
        "EQZ": Activation("eqz", 0, WIDE),
        "NEZ": Activation("nez", 0, WIDE),
        "LOGICAL_NOT_UNARY": Activation("logical_not", 0, WIDE),
        "FILL": Activation("fill", 1, WIDE),
        "GTZ": Activation("gtz", 0, SIGNED),
        "LTZ": Activation("ltz", 0, SIGNED),
        "GEZ": Activation("gez", 0, SIGNED),
        "LEZ": Activation("lez", 0, SIGNED),
        "SIGNBIT": Activation("signbit", 0, SIGNED),
        "NEG": Activation("neg", 0, SIGNED),
        "CLAMP_TSS": Activation("clamp", 2, SIGNED),
        "FMOD": Activation("fmod", 1, SIGNED),
        "REMAINDER": Activation("remainder", 1, frozenset({INT32, UINT32})),
        "MAXIMUM": Activation("maximum", 1, frozenset({INT32, UINT32})),
        "MINIMUM": Activation("minimum", 1, frozenset({INT32, UINT32})),
        "BITWISE_NOT": Activation("bitwise_not", 0, frozenset({INT32, UINT32})),
        "BITWISE_AND": Activation("bitwise_and", 1, WIDE),
        "BITWISE_OR": Activation("bitwise_or", 1, WIDE),
        "BITWISE_XOR": Activation("bitwise_xor", 1, WIDE),
        "LEFT_SHIFT": Activation("left_shift", 1, WIDE),
        "RIGHT_SHIFT": Activation("right_shift", 1, WIDE),
        "ADD_UNARY_SFPU": Activation("add", 1, WIDE),
        "SUB_UNARY_SFPU": Activation("subtract", 1, WIDE),
        "RSUB": Activation("rsub", 1, WIDE),
    }
    for name in ("EQ", "NE", "GT", "LT", "GE", "LE"):
        rows[f"UNARY_{name}"] = Activation(name.lower(), 1, WIDE)
    return rows


ACTIVATIONS: dict[str, Activation] = _table()


def fp32(value: float) -> float:
    """A parameter as it reaches the chip: the nearest fp32."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def whole(value: float, dtype: DataType) -> int:
    """A parameter beside whole numbers: cut towards zero; what is not finite becomes the nearest number there is."""
    if math.isfinite(value):
        return int(value)
    return 0 if math.isnan(value) else FORMATS[dtype].high if value > 0 else FORMATS[dtype].low


def parameter(value: float, dtype: DataType) -> float:
    """A parameter beside a tensor of this dtype: whole beside whole numbers if it is one or is not finite, else fp32."""
    if not FORMATS[dtype].is_float and (isinstance(value, int) or not math.isfinite(value)):
        return whole(value, dtype)
    return fp32(value)


def check_whole(op_type: str, dtype: DataType) -> None:
    """A step computes on whole numbers only where it has a form for them."""
    require(
        dtype not in WHOLE or dtype in ACTIVATIONS[op_type].whole,
        f"Unary: UnaryOpType::{op_type} does not support integer input dtype {name_of(dtype)}; typecast the input to a float first",
    )


#: Steps that take fewer dtypes than the others: the float steps of the device operation they stand for.
ONLY = {
    "LGAMMA": frozenset({DataType.BFLOAT16, DataType.FLOAT32}),
    "LOGICAL_NOT_UNARY": frozenset(DataType) - {INT8},
}


def check_only(op_type: str, dtype: DataType) -> None:
    if op_type in ONLY and dtype not in ONLY[op_type]:
        raise RuntimeError(
            f"Unary: {op_type} requires one of {', '.join(sorted(d.name for d in ONLY[op_type]))}; Unsupported data format {name_of(dtype)}"
        )


def check_float8(dtype: DataType) -> None:
    require(
        dtype != DataType.FP8_E4M3,
        "Unary: Fp8_e4m3 / Lf8 require fp32_dest_acc_en=true in ComputeConfig, which elementwise operations do not set; typecast the input to bfloat16 first",
    )


@functools.cache
def needed_parameters(step: str) -> int:
    """How many parameters of a step have no default."""
    parameters = list(inspect.signature(STEPS[step].compute).parameters.values())[1:]
    return sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)


def as_steps(activation: Any) -> Program:
    """The program of one `UnaryWithParam` (or bare `UnaryOpType`)."""
    op_type = getattr(activation, "op_type", activation)
    row = ACTIVATIONS.get(op_type.name)
    require(row is not None, f"activation {op_type.name} cannot be fused; it has no elementwise step")
    assert row is not None
    params = tuple(fp32(p) for p in getattr(activation, "params", ())[: row.parameters])
    needed = needed_parameters(row.step) if row.parameters else 0
    require(len(params) >= needed, f"activation {op_type.name} needs {needed} parameter(s), got {len(params)}; give them to UnaryWithParam")
    return ((row.step, params),)


def as_program(activations: Iterable[Any] | None, dtype: DataType) -> Program:
    """Fused activations as a program, checked against the dtype they are computed in."""
    program: Program = ()
    for activation in activations or ():
        check_whole(getattr(activation, "op_type", activation).name, dtype)
        program += as_steps(activation)
    return program
