"""One step of Adam, AdamW and stochastic gradient descent: new parameters and states, into given tensors or new ones."""

from __future__ import annotations

from typing import Any

from tessera.engine import moreh as engine
from tessera.formats.dtype import DataType
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.moreh import goldens
from ttnn.operations.moreh.rules import BF16, check, fitting
from ttnn.operations.rules import require

Outputs = list[Tensor | None]


def _adam(
    what: str,
    taken: tuple[DataType, ...],
    decoupled: bool,
    inputs: dict[str, Tensor],
    largest: Tensor | None,
    ready: list[Tensor | None],
    memory_config: MemoryConfig | None,
    numbers: dict[str, Any],
) -> Outputs:
    check(what, taken, **inputs, max_exp_avg_sq_in=largest)
    spec = inputs["param_in"].spec
    for name, tensor in {**inputs, "max_exp_avg_sq_in": largest}.items():
        require(tensor is None or tensor.spec.dims == spec.dims, f"{what}: {name} must have the shape of param_in, {spec.shape}")
    amsgrad = bool(numbers["amsgrad"])
    given = [*inputs.values(), *([largest] if amsgrad and largest is not None else [])]
    wanted = ready if amsgrad else ready[:3]
    made: list[Tensor] = launch(
        "MorehAdamWOperation" if decoupled else "MorehAdamOperation",
        engine.adam,
        given,
        [fitting(what, spec, spec.dims, tensor, memory_config) for tensor in wanted],
        attributes={**numbers, "amsgrad": amsgrad, "decoupled": decoupled},
        runtime=("lr", "step"),
        into=wanted,
    )
    return [*made, *([] if amsgrad else [None])]


@operation("ttnn.moreh_adam", golden=goldens.adam, planned=False)
def moreh_adam(
    param_in: Tensor,
    grad: Tensor,
    exp_avg_in: Tensor,
    exp_avg_sq_in: Tensor,
    *,
    lr: float | None = 0.001,
    beta1: float | None = 0.9,
    beta2: float | None = 0.999,
    eps: float | None = 1e-8,
    weight_decay: float | None = 0.0,
    step: int | None = 0,
    amsgrad: bool | None = False,
    max_exp_avg_sq_in: Tensor | None = None,
    param_out: Tensor | None = None,
    exp_avg_out: Tensor | None = None,
    exp_avg_sq_out: Tensor | None = None,
    max_exp_avg_sq_out: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Outputs:
    """Adam: the parameter, its averages, and with `amsgrad` the largest second average (None without)."""
    numbers = _numbers(lr, beta1, beta2, eps, 0.0 if weight_decay is None else weight_decay, step, amsgrad)
    inputs = {"param_in": param_in, "grad": grad, "exp_avg_in": exp_avg_in, "exp_avg_sq_in": exp_avg_sq_in}
    ready = [param_out, exp_avg_out, exp_avg_sq_out, max_exp_avg_sq_out]
    return _adam("moreh_adam", BF16, False, inputs, max_exp_avg_sq_in, ready, memory_config, numbers)


@operation("ttnn.moreh_adamw", golden=goldens.adamw, planned=False)
def moreh_adamw(
    param_in: Tensor,
    grad: Tensor,
    exp_avg_in: Tensor,
    exp_avg_sq_in: Tensor,
    lr: float | None = 0.001,
    beta1: float | None = 0.9,
    beta2: float | None = 0.999,
    eps: float | None = 1e-8,
    weight_decay: float | None = 0.01,
    step: int | None = 0,
    amsgrad: bool | None = False,
    *,
    max_exp_avg_sq_in: Tensor | None = None,
    param_out: Tensor | None = None,
    exp_avg_out: Tensor | None = None,
    exp_avg_sq_out: Tensor | None = None,
    max_exp_avg_sq_out: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Outputs:
    """AdamW: Adam whose weights decay by themselves."""
    numbers = _numbers(lr, beta1, beta2, eps, 0.01 if weight_decay is None else weight_decay, step, amsgrad)
    inputs = {"param_in": param_in, "grad": grad, "exp_avg_in": exp_avg_in, "exp_avg_sq_in": exp_avg_sq_in}
    ready = [param_out, exp_avg_out, exp_avg_sq_out, max_exp_avg_sq_out]
    taken = (DataType.BFLOAT16, DataType.BFLOAT8_B)
    return _adam("moreh_adamw", taken, True, inputs, max_exp_avg_sq_in, ready, memory_config, numbers)


def _numbers(
    lr: float | None, beta1: float | None, beta2: float | None, eps: float | None, decay: float, step: int | None, amsgrad: bool | None
) -> dict[str, Any]:
    """None means the default."""
    return {
        "lr": 0.001 if lr is None else lr,
        "beta1": 0.9 if beta1 is None else beta1,
        "beta2": 0.999 if beta2 is None else beta2,
        "eps": 1e-8 if eps is None else eps,
        "weight_decay": decay,
        "step": 0 if step is None else step,
        "amsgrad": bool(amsgrad),
    }


@operation("ttnn.moreh_sgd", golden=goldens.sgd, planned=False)
def moreh_sgd(
    param_in: Tensor,
    grad: Tensor,
    momentum_buffer_in: Tensor | None = None,
    param_out: Tensor | None = None,
    momentum_buffer_out: Tensor | None = None,
    lr: float = 0.001,
    momentum: float = 0,
    dampening: float = 0,
    weight_decay: float = 0,
    nesterov: bool = False,
    *,
    momentum_initialized: bool,
    param_out_memory_config: MemoryConfig | None = None,
    momentum_buffer_out_memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Outputs:
    """Gradient descent: the parameter and, where there is momentum, its buffer (None without)."""
    what, spec = "moreh_sgd", param_in.spec
    check(what, BF16, param_in=param_in, grad=grad, momentum_buffer_in=momentum_buffer_in)
    require(grad.spec.dims == spec.dims, f"{what}: grad must have the shape of param_in, {spec.shape}")
    require(not nesterov or (momentum > 0 and dampening == 0), f"{what}: nesterov needs momentum and no dampening")
    moving = momentum != 0
    require(
        not (moving and momentum_initialized) or momentum_buffer_in is not None,
        f"{what}: momentum_buffer_in must be given when momentum_initialized is True",
    )
    inputs = [param_in, grad]
    if moving and momentum_initialized and momentum_buffer_in is not None:
        inputs.append(momentum_buffer_in)
    rows = [(param_out, param_out_memory_config), (momentum_buffer_out, momentum_buffer_out_memory_config)][: 1 + moving]
    numbers = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov}
    made: list[Tensor] = launch(
        "MorehSgdOperation",
        engine.sgd,
        inputs,
        [fitting(what, spec, spec.dims, ready, config) for ready, config in rows],
        attributes=numbers,
        runtime=("lr",),
        into=[ready for ready, _ in rows],
    )
    return [*made, *([] if moving else [None])]
