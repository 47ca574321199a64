"""Element by element, two operands; the smaller one is broadcast. Comparisons answer 1 or 0 in the type of the first operand."""

from __future__ import annotations

from pybuda.op.common import make
from pybuda.op.eltwise_unary import _as_operand
from pybuda.parameter import Parameter
from pybuda.tensor import Tensor

Operand = Tensor | Parameter


def Add(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return make("add", name, operandA, operandB)


def Subtract(name: str, operandA: Tensor, operandB: Tensor) -> Tensor:
    return make("subtract", name, operandA, operandB)


def Multiply(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return make("multiply", name, operandA, operandB)


def Divide(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return make("divide", name, operandA, operandB)


def Max(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return make("maximum", name, operandA, operandB)


def Min(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return make("minimum", name, operandA, operandB)


def Heaviside(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return make("heaviside", name, operandA, operandB)


def BinaryStack(name: str, operandA: Tensor, operandB: Operand, dim: int) -> Tensor:
    return make("stack", name, operandA, operandB, label="binary_stack", dim=dim)


def Power(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return make("power_binary", name, operandA, operandB, label="power")


def _compare(op: str, name: str, a: Tensor, b: Operand) -> Tensor:
    return _as_operand(make(op, name, a, b), a)


def Equal(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return _compare("equal", name, operandA, operandB)


def NotEqual(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return _compare("not_equal", name, operandA, operandB)


def Greater(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return _compare("greater", name, operandA, operandB)


def Less(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return _compare("less", name, operandA, operandB)


def GreaterEqual(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return _compare("greater_equal", name, operandA, operandB)


def LessEqual(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return _compare("less_equal", name, operandA, operandB)


def LogicalAnd(name: str, operandA: Tensor, operandB: Operand) -> Tensor:
    return _compare("logical_and", name, operandA, operandB)
