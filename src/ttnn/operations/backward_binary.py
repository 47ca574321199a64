"""Gradients of operations of two operands: a row each, and the forms with a number for the second operand.

Which gradients are computed is chosen with `are_required_outputs`; the others are None. What the chip composes shows in the number of programs of each gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tessera.engine import backward as engine
from tessera.formats.dtype import DataType
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.activations import INT8, INT32, UINT16, UINT32, WHOLE, fp32
from ttnn.operations.backward import Row, Whole, check_rows, gradient_spec, run_unary_backward
from ttnn.operations.binary_rules import FLOATS, broadcast
from ttnn.operations.rules import name_of, require, require_device
from ttnn.operations.unary_goldens import grad_two

BLOCKS = frozenset({DataType.BFLOAT8_B, DataType.BFLOAT4_B})
ALL = (True, True)


@dataclass(frozen=True, slots=True)
class Pair:
    """One gradient of two (or three) operands. `costs` are the programs of each gradient; `shared` come on top once. `first` is True where the gradient of the
    first operand is the incoming one itself. The rest is as in `backward.Row`."""

    name: str
    op: str
    costs: tuple[int, ...]
    shared: int = 0
    like: str | None = "grad"
    rows: bool = True
    alike: bool = False
    whole: Whole | None = None
    first: bool = False
    blocks: bool = True
    mixing: int = 0
    linear: bool = False
    """The gradients have the shape of the incoming one."""


PAIRS: tuple[Pair, ...] = (
    Pair("atan2", "atan2", (3, 3), 1, "input", mixing=1),
    Pair("hypot", "hypot", (1, 1), 1, mixing=1),
    Pair("ldexp", "ldexp", (1, 1), 1, mixing=1),
    Pair("logaddexp", "logaddexp", (2, 2), 1, blocks=False),
    Pair("logaddexp2", "logaddexp2", (2, 2), 1, blocks=False),
    Pair("max", "maximum", (3, 3), 1, None, rows=False, whole={INT32: (INT32, 1)}),
    Pair("min", "minimum", (3, 3), 1, None, rows=False, whole={INT32: (INT32, 1)}),
    Pair("squared_difference", "squared_difference", (1, 1), 1, whole={INT32: (INT32, 0)}),
    Pair("xlogy", "xlogy", (4, 4), 1),
)

REQUIRED: tuple[Pair, ...] = (
    Pair("add", "add", (1, 1), 0, "input", rows=False, alike=True, whole={INT32: (INT32, 1), UINT32: (UINT32, 1), UINT16: (UINT16, 0)}),
    Pair("sub", "subtract", (1, 2), 0, "input", rows=False, alike=True, whole={INT32: (INT32, 1)}),
    Pair("rsub", "rsub", (1, 1), 0, whole={INT32: (INT32, 0)}, linear=True),
)


def _answer(pair: Pair, tensors: list[Tensor]) -> tuple[DataType, int]:
    """The dtype of the gradients and the programs beyond the pair's own."""
    dtypes = [t.spec.dtype for t in tensors]
    for dtype in dtypes:
        if dtype in WHOLE or dtype in (INT8, DataType.FP8_E4M3):
            answer = (pair.whole or {}).get(dtype)
            require(
                answer is not None,
                f"{pair.name}_bw: Input tensor A dtype {name_of(dtype)} is not supported for binary operation BinaryOpType::{pair.op.upper()} in its gradient",
            )
            assert answer is not None
            return answer
    require(
        pair.blocks or not BLOCKS & set(dtypes),
        f"{pair.name}_bw: BFLOAT8_B/BFLOAT4_B dtypes are not supported, got {', '.join(map(name_of, dtypes))}",
    )
    mixed = len(set(dtypes)) > 1
    require(
        pair.like is not None or not mixed,
        f"Mixed dtype is not supported for binary operation BinaryOpType::WHERE_TST in {pair.name}_bw, got {', '.join(map(name_of, dtypes))}",
    )
    uneven = any(t.spec.dims != tensors[0].spec.dims for t in tensors[1:])
    return (dtypes[1] if pair.like == "input" else dtypes[0]), pair.mixing if mixed or uneven else 0


def run_pair(
    pair: Pair,
    grad: Tensor,
    operands: list[Tensor],
    memory_config: MemoryConfig | None,
    params: tuple[float, ...] = (),
    wanted: Sequence[bool] | None = None,
    ready: Sequence[Tensor | None] = (None, None, None),
    compute: Any = None,
) -> list[Tensor | None]:
    """Check, launch, and answer the gradients in order, None for those that are not wanted."""
    name = f"{pair.name}_bw"
    wanted = [True] * len(pair.costs) if wanted is None else [bool(w) for w in wanted]
    require(any(wanted), f"{name}: At least one gradient is expected to be calculated. are_required_outputs={wanted}")
    require_device(name, grad, *operands)
    dtype, further = _answer(pair, [grad, *operands])
    check_rows(Row(pair.name, 0, rows=pair.rows), grad, *operands)
    dims = grad.spec.dims
    for operand in operands:
        require(
            not pair.alike or operand.spec.dims == grad.spec.dims,
            f"{name}: Input tensor shape {grad.spec.shape} does not match output tensor shape {operand.spec.shape}; binary_backward: operand shape must be the gradient's",
        )
        dims = dims if pair.linear else broadcast(dims, operand.spec.dims)
    answers: list[Tensor | None] = [None] * len(pair.costs)
    computed = list(wanted)
    if pair.first and wanted[0]:
        answers[0], computed[0] = grad, False
    places = [i for i, w in enumerate(computed) if w]
    if not places:
        return answers
    outputs = [ready[i] for i in places]
    for output in outputs:
        if output is not None:
            require(
                output.spec.dims == dims,
                f"{name}: Shape of Output tensor {output.spec.shape} provided does not match the broadcasted output shape {Shape(dims)}",
            )
    spec = gradient_spec(grad, dims, dtype, memory_config, *operands)
    specs = [spec if output is None else output.spec for output in outputs]
    if pair.linear:
        operands = [grad] * len(operands)
    attributes = {"op": pair.op, "params": params, "wanted": tuple(computed)}
    programs = sum(pair.costs[i] for i in places) + pair.shared + further
    given = outputs if any(o is not None for o in outputs) else None
    kernel = compute if compute is not None else engine.pair_backward
    found = launch(name, kernel, [grad, *operands], specs, attributes=attributes, into=given, programs=programs)
    for place, gradient in zip(places, found):
        answers[place] = gradient
    return answers


def golden_of(op: str) -> Callable[..., list[torch.Tensor]]:
    def golden(
        grad_tensor: torch.Tensor, input_tensor_a: torch.Tensor, input_tensor_b: Any, *rest: Any, **words: Any
    ) -> list[torch.Tensor]:
        if not isinstance(input_tensor_b, torch.Tensor):
            other = torch.full_like(input_tensor_a, input_tensor_b)
            return [engine.pair_backward.torch(grad_tensor, input_tensor_a, other, op=op)[0].to(grad_tensor.dtype)]
        params = tuple(v for v in (*rest, *(words[w] for w in ("alpha",) if w in words)) if isinstance(v, (int, float)))
        return [
            g.to(grad_tensor.dtype) for g in engine.pair_backward.torch(grad_tensor, input_tensor_a, input_tensor_b, op=op, params=params)
        ]

    golden.__name__ = f"golden_{op}_bw"
    return grad_two(golden)


def _declare_pair(pair: Pair) -> None:
    def call(
        grad_tensor: Tensor, input_tensor_a: Tensor, input_tensor_b: Tensor, *, memory_config: MemoryConfig | None = None
    ) -> list[Tensor | None]:
        return run_pair(pair, grad_tensor, [input_tensor_a, input_tensor_b], memory_config)

    call.__doc__ = f"The gradients of {pair.name} for both operands."
    operation(f"ttnn.{pair.name}_bw", golden=golden_of(pair.op))(call)


for _pair in PAIRS:
    _declare_pair(_pair)


def _copied(pair: Pair, grad: Tensor, tensor: Tensor, memory_config: MemoryConfig | None, ready: Tensor | None) -> list[Tensor | None]:
    """The gradient for a tensor that a constant was added to: a copy."""
    require_device(f"{pair.name}_bw", grad, tensor)
    require(
        grad.spec.dims == tensor.spec.dims and (ready is None or ready.spec.dims == tensor.spec.dims),
        f"{pair.name}_bw: Input tensor shape {grad.spec.shape} does not match output tensor shape {(ready or tensor).spec.shape}",
    )
    spec = ready.spec if ready is not None else gradient_spec(grad, tensor.spec.dims, tensor.spec.dtype, memory_config, tensor)
    program = (("identity", ()),)
    made: Any = launch("CopyDeviceOperation", engine.unary_backward, [grad, tensor], spec, attributes={"program": program}, into=ready)
    return [made]


def _declare_required(pair: Pair) -> None:
    def call(
        grad_tensor: Any,
        input_tensor: Any,
        other_tensor: Any,
        *alpha: float,
        are_required_outputs: Sequence[bool] = ALL,
        memory_config: MemoryConfig | None = None,
        input_grad: Tensor | None = None,
        other_grad: Tensor | None = None,
        **words: Any,
    ) -> Any:
        if not isinstance(grad_tensor, Tensor):
            from ttnn.operations.complex import complex_sum_bw

            factor = alpha[0] if alpha else words["alpha"]
            return complex_sum_bw(grad_tensor, factor if pair.name == "add" else -factor)
        if not isinstance(other_tensor, Tensor):
            return _copied(pair, grad_tensor, input_tensor, memory_config, input_grad)
        return run_pair(pair, grad_tensor, [input_tensor, other_tensor], memory_config, (), are_required_outputs, (input_grad, other_grad))

    call.__doc__ = f"The gradients of {pair.name}, those that are required."
    operation(f"ttnn.{pair.name}_bw", golden=golden_of(pair.op), renames=RENAMES)(call)


RENAMES = {"input_tensor_a": "input_tensor", "input_tensor_b": "other_tensor", "scalar": "other_tensor"}

for _pair in REQUIRED:
    _declare_required(_pair)


def _declare_alpha(pair: Pair, names: tuple[str, str]) -> None:
    def call(
        grad_tensor: Tensor,
        input_tensor_a: Tensor,
        input_tensor_b: Tensor,
        alpha: float = 1.0,
        *,
        are_required_outputs: Sequence[bool] = ALL,
        memory_config: MemoryConfig | None = None,
        **ready: Tensor | None,
    ) -> list[Tensor | None]:
        given = tuple(ready.get(name) for name in names)
        return run_pair(pair, grad_tensor, [input_tensor_a, input_tensor_b], memory_config, (fp32(alpha),), are_required_outputs, given)

    call.__doc__ = f"The gradients of {pair.name}."
    operation(f"ttnn.{pair.name}_bw", golden=golden_of(pair.op))(call)


_KEPT: Whole = {INT32: (INT32, 1), UINT32: (UINT32, 1), UINT16: (UINT16, 0)}
_declare_alpha(Pair("addalpha", "addalpha", (1, 1), 0, "input", rows=False, alike=True, whole=_KEPT), ("input_a_grad", "input_b_grad"))
_declare_alpha(
    Pair("subalpha", "subalpha", (1, 2), 0, "input", rows=False, alike=True, whole={INT32: (INT32, 1)}), ("input_grad", "other_grad")
)


# -- multiplication and division


MUL = Pair("mul", "multiply", (0, 0), 1, "input", alike=True)
DIV = Pair("div", "divide", (2, 1), 0, "input", rows=False)


def _check_mul(*tensors: Tensor) -> None:
    for tensor in tensors:
        dtype = tensor.spec.dtype
        require(
            dtype in FLOATS,
            f"mul_bw: MUL_BW requires floating-point tensors; got dtype {name_of(dtype)}. Integer operands have no gradient",
        )


@operation("ttnn.mul_bw", golden=golden_of("multiply"), renames=RENAMES)
def mul_bw(
    grad_tensor: Any,
    input_tensor: Any,
    other_tensor: Any,
    *,
    are_required_outputs: Sequence[bool] = ALL,
    memory_config: MemoryConfig | None = None,
    input_grad: Tensor | None = None,
    other_grad: Tensor | None = None,
) -> Any:
    """The gradients of multiplication by a tensor, a number or (complex) a complex tensor."""
    if not isinstance(grad_tensor, Tensor):
        from ttnn.operations.complex import complex_mul_bw

        return complex_mul_bw(grad_tensor, input_tensor, other_tensor, memory_config)
    if isinstance(other_tensor, Tensor):
        _check_mul(grad_tensor, input_tensor, other_tensor)
        if not any(are_required_outputs):
            return [None, None]
        return run_pair(MUL, grad_tensor, [input_tensor, other_tensor], memory_config, (), are_required_outputs, (input_grad, other_grad))
    _check_mul(grad_tensor, input_tensor)
    row = Row("mul", 1, "input", rows=False)
    return run_unary_backward(row, (("multiply", (fp32(other_tensor),)),), grad_tensor, input_tensor, memory_config, input_grad)


def _golden_div_bw(
    grad_tensor: torch.Tensor, input_tensor: torch.Tensor, other: Any, rounding_mode: str | None = None, **_: Any
) -> list[torch.Tensor]:
    if rounding_mode is not None:
        return [torch.zeros_like(grad_tensor)] * (2 if isinstance(other, torch.Tensor) else 1)
    return golden_of("divide")(grad_tensor, input_tensor, other)


@operation("ttnn.div_bw", golden=grad_two(_golden_div_bw), renames=RENAMES)
def div_bw(
    grad_tensor: Any,
    input_tensor: Any,
    other_tensor: Any,
    rounding_mode: str | None = None,
    *,
    are_required_outputs: Sequence[bool] = ALL,
    memory_config: MemoryConfig | None = None,
    input_grad: Tensor | None = None,
    other_grad: Tensor | None = None,
) -> Any:
    """The gradients of division; zero where the quotient was rounded."""
    if not isinstance(grad_tensor, Tensor):
        from ttnn.operations.complex import complex_div_bw

        return complex_div_bw(grad_tensor, input_tensor, other_tensor, memory_config)
    require(
        rounding_mode in (None, "None", "trunc", "floor"),
        f"Incorrect rounding mode (expected None, 'trunc', or 'floor'), got rounding_mode={rounding_mode!r}",
    )
    rounded = rounding_mode in ("trunc", "floor")
    op = f"div_{rounding_mode}" if rounded else "divide"
    if isinstance(other_tensor, Tensor):
        moved = memory_config is not None and memory_config != input_tensor.spec.memory_config
        mixed = grad_tensor.spec.dtype != input_tensor.spec.dtype
        pair = Pair("div", op, (0, 0), 1, "input") if rounded else Pair("div", op, (2, 1), int(moved or mixed), "input", rows=False)
        return run_pair(pair, grad_tensor, [input_tensor, other_tensor], memory_config, (), are_required_outputs, (input_grad, other_grad))
    row = Row("div", 1, "input", rows=False, whole={UINT16: (UINT16, 0), INT32: (INT32, 1), UINT32: (UINT32, 1)})
    step = "fill" if rounded else "divide"
    return run_unary_backward(row, ((step, (fp32(other_tensor),)),), grad_tensor, input_tensor, memory_config, input_grad)


# -- remainders


def _declare_modulo(name: str) -> None:
    pair = Pair(name, name, (0, 4), 0, whole={INT32: (INT32, -1)}, first=True)

    def call(
        grad_tensor: Tensor, input_tensor_a: Tensor, input_tensor_b: Any, *, memory_config: MemoryConfig | None = None
    ) -> list[Tensor | None]:
        if not isinstance(input_tensor_b, Tensor):
            return [grad_tensor]
        return run_pair(pair, grad_tensor, [input_tensor_a, input_tensor_b], memory_config)

    call.__doc__ = f"The gradients of {name}; for the first operand it is the incoming one."
    operation(f"ttnn.{name}_bw", golden=golden_of(name), renames={"scalar": "input_tensor_b"}, planned=False)(call)


for _name in ("fmod", "remainder"):
    _declare_modulo(_name)


# -- gelu of a sum


BIAS_GELU = Pair("bias_gelu", "bias_gelu", (1, 0), 1, "input", alike=True)
GELU_SCALAR = Row("bias_gelu", 2, "input", alike=True)


@operation("ttnn.bias_gelu_bw", golden=golden_of("bias_gelu"), renames={"input_tensor": "input_tensor_a", "bias": "input_tensor_b"})
def bias_gelu_bw(
    grad_tensor: Tensor,
    input_tensor_a: Tensor,
    input_tensor_b: Any,
    *,
    variant: Any = None,
    approximate: str = "none",
    memory_config: MemoryConfig | None = None,
) -> list[Tensor | None]:
    """The gradient of gelu(a + b), the same for both operands."""
    require(approximate in ("none", "tanh"), f"Incorrect approximation type (expected 'none', 'tanh'), got approximate={approximate!r}")
    tanh = approximate == "tanh" or (variant is not None and variant.name == "Tanh")
    for operand in (grad_tensor, input_tensor_a):
        require(
            operand.spec.dtype in FLOATS,
            f"GELU_BW operation only supports floating-point dtypes (bfloat16, float32, bfloat8_b, bfloat4_b), but the input has {name_of(operand.spec.dtype)}",
        )
    if isinstance(input_tensor_b, Tensor):
        pair = Pair("bias_gelu", "bias_gelu_tanh", (1, 0), 1, "input", alike=True) if tanh else BIAS_GELU
        return run_pair(pair, grad_tensor, [input_tensor_a, input_tensor_b], memory_config)
    program = (("add", (fp32(input_tensor_b),)), ("gelu_tanh" if tanh else "gelu", ()))
    return run_unary_backward(GELU_SCALAR, program, grad_tensor, input_tensor_a, memory_config, None)  # type: ignore[return-value]


# -- copies


def _assigned(grad: Tensor, target: Tensor, memory_config: MemoryConfig | None, ready: Tensor | None, programs: int) -> Tensor:
    out = ready or target
    require(
        grad.spec.dims == out.spec.dims,
        f"assign_bw: Input tensor shape {grad.spec.shape} does not match output tensor shape {out.spec.shape}",
    )
    require(
        INT8 not in (grad.spec.dtype, out.spec.dtype),
        f"assign_bw: ttnn.copy only supports float, bfloat, fp8_e4m3, int32, uint32, uint16 and uint8 inputs but got {name_of(grad.spec.dtype)}",
    )
    spec = ready.spec if ready is not None else gradient_spec(grad, grad.spec.dims, target.spec.dtype, memory_config, target)
    made: Any = launch(
        "CopyDeviceOperation",
        engine.unary_backward,
        [grad, target],
        spec,
        attributes={"program": (("identity", ()),)},
        into=ready,
        programs=programs,
    )
    return made  # type: ignore[no-any-return]


@operation(
    "ttnn.assign_bw",
    golden=lambda grad_tensor, *inputs, **_: [grad_tensor] * len(inputs),
    renames={"input_tensor": "input_tensor_a"},
    planned=False,
)
def assign_bw(
    grad_tensor: Tensor,
    input_tensor_a: Tensor,
    input_tensor_b: Tensor | None = None,
    *,
    are_required_outputs: Sequence[bool] = ALL,
    memory_config: MemoryConfig | None = None,
    input_a_grad: Tensor | None = None,
    input_b_grad: Tensor | None = None,
) -> list[Tensor | None]:
    """The gradient itself; copies of it where two operands or ready-made outputs are given."""
    if input_tensor_b is None:
        return [grad_tensor] if input_a_grad is None else [_assigned(grad_tensor, input_tensor_a, memory_config, input_a_grad, 1)]
    require_device("assign_bw", grad_tensor, input_tensor_a, input_tensor_b)
    require(
        any(are_required_outputs),
        f"assign_bw: At least one gradient is expected to be calculated. are_required_outputs={list(are_required_outputs)}",
    )
    answers: list[Tensor | None] = []
    made = 0
    for wanted, target, ready in zip(are_required_outputs, (input_tensor_a, input_tensor_b), (input_a_grad, input_b_grad)):
        answers.append(_assigned(grad_tensor, target, memory_config, ready, int(not made)) if wanted else None)
        made += bool(wanted)
    return answers
