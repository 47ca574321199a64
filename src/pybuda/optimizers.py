"""Optimizers: on a device each is a pure step on one parameter; on a CPU device it is the torch optimizer of the same name and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from pybuda.parameter import Parameter

State = dict[str, Tensor]


class Optimizer:
    """A step is a pure function of (parameter, gradient, learning rate, state)."""

    type = ""
    state_keys: tuple[str, ...] = ()

    def __init__(self, learning_rate: float, parameters: Iterable[Parameter] | None = None, device_params: bool = False) -> None:
        self.learning_rate = learning_rate
        self.device_params = device_params
        self.parameters: list[Parameter] | None = list(parameters) if parameters is not None else None
        if parameters is None and not device_params:
            self.device_params = True

    def set_parameters_to_optimize(self, parameters: Iterable[Parameter]) -> None:
        self.parameters = list(parameters)

    def names(self) -> set[str] | None:
        """Which parameters to update; None means all trainable ones of the device."""
        return None if self.parameters is None else {p.get_name() for p in self.parameters}

    def set_optimizer_parameters(self, learning_rate: float | None = None) -> None:
        if learning_rate is not None:
            self.learning_rate = learning_rate

    def get_optimizer_params(self, parameter_name: str = "", is_buda: bool = False) -> dict[str, float]:
        return {"lr": self.learning_rate}

    def get_optimizer_state_keys(self) -> list[str]:
        return list(self.state_keys)

    def get_type(self) -> str:
        return self.type

    def initial_state(self, parameter: Tensor) -> State:
        return {k: torch.zeros((), dtype=torch.float64) if k == "step" else torch.zeros_like(parameter) for k in self.state_keys}

    def step(self, parameter: Tensor, gradient: Tensor, lr: float, state: State) -> tuple[Tensor, State]:
        raise NotImplementedError

    def torch_parameter_update(self, *, parameter_name: str, parameter: Tensor, gradient: Tensor) -> Tensor:
        """One update outside any device; the state is kept by name, so that every step counts."""
        states = self.__dict__.setdefault("_own_states", {})
        state = states.get(parameter_name) or self.initial_state(parameter)
        updated, states[parameter_name] = self.step(parameter, gradient, self.learning_rate, state)
        return updated

    def get_pytorch_optimizer(self, parameters: Any, lr: float | None = None) -> torch.optim.Optimizer:
        raise NotImplementedError(
            f"{type(self).__name__} has no torch optimizer of the same arithmetic; use SGD, Adam or AdamW on a CPU device, or give the CPUDevice its own optimizer_f"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(learning_rate={self.learning_rate})"


class SGD(Optimizer):
    type = "sgd"

    def step(self, parameter: Tensor, gradient: Tensor, lr: float, state: State) -> tuple[Tensor, State]:
        return parameter - gradient * lr, state

    def get_pytorch_optimizer(self, parameters: Any, lr: float | None = None) -> torch.optim.Optimizer:
        return torch.optim.SGD(_tensors(parameters), lr=self.learning_rate if lr is None else lr)


class Adam(Optimizer):
    type = "adam"
    state_keys = ("mean", "variance", "step")

    def __init__(
        self,
        learning_rate: float,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        bias_correction: bool = True,
        parameters: Iterable[Parameter] | None = None,
        device_params: bool = False,
        enable_adam_w: bool = False,
    ) -> None:
        super().__init__(learning_rate, parameters, device_params)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.weight_decay, self.bias_correction, self.decoupled = weight_decay, bias_correction, enable_adam_w

    def step(self, parameter: Tensor, gradient: Tensor, lr: float, state: State) -> tuple[Tensor, State]:
        count = state["step"] + 1
        if self.weight_decay:
            if self.decoupled:
                parameter = parameter * (1 - lr * self.weight_decay)
            else:
                gradient = gradient + parameter * self.weight_decay
        mean = state["mean"] + (gradient - state["mean"]) * (1 - self.beta1)
        variance = state["variance"] * self.beta2 + gradient * gradient * (1 - self.beta2)
        if self.bias_correction:
            one, two = 1 - torch.pow(self.beta1, count), 1 - torch.pow(self.beta2, count)
            update = mean * (lr / one) / (variance.sqrt() / torch.sqrt(two) + self.epsilon)
        else:
            update = (mean * lr) / (variance.sqrt() + self.epsilon)
        return parameter - update, {"mean": mean, "variance": variance, "step": count}

    def get_pytorch_optimizer(self, parameters: Any, lr: float | None = None) -> torch.optim.Optimizer:
        if not self.bias_correction:
            return super().get_pytorch_optimizer(parameters, lr)
        kind = torch.optim.AdamW if self.decoupled else torch.optim.Adam
        rate = self.learning_rate if lr is None else lr
        return kind(_tensors(parameters), lr=rate, betas=(self.beta1, self.beta2), eps=self.epsilon, weight_decay=self.weight_decay)


class AdamW(Adam):
    type = "adamw"

    def __init__(
        self,
        learning_rate: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        bias_correction: bool = True,
        parameters: Iterable[Parameter] | None = None,
        device_params: bool = False,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, eps, weight_decay, bias_correction, parameters, device_params, enable_adam_w=True)


class LAMB(Optimizer):
    """Adam's direction, scaled by the ratio of the parameter's norm (clipped) to the direction's."""

    type = "lamb"
    state_keys = ("mean", "variance", "step")

    def __init__(
        self,
        learning_rate: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        correction: bool = False,
        clip_value: tuple[float, float] = (0.0, 10.0),
        parameters: Iterable[Parameter] | None = None,
        device_params: bool = False,
    ) -> None:
        super().__init__(learning_rate, parameters, device_params)
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.weight_decay, self.correction, self.clip_value = weight_decay, correction, clip_value

    def step(self, parameter: Tensor, gradient: Tensor, lr: float, state: State) -> tuple[Tensor, State]:
        count = state["step"] + 1
        mean = state["mean"] * self.beta1 + gradient * (1 - self.beta1)
        variance = state["variance"] * self.beta2 + gradient * gradient * (1 - self.beta2)
        top, bottom = mean, variance
        if self.correction:
            top, bottom = mean / (1 - torch.pow(self.beta1, count)), variance / (1 - torch.pow(self.beta2, count))
        direction = top / (bottom.sqrt() + self.eps) + parameter * self.weight_decay
        size, length = parameter.norm().clamp(*self.clip_value), direction.norm()
        trust = torch.where((size > 0) & (length > 0), size / length, torch.ones_like(size))
        return parameter - direction * (trust * lr), {"mean": mean, "variance": variance, "step": count}


class LARS(Optimizer):
    """SGD with momentum, its rate scaled for each parameter by the ratio of its norm to its gradient's."""

    type = "lars"
    state_keys = ("momentum", "step")

    def __init__(
        self,
        learning_rate: float = 1e-3,
        momentum: float = 0.9,
        nesterov: bool = False,
        dampening: float = 0.0,
        weight_decay: float = 0.01,
        lars_coeff: float = 1e-3,
        parameters: Iterable[Parameter] | None = None,
        device_params: bool = False,
        epsilon: float = 1e-8,
    ) -> None:
        super().__init__(learning_rate, parameters, device_params)
        self.momentum, self.nesterov, self.dampening = momentum, nesterov, dampening
        self.weight_decay, self.lars_coeff, self.epsilon = weight_decay, lars_coeff, epsilon

    def step(self, parameter: Tensor, gradient: Tensor, lr: float, state: State) -> tuple[Tensor, State]:
        size, slope = parameter.norm(), gradient.norm()
        local = self.lars_coeff * size / (slope + self.weight_decay * size + self.epsilon)
        local = torch.where((size > 0) & (slope > 0), local, torch.ones_like(local))
        gradient = (gradient + parameter * self.weight_decay) * local
        first = state["step"] == 0
        kept = torch.where(first, gradient, state["momentum"] * self.momentum + gradient * (1 - self.dampening))
        update = gradient + kept * self.momentum if self.nesterov else kept
        return parameter - update * lr, {"momentum": kept, "step": state["step"] + 1}


def _tensors(parameters: Any) -> Any:
    if isinstance(parameters, Mapping):
        parameters = parameters.values()
    return [p.value() if isinstance(p, Parameter) else p for p in parameters]


OPTIMIZERS: dict[str, type[Optimizer]] = {c.type: c for c in (SGD, Adam, AdamW, LAMB, LARS)}


def get_optimizer_type_from_string(name: str) -> type[Optimizer]:
    if name.lower() not in OPTIMIZERS:
        raise RuntimeError(f"optimizer {name!r} is unknown; it is one of {', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[name.lower()]
