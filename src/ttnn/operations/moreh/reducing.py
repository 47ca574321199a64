"""Sums, means and norms over dimensions, running sums, powers, and clipping gradients by their norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import moreh as engine
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.moreh import goldens
from ttnn.operations.moreh.rules import BF16, WHOLE, check, check_grad, fitting, named_dims, real_dims, reduced_shape
from ttnn.operations.reduction.running import accumulate
from ttnn.operations.rules import require

Dims = int | Sequence[int] | None


def _golden(reference: Any) -> Any:
    def golden(input: torch.Tensor, dim: Any = None, *, keepdim: bool = False, **_: Any) -> torch.Tensor:
        dims = tuple(range(input.dim())) if dim is None or dim == [] else dim
        found: torch.Tensor = reference(input, dims, keepdim=keepdim)
        return found

    return golden


@operation("ttnn.moreh_sum", golden=_golden(torch.sum))
def moreh_sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    output: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The sum over dimensions; a program for each."""
    what, shape = "moreh_sum", input.spec.dims
    check(what, WHOLE, input=input)
    dims = named_dims(what, dim, len(shape))
    out = fitting(what, input.spec, reduced_shape(shape, dims, keepdim), output, memory_config)
    attributes = {"dims": real_dims(shape, dims), "shape": out.dims}
    return launch("MorehSumOperation", engine.reduced, [input], out, attributes=attributes, into=output, programs=len(dims))  # type: ignore[no-any-return]


@operation("ttnn.moreh_mean", golden=_golden(torch.mean))
def moreh_mean(
    input: Tensor,
    *,
    dim: Dims = None,
    keepdim: bool = False,
    divisor: int | None = None,
    output: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The mean over dimensions. A vector is a row here too, but its second dimension is one long and stays out of the answer's shape."""
    what, shape = "moreh_mean", input.spec.dims
    check(what, BF16, input=input)
    require(divisor is None, f"{what}: divisor={divisor} is not supported")
    dims = named_dims(what, dim, len(shape))
    inside = tuple(d for d in dims if d < len(shape))
    require(inside == dims or not keepdim, f"{what}: dim={dim} is out of range for the rank {len(shape)} of the output")
    out = fitting(what, input.spec, reduced_shape(shape, inside, keepdim), output, memory_config)
    attributes = {"dims": inside, "shape": out.dims, "mean": True}
    return launch("MorehMeanOperation", engine.reduced, [input], out, attributes=attributes, into=output, programs=len(dims))  # type: ignore[no-any-return]


@operation("ttnn.moreh_norm", golden=lambda input, p, *, dim=None, keepdim=False, **_: torch.linalg.vector_norm(input, p, dim, keepdim))
def moreh_norm(
    input: Tensor,
    p: float,
    *,
    dim: Dims = None,
    keepdim: bool = False,
    output: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The p-norm over dimensions: powers, a sum for each dimension, a root."""
    what, shape = "moreh_norm", input.spec.dims
    check(what, WHOLE, input=input)
    dims = named_dims(what, dim, len(shape))
    out = fitting(what, input.spec, reduced_shape(shape, dims, keepdim), output, memory_config)
    attributes = {"p": p, "dims": real_dims(shape, dims), "shape": out.dims}
    return launch("MorehNormOperation", engine.norm, [input], out, attributes=attributes, into=output, programs=len(dims) + 2)  # type: ignore[no-any-return]


@operation("ttnn.moreh_abs_pow", golden=lambda input, p, **_: input.abs().pow(p))
def moreh_abs_pow(
    input: Tensor,
    p: float,
    *,
    output: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """|x| to the power p."""
    check("moreh_abs_pow", WHOLE, input=input)
    out = fitting("moreh_abs_pow", input.spec, input.spec.dims, output, memory_config)
    return launch("MorehAbsPowOperation", engine.powered, [input], out, attributes={"p": p}, into=output)  # type: ignore[no-any-return]


# -- gradients


def _golden_sum_backward(
    output_grad: torch.Tensor, *, input: torch.Tensor, dim: Any = None, keepdim: bool = False, **_: Any
) -> torch.Tensor:
    leaf = input.detach().clone().requires_grad_()
    found = leaf.sum(tuple(range(input.dim())) if dim is None else dim, keepdim=keepdim)
    return torch.autograd.grad(found, leaf, output_grad.reshape(found.shape))[0]


@operation("ttnn.moreh_sum_backward", golden=_golden_sum_backward)
def moreh_sum_backward(
    output_grad: Tensor,
    *,
    input: Tensor | None = None,
    dim: Dims = None,
    keepdim: bool = False,
    input_grad: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """Each element gets the gradient of its sum."""
    what, shaped = "moreh_sum_backward", input if input is not None else input_grad
    check(what, BF16, output_grad=output_grad, input=input)
    require(shaped is not None, f"{what}: input or input_grad must be given: one of them says the shape")
    assert shaped is not None
    shape = shaped.spec.dims
    require(len(shape) > 1, f"{what}: the input must have at least two dimensions, got {shaped.spec.shape}")
    dims = named_dims(what, dim, len(shape))
    expected = reduced_shape(shape, dims, keepdim)
    got = output_grad.spec.dims
    require(len(got) == len(expected), f"{what}: expected_rank {len(expected)} == rank {len(got)} of output_grad")
    check_grad(what, got, shape, dims)
    out = fitting(what, shaped.spec, shape, input_grad, memory_config)
    attributes = {"dims": dims, "shape": shape}
    return launch("MorehSumBackwardOperation", engine.spread, [output_grad], out, attributes=attributes, into=input_grad)  # type: ignore[no-any-return]


@operation("ttnn.moreh_mean_backward", golden=goldens.mean_backward)
def moreh_mean_backward(
    output_grad: Tensor,
    *,
    dim: Dims = None,
    keepdim: bool = False,
    input_grad_shape: Any = None,
    input_grad: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """Each element gets its share of the gradient of its mean."""
    what = "moreh_mean_backward"
    check(what, BF16, output_grad=output_grad, input_grad=input_grad)
    require(
        input_grad_shape is not None or input_grad is not None, f"{what}: input_grad_shape or input_grad must be given: one says the shape"
    )
    shape = input_grad.spec.dims if input_grad is not None else tuple(input_grad_shape)
    dims = tuple(d for d in named_dims(what, dim, len(shape)) if d < len(shape))
    check_grad(what, output_grad.spec.dims, shape, dims)
    out = fitting(what, output_grad.spec, shape, input_grad, memory_config)
    attributes = {"dims": dims, "shape": shape, "mean": True}
    return launch("MorehMeanBackwardOperation", engine.spread, [output_grad], out, attributes=attributes, into=input_grad)  # type: ignore[no-any-return]


@operation("ttnn.moreh_norm_backward", golden=goldens.norm_backward)
def moreh_norm_backward(
    input: Tensor,
    output: Tensor,
    output_grad: Tensor,
    p: float,
    *,
    dim: Dims = None,
    keepdim: bool = False,
    input_grad: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The gradient of the p-norm, from its output."""
    what, shape = "moreh_norm_backward", input.spec.dims
    check(what, BF16, input=input, output=output, output_grad=output_grad)
    dims = named_dims(what, dim, len(shape))
    for tensor in (output, output_grad):
        check_grad(what, tensor.spec.dims, shape, real_dims(shape, dims))
    out = fitting(what, input.spec, shape, input_grad, memory_config)
    attributes = {"p": p, "dims": real_dims(shape, dims)}
    return launch(  # type: ignore[no-any-return]
        "MorehNormBackwardOperation", engine.norm_backward, [input, output, output_grad], out, attributes=attributes, into=input_grad
    )


# -- running sums: the same machinery as cumsum


@operation("ttnn.moreh_cumsum", golden=lambda input, dim, **_: torch.cumsum(input, dim))
def moreh_cumsum(input: Tensor, dim: int, *, output: Tensor | None = None, memory_config: MemoryConfig | None = None) -> Tensor:
    """The running sum along a dimension."""
    return accumulate("cumsum", input, dim, None, False, output, memory_config)


@operation("ttnn.moreh_cumsum_backward", golden=lambda output_grad, dim, **_: output_grad.flip(dim).cumsum(dim).flip(dim))
def moreh_cumsum_backward(
    output_grad: Tensor, dim: int, *, input_grad: Tensor | None = None, memory_config: MemoryConfig | None = None
) -> Tensor:
    """The gradient of the running sum: the running sum from the end."""
    return accumulate("cumsum", output_grad, dim, None, True, input_grad, memory_config)


# -- clipping


@operation("ttnn.moreh_clip_grad_norm", golden=goldens.clip_grad_norm, planned=False)
def moreh_clip_grad_norm(
    inputs: Sequence[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    *,
    total_norm: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The norm of all gradients together; they are scaled where they stand so that it is at most `max_norm`."""
    what = "moreh_clip_grad_norm"
    require(len(inputs) > 0, f"{what}: inputs must hold at least one tensor")
    check(what, BF16, **{f"inputs[{i}]": t for i, t in enumerate(inputs)})
    for tensor in inputs:
        require(len(tensor.spec.dims) > 2, f"{what}: every input must have at least three dimensions, got {tensor.spec.shape}")
    first = inputs[0]
    made = first.spec.replace(shape=Shape.of((1, 1)), memory_config=memory_config if memory_config is not None else MemoryConfig())
    out = made if total_norm is None else total_norm.spec
    total: Tensor = launch(
        "MorehClipGradNormStep1Operation", engine.total_norm, list(inputs), out, attributes={"p": norm_type}, into=total_norm, programs=5
    )
    if error_if_nonfinite:
        require(
            math.isfinite(float(total.values.reshape(-1)[0])),
            f"{what}: the total norm of order {norm_type} is non-finite, so it cannot be clipped; error_if_nonfinite=False would scale by it anyway",
        )
    for tensor in inputs:
        launch("MorehClipGradNormStep3Operation", engine.clipped, [tensor, total], tensor.spec, attributes={"limit": max_norm}, into=tensor)
    return total
