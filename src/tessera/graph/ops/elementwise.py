"""Element by element: unary, binary and ternary rows, casts and comparisons."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tessera.graph.ops.table import register_aten, row

# name -> (function, overloads beyond `<name>.default`, netlist type)
_UNARY: dict[str, tuple[Any, tuple[str, ...], str]] = {
    "abs": (torch.abs, (), "abs"),
    "acos": (torch.acos, (), ""),
    "acosh": (torch.acosh, (), ""),
    "asin": (torch.asin, (), ""),
    "asinh": (torch.asinh, (), ""),
    "atan": (torch.atan, (), ""),
    "atanh": (torch.atanh, (), ""),
    "bitwise_not": (torch.bitwise_not, (), ""),
    "ceil": (torch.ceil, (), ""),
    "celu": (F.celu, (), ""),
    "cosine": (torch.cos, ("cos",), "cosine"),
    "cosh": (torch.cosh, (), ""),
    "elu": (F.elu, (), ""),
    "erf": (torch.erf, (), ""),
    "erfc": (torch.erfc, (), ""),
    "exp": (torch.exp, (), "exp"),
    "exp2": (torch.exp2, (), ""),
    "expm1": (torch.expm1, (), ""),
    "floor": (torch.floor, (), ""),
    "frac": (torch.frac, (), ""),
    "gelu": (F.gelu, (), "gelu"),
    "hardshrink": (F.hardshrink, (), ""),
    "hardsigmoid": (F.hardsigmoid, (), ""),
    "hardswish": (F.hardswish, (), ""),
    "isinf": (torch.isinf, (), ""),
    "isnan": (torch.isnan, (), ""),
    "leaky_relu": (F.leaky_relu, (), "lrelu"),
    "log": (torch.log, (), "log"),
    "log10": (torch.log10, (), ""),
    "log1p": (torch.log1p, (), ""),
    "log2": (torch.log2, (), ""),
    "log_sigmoid": (F.logsigmoid, (), ""),
    "logical_not": (torch.logical_not, (), "logical_not"),
    "mish": (F.mish, (), ""),
    "negative": (torch.neg, ("neg",), ""),
    "reciprocal": (torch.reciprocal, (), "reciprocal"),
    "relu6": (F.relu6, (), ""),
    "round": (torch.round, ("round", "round.decimals"), ""),
    "rsqrt": (torch.rsqrt, (), ""),
    "selu": (F.selu, (), ""),
    "sigmoid": (torch.sigmoid, (), "sigmoid"),
    "sign": (torch.sign, ("sign", "sgn"), ""),
    "silu": (F.silu, (), ""),
    "sine": (torch.sin, ("sin",), "sine"),
    "sinh": (torch.sinh, (), ""),
    "softplus": (F.softplus, (), ""),
    "softshrink": (F.softshrink, (), ""),
    "sqrt": (torch.sqrt, (), "sqrt"),
    "square": (torch.square, (), ""),
    "tan": (torch.tan, (), ""),
    "tanh": (torch.tanh, (), "tanh"),
    "threshold": (F.threshold, (), ""),
    "trunc": (torch.trunc, (), ""),
}
for _name, (_fn, _more, _buda) in _UNARY.items():
    row(_name, _fn, "unary", *(_more or (_name,)), buda=_buda)

# name -> (function, overload packets; each in its Tensor and Scalar form, netlist type)
_BINARY: dict[str, tuple[Any, str, str]] = {
    "add": (torch.add, "add", "add"),
    "subtract": (torch.sub, "sub", "subtract"),
    "multiply": (torch.mul, "mul", "multiply"),
    "equal": (torch.eq, "eq", "equal"),
    "not_equal": (torch.ne, "ne", "not_equal"),
    "greater": (torch.gt, "gt", "greater"),
    "less": (torch.lt, "lt", "less"),
    "greater_equal": (torch.ge, "ge", "greater_equal"),
    "less_equal": (torch.le, "le", "less_equal"),
    "bitwise_and": (torch.bitwise_and, "bitwise_and", ""),
    "bitwise_or": (torch.bitwise_or, "bitwise_or", ""),
    "bitwise_xor": (torch.bitwise_xor, "bitwise_xor", ""),
    "fmod": (torch.fmod, "fmod", ""),
    "remainder": (torch.remainder, "remainder", ""),
}
for _name, (_fn, _packet, _buda) in _BINARY.items():
    row(_name, _fn, "binary", f"{_packet}.Tensor", f"{_packet}.Scalar", buda=_buda)
for _op in ("and", "or", "xor"):
    register_aten(f"bitwise_{_op}", (f"__{_op}__.Tensor", f"__{_op}__.Scalar"))
for _name, _fn, _aten, _buda in (
    ("maximum", torch.maximum, ("maximum", "max.other"), "maximum"),
    ("minimum", torch.minimum, ("minimum", "min.other"), "minimum"),
    ("logical_and", torch.logical_and, ("logical_and",), "logical_and"),
    ("logical_or", torch.logical_or, ("logical_or",), ""),
    ("logical_xor", torch.logical_xor, ("logical_xor",), ""),
    ("atan2", torch.atan2, ("atan2",), ""),
    ("heaviside", torch.heaviside, ("heaviside",), "heaviside"),
    ("floor_divide", torch.floor_divide, ("floor_divide", "floor_divide.Scalar"), ""),
    ("prelu", torch.prelu, ("prelu", "_prelu_kernel"), ""),
    ("hypot", torch.hypot, ("hypot",), ""),
    ("xlogy", torch.xlogy, ("xlogy.Tensor",), ""),
):
    row(_name, _fn, "binary", *_aten, buda=_buda)


def divide(self: Tensor, other: Any, rounding_mode: str | None = None) -> Tensor:
    return torch.div(self, other, rounding_mode=rounding_mode)


row(
    "divide", divide, "binary", "div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "true_divide.Tensor", "true_divide.Scalar"
)


def rsub(self: Tensor, other: Any, alpha: float = 1) -> Tensor:
    return torch.rsub(self, other, alpha=alpha)


row("rsub", rsub, "binary", "rsub.Tensor", "rsub.Scalar", buda="subtract")


def power(self: Tensor, other: Any) -> Tensor:
    return torch.pow(self, other)


def power_scalar(self: Tensor, exponent: float) -> Tensor:
    return torch.pow(self, exponent)


def scalar_power(exponent: Tensor, base: float) -> Tensor:
    return torch.pow(base, exponent)


row("power_binary", power, "binary", "pow.Tensor_Tensor", buda="power")
row("pow", power_scalar, "unary", "pow.Tensor_Scalar", buda="power")
row("scalar_power", scalar_power, "unary", "pow.Scalar", adapt=lambda i, a: (i, {"base": a["self"]}), buda="power")


def relu(self: Tensor, threshold: float = 0.0, mode: str = "min") -> Tensor:
    """PyBuda's relu: below a threshold to zero ("min"), or above it to the threshold as well ("max")."""
    if mode == "min" and threshold == 0.0:
        return torch.relu(self)
    if mode == "min":
        return torch.where(self >= threshold, self, 0.0)
    return torch.clamp(self, 0.0, threshold)


row("relu", relu, "unary", "relu")


def clip(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    return torch.clamp(self, min, max)


row("clip", clip, "unary", "clamp", "clip", "clamp_min", "clamp_max")
register_aten("clip", ("hardtanh",), lambda i, a: (i, {"min": a.get("min_val", -1.0), "max": a.get("max_val", 1.0)}))
register_aten("maximum", ("clamp_min.Tensor",))
register_aten("minimum", ("clamp_max.Tensor",))


def where(condition: Tensor, *branches: Tensor, self: Any = None, other: Any = None) -> Tensor:
    rest = list(branches)
    x = self if self is not None else rest.pop(0)
    y = other if other is not None else rest.pop(0)
    return torch.where(condition if condition.dtype is torch.bool else condition != 0, x, y)


row("where", where, "ternary", "where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")


def masked_fill(self: Tensor, mask: Tensor, *value_tensor: Tensor, value: Any = None) -> Tensor:
    return torch.masked_fill(self, mask, value_tensor[0] if value_tensor else value)


row("masked_fill", masked_fill, "ternary", "masked_fill.Scalar", "masked_fill.Tensor")
row("addcmul", torch.addcmul, "ternary", "addcmul")
row("addcdiv", torch.addcdiv, "ternary", "addcdiv")
row("lerp", torch.lerp, "ternary", "lerp.Tensor", "lerp.Scalar")
row("nan_to_num", torch.nan_to_num, "unary", "nan_to_num")


def identity(self: Tensor) -> Tensor:
    return self


row("nop", identity, "nop", "contiguous", "clone", "detach", "alias", "lift_fresh_copy", "lift_fresh", adapt=lambda i, a: (i[:1], {}))
row("buffer", identity, "nop", buda="nop")
row("dram_queue", lambda self, num_entries=1: self, "nop", buda="nop")


def _cast_args(inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    dtype = attrs.get("dtype")
    return inputs[:1], {"dtype": dtype} if dtype is not None else {}


def cast(self: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    return self if dtype is None else self.to(dtype)


row("cast", cast, "cast", "to.dtype", "to.dtype_layout", "to.device", "_to_copy", "to.other", "type_as", adapt=_cast_args, buda="nop")


def dropout_mask(self: Tensor, p: float = 0.5, seed: int = 0) -> Tensor:
    """What a dropout multiplies by: zero with probability `p`, else 1 / (1 - p); from torch's generator, or from `seed`."""
    if p >= 1.0:
        return torch.zeros_like(self)
    if self.device.type == "meta":
        return torch.empty_like(self)
    generator = torch.Generator().manual_seed(seed) if seed else None
    keep = torch.rand(self.shape, generator=generator) >= p
    return keep.to(self.dtype) / (1 - p)


def dropout(self: Tensor, p: float = 0.5, training: bool = True, seed: int = 0) -> Tensor:
    return self if not training or p == 0.0 else self * dropout_mask(self, p, seed)


row("dropout", dropout, "unary", random=True)
row("dropout_mask", dropout_mask, "random", random=True, buda="dropout")
row("native_dropout", torch.native_dropout, "unary", "native_dropout", many=True, random=True, buda="dropout")
row("getitem", lambda self, index: self[index], "getitem", buda="nop")


def quantize(self: Tensor, scale: Tensor, zero_point: float = 0, axis: int = -1, out_dtype: torch.dtype = torch.int8) -> Tensor:
    if scale.dim() == 1 and scale.numel() > 1:
        scale = scale.reshape([-1 if d == axis % self.dim() else 1 for d in range(self.dim())])
    limits = torch.iinfo(out_dtype)
    return torch.clamp(torch.round(self / scale) + zero_point, limits.min, limits.max).to(out_dtype)


def dequantize(self: Tensor, scale: Tensor, zero_point: float = 0, axis: int = -1, out_dtype: torch.dtype = torch.float32) -> Tensor:
    if scale.dim() == 1 and scale.numel() > 1:
        scale = scale.reshape([-1 if d == axis % self.dim() else 1 for d in range(self.dim())])
    return (self.to(out_dtype) - zero_point) * scale


def requantize(
    self: Tensor,
    scale_in: Tensor,
    scale_out: Tensor,
    input_zero_point: float = 0,
    output_zero_point: float = 0,
    out_dtype: torch.dtype = torch.int8,
    axis: int = -1,
) -> Tensor:
    return quantize(dequantize(self, scale_in, input_zero_point, axis), scale_out, output_zero_point, axis, out_dtype)


def buda_requantize(self: Tensor, scale: Tensor, zero_point: float = 0, axis: int = -1, out_dtype: torch.dtype = torch.int8) -> Tensor:
    if scale.dim() == 1 and scale.numel() > 1:
        scale = scale.reshape([-1 if d == axis % self.dim() else 1 for d in range(self.dim())])
    limits = torch.iinfo(out_dtype)
    return torch.clamp(torch.round(self.float() * scale) + zero_point, limits.min, limits.max).to(out_dtype)


row("quantize", quantize, "quantize", buda="quantization")
row("dequantize", dequantize, "quantize", buda="dequantization")
row("requantize", requantize, "quantize", buda="requantization")
row("buda_requantize", buda_requantize, "quantize", buda="requantization")


def fused_op(*inputs: Tensor, program: Any) -> Tensor:
    """Elementwise steps in one operation: (name, row, operands, attributes); operand i >= 0 is an input, -1-i the result of step i."""
    from tessera.graph.ops.table import OPS

    made: list[Tensor] = []
    for _, name, refs, attrs in program:
        made.append(OPS[name].fn(*[inputs[r] if r >= 0 else made[-1 - r] for r in refs], **attrs))
    return made[-1]


row("fused_op", fused_op, "fused")
