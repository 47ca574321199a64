"""The negative log likelihood and its gradients.

The mean divides by the sum of the targets' weights, which the caller keeps in `divisor_tensor` for the backward pass.
"""

from __future__ import annotations

import math
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
from ttnn.operations.rules import require


def _check_target(what: str, shape: tuple[int, ...], target: Tensor, weight: Tensor | None) -> tuple[int, ...]:
    """Targets are whole numbers, one for each place of [N, C, ...] without C."""
    check(what, (DataType.INT32,), target_tensor=target)
    check(what, BF16, weight_tensor=weight)
    require(len(shape) > 1, f"{what}: the input must have shape [N, C, ...], got {shape}")
    places = (shape[0], *shape[2:])
    require(target.spec.dims == places, f"{what}: target_tensor must have shape {places}, got {target.spec.shape}")
    require(weight is None or weight.spec.volume == shape[1], f"{what}: weight_tensor must hold one weight for each of {shape[1]} classes")
    return places if len(places) > 1 else (1, *places)


def _golden(
    input_tensor: torch.Tensor,
    target_tensor: torch.Tensor,
    reduction: str,
    *,
    weight_tensor: Any = None,
    ignore_index: int = -100,
    **_: Any,
) -> torch.Tensor:
    weight = None if weight_tensor is None else weight_tensor.reshape(-1)
    return torch.nn.functional.nll_loss(input_tensor, target_tensor.long(), weight, ignore_index=ignore_index, reduction=reduction)


@operation("ttnn.moreh_nll_loss", golden=_golden, planned=False)
def moreh_nll_loss(
    input_tensor: Tensor,
    target_tensor: Tensor,
    reduction: str,
    *,
    weight_tensor: Tensor | None = None,
    divisor_tensor: Tensor | None = None,
    output_tensor: Tensor | None = None,
    ignore_index: int = -100,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """Minus the log probability of each target: each, their sum, or their weighted mean."""
    what = "moreh_nll_loss"
    require(reduction != "mean" or divisor_tensor is not None, f"{what}: Divisor tensor must not be empty for reduction='mean'")
    check(what, BF16, input_tensor=input_tensor)
    places = _check_target(what, input_tensor.spec.dims, target_tensor, weight_tensor)
    whole = reduction in ("mean", "sum")
    shape = (1, 1) if whole else places
    out = fitting(what, input_tensor.spec, shape, output_tensor, memory_config)
    inputs = [input_tensor, target_tensor, *([] if weight_tensor is None else [weight_tensor])]
    attributes = {"ignore": ignore_index, "reduction": reduction if whole else "none", "shape": shape}
    words: dict[str, Any] = {"attributes": attributes, "programs": 1 + len(places) * whole + 2 * (reduction == "mean")}
    if reduction != "mean":
        return launch("MorehNllLossStep2DeviceOperation", engine.nll_loss, inputs, out, into=output_tensor, **words)  # type: ignore[no-any-return]
    assert divisor_tensor is not None
    require(divisor_tensor.spec.volume == 1, f"{what}: divisor_tensor must hold one element, got {divisor_tensor.spec.shape}")
    check(what, BF16, divisor_tensor=divisor_tensor)
    specs, into = [out, divisor_tensor.spec], [output_tensor, divisor_tensor]
    return launch("MorehNllLossStep2DeviceOperation", engine.nll_loss, inputs, specs, into=into, **words)[0]  # type: ignore[no-any-return]


def _backward(
    what: str,
    target: Tensor,
    grad: Tensor,
    further: dict[str, Tensor | None],
    input_grad: Tensor | None,
    ignore_index: int,
    memory_config: MemoryConfig | None,
) -> Tensor:
    check(what, BF16, output_grad_tensor=grad, input_grad_tensor=input_grad)
    require(input_grad is not None, f"{what}: input_grad_tensor must be given: it says the number of classes")
    assert input_grad is not None
    _check_target(what, input_grad.spec.dims, target, further.get("weight"))
    given = {role: t for role, t in further.items() if t is not None}
    check(what, BF16, **given)
    return launch(  # type: ignore[no-any-return]
        "MorehNllLossBackwardDeviceOperation",
        engine.nll_loss_backward,
        [target, grad, *given.values()],
        input_grad.spec,
        attributes={"roles": tuple(given), "ignore": ignore_index, "shape": input_grad.spec.dims},
        into=input_grad,
    )


@operation("ttnn.moreh_nll_loss_backward", golden=goldens.nll_loss_backward)
def moreh_nll_loss_backward(
    target_tensor: Tensor,
    output_grad_tensor: Tensor,
    reduction_mean: bool,
    *,
    weight_tensor: Tensor | None = None,
    input_grad_tensor: Tensor | None = None,
    divisor_tensor: Tensor | None = None,
    ignore_index: int = -100,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The gradient of the sum or, with the divisor of the forward pass, of the mean."""
    what = "moreh_nll_loss_backward"
    require(not reduction_mean or divisor_tensor is not None, f"{what}: Divisor tensor must not be empty when reduction_mean is True")
    require(math.prod(output_grad_tensor.spec.dims) == 1, f"{what}: output_grad_tensor must hold one element")
    further = {"weight": weight_tensor, "divisor": divisor_tensor if reduction_mean else None}
    return _backward(what, target_tensor, output_grad_tensor, further, input_grad_tensor, ignore_index, memory_config)


@operation("ttnn.moreh_nll_loss_unreduced_backward", golden=goldens.nll_loss_unreduced_backward)
def moreh_nll_loss_unreduced_backward(
    target_tensor: Tensor,
    output_grad_tensor: Tensor,
    *,
    weight_tensor: Tensor | None = None,
    input_grad_tensor: Tensor | None = None,
    ignore_index: int = -100,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The gradient of each loss on its own."""
    what = "moreh_nll_loss_unreduced_backward"
    same = output_grad_tensor.spec.volume == target_tensor.spec.volume
    require(same, f"{what}: output_grad_tensor must hold a gradient for each target, got {output_grad_tensor.spec.shape}")
    return _backward(what, target_tensor, output_grad_tensor, {"weight": weight_tensor}, input_grad_tensor, ignore_index, memory_config)
