"""The table of elementwise steps of one operand: what each computes, and how precisely it has to be computed.

A step is a row: a torch form on floats, a form on whole numbers where integers are taken exactly, and what is known of its
arithmetic. An operation is a program of steps (`tessera.engine.unary`), so that fused activations, chains and captured traces are
longer programs of the same machine. The native machine has its own kernels under the same names.

The torch forms are differentiable, because gradients are taken from them (`tessera.engine.backward`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Form = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Step:
    """One row.

    `single`: torch's fp32 kernel is within one unit in the last place, so fp32 operands need no fp64. `narrow`: torch's bfloat16 kernel computes in
    fp32 and rounds once. `flush`: a result may be subnormal and is then flushed to zero as the chip's packer does. `local`: each element depends
    on its own operand only, so that a table of all bfloat16 values can stand for it.
    """

    compute: Form
    integer: Form | None = None
    single: bool = False
    narrow: bool = False
    flush: bool = True
    local: bool = True


# -- forms that torch does not have, or has less exactly


def _gelu(x: Tensor) -> Tensor:
    return 0.5 * x * torch.special.erfc(x * -math.sqrt(0.5))


def _tanhshrink(x: Tensor) -> Tensor:
    square = x * x
    series = x * square * (1 / 3 - square * (2 / 15 - square * (17 / 315 - square * (62 / 2835))))
    return torch.where(x.abs() < 0.05, series, x - torch.tanh(x))


def _cbrt(x: Tensor) -> Tensor:
    return torch.copysign(x.abs().pow(1 / 3), x)


def _mish(x: Tensor) -> Tensor:
    return x * torch.tanh(F.softplus(x, threshold=40.0))


def _hardmish(x: Tensor) -> Tensor:
    return x * (x + 2.8).clamp(0.0, 5.0) / 5.0


def _xielu(x: Tensor, alpha_p: float = 0.8, alpha_n: float = 0.8) -> Tensor:
    """Quadratic above zero, an integrated ELU below; both start with slope one half."""
    below = alpha_n * (torch.expm1(x.clamp(max=-1e-6)) - x)
    return torch.where(x > 0, alpha_p * x * x, below) + 0.5 * x


def _selu(x: Tensor, scale: float = 1.0507009873554805, alpha: float = 1.6732632423543772) -> Tensor:
    return scale * torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0)))


def _elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0)))


def _celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0) / alpha))


def _softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    scaled = x * beta
    return torch.where(scaled > threshold, x, torch.log1p(torch.exp(scaled.clamp(max=threshold))) / beta)


def _silu(x: Tensor) -> Tensor:
    """Its limit at minus infinity, where the product has none."""
    return torch.where(x == -math.inf, torch.zeros_like(x), x * torch.sigmoid(x))


def _threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    return torch.where(x <= threshold, torch.full_like(x, value), x)


def _heaviside(x: Tensor, value: float) -> Tensor:
    return torch.where(x == 0, torch.full_like(x, value), (x > 0).to(x.dtype))


def _round(x: Tensor, decimals: int = 0) -> Tensor:
    return torch.round(x, decimals=int(decimals)) if decimals else torch.round(x)


def _rotate90(x: Tensor) -> Tensor:
    """Pairs (a, b) along the last dimension become (-b, a)."""
    width = x.shape[-1] if x.dim() else 1
    pairs = F.pad(x.reshape(*x.shape[:-1], width), (0, width % 2)).unflatten(-1, (-1, 2))
    return torch.stack((-pairs[..., 1], pairs[..., 0]), -1).flatten(-2)[..., :width].reshape(x.shape)


def _polygamma(x: Tensor, order: float) -> Tensor:
    return torch.special.polygamma(int(order), x)


def _multigammaln(x: Tensor, dimensions: int = 4) -> Tensor:
    """Sum of lgamma over half steps; TT-NN fixes the number of dimensions at four."""
    constant = dimensions * (dimensions - 1) / 4 * math.log(math.pi)
    return sum((torch.lgamma(x - 0.5 * i) for i in range(dimensions)), constant * torch.ones_like(x))


def _power(x: Tensor, exponent: float) -> Tensor:
    return torch.pow(x, exponent)


def _integer_power(x: Tensor, exponent: float) -> Tensor:
    """Exact in two's complement of 64 bits, so that narrower results wrap as they should."""
    result, base, left = torch.ones_like(x), x, int(exponent)
    while left > 0:
        if left & 1:
            result = result * base
        base, left = base * base, left >> 1
    return result


def _rpow(x: Tensor, base: float) -> Tensor:
    return torch.pow(torch.full((), base, dtype=x.dtype), x)


def _rdiv(x: Tensor, value: float, mode: str | None = None) -> Tensor:
    quotient = value / x
    if mode == "floor":
        return torch.floor(quotient)
    return torch.trunc(quotient) if mode == "trunc" else quotient


def _softcap(x: Tensor, beta: float) -> Tensor:
    return beta * torch.tanh(x / beta)


def _clamp(x: Tensor, low: float | None, high: float | None) -> Tensor:
    if low is not None:
        x = torch.where(x < low, torch.full_like(x, low), x)
    return x if high is None else torch.where(x > high, torch.full_like(x, high), x)


def _polyval(x: Tensor, *coefficients: float) -> Tensor:
    result = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


def _flag(test: Callable[[Tensor], Tensor]) -> Form:
    """A comparison answers one or zero in the operand's dtype."""
    return lambda x: test(x).to(x.dtype)


def _shift_left(x: Tensor, by: float) -> Tensor:
    return torch.zeros_like(x) if not 0 <= by < 32 else x << int(by)


def _shift_right(x: Tensor, by: float) -> Tensor:
    return x >> (int(by) if 0 <= by < 32 else 31)


def _fill(x: Tensor, value: float) -> Tensor:
    return torch.full_like(x, value)


def _remainder(x: Tensor, divisor: float) -> Tensor:
    return torch.remainder(x, divisor)


def _fmod(x: Tensor, divisor: float) -> Tensor:
    return torch.fmod(x, divisor)


def _prelu(x: Tensor, slope: float) -> Tensor:
    return torch.where(x < 0, x * slope, x)


def _same(x: Tensor, *_: float) -> Tensor:
    return x


_ZERO = _flag(lambda x: x == 0)
_MAXIMUM: Form = lambda x, v: torch.clamp(x, min=v)  # noqa: E731
_MINIMUM: Form = lambda x, v: torch.clamp(x, max=v)  # noqa: E731


def _rows() -> dict[str, Step]:
    exact: dict[str, Any] = {"single": True, "narrow": True}
    flag: dict[str, Any] = {"single": True, "flush": False}
    return {
        # whole numbers and signs: exact in any float
        "identity": Step(_same, _same, **exact),
        "abs": Step(torch.abs, torch.abs, **exact),
        "neg": Step(torch.neg, torch.neg, **exact),
        "sign": Step(torch.sign, torch.sign, flush=False, **exact),
        "floor": Step(torch.floor, _same, flush=False, **exact),
        "ceil": Step(torch.ceil, _same, flush=False, **exact),
        "trunc": Step(torch.trunc, _same, flush=False, **exact),
        "round": Step(_round),
        "frac": Step(torch.frac, single=True),
        "relu": Step(torch.relu, torch.relu, **exact),
        "relu6": Step(F.relu6, lambda x: x.clamp(0, 6), single=True),
        "relu_max": Step(lambda x, v: torch.relu(x.clamp(max=v)), lambda x, v: torch.relu(x.clamp(max=math.floor(v))), single=True),
        "relu_min": Step(lambda x, v: torch.relu(x.clamp(min=v)), lambda x, v: torch.relu(x.clamp(min=math.floor(v))), single=True),
        "clamp": Step(_clamp, _clamp, single=True),
        "clamp_float": Step(_clamp, single=True),
        "maximum": Step(_MAXIMUM, lambda x, v: x.clamp(min=int(v)), single=True),
        "minimum": Step(_MINIMUM, lambda x, v: x.clamp(max=int(v)), single=True),
        "hardtanh": Step(lambda x, low=-1.0, high=1.0: F.hardtanh(x, low, high), single=True),
        "hardshrink": Step(lambda x, lambd=0.5: F.hardshrink(x, lambd), single=True),
        "softshrink": Step(lambda x, lambd=0.5: F.softshrink(x, lambd)),
        "threshold": Step(_threshold, single=True),
        "heaviside": Step(_heaviside, single=True),
        "fill": Step(_fill, _fill, single=True),
        "leaky_relu": Step(lambda x, slope=0.01: torch.where(x > 0, x, x * slope), _same, single=True),
        "prelu": Step(_prelu, single=True),
        "square": Step(lambda x: x * x, lambda x: x * x, **exact),
        "alt_complex_rotate90": Step(_rotate90, single=True, local=False),
        "bitwise_not": Step(lambda x: ~x.to(torch.int64), torch.bitwise_not),
        # questions: one or zero
        "eqz": Step(_ZERO, _ZERO, **flag),
        "logical_not": Step(_ZERO, _ZERO, **flag),
        "nez": Step(_flag(lambda x: x != 0), _flag(lambda x: x != 0), **flag),
        "gtz": Step(_flag(lambda x: x > 0), _flag(lambda x: x > 0), **flag),
        "ltz": Step(_flag(lambda x: x < 0), _flag(lambda x: x < 0), **flag),
        "gez": Step(_flag(lambda x: x >= 0), _flag(lambda x: x >= 0), **flag),
        "lez": Step(_flag(lambda x: x <= 0), _flag(lambda x: x <= 0), **flag),
        "signbit": Step(_flag(torch.signbit), _flag(lambda x: x < 0), **flag),
        "isfinite": Step(_flag(torch.isfinite), **flag),
        "isinf": Step(_flag(torch.isinf), **flag),
        "isnan": Step(_flag(torch.isnan), **flag),
        "isposinf": Step(_flag(torch.isposinf), **flag),
        "isneginf": Step(_flag(torch.isneginf), **flag),
        # exponentials and logarithms
        "exp": Step(torch.exp, **exact),
        "exp2": Step(torch.exp2, **exact),
        "expm1": Step(torch.expm1, narrow=True),
        "log": Step(torch.log, flush=False, **exact),
        "log2": Step(torch.log2, flush=False, **exact),
        "log10": Step(torch.log10, flush=False, **exact),
        "log1p": Step(torch.log1p, **exact),
        "sigmoid": Step(torch.sigmoid),
        "log_sigmoid": Step(F.logsigmoid),
        "logit": Step(lambda x, eps=None: torch.logit(x, eps)),
        "softplus": Step(_softplus),
        # roots and powers
        "sqrt": Step(torch.sqrt, flush=False, **exact),
        "rsqrt": Step(torch.rsqrt, flush=False),
        "cbrt": Step(_cbrt, flush=False),
        "reciprocal": Step(torch.reciprocal, **exact),
        "rdiv": Step(_rdiv),
        "power": Step(_power),
        "power_iterative": Step(_power, _integer_power),
        "rpow": Step(_rpow),
        # circular and hyperbolic
        "sin": Step(torch.sin, **exact),
        "cos": Step(torch.cos, **exact),
        "tan": Step(torch.tan, narrow=True),
        "asin": Step(torch.asin, **exact),
        "acos": Step(torch.acos, **exact),
        "atan": Step(torch.atan, **exact),
        "sinh": Step(torch.sinh),
        "cosh": Step(torch.cosh),
        "tanh": Step(torch.tanh, **exact),
        "asinh": Step(torch.asinh),
        "acosh": Step(torch.acosh),
        "atanh": Step(torch.atanh, narrow=True),
        "tanhshrink": Step(_tanhshrink),
        "softcap": Step(_softcap),
        "polyval": Step(_polyval),
        "deg2rad": Step(lambda x: x * (math.pi / 180), **exact),
        "rad2deg": Step(lambda x: x * (180 / math.pi), **exact),
        # gates
        "gelu": Step(_gelu),
        "gelu_tanh": Step(lambda x: F.gelu(x, approximate="tanh")),
        "silu": Step(_silu),
        "mish": Step(_mish),
        "hardmish": Step(_hardmish),
        "hardsigmoid": Step(F.hardsigmoid),
        "hardswish": Step(F.hardswish),
        "softsign": Step(F.softsign),
        "elu": Step(_elu),
        "celu": Step(_celu),
        "selu": Step(_selu),
        "xielu": Step(_xielu),
        # special functions
        "erf": Step(torch.erf, single=True),
        "erfc": Step(torch.special.erfc, **exact),
        "erfinv": Step(torch.erfinv, **exact),
        "i0": Step(torch.special.i0),
        "i1": Step(torch.special.i1),
        "lgamma": Step(torch.lgamma),
        "digamma": Step(torch.digamma),
        "polygamma": Step(_polygamma),
        "multigammaln": Step(_multigammaln),
        # one operand with a constant
        "add": Step(lambda x, v: x + v, lambda x, v: x + int(v), single=True),
        "subtract": Step(lambda x, v: x - v, lambda x, v: x - int(v), single=True),
        "rsub": Step(lambda x, v: v - x, lambda x, v: int(v) - x, single=True),
        "multiply": Step(lambda x, v: x * v, lambda x, v: x * int(v), single=True),
        "divide": Step(lambda x, v: x / v, single=True),
        "div_no_nan": Step(lambda x, v: x / v if v else x * 0.0, single=True),
        "remainder": Step(_remainder, lambda x, v: torch.remainder(x, int(v)) if int(v) else x * 0),
        "fmod": Step(_fmod, lambda x, v: torch.fmod(x, int(v)) if int(v) else x * 0),
        "remainder_float": Step(_remainder),
        "fmod_float": Step(_fmod),
        "bitwise_and": Step(lambda x, v: x.to(torch.int64) & int(v), lambda x, v: x & int(v)),
        "bitwise_or": Step(lambda x, v: x.to(torch.int64) | int(v), lambda x, v: x | int(v)),
        "bitwise_xor": Step(lambda x, v: x.to(torch.int64) ^ int(v), lambda x, v: x ^ int(v)),
        "left_shift": Step(lambda x, v: _shift_left(x.to(torch.int64), v), _shift_left),
        "right_shift": Step(lambda x, v: _shift_right(x.to(torch.int64), v), _shift_right),
        "eq": Step(lambda x, v: (x == v).to(x.dtype), lambda x, v: (x == v).to(x.dtype), **flag),
        "ne": Step(lambda x, v: (x != v).to(x.dtype), lambda x, v: (x != v).to(x.dtype), **flag),
        "gt": Step(lambda x, v: (x > v).to(x.dtype), lambda x, v: (x > v).to(x.dtype), **flag),
        "lt": Step(lambda x, v: (x < v).to(x.dtype), lambda x, v: (x < v).to(x.dtype), **flag),
        "ge": Step(lambda x, v: (x >= v).to(x.dtype), lambda x, v: (x >= v).to(x.dtype), **flag),
        "le": Step(lambda x, v: (x <= v).to(x.dtype), lambda x, v: (x <= v).to(x.dtype), **flag),
        "mac": Step(lambda x, v, w: x * v + w, lambda x, v, w: x * int(v) + int(w)),
        "where": Step(lambda x, v, w: torch.where(x != 0, v, w), lambda x, v, w: torch.where(x != 0, v, w), single=True),
    }


STEPS: dict[str, Step] = _rows()
