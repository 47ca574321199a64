"""Golden functions of the training operations: the engine's functions and torch's under the official argument names, in the inputs' dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tessera.engine import moreh as engine

Answers = list[Tensor | None]


def _as(like: Tensor, answers: Sequence[Tensor]) -> list[Tensor]:
    return [a.to(like.dtype) for a in answers]


def _given(**tensors: Tensor | None) -> tuple[tuple[str, ...], list[Tensor]]:
    named = {name: t for name, t in tensors.items() if t is not None}
    return tuple(named), list(named.values())


def _dims(dim: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    named = list(range(rank)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return tuple(d % rank for d in named)


def mean_backward(output_grad: Tensor, *, dim: Any = None, keepdim: bool = False, input_grad_shape: Any = None, **words: Any) -> Tensor:
    like = words.get("input_grad")
    shape = tuple(like.shape if like is not None else input_grad_shape)
    found: Tensor = engine.spread(output_grad, dims=_dims(dim, len(shape)), shape=shape, mean=True)
    return found.to(output_grad.dtype)


def norm_backward(input: Tensor, output: Tensor, output_grad: Tensor, p: float, *, dim: Any = None, **_: Any) -> Tensor:
    found: Tensor = engine.norm_backward(input, output, output_grad, p=p, dims=_dims(dim, input.dim()))
    return found.to(input.dtype)


def clip_grad_norm(inputs: Sequence[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, **_: Any) -> Tensor:
    """The total norm; the tensors are scaled where they stand."""
    total: Tensor = engine.total_norm(*inputs, p=norm_type)
    if error_if_nonfinite and not bool(total.isfinite().all()):
        raise RuntimeError(f"the total norm of order {norm_type} is non-finite, so it cannot be clipped")
    for tensor in inputs:
        tensor.copy_(engine.clipped(tensor, total, limit=max_norm))
    return total.to(inputs[0].dtype)


def layer_norm(
    input: Tensor, normalized_dims: int, eps: float = 1e-5, gamma: Tensor | None = None, beta: Tensor | None = None, **_: Any
) -> Answers:
    roles, vectors = _given(gamma=gamma, beta=beta)
    return [*_as(input, engine.layer_norm(input, *vectors, count=normalized_dims, epsilon=eps, roles=roles))]


def layer_norm_backward(
    output_grad: Tensor, input: Tensor, mean: Tensor, rstd: Tensor, normalized_dims: int, *, gamma: Tensor | None = None, **_: Any
) -> Answers:
    scale = [] if gamma is None else [gamma]
    first: Tensor = engine.layer_norm_input_grad(output_grad, input, mean, rstd, *scale, count=normalized_dims)
    return [*_as(input, [first, *engine.layer_norm_affine_grads(output_grad, input, mean, rstd, count=normalized_dims)])]


def group_norm(
    input: Tensor, num_groups: int, eps: float = 1e-5, gamma: Tensor | None = None, beta: Tensor | None = None, **_: Any
) -> Answers:
    roles, vectors = _given(gamma=gamma, beta=beta)
    out, mean, rstd = _as(input, engine.group_norm(input, *vectors, groups=num_groups, epsilon=eps, roles=roles))
    moments = (1, 1, input.shape[0], num_groups)
    return [out, mean.reshape(moments), rstd.reshape(moments)]


def group_norm_backward(
    output_grad: Tensor, input: Tensor, mean: Tensor, rstd: Tensor, num_groups: int, *, gamma: Tensor | None = None, **_: Any
) -> Answers:
    scale = [] if gamma is None else [gamma]
    first: Tensor = engine.group_norm_input_grad(output_grad, input, mean, rstd, *scale, groups=num_groups)
    second, third = engine.group_norm_affine_grads(output_grad, input, mean, rstd, groups=num_groups)
    return [*_as(input, [first, second.reshape(1, 1, 1, -1), third.reshape(1, 1, 1, -1)])]


def _product_grads(grad: Tensor, a: Tensor, b: Tensor, needed: Sequence[bool], turn_b: bool = False) -> Answers:
    return [engine.matmul_grad(grad, a, b, of=of, turn_b=turn_b).to(a.dtype) if need else None for of, need in enumerate(needed)]


def matmul_backward(
    output_grad: Tensor, input_a: Tensor, input_b: Tensor, *, are_required_outputs: Sequence[bool] = (True, True), **_: Any
) -> Answers:
    return _product_grads(output_grad, input_a, input_b, are_required_outputs)


def bmm_backward(
    output_grad: Tensor, input: Tensor, mat2: Tensor, *, are_required_outputs: Sequence[bool] = (True, True), **_: Any
) -> Answers:
    return _product_grads(output_grad, input, mat2, are_required_outputs)


def linear_backward(
    output_grad: Tensor,
    input: Tensor,
    weight: Tensor,
    *,
    are_required_outputs: Sequence[bool] = (True, True, True),
    bias: Tensor | None = None,
    **_: Any,
) -> Answers:
    found = _product_grads(output_grad, input, weight, tuple(are_required_outputs)[:2], turn_b=True)
    shape = (1, weight.shape[0]) if bias is None else tuple(bias.shape)
    return [*found, engine.bias_grad(output_grad, shape=shape).to(input.dtype) if are_required_outputs[2] else None]


def dot_backward(output_grad: Tensor, input: Tensor, other: Tensor, **_: Any) -> Answers:
    return [*_as(input, engine.dot_backward(output_grad, input, other))]


def _adam(decoupled: bool, decay: float) -> Any:
    def step_(
        param_in: Tensor,
        grad: Tensor,
        exp_avg_in: Tensor,
        exp_avg_sq_in: Tensor,
        lr: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = decay,
        step: int = 0,
        amsgrad: bool = False,
        *,
        max_exp_avg_sq_in: Tensor | None = None,
        **_: Any,
    ) -> Answers:
        largest = [max_exp_avg_sq_in] if amsgrad and max_exp_avg_sq_in is not None else []
        numbers = {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay, "step": step, "amsgrad": amsgrad}
        answers = engine.adam(param_in, grad, exp_avg_in, exp_avg_sq_in, *largest, **numbers, decoupled=decoupled)
        return [*_as(param_in, answers), *([] if amsgrad else [None])]

    return step_


adam, adamw = _adam(False, 0.0), _adam(True, 0.01)


def sgd(
    param_in: Tensor,
    grad: Tensor,
    momentum_buffer_in: Tensor | None = None,
    param_out: Any = None,
    momentum_buffer_out: Any = None,
    lr: float = 0.001,
    momentum: float = 0,
    dampening: float = 0,
    weight_decay: float = 0,
    nesterov: bool = False,
    *,
    momentum_initialized: bool = False,
    **_: Any,
) -> Answers:
    buffer = [momentum_buffer_in] if momentum and momentum_initialized and momentum_buffer_in is not None else []
    numbers = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov}
    answers = engine.sgd(param_in, grad, *buffer, **numbers)
    return [*_as(param_in, answers), *([] if momentum else [None])]


def nll_loss_backward(
    target_tensor: Tensor,
    output_grad_tensor: Tensor,
    reduction_mean: bool,
    *,
    weight_tensor: Tensor | None = None,
    input_grad_tensor: Tensor,
    divisor_tensor: Tensor | None = None,
    ignore_index: int = -100,
    **_: Any,
) -> Tensor:
    roles, further = _given(weight=weight_tensor, divisor=divisor_tensor if reduction_mean else None)
    shape = tuple(input_grad_tensor.shape)
    found: Tensor = engine.nll_loss_backward(target_tensor, output_grad_tensor, *further, roles=roles, ignore=ignore_index, shape=shape)
    return found.to(output_grad_tensor.dtype)


def nll_loss_unreduced_backward(target_tensor: Tensor, output_grad_tensor: Tensor, **words: Any) -> Tensor:
    return nll_loss_backward(target_tensor, output_grad_tensor, False, **words)


def arange(start: float = 0, end: float = 0, step: float = 1, device: Any = None, *, untilize_out: bool = False, **_: Any) -> Tensor:
    found = torch.arange(start, end, step)
    return found if untilize_out else found.reshape(1, -1)


def full(shape: Sequence[int], fill_value: float, device: Any = None, **_: Any) -> Tensor:
    return torch.full(tuple(shape), fill_value)


def full_like(input: Tensor, fill_value: float, *_: Any, **__: Any) -> Tensor:
    return torch.full_like(input, fill_value)


def getitem(input: Tensor, index_tensors: Sequence[Tensor], index_dims: Sequence[int], **_: Any) -> Tensor:
    found: Tensor = engine.getitem(input, *index_tensors, dims=tuple(index_dims))
    return found


def fold(
    input: Tensor,
    output: Any = None,
    output_size: Sequence[int] = (),
    kernel_size: Sequence[int] = (),
    dilation: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    stride: Sequence[int] = (1, 1),
    **_: Any,
) -> Tensor:
    found: Tensor = engine.fold(input, size=output_size, kernel=kernel_size, dilation=dilation, padding=padding, stride=stride)
    return found.to(input.dtype)
