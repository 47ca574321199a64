"""Gradients of operations of three operands, and of concatenation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tessera.engine import backward as engine
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.activations import INT8, INT32, UINT16, UINT32, fp32
from ttnn.operations.backward import gradient_spec
from ttnn.operations.backward_binary import ALL, Pair, run_pair
from ttnn.operations.binary_rules import FLOAT32
from ttnn.operations.rules import name_of, require, require_device
from ttnn.operations.unary_goldens import grad_three

ADDCMUL = Pair("addcmul", "addcmul", (0, 1, 1), 0, first=True, whole={UINT32: (FLOAT32, 1), INT32: (FLOAT32, 1), UINT16: (UINT16, 0)})
ADDCDIV = Pair("addcdiv", "addcdiv", (0, 3, 5), 0, rows=False, first=True, mixing=1)
LERP = Pair("lerp", "lerp", (1, 1, 1), 0, whole={INT32: (INT32, 0), UINT16: (UINT16, 0)})


def _golden_triple(op: str) -> Callable[..., list[torch.Tensor]]:
    def golden(
        grad_tensor: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: Any, alpha: float | None = None, **_: Any
    ) -> list[torch.Tensor]:
        scalar = not isinstance(c, torch.Tensor)
        third = torch.full_like(a, c) if scalar else c
        params = () if alpha is None else (alpha,)
        found = engine.triple_backward.torch(grad_tensor, a, b, third, op=op, params=params)
        return [g.to(grad_tensor.dtype) for g in found[: 2 if scalar else 3]]

    return grad_three(golden)


def _declare_triple(pair: Pair) -> None:
    def call(
        grad_tensor: Tensor,
        input_tensor_a: Tensor,
        input_tensor_b: Tensor,
        input_tensor_c: Tensor,
        alpha: float,
        *,
        memory_config: MemoryConfig | None = None,
    ) -> list[Tensor | None]:
        operands = [input_tensor_a, input_tensor_b, input_tensor_c]
        return run_pair(pair, grad_tensor, operands, memory_config, (fp32(alpha),), compute=engine.triple_backward)

    call.__doc__ = f"The gradients of {pair.name} for its three operands."
    operation(f"ttnn.{pair.name}_bw", golden=_golden_triple(pair.op), planned=False)(call)


for _pair in (ADDCMUL, ADDCDIV):
    _declare_triple(_pair)


@operation("ttnn.lerp_bw", golden=_golden_triple("lerp"), renames={"scalar": "input_tensor_c"})
def lerp_bw(
    grad_tensor: Tensor, input_tensor_a: Tensor, input_tensor_b: Tensor, input_tensor_c: Any, *, memory_config: MemoryConfig | None = None
) -> list[Tensor | None]:
    """The gradients of lerp for its operands; a weight that is a number has none."""
    if isinstance(input_tensor_c, Tensor):
        return run_pair(LERP, grad_tensor, [input_tensor_a, input_tensor_b, input_tensor_c], memory_config, compute=engine.triple_backward)
    weight = fp32(input_tensor_c)
    pair = Pair("lerp", "lerp", (1, 0), 0, whole={UINT32: (FLOAT32, 1), INT32: (FLOAT32, 1)}, linear=True)
    return run_pair(pair, grad_tensor, [input_tensor_a, input_tensor_b], memory_config, (weight,), compute=engine.lerp_backward)


WHERE = Pair("where", "where", (1, 1), 0, None)


def _golden_where_bw(grad_tensor: torch.Tensor, condition: torch.Tensor, a: Any, b: Any, **_: Any) -> list[torch.Tensor]:
    return list(engine.where_backward.torch(grad_tensor, condition))


@operation("ttnn.where_bw", golden=grad_three(_golden_where_bw))
def where_bw(
    grad_tensor: Tensor,
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    input_tensor_c: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    are_required_outputs: Sequence[bool] = ALL,
    input_a_grad: Tensor | None = None,
    input_b_grad: Tensor | None = None,
) -> list[Tensor | None]:
    """The gradients of both values; the condition has none."""
    require_device("where_bw", grad_tensor, input_tensor_a, input_tensor_b, input_tensor_c)
    if not any(are_required_outputs):
        return [None, None]
    return run_pair(
        WHERE,
        grad_tensor,
        [input_tensor_a],
        memory_config,
        (),
        are_required_outputs,
        (input_a_grad, input_b_grad),
        compute=engine.where_backward,
    )


# -- concatenation


@operation("ttnn.concat_bw", golden=lambda grad_tensor, a, b, dim=0, **_: list(torch.split(grad_tensor, [a.shape[dim], b.shape[dim]], dim)))
def concat_bw(
    grad_tensor: Tensor,
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    dim: int = 0,
    *,
    are_required_outputs: Sequence[bool] = ALL,
    memory_config: MemoryConfig | None = None,
    input_a_grad: Tensor | None = None,
    input_b_grad: Tensor | None = None,
) -> list[Tensor | None]:
    """The parts of the gradient that belong to the two operands."""
    ranks = [len(t.spec.dims) for t in (grad_tensor, input_tensor_a, input_tensor_b)]
    require(
        all(r == 4 for r in ranks),
        f"concat_bw expects rank-4 tensors, got grad rank {ranks[0]}, input rank {ranks[1]}, other rank {ranks[2]}",
    )
    require_device("concat_bw", grad_tensor, input_tensor_a, input_tensor_b)
    dtypes = {t.spec.dtype for t in (grad_tensor, input_tensor_a, input_tensor_b)}
    require(len(dtypes) == 1, f"concat_bw: Mismatched output dtype, got {', '.join(sorted(name_of(d) for d in dtypes))}")
    require(
        INT8 not in dtypes,
        "concat_bw: ttnn.copy only supports float, bfloat, fp8_e4m3, int32, uint32, uint16 and uint8 inputs but got DataType::INT8",
    )
    place = dim % 4
    answers: list[Tensor | None] = []
    start, programs = 0, 0
    for wanted, target, ready in zip(are_required_outputs, (input_tensor_a, input_tensor_b), (input_a_grad, input_b_grad)):
        begin = [start if i == place else 0 for i in range(4)]
        dims = target.spec.dims
        start += dims[place]
        if not wanted:
            answers.append(None)
            continue
        length = grad_tensor.spec.padded_dims
        require(
            all(d <= n for d, n in zip(dims, length)),
            f"concat_bw: Ends {list(dims)} must be less than or equal to the shape of the tensor {list(length)}",
        )
        require(
            ready is None or ready is not input_a_grad or ready.spec.dims == dims,
            f"concat_bw: Input tensor shape {Shape(dims)} does not match output tensor shape {ready.spec.shape if ready is not None else None}",
        )
        spec = (
            ready.spec
            if ready is not None and ready.spec.dims == dims
            else gradient_spec(grad_tensor, dims, grad_tensor.spec.dtype, memory_config)
        )
        attributes = {"begin": tuple(begin), "dims": dims}
        into = ready if ready is not None and ready.spec.dims == dims else None
        cost = 0 if programs and dims == input_tensor_a.spec.dims and dims == grad_tensor.spec.dims else 1
        answers.append(
            launch("SliceDeviceOperation", engine.slice_backward, [grad_tensor], spec, attributes=attributes, into=into, programs=cost)
        )
        programs += 1
    return answers
