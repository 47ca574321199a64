"""Operations of three operands, clamping between tensors, and the legacy broadcast operation.

The chip has one ternary device operation for tiles; what it does not take (block floats for some, whole numbers for others) it composes of binary ones, which
shows in the number of programs and in which dtypes are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tessera.engine import ternary as engine
from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations import binary_rules as rules
from ttnn.operations.activations import INT32, UINT32, WHOLE, fp32
from ttnn.operations.binary_rules import CHOICE, FLOAT32, FLOATS, Number, broadcast, check_dtypes
from ttnn.operations.rules import name_of, require, require_device
from ttnn.operations.unary_goldens import operands, three, two
from ttnn.operations.unary_rules import placed, run_unary, with_width

Operand = Tensor | Number


def check_tiles(name: str, *tensors: Tensor) -> None:
    """The ternary device operation works on tiles, and on rows of shards."""
    for tensor in tensors:
        if tensor.spec.layout != Layout.TILE and not tensor.spec.is_sharded:
            raise RuntimeError(
                f"{name}: Ternary operation requires tensor to be in Tile layout when working with non-sharded input tensor. Input tensor layout: {tensor.spec.layout}"
            )


def run_ternary(
    name: str,
    compute: Any,
    tensors: list[Tensor],
    attributes: dict[str, Any],
    memory_config: MemoryConfig | None,
    output_tensor: Tensor | None,
    *,
    dtype: DataType | None = None,
    programs: int = 1,
) -> Tensor:
    """Broadcast the tensors, place the output, launch."""
    require_device(name, *tensors)
    dims: tuple[int, ...] = tensors[0].spec.dims
    for other in tensors[1:]:
        dims = broadcast(dims, other.spec.dims)
    if output_tensor is not None:
        require(
            output_tensor.spec.dims == dims,
            f"When preallocted output tensor is used, Ternary operation requires its shape to match the computed shape. Computed shape: {Shape(dims)}, output_tensor: {output_tensor.spec.shape}",
        )
        spec = output_tensor.spec
    else:
        config = placed(memory_config, *tensors, dims=dims)
        spec = tensors[0].spec.replace(shape=Shape.of(dims), dtype=dtype or tensors[0].spec.dtype, memory_config=config)
    result: Any = launch("TernaryDeviceOperation", compute, tensors, spec, attributes=attributes, into=output_tensor, programs=programs)
    return result  # type: ignore[no-any-return]


def _operands(a: Tensor, b: Operand, c: Operand) -> tuple[list[Tensor], dict[str, float]]:
    """The tensors among the operands, and the constants by their place."""
    tensors, constants = [a], {}
    for place, operand in (("b", b), ("c", c)):
        if isinstance(operand, Tensor):
            tensors.append(operand)
        else:
            constants[place] = fp32(operand) if isinstance(operand, float) or a.spec.dtype not in WHOLE else operand
    return tensors, constants


# -- where


def _golden_where(predicate: torch.Tensor, true_value: Any, false_value: Any, **_: Any) -> torch.Tensor:
    return torch.where(predicate.bool(), true_value, false_value)


@operation("ttnn.where", golden=three(_golden_where))
def where(
    predicate: Tensor,
    true_value: Operand,
    false_value: Operand,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """true_value where the predicate is not zero, false_value elsewhere."""
    tensors, constants = [predicate], {}
    for word, operand in (("true_value", true_value), ("false_value", false_value)):
        if isinstance(operand, Tensor):
            tensors.append(operand)
        else:
            constants[word] = fp32(operand)
    require_device("where", *tensors)
    dtype = tensors[1].spec.dtype if len(tensors) > 1 else predicate.spec.dtype
    programs = 1
    if len(tensors) == 3:
        check_tiles("where", *tensors)
    elif len(tensors) == 2:  # one constant: the binary device operation does it
        check_dtypes(CHOICE, "WHERE_TST" if constants.keys() == {"true_value"} else "WHERE_TTS", predicate.spec.dtype, dtype)
    if len(tensors) == 1 and dtype in (INT32, UINT32):  # two constants beside whole numbers: the predicate is typecast, the answer FLOAT32
        dtype, programs = FLOAT32, 2
    return run_ternary("where", engine.where, tensors, constants, memory_config, output_tensor, dtype=dtype, programs=programs)


# -- multiply-adds


triple = operands(("input_a",), ("input_b",), ("input_c",))


ADDCMUL_DTYPES = frozenset({DataType.BFLOAT16, DataType.BFLOAT8_B, FLOAT32, INT32, UINT32})


@operation("ttnn.addcmul", golden=triple(lambda a, b, c, value=1.0, **_: torch.addcmul(a, b, c, value=value)))
def addcmul(
    input_a: Tensor,
    input_b: Tensor,
    input_c: Tensor,
    *,
    value: Number = 1.0,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """a + value * b * c."""
    dtypes = [t.spec.dtype for t in (input_a, input_b, input_c)]
    for dtype in dtypes:
        require(
            dtype in ADDCMUL_DTYPES, f"Addcmul supports only BFLOAT16, BFLOAT8_B, FLOAT32, INT32, and UINT32 dtypes. Got {name_of(dtype)}"
        )
    require(
        len(set(dtypes)) == 1 or not set(dtypes) & WHOLE,
        "Addcmul TTT requires all input tensors to have the same dtype. Got "
        + ", ".join(f"input_{n}={name_of(d)}" for n, d in zip("abc", dtypes)),
    )
    check_tiles("addcmul", input_a, input_b, input_c)
    attributes = {"op": "addcmul", "params": (fp32(value),)}
    return run_ternary("addcmul", engine.elementwise_ternary, [input_a, input_b, input_c], attributes, memory_config, output_tensor)


@operation("ttnn.addcdiv", golden=triple(lambda a, b, c, value=1.0, **_: torch.addcdiv(a, b, c, value=value)))
def addcdiv(
    input_a: Tensor,
    input_b: Tensor,
    input_c: Tensor,
    *,
    value: float = 1.0,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """a + value * b / c."""
    tensors = [input_a, input_b, input_c]
    require(all(t.spec.dtype != INT32 for t in tensors), "Addcdiv TTT does not support INT32 inputs; typecast them to a float first")
    check_float8_rows(tensors)
    check_tiles("addcdiv", *tensors)
    blocks = any(t.spec.dtype in (DataType.BFLOAT8_B, DataType.BFLOAT4_B) for t in tensors)
    attributes = {"op": "addcdiv", "params": (fp32(value),)}
    return run_ternary(
        "addcdiv", engine.elementwise_ternary, tensors, attributes, memory_config, output_tensor, programs=7 if blocks else 1
    )


def check_float8_rows(tensors: list[Tensor]) -> None:
    require(
        all(t.spec.dtype != DataType.FP8_E4M3 for t in tensors),
        "Only ROW_MAJOR layout is supported for FP8_E4M3 dtype! Ternary operations work on tiles",
    )


@operation(
    "ttnn.mac",
    golden=three(lambda a, b, c, **_: a * b + c),
    renames={"value": "input_tensor_b", "value1": "input_tensor_b", "value2": "input_tensor_c"},
)
def mac(
    input_tensor_a: Tensor,
    input_tensor_b: Operand,
    input_tensor_c: Operand,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """a * b + c."""
    tensors, constants = _operands(input_tensor_a, input_tensor_b, input_tensor_c)
    require_device("mac", *tensors)
    check_float8_rows(tensors)
    first = input_tensor_a.spec.dtype
    dtype, programs = first, 1
    if any(t.spec.dtype in WHOLE for t in tensors):  # composed of a multiplication and an addition
        programs = 2
        floats = [t.spec.dtype for t in tensors if t.spec.dtype in FLOATS]
        if first in (INT32, UINT32) and floats:
            dtype, programs = floats[0], 3
        elif constants:
            dtype, programs = FLOAT32, 3
            constants = {place: float(value) for place, value in constants.items()}
        rules.check_dtypes(rules.MULTIPLICATION, "MUL", first)
    elif len(tensors) == 3:
        check_tiles("mac", *tensors)
    return run_ternary(
        "mac", engine.elementwise_ternary, tensors, {"op": "mac", **constants}, memory_config, output_tensor, dtype=dtype, programs=programs
    )


@operation("ttnn.lerp", golden=operands(("input",), ("end",), ("weight",))(lambda a, b, c, **_: torch.lerp(a, b, c)))
def lerp(
    input: Tensor,
    end: Tensor,
    weight: Operand,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """input + weight * (end - input)."""
    tensors = [t for t in (input, end, weight) if isinstance(t, Tensor)]
    require_device("lerp", *tensors)
    dtypes = [t.spec.dtype for t in tensors]
    require(UINT32 not in dtypes, "lerp does not support UINT32 inputs. Got " + ", ".join(name_of(d) for d in dtypes))
    check_float8_rows(tensors)
    constants = {} if isinstance(weight, Tensor) else {"c": fp32(weight)}
    require(
        not constants or INT32 not in dtypes,
        f"Mixed dtype is not supported for binary operation BinaryOpType::ADD, dtype A: DataType::INT32, dtype B: DataType::FLOAT32; lerp with weight={weight} needs floats",
    )
    check_tiles("lerp", *tensors)
    programs = 3 if INT32 in dtypes else 1
    return run_ternary(
        "lerp", engine.elementwise_ternary, tensors, {"op": "lerp", **constants}, memory_config, output_tensor, programs=programs
    )


@operation(
    "ttnn.snake_beta", golden=lambda input_tensor, alpha, beta, **_: input_tensor + torch.sin(alpha * input_tensor) ** 2 / (beta + 1e-9)
)
def snake_beta(
    input_tensor: Tensor, alpha: Tensor, beta: Tensor, *, memory_config: MemoryConfig | None = None, output_tensor: Tensor | None = None
) -> Tensor:
    """x + sin(alpha * x)^2 / beta, the periodic activation of BigVGAN."""
    for tensor in (input_tensor, alpha, beta):
        require(tensor.spec.dtype in rules.PRECISE, f"snake_beta supports only BFLOAT16 or FLOAT32, got {name_of(tensor.spec.dtype)}")
    check_tiles("snake_beta", input_tensor, alpha, beta)
    return run_ternary(
        "snake_beta", engine.elementwise_ternary, [input_tensor, alpha, beta], {"op": "snake_beta"}, memory_config, output_tensor
    )


# -- clamping


def _golden_clamp(input_tensor: torch.Tensor, min: Any = None, max: Any = None, **_: Any) -> torch.Tensor:
    return torch.clamp(input_tensor, min, max)


def _clamp(
    name: str,
    tensor: Tensor,
    low: Operand | None,
    high: Operand | None,
    memory_config: MemoryConfig | None,
    output_tensor: Tensor | None,
    exact: bool,
) -> Tensor:
    require(low is not None or high is not None, f"{name}: Only one of 'min' or 'max' can be None. Please provide one value")
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        bounds = [t for t in (low, high) if isinstance(t, Tensor)]
        constants = {
            place: value
            for place, value in (("b", float("-inf") if low is None else None), ("c", float("inf") if high is None else None))
            if value is not None
        }
        if tensor.spec.dtype in WHOLE:
            constants = {"b": -(2**62)} if low is None else {"c": 2**62} if high is None else {}
        for bound in bounds:
            rules.check_dtypes(rules.ARITHMETIC, "GE", tensor.spec.dtype, bound.spec.dtype)
        same = all(b.spec.dims == tensor.spec.dims for b in bounds)
        return run_ternary(
            name,
            engine.elementwise_ternary,
            [tensor, *bounds],
            {"op": "clamp", **constants},
            memory_config,
            output_tensor,
            programs=2 if same else 3,
        )
    given = [v for v in (low, high) if v is not None]
    whole = exact and all(isinstance(v, int) for v in given)
    params = tuple(None if v is None else int(v) if whole else fp32(v) for v in (low, high))
    dtype = FLOAT32 if tensor.spec.dtype == INT32 and not whole else None
    program: Any = (("clamp", params),) if dtype is None else (("clamp_float", params),)
    return run_unary(name, tensor, ("CLAMP_TSS",), program, memory_config, output_tensor, dtype=dtype, programs=1 if dtype is None else 2)


@operation("ttnn.clamp", golden=_golden_clamp)
def clamp(
    input_tensor: Tensor,
    min: Operand | None = None,
    max: Operand | None = None,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """Each element kept between two numbers or two tensors; where they contradict each other, max wins."""
    return _clamp("clamp", input_tensor, min, max, memory_config, output_tensor, exact=True)


@operation("ttnn.clip", golden=_golden_clamp)
def clip(
    input_tensor: Tensor,
    min: Operand | None = None,
    max: Operand | None = None,
    *,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """`clamp` whose numbers are always floats."""
    return _clamp("clip", input_tensor, min, max, memory_config, None, exact=False)


# -- the legacy broadcast


def _golden_bcast(input_a: torch.Tensor, input_b: torch.Tensor, math_op: Any, dim: Any, **_: Any) -> torch.Tensor:
    forms: dict[str, Callable[..., torch.Tensor]] = {"ADD": torch.add, "SUB": torch.sub, "MUL": torch.mul}
    return forms[math_op.name](input_a, input_b)


@operation("ttnn.bcast", golden=two(_golden_bcast))
def bcast(
    input_a: Tensor,
    input_b: Tensor,
    math_op: Any,
    dim: Any,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """a (+ - *) b with b one row (H), one column (W) or one number (HW)."""
    from tessera.engine.binary import elementwise_binary

    require_device("bcast", input_a, input_b)
    for tensor in (input_a, input_b):
        require(
            tensor.spec.dtype in FLOATS or tensor.spec.dtype == DataType.FP8_E4M3,
            f"bcast: Unsupported data format {name_of(tensor.spec.dtype)}; it takes floats",
        )
    (height, width), (b_height, b_width) = input_a.spec.padded_dims[-2:], input_b.spec.padded_dims[-2:]
    tile = 32
    if dim.name == "H":
        require(width == b_width, f"bcast: Input tensor A width ({width}) must equal input tensor B width ({b_width}) for height broadcast")
    if dim.name == "W":
        require(
            height == b_height, f"bcast: Input tensor A height ({height}) must equal input tensor B height ({b_height}) for width broadcast"
        )
    if "W" in dim.name:
        require(b_width <= tile, f"bcast: input B must be one tile wide to be broadcast along the width, it is {b_width}")
    if "H" in dim.name:
        require(b_height <= tile, f"bcast: input B must be one tile high to be broadcast along the height, it is {b_height}")
    op = {"ADD": "add", "SUB": "subtract", "MUL": "multiply"}[math_op.name]
    spec = output_tensor.spec if output_tensor is not None else input_a.spec.replace(memory_config=placed(memory_config, input_a))
    result: Any = launch(
        "BcastDeviceOperation",
        elementwise_binary,
        [input_a, input_b],
        spec,
        attributes=with_width({"op": op}, spec, input_a, input_b),
        into=output_tensor,
    )
    return result  # type: ignore[no-any-return]
