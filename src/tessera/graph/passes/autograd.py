"""The backward graph. The derivative of an operation is torch's own: its vector-Jacobian product is traced once for each distinct
operation, attributes and shapes, and the trace becomes nodes. No derivative is written down twice, and the backward pass is a graph
like any other: it has formats, can be placed, and runs as a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tessera.graph.frontends.aten import Importer, make_node, pure, unsupported
from tessera.graph.ir import Epoch, Graph, GraphError, Kind, Node, UnsupportedOperators
from tessera.graph.ops import ATEN, OPS

Trace = tuple[fx.Graph, int]  # placeholders: inputs, then gradients; outputs: results, then input gradients
_TRACES: dict[Any, Trace] = {}
_MOST_TRACES = 4096


def trace_vjp(node: Node, needs: Sequence[bool], arriving: Sequence[int]) -> Trace:
    """The joint trace of `node`: its results, and the gradients of the inputs that need one. `arriving`: results that have a gradient."""
    key = (node.op, repr(node.attrs), tuple((i.shape, i.dtype) for i in node.inputs), tuple(needs), tuple(arriving))
    if key in _TRACES:
        return _TRACES[key]
    fn = OPS[node.op].fn

    def joint(*values: Tensor) -> list[Any]:
        inputs = [v.detach().requires_grad_(need) if need else v.detach() for v, need in zip(values, needs)]
        grads = values[len(inputs) :]
        with torch.enable_grad():
            made = fn(*inputs, **node.attrs)
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        wanted = [i for i, need in zip(inputs, needs) if need]
        given = torch.autograd.grad([results[i] for i in arriving], wanted, list(grads), allow_unused=True)
        return [*results, *given]

    with FakeTensorMode(allow_non_fake_inputs=True):
        examples = [torch.empty(i.shape, dtype=i.dtype) for i in node.inputs]
        types = node.parts or (node,)
        examples += [torch.empty(types[i].shape, dtype=types[i].dtype) for i in arriving]
        try:
            traced = make_fx(joint)(*examples)
        except (RuntimeError, NotImplementedError) as error:
            raise GraphError(f"{node.name}: {node.op} has no derivative: {error}") from error
    graph = traced.graph
    graph.eliminate_dead_code()
    if len(_TRACES) >= _MOST_TRACES:
        _TRACES.clear()
    _TRACES[key] = (graph, len(node.parts) or 1)
    return _TRACES[key]


@dataclass(frozen=True)
class Autograd:
    """Adds gradients of every trainable parameter, and of inputs that ask for one. Starts from losses, or from gradients that arrive."""

    name: str = "autograd"

    def apply(self, graph: Graph) -> None:
        wanted = [n for n in graph.of(Kind.PARAMETER, Kind.INPUT) if n.requires_grad and n.dtype.is_floating_point]
        active: set[Node] = set(wanted)
        for node in graph.nodes:
            if node.kind in (Kind.OP, Kind.OUTPUT) and any(i in active for i in node.inputs) and _carries(node):
                active.add(node)
        gradients: dict[Node, list[Node]] = {}
        parts: dict[Node, dict[int, list[Node]]] = {}
        forward = [n for n in graph.nodes if n.kind is Kind.OP]
        for loss in graph.losses:
            if loss not in active:
                raise GraphError(f"{graph.name}: the loss {loss.name} depends on no trainable parameter")
            gradients.setdefault(loss, []).append(graph.constant(f"{loss.name}_seed", torch.ones(loss.shape), loss.format))
            graph.nodes[-1].value = graph.nodes[-1].value.to(loss.dtype)
            graph.nodes[-1].dtype = loss.dtype
        if not graph.losses:
            for output in graph.outputs:
                if output in active:
                    arrives = graph.source(Kind.GRADIENT, f"{output.name}_gradient", output.shape, output.dtype, output.format)
                    arrives.epoch = Epoch.BACKWARD
                    gradients.setdefault(output.inputs[0], []).append(arrives)
        for node in reversed(forward):
            if node not in active:
                continue
            if node.op == "getitem":
                if node in gradients:
                    parts.setdefault(node.inputs[0], {}).setdefault(node.attrs["index"], []).append(_total(graph, gradients.pop(node)))
                continue
            arriving = {i: _total(graph, g) for i, g in sorted(parts.pop(node, {}).items())} if node.parts else {}
            if not node.parts and node in gradients:
                arriving = {0: _total(graph, gradients.pop(node))}
            if arriving:
                _differentiate(graph, node, active, arriving, gradients)
        for source in wanted:
            if source in gradients:
                total = _total(graph, gradients[source])
                if total.kind is not Kind.OP:
                    total = graph.add(make_node(f"{source.name}_gradient", "nop", [total], {}, _like(total), Epoch.BACKWARD))
                graph.gradients[source.name] = total
        graph.sweep(keep=lambda n: n.kind is Kind.OUTPUT)
        graph.sort()


def _carries(node: Node) -> bool:
    return (node.dtype.is_floating_point or bool(node.parts)) and not (node.kind is Kind.OP and OPS[node.op].family in ("random", "make"))


def _like(node: Node) -> Tensor:
    return torch.empty(node.shape, dtype=node.dtype, device="meta")


def _total(graph: Graph, gradients: list[Node]) -> Node:
    total = gradients[0]
    for more in gradients[1:]:
        total = graph.add(make_node(f"{total.name}.sum", "add", [total, more], {}, _like(total), Epoch.BACKWARD))
    return total


def _differentiate(graph: Graph, node: Node, active: set[Node], arriving: dict[int, Node], gradients: dict[Node, list[Node]]) -> None:
    needs = [i in active for i in node.inputs]
    traced, results = trace_vjp(node, needs, tuple(arriving))
    missing = unsupported(traced.nodes)
    if missing:
        raise UnsupportedOperators([(f"{name} (needed for the derivative of {node.op})", node.source or node.name) for name, _ in missing])
    holes = [n for n in traced.nodes if n.op == "placeholder"]
    env: dict[fx.Node, Any] = dict(zip(holes, [*node.inputs, *arriving.values()]))
    late = _dependent(traced, holes[len(node.inputs) :])
    ends: list[Any] = list(next(n for n in traced.nodes if n.op == "output").args[0])
    early = [n for n in traced.nodes if n.op == "call_function" and n not in late]
    results_fx = ends[:results]
    keep = not node.parts and all(_cheap(n) or n is results_fx[0] for n in _ancestors(late, early))
    importer = Importer(graph, env, Epoch.BACKWARD)
    importer.prefix = f"bw_{node.name}."
    if keep:
        env[results_fx[0]] = node
        _same_value(results_fx[0], env, node)
        importer.run([n for n in early if n in _ancestors(late, early) and n not in env])
    else:
        _replace_forward(graph, node, early, results_fx, env)
    importer.run([n for n in traced.nodes if n.op == "call_function" and n in late])
    given = iter(ends[results:])
    for source, need in zip(node.inputs, needs):
        gradient = next(given) if need else None
        if isinstance(gradient, fx.Node):
            gradients.setdefault(source, []).append(env[gradient])


def _same_value(result: Any, env: dict[fx.Node, Any], node: Node) -> None:
    """Detached copies of the result stand for the result."""
    if not isinstance(result, fx.Node):
        return
    for user in result.users:
        if user.op == "call_function" and str(user.target) == "aten.detach.default":
            env[user] = node
            _same_value(user, env, node)
    if result.op == "call_function" and str(result.target) == "aten.detach.default":
        env[result.args[0]] = node  # type: ignore[index]


def _replace_forward(graph: Graph, node: Node, early: list[fx.Node], results: list[Any], env: dict[fx.Node, Any]) -> None:
    """The forward operation in the pieces its derivative needs to read."""
    start = graph.nodes.index(node)
    count = len(graph.nodes)
    pieces = Importer(graph, env, Epoch.FORWARD)
    pieces.prefix = f"{node.name}."
    pieces.tags = {"original_op_type": node.tag()}
    pieces.run(early)
    added = graph.nodes[count:]
    graph.nodes[start:start] = added
    del graph.nodes[count + len(added) :]
    made = [env[r] if isinstance(r, fx.Node) else None for r in results]
    if not node.parts:
        assert made[0] is not None
        graph.replace(node, made[0])
        graph.nodes.remove(node)
        name = node.name
        del graph._names[name]
        if made[0] in added:
            graph.rename(made[0], name)
        return
    for user in [n for n in graph.nodes if n.op == "getitem" and n.inputs[0] is node]:
        index = user.attrs["index"]
        if made[index] is not None and made[index] is not user:
            graph.replace(user, made[index])


def _dependent(graph: fx.Graph, roots: Sequence[fx.Node]) -> set[fx.Node]:
    found = set(roots)
    for node in graph.nodes:
        if node.op == "call_function" and any(i in found for i in node.all_input_nodes):
            found.add(node)
    return found


def _ancestors(late: set[fx.Node], early: Sequence[fx.Node]) -> set[fx.Node]:
    """The early nodes that late ones need, directly or not."""
    pool = set(early)
    stack = [i for n in late if n.op == "call_function" for i in n.all_input_nodes if i in pool]
    found: set[fx.Node] = set()
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        stack += [i for i in node.all_input_nodes if i in pool]
    return found


def _cheap(node: fx.Node) -> bool:
    key = pure(str(node.target))
    if key in ("aten.detach.default", "aten.alias.default"):
        return True
    return key in ATEN and OPS[ATEN[key]].family in ("tm", "make", "nop") and OPS[ATEN[key]].name not in ("repeat",)
