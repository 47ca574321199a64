"""Composite operations in terms of simpler ones, where the simpler ones are what formats and fusions are written for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tessera.graph.frontends.aten import make_node
from tessera.graph.ir import Graph, Node
from tessera.graph.ops import infer


class Writer:
    """Adds nodes just before the one that is being taken apart, named after it and tagged with what it was."""

    def __init__(self, graph: Graph, node: Node, tag: bool = True) -> None:
        self.graph, self.node, self.count = graph, node, 0
        self.tags = {"original_op_type": node.tag(), "original_op_name": node.tags.get("original_op_name", node.name)} if tag else {}

    def op(self, op: str, *inputs: Node, **attrs: Any) -> Node:
        value = infer(op, [(i.shape, i.dtype) for i in inputs], attrs)
        made = make_node(
            f"{self.node.name}.dc.{op}.{self.count}", op, list(inputs), attrs, value, self.node.epoch, self.node.source, self.tags
        )
        made.format = self.node.format if made.dtype.is_floating_point else made.format
        made.accumulate, made.intermediate, made.fidelity = self.node.accumulate, self.node.intermediate, self.node.fidelity
        self.count += 1
        return self.graph.add(made, before=self.node)

    def done(self, result: Node) -> None:
        """`result` stands for the node from here on, under its name."""
        name = self.node.name
        self.graph.replace(self.node, result)
        self.graph.nodes.remove(self.node)
        del self.graph._names[name]
        self.graph.rename(result, name)


Rule = Callable[[Writer, Node], Node | None]


def _rsub(w: Writer, n: Node) -> Node | None:
    if len(n.inputs) == 2 and n.attrs.get("alpha", 1) == 1:
        return w.op("subtract", n.inputs[1], n.inputs[0])
    return None


def _square(w: Writer, n: Node) -> Node:
    return w.op("multiply", n.inputs[0], n.inputs[0])


def _dropout(w: Writer, n: Node) -> Node:
    """The mask is a value of its own, so that the backward pass multiplies by the same one."""
    if not n.attrs.get("training", True) or n.attrs.get("p", 0.5) == 0.0:
        return w.op("nop", n.inputs[0])
    mask = w.op("dropout_mask", n.inputs[0], p=n.attrs.get("p", 0.5), seed=n.attrs.get("seed", 0))
    return w.op("multiply", n.inputs[0], mask)


RULES: dict[str, Rule] = {"rsub": _rsub, "square": _square, "dropout": _dropout}


@dataclass(frozen=True)
class Decompose:
    """Apply `RULES` until none fits."""

    name: str = "decompose"

    def apply(self, graph: Graph) -> None:
        for node in graph:
            rule = RULES.get(node.op)
            if rule is None:
                continue
            writer = Writer(graph, node, tag=False)
            result = rule(writer, node)
            if result is not None:
                writer.done(result)
        graph.sweep()
