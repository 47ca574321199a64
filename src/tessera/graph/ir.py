"""The typed graph: nodes, the order they run in, and a text that says all of it.

A node is one value (or, for a few operations, a tuple of values taken apart by `getitem`). Its shape, torch dtype and chip format
are on the node; tensor-manipulation lists are on its edges. Nodes stand in the graph in an order in which they can run, so a
pass is a walk over a list, and two equal graphs print the same text.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from tessera.graph.formats import DataFormat, MathFidelity


class GraphError(RuntimeError):
    """A graph that cannot be built, compiled or run; the sentence says what to do."""


class UnsupportedOperators(GraphError):
    """Every operator of a model that the machine has no row for, with the source line that asked for it."""

    def __init__(self, found: list[tuple[str, str]]) -> None:
        self.found = found
        lines = "\n".join(f"  {name}  at {where}" for name, where in found)
        super().__init__(
            f"{len(found)} operator(s) of the model are not supported:\n{lines}\nPlace the modules that hold them on a CPUDevice, or rewrite them with supported operators."
        )


class Kind(enum.Enum):
    """What a node is to the graph; everything but OP, OUTPUT and QUEUE is a place that values come from."""

    INPUT = "input"
    TARGET = "target"
    PARAMETER = "parameter"
    CONSTANT = "constant"
    GRADIENT = "gradient"  # an output gradient that arrives from the next device
    OPTIMIZER = "optimizer_parameter"
    OP = "op"
    QUEUE = "queue"
    OUTPUT = "output"

    @property
    def is_source(self) -> bool:
        return self not in (Kind.OP, Kind.OUTPUT, Kind.QUEUE)


class Epoch(enum.Enum):
    FORWARD = "fwd"
    BACKWARD = "bwd"
    OPTIMIZER = "opt"


@dataclass(frozen=True, slots=True)
class TM:
    """One tensor manipulation on an edge, such as `transpose` or `broadcast`, with its attributes."""

    op: str
    attrs: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.op}({', '.join(f'{k}={v}' for k, v in self.attrs)})"


@dataclass(slots=True, eq=False)
class Node:
    name: str
    kind: Kind
    op: str
    inputs: list[Node]
    attrs: dict[str, Any]
    shape: tuple[int, ...]
    dtype: torch.dtype
    format: DataFormat = DataFormat.Float32
    epoch: Epoch = Epoch.FORWARD
    tms: dict[int, list[TM]] = field(default_factory=dict)
    accumulate: DataFormat | None = None
    intermediate: DataFormat | None = None
    fidelity: MathFidelity | None = None
    tags: dict[str, str] = field(default_factory=dict)
    value: Any = None  # a constant's tensor
    requires_grad: bool = False
    source: str = ""
    parts: tuple[Node, ...] = ()  # operations with several results: the type of each, as nodes that stand in no graph

    def tag(self) -> str:
        """The operation a lowered node came from, or its own name."""
        return self.tags.get("original_op_type", self.op)

    def __repr__(self) -> str:
        return f"<{self.kind.value} {self.name}: {self.op} {list(self.shape)} {self.format.name}>"


def _plain(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"tensor{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_plain(v) for v in value) + "]"
    return str(value)


class Graph:
    """Nodes in running order, with names that are unique and deterministic."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.outputs: list[Node] = []
        self.losses: list[Node] = []
        self.updates: list[tuple[str, Node]] = []  # buffers a forward pass writes: (parameter name, new value)
        self.gradients: dict[str, Node] = {}  # parameter or input name -> its gradient (after autograd)
        self.optimized: dict[str, Node] = {}  # parameter or optimizer state -> its value after a step
        self._names: dict[str, Node] = {}
        self._counters: dict[str, int] = {}

    # building ---------------------------------------------------------------------------------------------------------

    def unique(self, base: str) -> str:
        """`base` if it is free, else `base_1`, `base_2`, ..."""
        if base not in self._names:
            return base
        count = self._counters.get(base, 0)
        while True:
            count += 1
            if (name := f"{base}_{count}") not in self._names:
                self._counters[base] = count
                return name

    def add(self, node: Node, before: Node | None = None) -> Node:
        node.name = self.unique(node.name)
        self._names[node.name] = node
        if before is None:
            self.nodes.append(node)
        else:
            self.nodes.insert(self.nodes.index(before), node)
        return node

    def source(self, kind: Kind, name: str, shape: Iterable[int], dtype: torch.dtype, fmt: DataFormat, value: Any = None) -> Node:
        return self.add(Node(name, kind, kind.value, [], {}, tuple(shape), dtype, fmt, value=value))

    def constant(self, name: str, value: torch.Tensor, fmt: DataFormat) -> Node:
        return self.source(Kind.CONSTANT, name, value.shape, value.dtype, fmt, value)

    def output(self, value: Node, name: str | None = None) -> Node:
        node = Node(name or f"{self.name}.output_{value.name}", Kind.OUTPUT, "output", [value], {}, value.shape, value.dtype, value.format)
        self.outputs.append(self.add(node))
        return node

    # asking -----------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self.nodes))

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str) -> Node:
        return self._names[name]

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def of(self, *kinds: Kind) -> list[Node]:
        return [n for n in self.nodes if n.kind in kinds]

    def ops(self, name: str | None = None) -> list[Node]:
        return [n for n in self.nodes if n.kind is Kind.OP and (name is None or n.op == name)]

    def users(self) -> dict[Node, list[Node]]:
        table: dict[Node, list[Node]] = {n: [] for n in self.nodes}
        for node in self.nodes:
            for source in dict.fromkeys(node.inputs):
                table[source].append(node)
        return table

    def kept(self) -> set[Node]:
        """Nodes that somebody outside the graph reads."""
        return {*self.outputs, *self.losses, *(n for _, n in self.updates), *self.gradients.values(), *self.optimized.values()}

    # changing ---------------------------------------------------------------------------------------------------------

    def replace(self, old: Node, new: Node) -> None:
        """Every reader of `old` reads `new` instead. `old` stays until `sweep`."""
        for node in self.nodes:
            if node is not new and old in node.inputs:
                node.inputs = [new if source is old else source for source in node.inputs]
        self.losses = [new if n is old else n for n in self.losses]
        self.updates = [(name, new if n is old else n) for name, n in self.updates]
        self.gradients = {name: new if n is old else n for name, n in self.gradients.items()}
        self.optimized = {name: new if n is old else n for name, n in self.optimized.items()}

    def rename(self, node: Node, name: str) -> None:
        del self._names[node.name]
        node.name = self.unique(name)
        self._names[node.name] = node

    def sweep(self, keep: Callable[[Node], bool] = lambda node: False) -> int:
        """Drop every operation, constant and queue that nobody reads; say how many went."""
        live = self.kept() | {n for n in self.nodes if keep(n)}
        stack = list(live)
        while stack:
            for source in stack.pop().inputs:
                if source not in live:
                    live.add(source)
                    stack.append(source)
        droppable = {Kind.OP, Kind.QUEUE, Kind.CONSTANT}
        gone = [n for n in self.nodes if n not in live and n.kind in droppable]
        if gone:
            dead = set(gone)
            self.nodes = [n for n in self.nodes if n not in dead]
            for node in gone:
                del self._names[node.name]
        return len(gone)

    def sort(self) -> None:
        """Restore the running order after nodes were appended out of place; stable, so that the text stays the same."""
        done: set[Node] = set()
        order: list[Node] = []
        for root in self.nodes:
            stack: list[tuple[Node, int]] = [(root, 0)] if root not in done else []
            while stack:
                node, index = stack.pop()
                if node in done:
                    continue
                if index < len(node.inputs):
                    stack.append((node, index + 1))
                    if node.inputs[index] not in done:
                        stack.append((node.inputs[index], 0))
                else:
                    done.add(node)
                    order.append(node)
        self.nodes = order

    def copy(self) -> Graph:
        twin = Graph(self.name)
        seen: dict[Node, Node] = {}
        for n in self.nodes:
            made = Node(n.name, n.kind, n.op, [seen[i] for i in n.inputs], dict(n.attrs), n.shape, n.dtype, n.format, n.epoch)
            made.tms = {k: list(v) for k, v in n.tms.items()}
            made.accumulate, made.intermediate, made.fidelity = n.accumulate, n.intermediate, n.fidelity
            made.tags, made.value, made.requires_grad, made.source, made.parts = dict(n.tags), n.value, n.requires_grad, n.source, n.parts
            seen[n] = made
            twin.nodes.append(made)
            twin._names[made.name] = made
        twin._counters = dict(self._counters)
        twin.outputs = [seen[n] for n in self.outputs]
        twin.losses = [seen[n] for n in self.losses]
        twin.updates = [(name, seen[n]) for name, n in self.updates]
        twin.gradients = {name: seen[n] for name, n in self.gradients.items()}
        twin.optimized = {name: seen[n] for name, n in self.optimized.items()}
        return twin

    # saying -----------------------------------------------------------------------------------------------------------

    def text(self) -> str:
        lines = [f"graph {self.name} {{"]
        for n in self.nodes:
            parts = []
            for port, source in enumerate(n.inputs):
                tms = "".join(f" | {tm}" for tm in n.tms.get(port, []))
                parts.append(f"%{source.name}{tms}")
            parts += [f"{k}={_plain(v)}" for k, v in n.attrs.items()]
            extra = "".join(
                f" {label}={value.name}"
                for label, value in (("acc", n.accumulate), ("mid", n.intermediate), ("fid", n.fidelity))
                if value is not None
            )
            tags = "".join(f" #{k}={v}" for k, v in sorted(n.tags.items()))
            epoch = "" if n.epoch is Epoch.FORWARD else f" @{n.epoch.value}"
            lines.append(
                f"  %{n.name} = {n.op}({', '.join(parts)}) : {list(n.shape)} {n.format.name} {str(n.dtype).removeprefix('torch.')}{extra}{epoch}{tags}"
            )
        lines.append("}")
        return "\n".join(lines)

    __str__ = text

    def diff(self, other: Graph) -> str:
        """A unified diff of the two texts; empty when the graphs are equal."""
        return "\n".join(difflib.unified_diff(self.text().splitlines(), other.text().splitlines(), self.name, other.name, lineterm="", n=1))


def clean_name(name: str) -> str:
    """A name a netlist can carry."""
    return re.sub(r"[^0-9A-Za-z_.]", "_", name)
