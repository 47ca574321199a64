"""Products: matmul, bmm, linear and dot, and their gradients. Matrices are bfloat16, as the kernels read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import moreh as engine
from tessera.formats.dtype import DataType
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.moreh import goldens
from ttnn.operations.moreh.rules import BF16, check, fitting
from ttnn.operations.rules import name_of, require

Outputs = list[Tensor | None]


def _batched(what: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    wide, narrow = (a, b) if len(a) >= len(b) else (b, a)
    padded = (1,) * (len(wide) - len(narrow)) + narrow
    require(all(x == y or 1 in (x, y) for x, y in zip(wide, padded)), f"{what}: batch dimensions {a} and {b} cannot be broadcast")
    return tuple(max(x, y) if 0 not in (x, y) else 0 for x, y in zip(wide, padded))


def _matmul(
    what: str,
    a: Tensor,
    b: Tensor,
    turn_a: bool,
    turn_b: bool,
    bias: Tensor | None,
    output: Tensor | None,
    memory_config: MemoryConfig | None,
) -> Tensor:
    check("moreh_matmul", BF16, input=a, other=b, bias=bias)
    first, second = a.spec.dims, b.spec.dims
    require(len(first) > 1 and len(second) > 1, f"{what}: both operands must have two dimensions, got {a.spec.shape} and {b.spec.shape}")
    m, k = (first[-1], first[-2]) if turn_a else (first[-2], first[-1])
    other, n = (second[-1], second[-2]) if turn_b else (second[-2], second[-1])
    require(k == other, f"{what}: k must be the same. input_k {k}, other_k {other}")
    if bias is not None:
        require(len(bias.spec.dims) == 2, f"{what}: bias rank {len(bias.spec.dims)} must be 2 (tilized).")
        require(bias.spec.volume in (1, n), f"{what}: bias must be a scalar or hold {n} elements, got {bias.spec.shape}")
    shape = (*_batched(what, first[:-2], second[:-2]), m, n)
    out = fitting(what, a.spec, shape, output, memory_config)
    inputs = [a, b, *([] if bias is None else [bias])]
    return launch("MorehMatmulOperation", engine.turned_matmul, inputs, out, attributes={"turn_a": turn_a, "turn_b": turn_b}, into=output)  # type: ignore[no-any-return]


def _gradient(
    what: str, grad: Tensor, a: Tensor, b: Tensor, of: int, turn_b: bool, into: Tensor | None, memory_config: MemoryConfig | None
) -> Tensor:
    """The gradient of one operand: a product, and a sum for each broadcast dimension."""
    check("moreh_matmul", BF16, input=a, other=b, output_grad=grad)
    for name, tensor in (("output_grad", grad), ("input", a), ("other", b)):
        require(len(tensor.spec.dims) > 1, f"{what}: {name} must have two dimensions, got {tensor.spec.shape}")
    n = b.spec.dims[-2] if turn_b else b.spec.dims[-1]
    require(grad.spec.dims[-1] == n, f"{what}: n must be the same. other_n {n}, output_n {grad.spec.dims[-1]}")
    expected = (*_batched(what, a.spec.dims[:-2], b.spec.dims[:-2]), a.spec.dims[-2], n)
    require(grad.spec.dims == expected, f"{what}: output_grad must have shape {expected}, got {grad.spec.shape}")
    target = (a, b)[of]
    batch = (1,) * (len(expected) - len(target.spec.dims)) + target.spec.dims
    sums = sum(x != y for x, y in zip(batch[:-2], expected[:-2]))
    out = fitting(what, target.spec, target.spec.dims, into, memory_config)
    attributes = {"of": of, "turn_b": turn_b}
    return launch(  # type: ignore[no-any-return]
        "MorehMatmulOperation", engine.matmul_grad, [grad, a, b], out, attributes=attributes, into=into, key="grad", programs=1 + sums
    )


@operation("ttnn.moreh_matmul", golden=lambda input, other, *, transpose_input=False, transpose_other=False, **_: (
    (input.mT if transpose_input else input) @ (other.mT if transpose_other else other)
))  # fmt: skip
def moreh_matmul(
    input: Tensor,
    other: Tensor,
    *,
    transpose_input: bool = False,
    transpose_other: bool = False,
    output: Tensor | None = None,
    bias: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The product of matrices, either of them turned; batches broadcast."""
    return _matmul("moreh_matmul", input, other, transpose_input, transpose_other, bias, output, memory_config)


@operation("ttnn.moreh_matmul_backward", golden=goldens.matmul_backward)
def moreh_matmul_backward(
    output_grad: Tensor,
    input_a: Tensor,
    input_b: Tensor,
    *,
    are_required_outputs: Sequence[bool] = (True, True),
    input_a_grad: Tensor | None = None,
    input_b_grad: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Outputs:
    """The gradients of both operands, or of the required one."""
    found: Outputs = [None, None]
    for of, (needed, ready) in enumerate(zip(are_required_outputs, (input_a_grad, input_b_grad))):
        if needed:
            require(
                ready is not None,
                f"moreh_matmul_backward: {'input_a_grad' if of == 0 else 'input_b_grad'} must be given when it is required",
            )
            found[of] = _gradient("moreh_matmul_backward", output_grad, input_a, input_b, of, False, ready, memory_config)
    return found


@operation("ttnn.moreh_bmm", golden=lambda input, mat2, **_: input @ mat2)
def moreh_bmm(
    input: Tensor,
    mat2: Tensor,
    *,
    output: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The product of batches of matrices."""
    require(input.spec.dims[:-2] == mat2.spec.dims[:-2], f"moreh_bmm: batches must be equal, got {input.spec.shape} and {mat2.spec.shape}")
    return _matmul("moreh_bmm", input, mat2, False, False, None, output, memory_config)


@operation("ttnn.moreh_bmm_backward", golden=goldens.bmm_backward)
def moreh_bmm_backward(
    output_grad: Tensor,
    input: Tensor,
    mat2: Tensor,
    *,
    are_required_outputs: Sequence[bool] = (True, True),
    input_grad: Tensor | None = None,
    mat2_grad: Tensor | None = None,
    input_grad_memory_config: MemoryConfig | None = None,
    mat2_grad_memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Outputs:
    """The gradients of both operands, or of the required one, into given tensors."""
    found: Outputs = [None, None]
    rows = (("input", input_grad, input_grad_memory_config), ("mat2", mat2_grad, mat2_grad_memory_config))
    for needed, (name, ready, _) in zip(are_required_outputs, rows):
        require(
            not needed or ready is not None, f"moreh_bmm_backward: {name}_grad needs to have a value when {name}_requires_grad is True."
        )
    for of, (needed, (_, ready, config)) in enumerate(zip(are_required_outputs, rows)):
        if needed:
            found[of] = _gradient("moreh_bmm_backward", output_grad, input, mat2, of, False, ready, config)
    return found


# -- linear


def _golden_linear(input: torch.Tensor, weight: torch.Tensor, *, bias: torch.Tensor | None = None, **_: Any) -> torch.Tensor:
    return torch.nn.functional.linear(input, weight, None if bias is None else bias.reshape(-1))


@operation("ttnn.moreh_linear", golden=_golden_linear)
def moreh_linear(
    input: Tensor,
    weight: Tensor,
    *,
    bias: Tensor | None = None,
    output: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """x times the weight turned, plus bias."""
    return _matmul("moreh_linear", input, weight, False, True, bias, output, memory_config)


@operation("ttnn.moreh_linear_backward", golden=goldens.linear_backward)
def moreh_linear_backward(
    output_grad: Tensor,
    input: Tensor,
    weight: Tensor,
    *,
    are_required_outputs: Sequence[bool] = (True, True, True),
    bias: Tensor | None = None,
    input_grad: Tensor | None = None,
    weight_grad: Tensor | None = None,
    bias_grad: Tensor | None = None,
    input_grad_memory_config: MemoryConfig | None = None,
    weight_grad_memory_config: MemoryConfig | None = None,
    bias_grad_memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Outputs:
    """The gradients of input, weight and bias that are required."""
    what, found = "moreh_linear_backward", [None, None, None]  # type: tuple[str, Outputs]
    rows = ((input_grad, input_grad_memory_config), (weight_grad, weight_grad_memory_config))
    needed = tuple(are_required_outputs)
    require(not needed[2] or bias_grad is not None, f"{what}: bias_grad tensor should not be std::nullopt when it is required")
    for of, (ready, config) in enumerate(rows):
        if needed[of]:
            require(ready is not None, f"{what}: {('input_grad', 'weight_grad')[of]} must be given when it is required")
            found[of] = _gradient(what, output_grad, input, weight, of, True, ready, config)
    if needed[2]:
        assert bias_grad is not None
        check(what, BF16, output_grad=output_grad, bias=bias)
        n = output_grad.spec.dims[-1]
        require(bias_grad.spec.volume in (1, n), f"{what}: bias_grad must be a scalar or hold {n} elements, got {bias_grad.spec.shape}")
        out = bias_grad.spec
        name = "MorehBiasAddBackwardOperation"
        found[2] = launch(name, engine.bias_grad, [output_grad], out, attributes={"shape": out.dims}, into=bias_grad)
    return found


# -- dot

_DOT = (DataType.BFLOAT16, DataType.BFLOAT8_B)


def _check_vectors(what: str, *tensors: Tensor) -> None:
    check(what, tuple(DataType), **{f"tensor {i}": t for i, t in enumerate(tensors)})
    for tensor in tensors:
        dims = tensor.spec.dims
        require(len(dims) == 4 and math.prod(dims[:-1]) == 1, f"{what}: operands must have shape [1, 1, 1, n], got {tensor.spec.shape}")
        require(tensor.spec.dtype in _DOT, f"{what}: Unsupported data format {name_of(tensor.spec.dtype)}")
    require(tensors[0].spec.dims == tensors[1].spec.dims, f"{what}: operands must have one shape")


@operation("ttnn.moreh_dot", golden=lambda input_tensor_a, input_tensor_b, **_: (input_tensor_a * input_tensor_b).sum().reshape(1, 1, 1, 1))
def moreh_dot(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    output: Tensor | None = None,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The dot product of two vectors [1, 1, 1, n]."""
    _check_vectors("moreh_dot", input_tensor_a, input_tensor_b)
    like = input_tensor_a.spec if dtype is None else input_tensor_a.spec.replace(dtype=dtype)
    out = fitting("moreh_dot", like, (1, 1, 1, 1), output, memory_config)
    return launch("MorehDotOperation", engine.dot, [input_tensor_a, input_tensor_b], out, into=output)  # type: ignore[no-any-return]


@operation("ttnn.moreh_dot_backward", golden=goldens.dot_backward)
def moreh_dot_backward(
    output_grad: Tensor,
    input: Tensor,
    other: Tensor,
    *,
    input_grad: Tensor | None = None,
    other_grad: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
) -> Outputs:
    """The gradients of both vectors, into given tensors."""
    what = "moreh_dot_backward"
    require(input_grad is not None and other_grad is not None, f"{what}: Invalid value type: input_grad and other_grad must both be given")
    assert input_grad is not None and other_grad is not None
    _check_vectors(what, input, other)
    check(what, _DOT, output_grad=output_grad)
    require(output_grad.spec.volume == 1, f"{what}: output_grad must be a scalar, got {output_grad.spec.shape}")
    specs = [fitting(what, t.spec, t.spec.dims, ready, None) for t, ready in ((input, input_grad), (other, other_grad))]
    return launch(  # type: ignore[no-any-return]
        "MorehDotBackwardOperation", engine.dot_backward, [output_grad, input, other], specs, into=[input_grad, other_grad]
    )
