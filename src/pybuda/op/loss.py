"""Losses as PyBuda modules."""

from __future__ import annotations

from pybuda.module import PyBudaModule
from pybuda.op.constant import Constant
from pybuda.op.eltwise_binary import Multiply, Subtract
from pybuda.op.eltwise_unary import Abs
from pybuda.op.nn import LogSoftmax
from pybuda.op.reduce import ReduceAvg, ReduceSum
from pybuda.tensor import Tensor


class CrossEntropyLoss(PyBudaModule):
    """Labels are one-hot rows or probabilities; the mean is over the rows. The logits are shifted by their maximum first, so that large ones do not overflow."""

    is_loss = True

    def __init__(self, name: str) -> None:
        super().__init__(name)

    def forward(self, predictions: Tensor, labels: Tensor) -> Tensor:
        log = LogSoftmax(f"{self.name}.log_softmax", predictions, dim=-1)
        picked = ReduceSum(f"{self.name}.rows", Multiply(f"{self.name}.picked", log, labels), -1)
        mean = ReduceAvg(f"{self.name}.mean", picked, -2) if len(picked.shape) > 1 else picked
        return Multiply(f"{self.name}.negated", mean, Constant("", constant=-1.0))


class L1Loss(PyBudaModule):
    is_loss = True

    def __init__(self, name: str, reduction: str = "avg") -> None:
        super().__init__(name)
        if reduction not in ("avg", "sum", "none"):
            raise ValueError(f"L1Loss: reduction={reduction!r} must be 'avg', 'sum' or 'none'")
        self.reduction = reduction

    def forward(self, predictions: Tensor, labels: Tensor) -> Tensor:
        loss = Abs(f"{self.name}.abs", Subtract(f"{self.name}.difference", predictions, labels))
        if self.reduction == "none":
            return loss
        reduce = ReduceAvg if self.reduction == "avg" else ReduceSum
        for dim in range(1, len(loss.shape) + 1):
            loss = reduce(f"{self.name}.{self.reduction}_{dim}", loss, -dim)
        return loss
