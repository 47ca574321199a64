"""What operations of two operands share: which dtypes go together, how shapes broadcast, what comes out, and the launch.

A `Family` says which dtypes an operation takes, whether float formats may be mixed, and what becomes of whole numbers that meet fractions. The rest is one rule for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tessera.engine.binary import elementwise_binary, elementwise_scalar
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.operations.activations import INT32, UINT8, UINT16, UINT32, WIDE, as_program, fp32
from ttnn.operations.rules import name_of, require, require_device
from ttnn.operations.unary_rules import placed, with_width

Number = int | float
FLOAT32 = DataType.FLOAT32
FLOATS = frozenset({DataType.BFLOAT16, FLOAT32, DataType.BFLOAT8_B, DataType.BFLOAT4_B})
PRECISE = frozenset({DataType.BFLOAT16, FLOAT32})
NARROW = FLOATS - {FLOAT32}


@dataclass(frozen=True, slots=True)
class Family:
    """`mixes`: float dtypes that may meet. `widens`: INT32 is typecast when it meets a float. `divides`: whole numbers give FLOAT32.
    `answers`: the dtype of the result where it is not the first operand's."""

    dtypes: frozenset[DataType]
    mixes: frozenset[DataType] = frozenset()
    widens: bool = False
    divides: bool = False
    answers: tuple[tuple[DataType, DataType], ...] = ()


ARITHMETIC = Family(FLOATS | WIDE, FLOATS)
MULTIPLICATION = Family(FLOATS | WIDE, FLOATS, widens=True)
DIVISION = Family(FLOATS | {INT32}, FLOATS, widens=True, divides=True)
COMPARISON = Family(FLOATS | WIDE | {UINT8}, FLOATS, answers=((UINT8, UINT16),))
CLOSENESS = Family(FLOATS | {INT32}, PRECISE, widens=True)
ORDER = Family(FLOATS | {INT32, UINT32})
REMAINDER = Family(FLOATS | {INT32, UINT32})
FMOD = Family(FLOATS | {INT32})
FLOAT_ONLY = Family(FLOATS)
NEIGHBOUR = Family(PRECISE)
INTEGER = Family(frozenset({INT32}))
CHOICE = Family(FLOATS | {INT32, UINT32})
BITS = Family(frozenset(WIDE))
UNSIGNED_SHIFT = Family(frozenset({INT32, UINT32}))


def broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The shape that two shapes broadcast to: dimensions are equal or one of them is 1."""
    rank = max(len(a), len(b))
    first, second = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    out = []
    for i, (m, n) in enumerate(zip(first, second)):
        if m != n and m != 1 and n != 1:
            phrase = "Invalid subtile broadcast type" if i >= rank - 2 and len(a) > 1 and len(b) > 1 else "Broadcasting rule violation"
            raise RuntimeError(
                f"{phrase} at dimension index {i - rank} (output rank {rank}), dim a: {m}, dim b: {n}; sizes must be equal or 1"
            )
        out.append(n if m == 1 else m)
    return tuple(out)


def check_dtypes(family: Family, op_type: str, a: DataType, b: DataType | None = None) -> None:
    """Both dtypes must be the family's, and equal unless the family mixes them."""
    for letter, dtype in (("A", a), ("B", b)):
        if dtype is not None and dtype not in family.dtypes:
            raise RuntimeError(
                f"Input tensor {letter} dtype {name_of(dtype)} is not supported for binary operation BinaryOpType::{op_type}"
            )
    if b is None or a == b or (a in family.mixes and b in family.mixes):
        return
    widened = family.widens and INT32 in (a, b) and (a in FLOATS or b in FLOATS)
    require(
        widened, f"Mixed dtype is not supported for binary operation BinaryOpType::{op_type}, dtype A: {name_of(a)}, dtype B: {name_of(b)}"
    )


def bfloat16(scalar: Number) -> float:
    return float(torch.tensor(scalar, dtype=torch.float32).to(torch.bfloat16))


def fits_whole(scalar: Number, dtype: DataType) -> bool:
    row = FORMATS[dtype]
    return math.isfinite(scalar) and scalar == int(scalar) and row.low <= scalar <= row.high


def whole_scalar(scalar: Number, dtype: DataType, op_type: str) -> int:
    """A constant as it is packed beside whole numbers: 32-bit formats insist on one of their own, narrower ones cut and wrap."""
    if dtype in (INT32, UINT32):
        require(
            fits_whole(scalar, dtype) or (op_type == "LOGICAL_RIGHT_SHIFT" and fits_whole(scalar, INT32)),
            f"Binary operation BinaryOpType::{op_type} with a {name_of(dtype)} tensor cannot represent the scalar {scalar}: "
            f"only a finite integer within the range of {name_of(dtype)} survives being packed as one",
        )
        return int(scalar)
    return int(scalar) & FORMATS[dtype].high if math.isfinite(scalar) else 0


def common_layout(a: Tensor, b: Tensor) -> Layout:
    """Operands of different layouts meet in tiles."""
    return a.spec.layout if a.spec.layout == b.spec.layout else Layout.TILE


@dataclass(slots=True)
class Options:
    """The keyword arguments that nearly all of these operations have."""

    dtype: DataType | None = None
    memory_config: MemoryConfig | None = None
    output_tensor: Tensor | None = None
    activations: Iterable[Any] = ()
    input_tensor_a_activations: Iterable[Any] = ()
    input_tensor_b_activations: Iterable[Any] = ()


def check_output(options: Options, dims: tuple[int, ...], row_major: bool) -> None:
    """A ready-made output has the broadcast shape; dtypes given twice agree; ROW_MAJOR operands write into none."""
    output = options.output_tensor
    if output is None:
        return
    require_device("output_tensor", output)
    require(
        options.dtype is None or output.spec.dtype == options.dtype,
        f"If both output dtype and output tensor are provided, their dtypes should match; dtype={options.dtype}, output_tensor has {output.spec.dtype}",
    )
    require(
        not row_major,
        "Optional output tensor with Row Major input is not supported right now for Elementwise operations; convert the operands with ttnn.to_layout",
    )
    require(
        output.spec.dims == dims,
        f"Shape of Output tensor {output.spec.shape} provided does not match the broadcasted output shape {Shape(dims)}",
    )


def run_binary(
    name: str,
    op: str,
    op_type: str,
    family: Family,
    a: Tensor | Number,
    b: Tensor | Number,
    options: Options,
    *,
    params: tuple[float, ...] = (),
    programs: int = 1,
    result: DataType | None = None,
) -> Tensor:
    """Check what the chip refuses of the pair, then run it as one device operation. `result` is the output's dtype where nothing is asked."""
    if not isinstance(a, Tensor):
        assert isinstance(b, Tensor)
        return _with_constant(name, op, op_type, family, b, a, options, params, programs, result, reflected=True)
    if not isinstance(b, Tensor):
        return _with_constant(name, op, op_type, family, a, b, options, params, programs, result, reflected=False)
    require_device(name, a, b)
    first, second = a.spec.dtype, b.spec.dtype
    check_dtypes(family, op_type, first, second)
    dims = broadcast(a.spec.dims, b.spec.dims)
    layout = common_layout(a, b)
    check_output(options, dims, a.spec.layout == b.spec.layout == Layout.ROW_MAJOR)
    answers = dict(family.answers)
    if result is None:
        result = FLOAT32 if family.divides and first == second == INT32 else second if first == INT32 and second in FLOATS else first
        if name == "isclose" and first != second and INT32 in (first, second):
            result = FLOAT32 if first == INT32 else first
    if options.output_tensor is None and options.dtype is None and result in answers:
        result = answers[result]
        programs += 1
    programs += (a.spec.layout != b.spec.layout) + (family.widens and (first == INT32) != (second == INT32))
    attributes = {
        "op": op,
        "params": params,
        "a_program": as_program(options.input_tensor_a_activations, first),
        "b_program": as_program(options.input_tensor_b_activations, second),
        "program": as_program(options.activations, first),
    }
    output = options.output_tensor
    if output is not None:
        spec = output.spec
    else:
        config = placed(options.memory_config, a, b, dims=dims)
        spec = a.spec.replace(shape=Shape.of(dims), dtype=options.dtype or result, layout=layout, memory_config=config)
    made: Any = launch(
        "BinaryNgDeviceOperation",
        elementwise_binary,
        [a, b],
        spec,
        attributes=with_width(attributes, spec, a, b),
        into=output,
        programs=programs,
    )
    return made  # type: ignore[no-any-return]


def _with_constant(
    name: str,
    op: str,
    op_type: str,
    family: Family,
    tensor: Tensor,
    scalar: Number,
    options: Options,
    params: tuple[float, ...],
    programs: int,
    result: DataType | None,
    reflected: bool,
) -> Tensor:
    require_device(name, tensor)
    dtype = tensor.spec.dtype
    # 32-bit whole numbers that meet a float are typecast first, where the family does such a thing.
    widened = family.widens and dtype in (INT32, UINT32) and (isinstance(scalar, float) or not fits_whole(scalar, dtype))
    if not widened:
        check_dtypes(family, op_type, dtype)
    value: Number
    if family is COMPARISON and dtype in NARROW:
        value = bfloat16(scalar)  # what is compared has the operand's precision
    elif widened or dtype in FLOATS or dtype == DataType.FP8_E4M3:
        value = fp32(scalar)
    else:
        value = whole_scalar(scalar, dtype, op_type)
    check_output(options, tensor.spec.dims, tensor.spec.layout == Layout.ROW_MAJOR)
    answers = dict(family.answers)
    if result is None:
        result = FLOAT32 if widened or (family.divides and dtype == INT32) else dtype
    if options.output_tensor is None and options.dtype is None and result in answers:
        result = answers[result]
        programs += 1
    programs += widened
    attributes = {
        "op": op,
        "scalar": value,
        "reflected": reflected,
        "params": params,
        "a_program": as_program(options.input_tensor_a_activations, dtype),
        "b_program": as_program(options.input_tensor_b_activations, dtype),
        "program": as_program(options.activations, dtype),
    }
    output = options.output_tensor
    spec = (
        output.spec
        if output is not None
        else tensor.spec.replace(dtype=options.dtype or result, memory_config=placed(options.memory_config, tensor))
    )
    made: Any = launch(
        "BinaryNgDeviceOperation",
        elementwise_scalar,
        [tensor],
        spec,
        attributes=with_width(attributes, spec, tensor),
        runtime=("scalar",),
        into=output,
        programs=programs,
    )
    return made  # type: ignore[no-any-return]
