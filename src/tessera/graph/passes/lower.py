"""From operations on tensors to operations on tiles: composites are taken apart, manipulations move onto edges, broadcasts become explicit,
and chains of elementwise work become fused operations. The result still runs, so that it can be compared with what it came from.
"""

from __future__ import annotations

import math
from typing import Any

from tessera.graph.frontends.aten import make_node
from tessera.graph.ir import TM, Graph, Kind, Node
from tessera.graph.ops import OPS, infer
from tessera.graph.passes.decompose import Rule, Writer


def _softmax(w: Writer, n: Node) -> Node:
    x, dim = n.inputs[0], n.attrs.get("dim", -1)
    if n.attrs.get("stable", True):
        x = w.op("subtract", x, w.op("reduce_max", x, dim=dim, keepdim=True))
    raised = w.op("exp", x)
    return w.op("multiply", raised, w.op("reciprocal", w.op("reduce_sum", raised, dim=dim, keepdim=True)))


def _log_softmax(w: Writer, n: Node) -> Node:
    x, dim = n.inputs[0], n.attrs.get("dim", -1)
    x = w.op("subtract", x, w.op("reduce_max", x, dim=dim, keepdim=True))
    return w.op("subtract", x, w.op("log", w.op("reduce_sum", w.op("exp", x), dim=dim, keepdim=True)))


def _layernorm(w: Writer, n: Node) -> Node | None:
    shape = n.attrs.get("normalized_shape") or [n.shape[-1]]
    if len(shape) != 1:
        return None
    x = n.inputs[0]
    centred = w.op("subtract", x, w.op("reduce_avg", x, dim=-1, keepdim=True))
    variance = w.op("reduce_avg", w.op("multiply", centred, centred), dim=-1, keepdim=True)
    root = w.op("sqrt", w.op("add", variance, other=n.attrs.get("eps", 1e-5)))
    result = w.op("multiply", centred, w.op("reciprocal", root))
    if len(n.inputs) > 1:
        result = w.op("multiply", result, n.inputs[1])
    return w.op("add", result, n.inputs[2]) if len(n.inputs) > 2 else result


def _rms_norm(w: Writer, n: Node) -> Node | None:
    shape = n.attrs.get("normalized_shape") or [n.shape[-1]]
    if len(shape) != 1 or n.attrs.get("eps") is None:
        return None
    x = n.inputs[0]
    mean = w.op("reduce_avg", w.op("multiply", x, x), dim=-1, keepdim=True)
    result = w.op("multiply", x, w.op("reciprocal", w.op("sqrt", w.op("add", mean, other=n.attrs["eps"]))))
    return w.op("multiply", result, n.inputs[1]) if len(n.inputs) > 1 else result


def _attention(w: Writer, n: Node) -> Node | None:
    if n.attrs.get("is_causal") or n.attrs.get("enable_gqa"):
        return None
    q, k, v, *mask = n.inputs
    scores = w.op("matmul", q, w.op("transpose", k, dim0=-2, dim1=-1))
    scale = n.attrs.get("scale")
    scores = w.op("multiply", scores, other=float(scale if scale is not None else 1.0 / math.sqrt(q.shape[-1])))
    if mask:
        if not mask[0].dtype.is_floating_point:
            return None
        scores = w.op("add", scores, mask[0])
    top = w.op("softmax", scores, dim=-1)
    return w.op("matmul", top, v)


def _batchnorm(w: Writer, n: Node) -> Node:
    x, gamma, beta, mean, var = n.inputs
    scale = w.op("multiply", gamma, w.op("reciprocal", w.op("sqrt", w.op("add", var, other=n.attrs.get("eps", 1e-5)))))
    shift = w.op("subtract", beta, w.op("multiply", mean, scale))
    wide = [x.shape[1]] + [1] * (len(x.shape) - 2)
    return w.op("add", w.op("multiply", x, w.op("reshape", scale, shape=wide)), w.op("reshape", shift, shape=wide))


def _silu(w: Writer, n: Node) -> Node:
    return w.op("multiply", n.inputs[0], w.op("sigmoid", n.inputs[0]))


def _conv2d(w: Writer, n: Node) -> Node | None:
    """A picker lays out the windows (a sparse matmul on the chip), and one matmul with the weights does the arithmetic."""
    a = n.attrs
    groups, padding = a.get("groups", 1), a.get("padding", 0)
    if (
        groups != 1
        or isinstance(padding, str)
        or (not isinstance(padding, int) and len(padding) != 2)
        or a.get("channel_last")
        or a.get("activation")
    ):
        return None
    x, weight = n.inputs[:2]
    if len(x.shape) != 4:
        return None
    both = {k: a.get(k, d) for k, d in (("stride", 1), ("dilation", 1))}
    columns = w.op("im2col", x, kernel_size=list(weight.shape[2:]), padding=padding, **both)
    product = w.op("matmul", w.op("reshape", weight, shape=[weight.shape[0], -1]), columns)
    if len(n.inputs) > 2:
        product = w.op("add", product, w.op("reshape", n.inputs[2], shape=[-1, 1]))
    return w.op("reshape", product, shape=list(n.shape))


RULES: dict[str, Rule] = {
    "attention": _attention,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layernorm": _layernorm,
    "rms_norm": _rms_norm,
    "batchnorm": _batchnorm,
    "silu": _silu,
    "conv2d": _conv2d,
}
_FUSABLE = {"unary", "binary"}
_MAX_FUSED = 8


def lower(graph: Graph) -> Graph:
    """A lowered copy of `graph`."""
    low = graph.copy()
    _split_activations(low)
    _decompose(low)
    _manipulations_to_edges(low)
    _broadcasts(low)
    _fuse(low)
    low.sweep()
    return low


def _split_activations(graph: Graph) -> None:
    """An activation inside a convolution is an operation again, except in a matmul, whose engine applies it."""
    for node in graph.ops("conv2d"):
        activation = node.attrs.pop("activation", None)
        if activation is None:
            continue
        made = make_node(f"{node.name}.{activation}", activation.split("_")[0], [node], {}, _meta(node), node.epoch, node.source)
        made.format, made.accumulate, made.intermediate, made.fidelity = node.format, node.accumulate, node.intermediate, node.fidelity
        if activation == "gelu_tanh":
            made.attrs["approximate"] = "tanh"
        graph.replace(node, made)
        graph.add(made)
        graph.nodes.remove(made)
        graph.nodes.insert(graph.nodes.index(node) + 1, made)


def _meta(node: Node) -> Any:
    import torch

    return torch.empty(node.shape, dtype=node.dtype, device="meta")


def _decompose(graph: Graph) -> None:
    for name in ("attention", "softmax", "log_softmax", "layernorm", "rms_norm", "batchnorm", "silu", "conv2d"):
        for node in graph.ops(name):
            writer = Writer(graph, node)
            result = RULES[name](writer, node)
            if result is not None:
                writer.done(result)


def _manipulations_to_edges(graph: Graph) -> None:
    for node in graph:
        if node.kind is not Kind.OP or OPS[node.op].family != "tm" or len(node.inputs) != 1 or node.parts or node.tags.get("keep"):
            continue
        attrs = dict(node.attrs)
        if node.op in ("reshape", "flatten", "unflatten", "squeeze", "unsqueeze"):
            own = TM("reshape", (("shape", tuple(node.shape)),))
        else:
            own = TM(node.op, tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in attrs.items()))
        before = node.tms.get(0, [])
        readers = [n for n in graph.nodes if node in n.inputs]
        if not readers or node in graph.kept() or any(r.kind is not Kind.OP or r.parts for r in readers):
            node.op, node.attrs, node.tms = "nop", {}, {0: [*before, own]}
            node.tags.setdefault("original_op_type", own.op)
            continue
        for reader in readers:
            for port, source in enumerate(reader.inputs):
                if source is node:
                    reader.inputs[port] = node.inputs[0]
                    reader.tms[port] = [*before, own, *reader.tms.get(port, [])]
    graph.sweep()


def edge_shape(node: Node, port: int) -> tuple[int, ...]:
    """The shape of an operand after the manipulations on its edge."""
    source = node.inputs[port]
    shape: tuple[int, ...] = source.shape
    for tm in node.tms.get(port, ()):
        shape = tuple(infer(tm.op, [(shape, source.dtype)], dict(tm.attrs)).shape)
    return shape


def _broadcasts(graph: Graph) -> None:
    for node in graph.ops():
        if OPS[node.op].family != "binary" or len(node.inputs) != 2:
            continue
        for port in (0, 1):
            shape = edge_shape(node, port)
            padded = (1,) * (len(node.shape) - len(shape)) + shape
            if padded == node.shape or not shape:
                continue
            made = [TM("reshape", (("shape", padded),))] if padded != shape else []
            made += [TM("broadcast", (("dim", d - len(node.shape)), ("shape", n))) for d, n in enumerate(node.shape) if padded[d] == 1 != n]
            node.tms.setdefault(port, []).extend(made)


def _fuse(graph: Graph) -> None:
    """Runs of elementwise operations that nobody else reads become one fused operation each."""
    users = graph.users()
    outside = graph.kept()
    group: dict[Node, list[Node]] = {}
    for node in graph:
        if not _can_fuse(node):
            continue
        members = [node]
        for port, source in enumerate(node.inputs):
            if (
                source in group
                and users[source] == [node]
                and source not in outside
                and not node.tms.get(port)
                and source.shape == node.shape
                and source.epoch is node.epoch
                and node.inputs.count(source) == 1
            ):
                if len(group[source]) + len(members) <= _MAX_FUSED:
                    members = [*group.pop(source), *members]
        group[node] = members
    number = 0
    for end, members in group.items():
        if len(members) > 1:
            _merge(graph, end, members, number)
            number += 1


def _can_fuse(node: Node) -> bool:
    return (
        node.kind is Kind.OP
        and OPS[node.op].family in _FUSABLE
        and not node.parts
        and node.dtype.is_floating_point
        and not OPS[node.op].random
    )


def _merge(graph: Graph, end: Node, members: list[Node], number: int) -> None:
    inputs: list[Node] = []
    tms: dict[int, list[TM]] = {}
    program: list[tuple[str, str, tuple[int, ...], dict[str, Any]]] = []
    places = {m: -1 - i for i, m in enumerate(members)}
    for member in members:
        refs = []
        for port, source in enumerate(member.inputs):
            if source in places and places[source] < 0 and source is not member:
                refs.append(places[source])
                continue
            inputs.append(source)
            if member.tms.get(port):
                tms[len(inputs) - 1] = member.tms[port]
            refs.append(len(inputs) - 1)
        program.append((member.name, member.op, tuple(refs), dict(member.attrs)))
    made = Node(f"_fused_op_{number}", Kind.OP, "fused_op", inputs, {"program": program}, end.shape, end.dtype, end.format, end.epoch, tms)
    made.accumulate, made.intermediate, made.fidelity, made.source = end.accumulate, end.intermediate, end.fidelity, end.source
    made.tags.update(end.tags)
    graph.add(made, before=end)
    graph.replace(end, made)
    gone = set(members)
    graph.nodes = [n for n in graph.nodes if n not in gone]
    for member in members:
        graph._names.pop(member.name, None)
