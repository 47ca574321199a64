"""From a pipeline stage's modules to one graph: each module is read by its frontend, and the pieces are joined output to input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from pybuda.module import FrameworkModule, Module, OnnxModule, PyBudaModule, PyTorchModule
from pybuda.op.common import tracing
from pybuda.parameter import Parameter
from pybuda.tensor import Tensor, TensorFromTrace
from tessera.graph.formats import OF_DTYPE
from tessera.graph.frontends.aten import make_node
from tessera.graph.frontends.torch import import_torch
from tessera.graph.ir import Graph, GraphError, Kind, Node, clean_name


def trace(module: PyBudaModule, samples: Sequence[torch.Tensor], names: Sequence[str] | None = None) -> Graph:
    """A native module's graph: forward is run on tensors without values, then followed from its outputs back."""
    graph = Graph(module.name)
    declared = list(names or ())
    own = module.forward_names()
    nodes: dict[int, Node] = {}
    inputs: list[Tensor] = []
    for position, sample in enumerate(samples):
        name = declared[position] if position < len(declared) else own[position] if position < len(own) else f"input_{position}"
        traced = TensorFromTrace(None, tuple(sample.shape), OF_DTYPE[sample.dtype], sample.dtype)
        traced.set_requires_grad(sample.requires_grad)
        node = graph.source(Kind.INPUT, name, sample.shape, sample.dtype, OF_DTYPE[sample.dtype])
        node.requires_grad = sample.requires_grad
        nodes[id(traced)] = node
        inputs.append(traced)
    for parameter in module.get_parameters():
        if not parameter.has_value():
            raise GraphError(
                f"parameter {parameter.get_name()} of {module.name} has no value; call set_parameter, or initialize_parameters for random ones"
            )
    with tracing():
        result = module(**dict(zip(names, inputs))) if names else module(*inputs)
    outputs = [o for o in (result if isinstance(result, (tuple, list)) else (result,)) if o is not None]
    if not outputs or not all(isinstance(o, (Tensor, Parameter)) for o in outputs):
        raise GraphError(f"{module.name}: forward must return a pybuda Tensor or a tuple of them, not {type(result).__name__}")
    alive: list[Any] = []  # keeps ids valid while we go by them
    for index, output in enumerate(outputs):
        node = _walk(graph, nodes, alive, output)
        if node.kind is not Kind.OP:
            passed = Node(f"{module.name}.output_passthrough_{index}", Kind.OP, "nop", [node], {}, node.shape, node.dtype, node.format)
            node = graph.add(passed)
        graph.output(node, f"{module.name}.output_{node.name}")
    graph.sort()
    return graph


def _walk(graph: Graph, nodes: dict[int, Node], alive: list[Any], root: Any) -> Node:
    stack = [root]
    while stack:
        top = stack[-1]
        if id(top) in nodes:
            stack.pop()
            continue
        made = top.src_op if isinstance(top, Tensor) else None
        if made is None:
            nodes[id(top)] = _leaf(graph, top)
            alive.append(top)
            stack.pop()
            continue
        waiting = [o for o in made.operands if id(o) not in nodes]
        if waiting:
            stack.extend(reversed(waiting))
            continue
        example = torch.empty(tuple(top.shape), dtype=top.pt_data_format, device="meta")
        node = make_node(made.name, made.op, [nodes[id(o)] for o in made.operands], dict(made.attrs), example, source=made.source)
        if made.op in ("nop", "buffer", "dram_queue"):
            node.tags["keep"] = "user"
        nodes[id(top)] = graph.add(node)
        alive.append(top)
        stack.pop()
    return nodes[id(root)]


def _leaf(graph: Graph, leaf: Any) -> Node:
    if isinstance(leaf, Parameter):
        node = graph.source(
            Kind.PARAMETER, leaf.get_name() or "parameter", leaf.shape.dims, leaf.pt_data_format, leaf.data_format, leaf.value()
        )
        node.requires_grad = leaf.requires_grad
        if leaf._given_format:
            node.tags["format"] = leaf.data_format.name
        return node
    if not leaf.has_value():
        raise GraphError("forward used a tensor that is neither an input, a parameter nor made by an operation")
    value = leaf.value().detach()
    return graph.constant(getattr(leaf, "constant_name", "") or "constant", value, OF_DTYPE.get(value.dtype, OF_DTYPE[torch.float32]))


def _as_parameters(module: torch.nn.Module, values: Any) -> Any:
    """Half-precision samples in the dtype of the module's parameters: what is pushed narrow arrives narrow, and the graph is the module's."""
    own = next((p.dtype for p in module.parameters() if p.is_floating_point()), None)
    narrow = (torch.float16, torch.bfloat16)

    def cast(value: Any) -> Any:
        return (
            value.to(own)
            if isinstance(value, torch.Tensor) and value.dtype in narrow and own is not None and value.dtype is not own
            else value
        )

    return torch.utils._pytree.tree_map(cast, values)


def read(
    module: Module, samples: Sequence[Any], kwargs: Mapping[str, Any], *, training: bool, dropout: bool, names: Sequence[str] | None = None
) -> Graph:
    """One module's graph for inputs like these."""
    if isinstance(module, PyBudaModule):
        return trace(module, [*samples, *kwargs.values()], list(kwargs) if kwargs else None)
    if isinstance(module, (PyTorchModule, OnnxModule)):
        inner = module.replay if isinstance(module, OnnxModule) else module.module
        own = module.input_names if isinstance(module, OnnxModule) else None
        wide, wide_kwargs = _as_parameters(inner, list(samples)), _as_parameters(inner, dict(kwargs))
        graph = import_torch(inner, wide, wide_kwargs, name=clean_name(module.name), training=training, dropout=dropout, input_names=own)
        for node, sample in zip(graph.of(Kind.INPUT), [v for v in [*samples, *kwargs.values()] if isinstance(v, torch.Tensor)]):
            node.requires_grad = sample.requires_grad
            if sample.dtype is not node.dtype and sample.dtype in OF_DTYPE:
                node.format = OF_DTYPE[sample.dtype]
        if isinstance(module, PyTorchModule):
            for parameter in module._overrides.values():
                if parameter.get_name() in graph:
                    graph[parameter.get_name()].value = parameter.value()
        return graph
    if isinstance(module, FrameworkModule):
        raise NotImplementedError(f"{type(module).__name__} has no frontend yet")
    raise GraphError(f"{module!r} cannot be read as a graph")


def join(graph: Graph, piece: Graph, bindings: Mapping[Node, Node]) -> list[Node]:
    """Copy `piece` to the end of `graph`, its inputs replaced by nodes of `graph`; returns what its outputs read."""
    seen: dict[Node, Node] = dict(bindings)
    for node in piece.nodes:
        if node in seen or node.kind is Kind.OUTPUT:
            continue
        if node.kind in (Kind.PARAMETER, Kind.CONSTANT) and node.name in graph and graph[node.name].value is node.value:
            seen[node] = graph[node.name]
            continue
        made = Node(node.name, node.kind, node.op, [seen[i] for i in node.inputs], dict(node.attrs), node.shape, node.dtype, node.format)
        made.tags, made.value, made.requires_grad, made.source, made.parts = (
            dict(node.tags),
            node.value,
            node.requires_grad,
            node.source,
            node.parts,
        )
        if node.kind is Kind.PARAMETER and node.name in graph:
            made.name = f"{piece.name}.{node.name}"
        seen[node] = graph.add(made)
    graph.updates += [(name, seen[node]) for name, node in piece.updates]
    return [seen[o.inputs[0]] for o in piece.outputs]


def chain(
    name: str,
    modules: Sequence[Module],
    samples: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    training: bool,
    dropout: bool,
    loss: Module | None = None,
    targets: Sequence[torch.Tensor] = (),
) -> Graph:
    """The modules of a device, each fed by the one before it, and the loss that ends them."""
    first = read(modules[0], samples, kwargs, training=training, dropout=dropout)
    if len(modules) == 1 and loss is None:
        return first
    graph = Graph(name)
    names: dict[Node, Node] = {}
    for node in first.of(Kind.INPUT):
        names[node] = graph.source(Kind.INPUT, node.name, node.shape, node.dtype, node.format)
        names[node].requires_grad = node.requires_grad
    ends = join(graph, first, names)
    last = modules[0].name
    for module in modules[1:]:
        shapes = [torch.zeros(n.shape, dtype=n.dtype) for n in ends]
        piece = read(module, shapes, {}, training=training, dropout=dropout)
        ends = join(graph, piece, dict(zip(piece.of(Kind.INPUT), ends)))
        last = module.name
    for node in ends:
        graph.output(node, f"{last}.output_{node.name}")
    if loss is not None:
        floats = [n for n in ends if n.dtype.is_floating_point]
        shapes = [torch.zeros(n.shape, dtype=n.dtype) for n in floats]
        piece = read(loss, [*shapes, *targets], {}, training=training, dropout=dropout)
        given = piece.of(Kind.INPUT)
        bound = dict(zip(given, floats))
        for position, node in enumerate(given[len(floats) :]):
            bound[node] = graph.source(Kind.TARGET, f"{loss.name}.target_{position}", node.shape, node.dtype, node.format)
        graph.losses = join(graph, piece, bound)
    return graph
