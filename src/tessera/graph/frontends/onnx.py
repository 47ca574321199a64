"""ONNX models as torch modules. A model is replayed node by node as torch calls; torch.export then reads the replay like any other module.

Initialisers of floats are parameters, so an ONNX model can be trained. Whatever is known without inputs (shapes and what is computed from
them) stays on the host as numpy arrays, so that no shape of the graph ever depends on a tensor. `Loop`, `Scan` and sequences are not replayed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tessera.graph.frontends import onnx_layers
from tessera.graph.frontends.onnx_host import HOST
from tessera.graph.frontends.onnx_ops import TABLE
from tessera.graph.ir import GraphError, UnsupportedOperators

OLDEST_OPSET = 13
assert onnx_layers  # imported for the rows it adds to the table
Value = Any  # Tensor, numpy array on the host, or None for an input that was left out


def load(model: Any) -> Any:
    """A ModelProto from a path, from bytes, or as it is; checked in both cases."""
    try:
        import onnx
    except ImportError as error:
        raise GraphError("ONNX models need the `onnx` package; install the `onnx` extra") from error
    if isinstance(model, (str, os.PathLike)):
        if not os.path.exists(model):
            raise GraphError(f"there is no ONNX file {os.fspath(model)!r}")
        model = onnx.load(os.fspath(model))
    elif isinstance(model, (bytes, bytearray)):
        model = onnx.load_from_string(bytes(model))
    if not isinstance(model, onnx.ModelProto):
        raise GraphError(f"an ONNX model is a ModelProto or the path of a file, not a {type(model).__name__}")
    return model


class OnnxReplay(nn.Module):
    """`forward` takes the model's inputs in order (or by name) and returns its outputs, one tensor or a tuple."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        import onnx
        from onnx import numpy_helper

        proto = load(model)
        opsets = {o.domain or "ai.onnx": o.version for o in proto.opset_import}
        self.opset = int(opsets.get("ai.onnx", 0))
        if self.opset < OLDEST_OPSET:
            raise GraphError(f"the model uses opset {self.opset}; convert it to {OLDEST_OPSET} or newer with onnx.version_converter")
        graph = proto.graph
        self._check(graph)
        self.held: dict[str, Value] = {}
        self.attribute_names: dict[str, str] = {}
        self.on_host = {
            name
            for node in _all_nodes(graph)
            for port, name in enumerate(node.input)
            if port in getattr(TABLE.get(node.op_type), "host_ports", ())
        }
        for initializer in graph.initializer:
            self._hold(initializer.name, numpy_helper.to_array(initializer))
        known = {i.name for i in graph.initializer}
        self.input_names = [i.name for i in graph.input if i.name not in known]
        self.output_names = [o.name for o in graph.output]
        self.steps = [self._step(node, onnx) for node in graph.node]

    def _check(self, graph: Any) -> None:
        found: dict[tuple[str, str], None] = {}
        for node in _all_nodes(graph):
            domain = node.domain or "ai.onnx"
            if domain not in ("ai.onnx", "com.microsoft") or (node.op_type not in TABLE and node.op_type not in ("If", "Constant")):
                found[
                    (
                        f"onnx {domain}.{node.op_type}" if domain != "ai.onnx" else f"onnx {node.op_type}",
                        f"node {node.name or node.output[0]!r}",
                    )
                ] = None
        if found:
            raise UnsupportedOperators(list(found))

    def _hold(self, name: str, array: np.ndarray) -> None:
        """Floats are parameters, small integers stay on the host, the rest are buffers."""
        array = np.array(array)
        if array.dtype.kind == "f" and array.dtype != np.float64 and array.ndim > 0 and name not in self.on_host:
            attribute = _attribute(name)
            self.attribute_names[name] = attribute
            self.register_parameter(attribute, nn.Parameter(torch.from_numpy(array)))
        elif array.dtype.kind in "iub" and array.size > 4096 and name not in self.on_host:
            attribute = _attribute(name)
            self.attribute_names[name] = attribute
            self.register_buffer(attribute, torch.from_numpy(array))
        else:
            self.held[name] = array

    def _step(self, node: Any, onnx: Any) -> tuple[str, Callable[..., Any] | None, list[str], list[str], dict[str, Any]]:
        attrs: dict[str, Any] = {}
        for a in node.attribute:
            value = onnx.helper.get_attribute_value(a)
            if isinstance(value, bytes):
                value = value.decode()
            elif isinstance(value, onnx.TensorProto):
                value = np.array(onnx.numpy_helper.to_array(value))
            elif isinstance(value, onnx.GraphProto):
                value = (
                    [self._step(n, onnx) for n in value.node],
                    [o.name for o in value.output],
                    {i.name: np.array(onnx.numpy_helper.to_array(i)) for i in value.initializer},
                )
            elif isinstance(value, list) and value and isinstance(value[0], bytes):
                value = [v.decode() for v in value]
            attrs[a.name] = value
        return node.op_type, TABLE.get(node.op_type), list(node.input), list(node.output), attrs

    def forward(self, *args: Tensor, **kwargs: Tensor) -> Any:
        values: dict[str, Value] = dict(self.held)
        for name, attribute in self.attribute_names.items():
            values[name] = getattr(self, attribute)
        if len(args) + len(kwargs) != len(self.input_names):
            raise GraphError(
                f"the model takes {len(self.input_names)} inputs ({', '.join(self.input_names)}), it was given {len(args) + len(kwargs)}"
            )
        values.update(zip(self.input_names, args))
        values.update(kwargs)
        values[""] = None
        self._run(self.steps, values)
        results = [_tensor(values[name]) for name in self.output_names]
        return results[0] if len(results) == 1 else tuple(results)

    def _run(self, steps: list[Any], values: dict[str, Value]) -> None:
        for op, fn, inputs, outputs, attrs in steps:
            given = [values[name] for name in inputs]
            made = self._compute(op, fn, given, len(outputs), attrs, values)
            for name, value in zip(outputs, made if isinstance(made, (tuple, list)) else (made,)):
                values[name] = value

    def _compute(
        self, op: str, fn: Callable[..., Any] | None, given: list[Value], count: int, attrs: Mapping[str, Any], values: dict[str, Value]
    ) -> Any:
        if op == "Constant":
            return _constant(attrs)
        if op == "If":
            return self._if(given[0], attrs, values)
        if op == "Shape":
            shape = np.array(tuple(given[0].shape), dtype=np.int64)
            return shape[attrs.get("start", 0) : attrs.get("end", None)]
        if op == "Size":
            return np.array(int(np.prod(tuple(given[0].shape))), dtype=np.int64)
        host = HOST.get(op)
        if host is not None and all(v is None or isinstance(v, np.ndarray) for v in given):
            return host(*given, **attrs)
        assert fn is not None
        extra = {"opset_": self.opset} if getattr(fn, "needs_opset", False) else {}
        if getattr(fn, "needs_count", False):
            extra["outputs_"] = count
        keep = getattr(fn, "host_ports", ())
        ready = [v if port in keep else _tensor(v) for port, v in enumerate(given)]
        return fn(*ready, **attrs, **extra)

    def _if(self, condition: Value, attrs: Mapping[str, Any], values: dict[str, Value]) -> Any:
        if not isinstance(condition, np.ndarray):
            raise GraphError("an ONNX If whose condition depends on the inputs has no place in a graph with fixed shapes")
        steps, outputs, constants = attrs["then_branch" if bool(condition) else "else_branch"]
        inner = {**values, **constants}
        self._run(steps, inner)
        return tuple(inner[name] for name in outputs)


def _all_nodes(graph: Any) -> Any:
    for node in graph.node:
        yield node
        for a in node.attribute:
            if a.HasField("g"):
                yield from _all_nodes(a.g)


def _attribute(name: str) -> str:
    """A name torch accepts for a parameter; dots would mean a sub-module."""
    return name.replace(".", "__dot__").replace("/", "_").replace(":", "_") or "unnamed"


def _constant(attrs: Mapping[str, Any]) -> np.ndarray:
    for key in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if key in attrs:
            value = attrs[key]
            dtype = np.float32 if "float" in key else np.int64 if "int" in key else None
            return np.array(value) if dtype is None else np.array(value, dtype=dtype)
    raise GraphError("an ONNX Constant of strings or a sparse tensor is not supported")


def _tensor(value: Value) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(value).reshape(value.shape))
    return value
