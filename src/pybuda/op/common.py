"""How an operation of the user's language becomes a value or a piece of a graph.

With values on all operands it is computed at once, by the same row that the compiled graph would run; without, it remembers what it
is, and tracing follows it from the outputs of a module back to the inputs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pybuda.parameter import Parameter
from pybuda.tensor import Tensor, TensorFromPytorch, TensorFromTrace
from tessera.graph.formats import OF_DTYPE, DataFormat
from tessera.graph.ops import OPS, infer

_state = threading.local()


@contextmanager
def tracing() -> Iterator[None]:
    """Inside, operations count up from zero and only describe themselves, so that equal modules give equal names."""
    before = (getattr(_state, "tracing", False), getattr(_state, "count", 0))
    _state.tracing, _state.count = True, 0
    try:
        yield
    finally:
        _state.tracing, _state.count = before


class PyBudaOp:
    """One operation of a traced module."""

    __slots__ = ("attrs", "data_format", "intermediate", "name", "op", "operands", "source")

    def __init__(self, op: str, name: str, operands: tuple[Any, ...], attrs: dict[str, Any], data_format: DataFormat) -> None:
        self.op, self.name, self.operands, self.attrs, self.data_format = op, name, operands, attrs, data_format
        self.source = _caller()


def _caller() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_globals.get("__name__", "").startswith("pybuda.") and not frame.f_globals.get("__name__", "").startswith("pybuda.demo")
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def auto_name(op: str, name: str) -> str:
    count = getattr(_state, "count", 0)
    _state.count = count + 1
    return name or f"{op}_{count}"


def make(op: str, name: str, *operands: Any, label: str = "", data_format: DataFormat | None = None, **attrs: Any) -> Tensor:
    """Operation `op` of the graph's table on `operands`; `label` is its name in automatic names where that differs, and
    attributes that are None are left to the row's default."""
    for position, operand in enumerate(operands):
        if not isinstance(operand, (Tensor, Parameter)):
            raise TypeError(
                f"{label or op}: operand {position} is a {type(operand).__name__}; it must be a pybuda Tensor or Parameter (Tensor.create_from_torch wraps a torch tensor)"
            )
    full = auto_name(label or op, name)
    attrs = {key: value for key, value in attrs.items() if value is not None}
    if not getattr(_state, "tracing", False) and all(o.has_value() for o in operands):
        value = OPS[op].fn(*[o.value() for o in operands], **attrs)
        return TensorFromPytorch(value, data_format or (operands[0].data_format if operands and value.is_floating_point() else None))
    try:
        result = infer(op, [(tuple(o.shape), o.pt_data_format) for o in operands], attrs)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        shapes = ", ".join(str(list(o.shape)) for o in operands)
        raise RuntimeError(f"{label or op} {full!r} does not fit its operands of shapes {shapes}: {error}") from error
    default = operands[0].data_format if operands and result.dtype.is_floating_point else OF_DTYPE.get(result.dtype, DataFormat.Float32)
    made = TensorFromTrace(None, tuple(result.shape), data_format or default, result.dtype)
    made.src_op = PyBudaOp(op, full, operands, attrs, made.data_format)
    return made


def meta(value: Any) -> torch.Tensor:
    return torch.empty(tuple(value.shape), dtype=value.pt_data_format, device="meta")
