"""Schedulers for CPU devices: torch's own base class under the name the API has for it."""

from __future__ import annotations

from torch.optim.lr_scheduler import LRScheduler


class TorchLearningRateScheduler(LRScheduler):
    """Override `get_lr` as in torch."""


__all__ = ["TorchLearningRateScheduler"]
