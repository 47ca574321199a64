"""What elementwise operations should answer, in fp64 and by other words than the engine's: torch's own functions wherever torch has one."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

NAN = float("nan")


def every_bfloat16() -> Tensor:
    """All 65,536 values."""
    return torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


def ulp_errors(result: Tensor, exact: Tensor, fraction: int = 7) -> Tensor:
    """Distances in units of the last place of a format with `fraction` bits and fp32's exponents. What lies below the smallest normal number may be zero;
    infinities and NaN must be what they are."""
    result, exact = result.to(torch.float64), exact.to(torch.float64)
    largest = (2 - 2.0**-fraction) * 2.0**127
    _, exponent = torch.frexp(torch.where(exact.isfinite() & (exact != 0), exact, torch.ones(())))
    ulp = torch.ldexp(torch.ones_like(exact), (exponent - 1).clamp(min=-126) - fraction)
    error = (result - exact).abs() / ulp
    error = torch.where((exact.abs() < 2.0**-126) & (result == 0), 0.0, error)
    overflow = exact.abs() >= largest + 2.0 ** (127 - fraction) / 2
    right = torch.where(overflow | exact.isinf(), result == torch.copysign(torch.tensor(math.inf), exact), result == exact) | (
        result.isnan() & exact.isnan()
    )
    error = torch.where(right, 0.0, error)
    return torch.where(error.isnan() | (result.isnan() != exact.isnan()), math.inf, error)


def _flag(test: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: test(x).double()


def _silu(x: Tensor) -> Tensor:
    return torch.where(x == -math.inf, 0.0, F.silu(x))


UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "abs": torch.abs,
    "acos": torch.acos,
    "acosh": torch.acosh,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "atanh": torch.atanh,
    "cbrt": lambda x: torch.sign(x) * x.abs() ** (1 / 3),
    "ceil": torch.ceil,
    "cos": torch.cos,
    "cosh": torch.cosh,
    "deg2rad": torch.deg2rad,
    "digamma": torch.special.psi,
    "eqz": _flag(lambda x: x == 0),
    "erf": torch.special.erf,
    "erfc": torch.special.erfc,
    "erfinv": torch.special.erfinv,
    "exp": torch.exp,
    "exp2": torch.special.exp2,
    "expm1": torch.special.expm1,
    "floor": torch.floor,
    "frac": lambda x: x - torch.trunc(x),
    "gez": _flag(lambda x: x >= 0),
    "gtz": _flag(lambda x: x > 0),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "i0": torch.special.i0,
    "i1": torch.special.i1,
    "identity": lambda x: x,
    "isfinite": _flag(torch.isfinite),
    "isinf": _flag(torch.isinf),
    "isnan": _flag(torch.isnan),
    "isneginf": _flag(torch.isneginf),
    "isposinf": _flag(torch.isposinf),
    "lez": _flag(lambda x: x <= 0),
    "lgamma": torch.special.gammaln,
    "log": torch.log,
    "log10": torch.log10,
    "log1p": torch.special.log1p,
    "log2": torch.log2,
    "log_sigmoid": lambda x: torch.where(x < 0, x - torch.log1p(torch.exp(x.clamp(max=0))), -torch.log1p(torch.exp(-x.clamp(min=0)))),
    "logical_not": lambda x: torch.logical_not(x).double(),
    "logit": torch.special.logit,
    "ltz": _flag(lambda x: x < 0),
    "mish": F.mish,
    "multigammaln": lambda x: sum((torch.lgamma(x - i / 2) for i in range(4)), 3 * math.log(math.pi)),
    "neg": torch.neg,
    "nez": _flag(lambda x: x != 0),
    "rad2deg": torch.rad2deg,
    "reciprocal": torch.reciprocal,
    "relu": F.relu,
    "relu6": F.relu6,
    "round": torch.round,
    "rsqrt": torch.rsqrt,
    "selu": lambda x: F.selu(x),
    "sigmoid": torch.special.expit,
    "sigmoid_accurate": torch.special.expit,
    "sign": torch.sign,
    "signbit": _flag(torch.signbit),
    "silu": _silu,
    "sin": torch.sin,
    "sinh": torch.sinh,
    "softplus": F.softplus,
    "softsign": F.softsign,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "swish": _silu,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "trunc": torch.trunc,
    "gelu": lambda x: x * torch.exp(torch.special.log_ndtr(x)),
    "celu": F.celu,
    "elu": F.elu,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "hardtanh": F.hardtanh,
}
"""Operations of one tensor with default parameters."""

PARAMETERS: dict[str, tuple[tuple[float, ...], Callable[..., Tensor]]] = {
    "leaky_relu": ((0.125,), F.leaky_relu),
    "relu_max": ((2.5,), lambda x, v: x.clamp(max=v).relu()),
    "relu_min": ((0.5,), lambda x, v: x.clamp(min=v).relu()),
    "threshold": ((0.5, -2.0), F.threshold),
    "heaviside": ((0.25,), lambda x, v: torch.heaviside(x, torch.tensor(v, dtype=x.dtype))),
    "fill": ((3.5,), torch.full_like),
    "rpow": ((2.0,), lambda x, v: v**x),
    "rdiv": ((3.0,), lambda x, v: v / x),
    "polygamma": ((2,), lambda x, k: torch.special.polygamma(int(k), x)),
    "pow": ((3.0,), torch.pow),
    "fmod": ((0.75,), torch.fmod),
    "remainder": ((0.75,), torch.remainder),
    "maximum": ((0.5,), lambda x, v: torch.maximum(x, torch.tensor(v, dtype=x.dtype))),
    "prelu": ((0.25,), lambda x, v: F.prelu(x, torch.tensor([v], dtype=x.dtype))),
    "clamp": ((-1.5, 0.5), torch.clamp),
}
"""Operations of one tensor and numbers."""

BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "rsub": lambda a, b: b - a,
    "squared_difference": lambda a, b: (a - b) ** 2,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "ldexp": lambda a, b: a * 2**b,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "xlogy": torch.special.xlogy,
    "pow": torch.pow,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "floor_div": torch.floor_divide,
    "div_no_nan": lambda a, b: torch.where(b == 0, 0.0, a / b),
    "bias_gelu": lambda a, b: (a + b) * torch.exp(torch.special.log_ndtr(a + b)),
    "eq": lambda a, b: (a == b).double(),
    "ne": lambda a, b: (a != b).double(),
    "gt": lambda a, b: (a > b).double(),
    "lt": lambda a, b: (a < b).double(),
    "ge": lambda a, b: (a >= b).double(),
    "le": lambda a, b: (a <= b).double(),
    "logical_and": lambda a, b: torch.logical_and(a, b).double(),
    "logical_or": lambda a, b: torch.logical_or(a, b).double(),
    "logical_xor": lambda a, b: torch.logical_xor(a, b).double(),
}
"""Operations of two float tensors."""

WHOLE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "gcd": torch.gcd,
    "lcm": torch.lcm,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "eq": lambda a, b: (a == b).to(a.dtype),
    "gt": lambda a, b: (a > b).to(a.dtype),
    "logical_xor": lambda a, b: torch.logical_xor(a, b).to(a.dtype),
    "squared_difference": lambda a, b: (a - b) ** 2,
}
"""Operations of two INT32 tensors, in int32 arithmetic."""
