"""Element by element, one operand."""

from __future__ import annotations

from pybuda.op.common import make
from pybuda.tensor import Tensor


def Abs(name: str, operandA: Tensor) -> Tensor:
    return make("abs", name, operandA)


def Exp(name: str, operandA: Tensor) -> Tensor:
    return make("exp", name, operandA)


def Log(name: str, operandA: Tensor) -> Tensor:
    return make("log", name, operandA)


def Pow(name: str, operandA: Tensor, exponent: int | float) -> Tensor:
    return make("pow", name, operandA, exponent=exponent)


def Identity(name: str, operandA: Tensor, unsqueeze: str | None = None, unsqueeze_dim: int | None = None) -> Tensor:
    if unsqueeze is not None or unsqueeze_dim is not None:
        return make("unsqueeze", name, operandA, label="nop", dim=unsqueeze_dim or 0)
    return make("nop", name, operandA)


def Buffer(name: str, operandA: Tensor) -> Tensor:
    return make("buffer", name, operandA)


def Reciprocal(name: str, operandA: Tensor) -> Tensor:
    return make("reciprocal", name, operandA)


def Sqrt(name: str, operandA: Tensor) -> Tensor:
    return make("sqrt", name, operandA)


def Relu(name: str, operandA: Tensor, threshold: float = 0.0, mode: str = "min") -> Tensor:
    if mode not in ("min", "max"):
        raise ValueError(f"Relu: mode={mode!r} must be 'min' or 'max'")
    plain = (threshold, mode) == (0.0, "min")
    return make("relu", name, operandA, threshold=None if plain else threshold, mode=None if plain else mode)


def LeakyRelu(name: str, operandA: Tensor, alpha: float) -> Tensor:
    return make("leaky_relu", name, operandA, negative_slope=alpha)


def Gelu(name: str, operandA: Tensor, approximate: str = "none") -> Tensor:
    return make("gelu", name, operandA, approximate=None if approximate == "none" else approximate)


def Sigmoid(name: str, operandA: Tensor) -> Tensor:
    return make("sigmoid", name, operandA)


def Argmax(name: str, operandA: Tensor, dim: int | None = None) -> Tensor:
    return make("argmax", name, operandA, dim=dim, keepdim=True)


def Clip(name: str, operandA: Tensor, min: float, max: float) -> Tensor:
    return make("clip", name, operandA, min=min, max=max)


def Sine(name: str, operandA: Tensor) -> Tensor:
    return make("sine", name, operandA)


def Cosine(name: str, operandA: Tensor) -> Tensor:
    return make("cosine", name, operandA)


def Tanh(name: str, operandA: Tensor) -> Tensor:
    return make("tanh", name, operandA)


def CumSum(name: str, operandA: Tensor, axis: int, exclusive: bool = False) -> Tensor:
    return make("cumsum", name, operandA, dim=axis, exclusive=exclusive or None)


def LogicalNot(name: str, operandA: Tensor) -> Tensor:
    return _as_operand(make("logical_not", name, operandA), operandA)


def Dropout(name: str, operandA: Tensor, p: float = 0.5, training: bool = True, seed: int = 0) -> Tensor:
    return make("dropout", name, operandA, p=p, training=training, seed=seed)


def Tilize(name: str, operandA: Tensor) -> Tensor:
    return make("tilize", name, operandA)


def _as_operand(result: Tensor, operand: Tensor) -> Tensor:
    """Truth as numbers of the operand's type: the chip has no booleans."""
    own = getattr(result.src_op, "name", "")
    return make("cast", f"{own}.number" if own else "", result, data_format=operand.data_format, dtype=operand.pt_data_format)
