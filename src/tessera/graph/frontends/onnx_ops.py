"""ONNX operators as torch calls: elementwise work, reductions, shapes and matrices. The layers of networks are in `onnx_layers.py`.

Operands arrive in ONNX's order, `None` for one that was left out; ports listed in `host_ports` arrive as numpy arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tessera.graph.ir import GraphError

TABLE: dict[str, Callable[..., Any]] = {}

# TensorProto's element types
DTYPES: dict[int, torch.dtype] = {
    1: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float16,
    11: torch.float32,
    16: torch.bfloat16,
}


def op(
    *names: str, host: tuple[int, ...] = (), opset: bool = False, count: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        fn.host_ports, fn.needs_opset, fn.needs_count = host, opset, count  # type: ignore[attr-defined]
        for name in names:
            TABLE[name] = fn
        return fn

    return register


def ints(value: Any) -> list[int]:
    """A shape, axis list or similar, which must be known without inputs."""
    if isinstance(value, Tensor):
        raise GraphError("an ONNX operator takes a shape or axis that depends on the inputs; shapes must be fixed")
    return [int(v) for v in np.asarray(value).reshape(-1)]


# elementwise -----------------------------------------------------------------------------------------------------------------

_UNARY: dict[str, Callable[..., Any]] = {
    "Abs": torch.abs, "Acos": torch.acos, "Acosh": torch.acosh, "Asin": torch.asin, "Asinh": torch.asinh, "Atan": torch.atan, "Atanh": torch.atanh,
    "Ceil": torch.ceil, "Cos": torch.cos, "Cosh": torch.cosh, "Erf": torch.erf, "Exp": torch.exp, "Floor": torch.floor, "HardSwish": F.hardswish,
    "Identity": lambda x: x, "IsNaN": torch.isnan, "Log": torch.log, "Mish": F.mish, "Neg": torch.neg, "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal, "Relu": F.relu, "Round": torch.round, "Sigmoid": torch.sigmoid, "Sign": torch.sign, "Sin": torch.sin,
    "Sinh": torch.sinh, "Softplus": F.softplus, "Softsign": F.softsign, "Sqrt": torch.sqrt, "Tan": torch.tan, "Tanh": torch.tanh, "BitwiseNot": torch.bitwise_not,
}  # fmt: skip
_BINARY: dict[str, Callable[..., Any]] = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Equal": torch.eq, "Greater": torch.gt, "Less": torch.lt, "GreaterOrEqual": torch.ge,
    "LessOrEqual": torch.le, "And": torch.logical_and, "Or": torch.logical_or, "Xor": torch.logical_xor, "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or, "BitwiseXor": torch.bitwise_xor,
}  # fmt: skip


def _elementwise(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs, **_: fn(*xs)


for _name, _fn in {**_UNARY, **_BINARY}.items():
    op(_name)(_elementwise(_fn))


@op("Div")
def div(a: Tensor, b: Tensor) -> Tensor:
    return torch.div(a, b) if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


@op("Mod")
def mod(a: Tensor, b: Tensor, fmod: int = 0) -> Tensor:
    return torch.fmod(a, b) if fmod else torch.remainder(a, b)


@op("Pow")
def power(a: Tensor, b: Tensor) -> Tensor:
    return torch.pow(a, b).to(a.dtype)


@op("Max")
def maximum(*xs: Tensor) -> Tensor:
    return _fold(torch.maximum, xs)


@op("Min")
def minimum(*xs: Tensor) -> Tensor:
    return _fold(torch.minimum, xs)


@op("Sum")
def add_all(*xs: Tensor) -> Tensor:
    return _fold(torch.add, xs)


@op("Mean")
def mean_all(*xs: Tensor) -> Tensor:
    return _fold(torch.add, xs) / len(xs)


def _fold(fn: Callable[..., Any], xs: Sequence[Tensor]) -> Tensor:
    total = xs[0]
    for x in xs[1:]:
        total = fn(total, x)
    return total


@op("Clip", host=(1, 2))
def clip(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        x = torch.maximum(x, _as(low, x)) if low is not None else x
        return torch.minimum(x, _as(high, x)) if high is not None else x
    return torch.clamp(x, None if low is None else float(low), None if high is None else float(high))


def _as(value: Any, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.full((), float(value), dtype=like.dtype)


op("LeakyRelu")(lambda x, alpha=0.01: F.leaky_relu(x, alpha))
op("Elu")(lambda x, alpha=1.0: F.elu(x, alpha))
op("Celu")(lambda x, alpha=1.0: F.celu(x, alpha))
op("Selu")(lambda x, alpha=1.6732631921768188, gamma=1.0507010221481323: gamma * torch.where(x > 0, x, alpha * (torch.exp(x) - 1)))
op("ThresholdedRelu")(lambda x, alpha=1.0: torch.where(x > alpha, x, torch.zeros_like(x)))
op("HardSigmoid")(lambda x, alpha=0.2, beta=0.5: torch.clamp(alpha * x + beta, 0.0, 1.0))
op("Shrink")(lambda x, bias=0.0, lambd=0.5: torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, torch.zeros_like(x))))
op("Gelu")(lambda x, approximate="none": F.gelu(x, approximate=approximate))
op("FastGelu")(lambda x, bias=None: F.gelu(x if bias is None else x + bias, approximate="tanh"))
op("Swish")(lambda x, alpha=1.0: x * torch.sigmoid(alpha * x))
op("Where")(lambda c, a, b: torch.where(c, a, b))
op("IsInf")(lambda x, detect_negative=1, detect_positive=1: torch.isinf(x))
op("BitShift")(lambda a, b, direction: torch.bitwise_left_shift(a, b) if direction == "LEFT" else torch.bitwise_right_shift(a, b))


@op("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x >= 0, x, x * slope)


@op("Cast")
def cast(x: Tensor, to: int, saturate: int = 1, **_: Any) -> Tensor:
    if to not in DTYPES:
        raise GraphError(f"ONNX Cast to element type {to} is not supported")
    return x.to(DTYPES[to])


@op("CastLike")
def cast_like(x: Tensor, like: Tensor, **_: Any) -> Tensor:
    return x.to(like.dtype)


@op("Dropout", host=(1, 2), count=True)
def dropout(x: Tensor, ratio: Any = None, training: Any = None, seed: Any = None, outputs_: int = 1) -> Any:
    return (x, torch.ones_like(x, dtype=torch.bool)) if outputs_ > 1 else x


# reductions ----------------------------------------------------------------------------------------------------------------


def _reduce(fn: Callable[[Tensor, list[int], bool], Tensor]) -> Callable[..., Tensor]:
    def reduce(x: Tensor, axes_in: Any = None, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Tensor:
        chosen = axes if axes is not None else axes_in
        dims = ints(chosen) if chosen is not None else []
        if not dims:
            if noop_with_empty_axes:
                return x
            dims = list(range(x.dim()))
        return fn(x, dims, bool(keepdims))

    return reduce


for _name, _fn in {
    "ReduceSum": lambda x, d, k: torch.sum(x, d, k),
    "ReduceMean": lambda x, d, k: torch.mean(x, d, k),
    "ReduceMax": lambda x, d, k: torch.amax(x, d, k),
    "ReduceMin": lambda x, d, k: torch.amin(x, d, k),
    "ReduceProd": lambda x, d, k: _prod(x, d, k),
    "ReduceL1": lambda x, d, k: torch.sum(torch.abs(x), d, k),
    "ReduceL2": lambda x, d, k: torch.sqrt(torch.sum(x * x, d, k)),
    "ReduceSumSquare": lambda x, d, k: torch.sum(x * x, d, k),
    "ReduceLogSum": lambda x, d, k: torch.log(torch.sum(x, d, k)),
    "ReduceLogSumExp": lambda x, d, k: torch.logsumexp(x, d, k),
}.items():
    op(_name, host=(1,))(_reduce(_fn))


def _prod(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    for dim in sorted((d % x.dim() for d in dims), reverse=True):
        x = torch.prod(x, dim, keep)
    return x


op("ArgMax")(lambda x, axis=0, keepdims=1, select_last_index=0: torch.argmax(x, axis, bool(keepdims)))
op("ArgMin")(lambda x, axis=0, keepdims=1, select_last_index=0: torch.argmin(x, axis, bool(keepdims)))
op("CumSum", host=(1,))(lambda x, axis, exclusive=0, reverse=0: _cumsum(x, ints(axis)[0], exclusive, reverse))
op("TopK", host=(1,))(lambda x, k, axis=-1, largest=1, sorted=1: tuple(torch.topk(x, ints(k)[0], axis, bool(largest))))


def _cumsum(x: Tensor, axis: int, exclusive: int, reverse: int) -> Tensor:
    x = torch.flip(x, [axis]) if reverse else x
    total = torch.cumsum(x, axis)
    total = total - x if exclusive else total
    return torch.flip(total, [axis]) if reverse else total


# shapes --------------------------------------------------------------------------------------------------------------------


@op("Reshape", host=(1,))
def reshape(x: Tensor, shape: Any, allowzero: int = 0) -> Tensor:
    wanted = ints(shape)
    if not allowzero:
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    return torch.reshape(x, wanted)


op("Transpose")(lambda x, perm=None: x.permute(perm if perm is not None else list(range(x.dim()))[::-1]))
op("Flatten")(lambda x, axis=1: x.reshape(int(math.prod(x.shape[: axis % (x.dim() + 1)])), -1))
op("Expand", host=(1,))(lambda x, shape: x.expand(torch.broadcast_shapes(tuple(x.shape), tuple(ints(shape)))))
op("Concat")(lambda *xs, axis: torch.cat(xs, axis))
op("Tile", host=(1,))(lambda x, repeats: x.repeat(ints(repeats)))
op("Shape", "Size")(lambda x, **_: x)
op("EyeLike")(
    lambda x, dtype=None, k=0: torch.diag_embed(torch.ones(min(x.shape)))[: x.shape[0], : x.shape[1]].to(
        DTYPES[dtype] if dtype else x.dtype
    )
)
op("Trilu", host=(1,))(lambda x, k=None, upper=1: (torch.triu if upper else torch.tril)(x, 0 if k is None else ints(k)[0]))


@op("Unsqueeze", host=(1,))
def unsqueeze(x: Tensor, axes_in: Any = None, axes: Any = None) -> Tensor:
    dims = ints(axes if axes is not None else axes_in)
    rank = x.dim() + len(dims)
    for dim in sorted(d % rank for d in dims):
        x = torch.unsqueeze(x, dim)
    return x


@op("Squeeze", host=(1,))
def squeeze(x: Tensor, axes_in: Any = None, axes: Any = None) -> Tensor:
    chosen = axes if axes is not None else axes_in
    dims = [i for i, n in enumerate(x.shape) if n == 1] if chosen is None else [d % x.dim() for d in ints(chosen)]
    for dim in sorted(dims, reverse=True):
        x = torch.squeeze(x, dim)
    return x


@op("Slice", host=(1, 2, 3, 4))
def slice_(x: Tensor, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Tensor:
    begin, stop = ints(starts), ints(ends)
    dims = ints(axes) if axes is not None else list(range(len(begin)))
    strides = ints(steps) if steps is not None else [1] * len(begin)
    for dim, start, end, step in zip(dims, begin, stop, strides):
        if step < 0:
            size = x.shape[dim]
            keep = list(range(size))[slice(start, None if end < -size else end, step)]
            x = torch.index_select(x, dim, torch.tensor(keep))
        else:
            where: list[Any] = [slice(None)] * x.dim()
            where[dim] = slice(start, min(end, 2**31), step)
            x = x[tuple(where)]
    return x


@op("Split", host=(1,), count=True)
def split(x: Tensor, sizes: Any = None, axis: int = 0, split: Any = None, num_outputs: int | None = None, outputs_: int = 1) -> Any:
    chosen = split if split is not None else sizes
    if chosen is not None:
        return torch.split(x, ints(chosen), axis)
    return torch.split(x, -(-x.shape[axis] // (num_outputs or outputs_)), axis)


def gather(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    axis %= x.dim()
    size = x.shape[axis]
    safe = torch.where(indices < 0, indices + size, indices).long()
    picked = torch.index_select(x, axis, safe.reshape(-1))
    return picked.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _gather_host(x: Tensor, indices: Any, axis: int = 0) -> Tensor:
    """Constant indices: one index is a select, the rest a constant index list."""
    if isinstance(indices, np.ndarray):
        if indices.ndim == 0:
            return torch.select(x, axis, int(indices))
        indices = torch.from_numpy(np.ascontiguousarray(indices))
    return gather(x, indices, axis)


op("Gather", host=(1,))(_gather_host)
op("GatherElements")(lambda x, indices, axis=0: torch.gather(x, axis, torch.where(indices < 0, indices + x.shape[axis], indices)))


@op("GatherND")
def gather_nd(x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    if batch_dims:
        raise GraphError("ONNX GatherND with batch_dims is not supported")
    return x[tuple(indices[..., i] for i in range(indices.shape[-1]))]


@op("ScatterElements")
def scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none") -> Tensor:
    if reduction == "none":
        return torch.scatter(x, axis, indices, updates)
    if reduction == "add":
        return torch.scatter_add(x, axis, indices, updates)
    raise GraphError(f"ONNX ScatterElements with reduction={reduction!r} is not supported")


@op("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    where = tuple(indices[..., i] for i in range(indices.shape[-1]))
    return torch.index_put(x, where, updates, accumulate=reduction == "add")


@op("Pad", host=(1, 2, 3))
def pad(x: Tensor, pads: Any, value: Any = None, axes: Any = None, mode: str = "constant") -> Tensor:
    amounts = ints(pads)
    rank = x.dim()
    dims = [a % rank for a in ints(axes)] if axes is not None else list(range(rank))
    low, high = [0] * rank, [0] * rank
    for i, dim in enumerate(dims):
        low[dim], high[dim] = amounts[i], amounts[i + len(dims)]
    flat = [p for d in reversed(range(rank)) for p in (low[d], high[d])]
    if mode == "constant":
        return F.pad(
            x, flat, value=0.0 if value is None else float(np.asarray(value).reshape(())) if not isinstance(value, Tensor) else 0.0
        )
    while len(flat) > 2 and flat[-2:] == [0, 0] and len(flat) // 2 > rank - 2:
        flat = flat[:-2]
    return F.pad(x, flat, mode={"reflect": "reflect", "edge": "replicate", "wrap": "circular"}[mode])


@op("DepthToSpace")
def depth_to_space(x: Tensor, blocksize: int, mode: str = "DCR") -> Tensor:
    if mode == "CRD":
        return F.pixel_shuffle(x, blocksize)
    n, c, h, w = x.shape
    y = x.reshape(n, blocksize, blocksize, c // blocksize**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return y.reshape(n, c // blocksize**2, h * blocksize, w * blocksize)


@op("SpaceToDepth")
def space_to_depth(x: Tensor, blocksize: int) -> Tensor:
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize).permute(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * blocksize**2, h // blocksize, w // blocksize)


@op("OneHot", host=(1, 2))
def one_hot(indices: Tensor, depth: Any, values: Any, axis: int = -1) -> Tensor:
    count = ints(depth)[0]
    off, on = (float(v) for v in np.asarray(values).reshape(-1))
    hot = F.one_hot(torch.remainder(indices, count).long(), count).to(torch.float32) * (on - off) + off
    return hot if axis in (-1, indices.dim()) else hot.movedim(-1, axis)


# made from nothing -----------------------------------------------------------------------------------------------------------


@op("ConstantOfShape", host=(0,))
def constant_of_shape(shape: Any, value: Any = None) -> Tensor:
    array = np.zeros(1, np.float32) if value is None else np.asarray(value)
    return torch.full(tuple(ints(shape)), array.reshape(-1)[0].item(), dtype=torch.from_numpy(array).dtype)


@op("Range", host=(0, 1, 2))
def range_(start: Any, limit: Any, delta: Any) -> Tensor:
    return torch.from_numpy(
        np.arange(np.asarray(start).item(), np.asarray(limit).item(), np.asarray(delta).item(), dtype=np.asarray(start).dtype)
    )


# matrices ------------------------------------------------------------------------------------------------------------------

op("MatMul")(lambda a, b: torch.matmul(a, b))
op("Einsum")(lambda *xs, equation: torch.einsum(equation, *xs))


@op("Gemm")
def gemm(a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0) -> Tensor:
    a = a.t() if transA else a
    if transB and alpha == 1.0 and (c is None or (beta == 1.0 and c.dim() == 1)):
        return F.linear(a, b, c)
    product = torch.matmul(a, b.t() if transB else b)
    product = product if alpha == 1.0 else product * alpha
    return product if c is None else product + (c if beta == 1.0 else c * beta)
