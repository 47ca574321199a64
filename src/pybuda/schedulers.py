"""Learning-rate schedulers for optimizers on a device."""

from __future__ import annotations

from typing import Any

from pybuda.optimizers import Optimizer


class LearningRateScheduler:
    """Override `get_lr`; `step` gives its answer to the optimizer. `last_epoch` counts steps, and is 0 before the first."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.base_lr = optimizer.learning_rate
        self.last_epoch = 0

    def get_lr(self) -> float:
        return self.optimizer.learning_rate

    def step(self) -> None:
        self.last_epoch += 1
        self.optimizer.set_optimizer_parameters(learning_rate=self.get_lr())

    def get_scheduler_params(self, name: str = "", is_buda: bool = False) -> dict[str, float]:
        return {"lr": self.optimizer.learning_rate}

    def get_pytorch_scheduler(self, optimizer: Any) -> Any:
        """The same schedule for a torch optimizer."""
        import torch

        outer = self

        def factor(step: int) -> float:
            if step == 0:
                return 1.0
            outer.last_epoch = step
            return outer.get_lr() / outer.base_lr

        return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
