"""Weights laid out once for the kernel that reads them. A compiled model's weights do not move, so a matmul or convolution by a weight can
use oneDNN's packed layouts with the activation applied inside: faster than the same call in eager mode, and one rounding fewer.

Torch exposes these kernels for its own compiler; where a build lacks them, or for other dtypes, `ready` is False and nothing is packed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tessera.graph.ir import Kind, Node

if TYPE_CHECKING:
    from tessera.graph.plan import Builder

# our activation -> oneDNN's name, its scalars, its algorithm
_POINTWISE: dict[str | None, tuple[str, list[float], str | None]] = {
    None: ("none", [], ""),
    "relu": ("relu", [], ""),
    "relu6": ("hardtanh", [0.0, 6.0], ""),
    "gelu": ("gelu", [], "none"),
    "gelu_tanh": ("gelu", [], "tanh"),
    "sigmoid": ("sigmoid", [], ""),
    "tanh": ("tanh", [], ""),
    "silu": ("swish", [], ""),
    "hardswish": ("hardswish", [], ""),
}


@functools.cache
def ready(dtype: torch.dtype) -> bool:
    """True if the packed kernels exist here and agree with the plain ones."""
    if dtype not in (torch.float32, torch.bfloat16) or not torch.backends.mkldnn.is_available():
        return False
    try:
        with torch.no_grad():
            x, w = torch.ones(4, 32, dtype=dtype), torch.eye(32, dtype=dtype)
            packed = torch.ops.mkldnn._reorder_linear_weight(w, 4)
            made = torch.ops.mkldnn._linear_pointwise(x, packed, None, "relu", [], "")
            image, kernel = torch.ones(1, 16, 8, 8, dtype=dtype), torch.ones(16, 16, 1, 1, dtype=dtype)
            laid = torch.ops.mkldnn._reorder_convolution_weight(kernel, [0, 0], [1, 1], [1, 1], 1, [1, 16, 8, 8])
            torch.ops.mkldnn._convolution_pointwise(image, laid, None, [0, 0], [1, 1], [1, 1], 1, "relu", [], "")
        return bool(torch.equal(made, x))
    except (RuntimeError, AttributeError, NotImplementedError):
        return False


def _is_weight(node: Node) -> bool:
    return node.kind in (Kind.PARAMETER, Kind.CONSTANT) and node.value is not None


def _prepared(builder: Builder, node: Node, key: str, prepare: Callable[[Tensor], Any]) -> str:
    """The global that holds `prepare(weight)`, kept up to date with the weight."""
    name = f"{builder.globals.setdefault(node.name, f'p{len(builder.globals)}')}_{key}"
    if builder.globals[node.name] not in builder.space:
        builder.hold(node, node.value)
    known = builder.prepared.setdefault(node.name, [])
    if all(existing != name for existing, _ in known):
        known.append((name, prepare))
        builder.space[name] = prepare(builder.space[builder.globals[node.name]])
    return name


def linear(builder: Builder, node: Node, operands: list[str], compute: torch.dtype) -> str | None:
    """A matmul by a weight matrix, with bias and activation inside."""
    weight = node.inputs[1]
    if not builder.pack or len(weight.shape) != 2 or len(node.inputs[0].shape) < 2 or not _is_weight(weight) or node.tms:
        return None
    activation = node.attrs.get("activation")
    if activation not in _POINTWISE or not ready(compute):
        return None
    bias = "None"
    if len(node.inputs) > 2:
        source = node.inputs[2]
        if not _is_weight(source) or math.prod(source.shape) != node.shape[-1]:
            return None
        bias = _prepared(builder, source, f"flat{str(compute)[6:]}", lambda b: b.to(compute).reshape(-1))
    rows = math.prod(node.inputs[0].shape[:-1])
    turned = bool(node.attrs.get("transpose_b"))

    def pack(w: Tensor) -> Any:
        w = w.to(compute)
        return torch.ops.mkldnn._reorder_linear_weight(w.contiguous() if turned else w.t().contiguous(), rows)

    packed = _prepared(builder, weight, f"linear{rows}{'t' if turned else ''}{str(compute)[6:]}", pack)
    name, scalars, algorithm = _POINTWISE[activation]
    run = builder.bind(torch.ops.mkldnn._linear_pointwise.default)
    return f"{run}({operands[0]}, {packed}, {bias}, {name!r}, {scalars!r}, {algorithm!r})"


def convolution(builder: Builder, node: Node, operands: list[str], compute: torch.dtype) -> str | None:
    """A two-dimensional convolution by a weight, with bias and activation inside."""
    weight, attrs = node.inputs[1], node.attrs
    if not builder.pack or not _is_weight(weight) or node.tms or attrs.get("channel_last") or len(node.inputs[0].shape) != 4:
        return None
    activation, padding = attrs.get("activation"), attrs.get("padding", 0)
    if (
        isinstance(padding, str)
        or (not isinstance(padding, int) and len(padding) != 2)
        or activation not in _POINTWISE
        or not ready(compute)
    ):
        return None
    pads, stride, dilation = (_two(v) for v in (padding, attrs.get("stride", 1), attrs.get("dilation", 1)))
    groups = attrs.get("groups", 1)
    size = list(node.inputs[0].shape)
    bias = "None"
    if len(node.inputs) > 2:
        if not _is_weight(node.inputs[2]) or len(node.inputs[2].shape) != 1:
            return None
        bias = _prepared(builder, node.inputs[2], f"flat{str(compute)[6:]}", lambda b: b.to(compute).reshape(-1))

    def pack(w: Tensor) -> Any:
        return torch.ops.mkldnn._reorder_convolution_weight(w.to(compute), pads, stride, dilation, groups, size)

    packed = _prepared(builder, weight, "conv" + "_".join(map(str, [*pads, *stride, *dilation, groups, *size])) + str(compute)[6:], pack)
    name, scalars, algorithm = _POINTWISE[activation]
    run = builder.bind(torch.ops.mkldnn._convolution_pointwise.default)
    return f"{run}({operands[0]}, {packed}, {bias}, {pads}, {stride}, {dilation}, {groups}, {name!r}, {scalars!r}, {algorithm!r})"


def _two(value: Any) -> list[int]:
    if isinstance(value, int):
        return [value, value]
    return [int(v) for v in value] if len(value) == 2 else [int(value[0])] * 2
