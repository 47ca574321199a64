"""The ONNX operators that also run on numpy arrays, because models compute their shapes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tessera.graph.frontends.onnx_ops import ints

HOST: dict[str, Callable[..., Any]] = {}
_NUMPY = {
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    5: np.int16,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    10: np.float16,
    11: np.float64,
    16: np.float32,
}


def _slice_np(x: np.ndarray, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> np.ndarray:
    begin, stop = ints(starts), ints(ends)
    dims = ints(axes) if axes is not None else list(range(len(begin)))
    strides = ints(steps) if steps is not None else [1] * len(begin)
    where: list[Any] = [slice(None)] * x.ndim
    for dim, start, end, step in zip(dims, begin, stop, strides):
        where[dim] = slice(start, None if step < 0 and end < -x.shape[dim] else end, step)
    return x[tuple(where)]


def _div_np(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(a / b if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype))


def _reshape_np(x: np.ndarray, shape: Any, allowzero: int = 0) -> np.ndarray:
    wanted = ints(shape)
    return x.reshape(wanted if allowzero else [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)])


def _axes_np(fn: Callable[[np.ndarray, Any], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda x, axes_in=None, axes=None: fn(x, axes if axes is not None else axes_in)


HOST.update(
    {
        "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _div_np, "Neg": np.negative, "Abs": np.abs, "Sqrt": np.sqrt, "Floor": np.floor, "Ceil": np.ceil,
        "Equal": np.equal, "Less": np.less, "Greater": np.greater, "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal,
        "And": np.logical_and, "Or": np.logical_or, "Not": np.logical_not, "Where": np.where, "Identity": lambda x: x,
        "Mod": lambda a, b, fmod=0: np.fmod(a, b) if fmod else np.mod(a, b),
        "Pow": lambda a, b: np.power(a, b).astype(a.dtype),
        "Max": lambda *xs: np.maximum.reduce(xs), "Min": lambda *xs: np.minimum.reduce(xs),
        "Cast": lambda x, to, **_: np.asarray(x).astype(_NUMPY[to]),
        "Concat": lambda *xs, axis: np.concatenate(xs, axis),
        "Gather": lambda x, i, axis=0: np.asarray(np.take(x, i, axis)),
        "Slice": _slice_np, "Reshape": _reshape_np,
        "Unsqueeze": _axes_np(lambda x, a: np.expand_dims(x, tuple(ints(a)))),
        "Squeeze": _axes_np(lambda x, a: np.squeeze(x, None if a is None else tuple(ints(a)))),
        "Expand": lambda x, shape: np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(ints(shape))))),
        "Tile": lambda x, r: np.tile(x, ints(r)),
        "Transpose": lambda x, perm=None: np.transpose(x, perm),
        "Range": lambda a, b, c: np.arange(a.item(), b.item(), c.item(), dtype=a.dtype),
        "ConstantOfShape": lambda s, value=None: np.full(tuple(ints(s)), 0.0 if value is None else value.reshape(-1)[0], np.float32 if value is None else value.dtype),
        "ReduceProd": lambda x, a=None, axes=None, keepdims=1, **_: np.prod(x, axis=tuple(ints(axes if axes is not None else a)) if (axes is not None or a is not None) else None, keepdims=bool(keepdims)),
        "ReduceSum": lambda x, a=None, axes=None, keepdims=1, **_: np.sum(x, axis=tuple(ints(axes if axes is not None else a)) if (axes is not None or a is not None) else None, keepdims=bool(keepdims)),
        "ReduceMax": lambda x, a=None, axes=None, keepdims=1, **_: np.max(x, axis=tuple(ints(axes if axes is not None else a)) if (axes is not None or a is not None) else None, keepdims=bool(keepdims)),
        "ScatterND": lambda x, i, u, **_: _scatter_np(x, i, u),
    }
)  # fmt: skip


def _scatter_np(x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    out = np.array(x)
    out[tuple(indices[..., i] for i in range(indices.shape[-1]))] = updates
    return out
