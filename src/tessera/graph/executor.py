"""A compiled model at run time: its parameters, its plans, and what flows between forward, backward and optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from tessera.graph.ir import Epoch, Graph, GraphError, Kind, Node
from tessera.graph.plan import Builder, Plan


class Executor:
    """Runs one graph. Inputs are taken in the order of `inputs` (then `targets`); outputs come in the order of the graph."""

    def __init__(self, graph: Graph, *, exact: bool = False, intermediates: Iterable[str] = ()) -> None:
        self.graph = graph
        self.builder = Builder(exact, pack=not exact and not graph.gradients)
        self.inputs = graph.of(Kind.INPUT)
        self.targets = graph.of(Kind.TARGET)
        self.output_gradients = graph.of(Kind.GRADIENT)
        read = {source for node in graph.nodes for source in node.inputs}
        self.parameters: dict[str, Node] = {n.name: n for n in graph.of(Kind.PARAMETER) if n in read}  # not those folded into another value
        for node in graph.of(Kind.PARAMETER, Kind.CONSTANT):
            if node.value is not None and node in read:
                self.builder.hold(node, node.value)
        forward = [n for n in graph.nodes if n.epoch is Epoch.FORWARD]
        backward = [n for n in graph.nodes if n.epoch is Epoch.BACKWARD]
        self.intermediate_nodes = [graph[name] for name in intermediates if name in graph]
        self.saved = _crossing(forward, backward)
        self.update_names = [name for name, _ in graph.updates]
        updates = [node for _, node in graph.updates]
        results = [*graph.outputs, *graph.losses, *updates, *self.intermediate_nodes, *self.saved]
        self.forward_plan: Plan = self.builder.build(f"{graph.name}.fwd", forward, [*self.inputs, *self.targets], results)
        self.backward_plan: Plan | None = None
        self.gradient_names = list(graph.gradients)
        if graph.gradients:
            wanted = [graph.gradients[n] for n in self.gradient_names]
            self.backward_plan = self.builder.build(f"{graph.name}.bwd", [*backward], [*self.saved, *self.output_gradients], wanted)
        self._stash: list[tuple[Tensor, ...]] = []
        self.gradients: dict[str, Tensor] = {}
        self.intermediates: list[Tensor] = []
        self.losses: list[Tensor] = []

    # parameters -------------------------------------------------------------------------------------------------------

    def parameter(self, name: str) -> Tensor:
        if name not in self.parameters:
            raise GraphError(f"{self.graph.name} has no parameter {name!r}; it has {', '.join(list(self.parameters)[:8]) or 'none'}")
        return self.builder.value(name)

    def set_parameter(self, name: str, value: Tensor) -> None:
        node = self.parameters.get(name)
        if node is None:
            raise GraphError(f"{self.graph.name} has no parameter {name!r}; it has {', '.join(list(self.parameters)[:8]) or 'none'}")
        if tuple(value.shape) != node.shape:
            raise GraphError(f"parameter {name!r} has shape {list(node.shape)}, the new value has {list(value.shape)}")
        self.builder.hold(node, value)

    # running ----------------------------------------------------------------------------------------------------------

    def forward(self, inputs: Sequence[Tensor], keep: bool = False) -> list[Tensor]:
        """One forward pass. With `keep`, what the backward pass needs is put aside until `backward` asks for it."""
        with torch.no_grad():
            results = self.forward_plan(*inputs)
        count = len(self.graph.outputs)
        outputs = list(results[:count])
        if len(results) == count and not keep:
            return outputs
        losses = count + len(self.graph.losses)
        updates = losses + len(self.update_names)
        self.losses = list(results[count:losses])
        for name, value in zip(self.update_names, results[losses:updates]):
            self.builder.hold(self.parameters[name], value)
        middle = updates + len(self.intermediate_nodes)
        self.intermediates = list(results[updates:middle])
        if keep:
            self._stash.append(results[middle:])
        return outputs

    def backward(self, output_gradients: Sequence[Tensor] = (), zero: bool = False) -> dict[str, Tensor]:
        """The backward pass of the oldest kept forward; parameter gradients accumulate, the gradients of inputs are returned."""
        if self.backward_plan is None:
            raise GraphError(f"{self.graph.name} was compiled for inference; initialize the pipeline with training=True to run backward")
        if not self._stash:
            raise GraphError(f"{self.graph.name}: a backward pass needs a forward pass before it; run_forward first")
        if zero:
            self.gradients.clear()
        saved = self._stash.pop(0)
        with torch.no_grad():
            results = self.backward_plan(*saved, *output_gradients)
        passed: dict[str, Tensor] = {}
        for name, value in zip(self.gradient_names, results):
            if name in self.parameters:
                held = self.gradients.get(name)
                self.gradients[name] = value if held is None else held + value
            else:
                passed[name] = value
        return passed

    def reset(self) -> None:
        self._stash.clear()
        self.gradients.clear()


def _crossing(forward: Sequence[Node], backward: Sequence[Node]) -> list[Node]:
    """Values a backward pass reads from the forward pass, other than parameters and constants."""
    made = {n for n in forward if n.kind not in (Kind.PARAMETER, Kind.CONSTANT)}
    seen: dict[Node, None] = {}
    for node in backward:
        for source in node.inputs:
            if source in made:
                seen[source] = None
    return list(seen)


def evaluate(graph: Graph, values: Mapping[str, Tensor] | Sequence[Tensor], exact: bool = True) -> list[Tensor]:
    """Run the forward part of a graph once; by default without formats, to compare a pass against the model it came from."""
    runner = Executor(graph, exact=exact)
    names = [n.name for n in [*runner.inputs, *runner.targets]]
    given = [values[n] for n in names] if isinstance(values, Mapping) else list(values)
    return runner.forward(given)


def evaluate_nodes(graph: Graph, given: Mapping[Node, Tensor], wanted: Sequence[Node]) -> list[Tensor]:
    """The values of some nodes from the values of others, without formats: a look at any part of a graph."""
    needed: set[Node] = set()
    stack = list(wanted)
    while stack:
        node = stack.pop()
        if node not in needed and node not in given:
            needed.add(node)
            stack += node.inputs
    plan = Builder(exact=True).build(f"{graph.name}.part", [n for n in graph.nodes if n in needed], list(given), wanted)
    with torch.no_grad():
        return list(plan(*given.values()))
