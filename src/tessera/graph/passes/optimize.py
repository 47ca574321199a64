"""The optimizer as a graph: one step of it for each trainable parameter, traced from the same function that the device runs.

It is placed and written into the netlist with the rest of a training graph. The device runs the function itself, in fp32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tessera.graph.formats import DataFormat
from tessera.graph.frontends.aten import Importer
from tessera.graph.ir import Epoch, Graph, Kind, Node

Step = Callable[[Tensor, Tensor, Any, dict[str, Tensor]], tuple[Tensor, dict[str, Tensor]]]


@dataclass(frozen=True)
class AppendOptimizer:
    step: Step
    states: tuple[str, ...] = ()  # one of the parameter's shape each, but "step", which is a number
    format: DataFormat = DataFormat.Float32
    name: str = "optimizer"

    def apply(self, graph: Graph) -> None:
        chosen = [(graph[n], g) for n, g in graph.gradients.items() if graph[n].kind is Kind.PARAMETER]
        if not chosen:
            return
        traces: dict[Any, Any] = {}
        rate = self._source(graph, "learning_rate", (), torch.float32)
        for parameter, gradient in chosen:
            states = [
                self._source(graph, f"{parameter.name}.{key}", () if key == "step" else parameter.shape, torch.float32)
                for key in self.states
            ]
            key = (parameter.shape, parameter.dtype, gradient.dtype)
            if key not in traces:
                traces[key] = self._trace(parameter, gradient)
            traced = traces[key]
            holes = [n for n in traced.nodes if n.op == "placeholder"]
            importer = Importer(graph, dict(zip(holes, [parameter, gradient, rate, *states])), Epoch.OPTIMIZER)
            importer.prefix = f"opt_{parameter.name}."
            first = len(graph.nodes)
            importer.run(list(traced.nodes))
            for node in graph.nodes[first:]:
                node.format = self.format if node.dtype.is_floating_point else node.format
                node.accumulate = node.intermediate = self.format
            ends = next(n for n in traced.nodes if n.op == "output").args[0]
            for name, end in zip([parameter.name, *(f"{parameter.name}.{k}" for k in self.states)], ends):
                graph.optimized[name] = importer.env[end]

    def _source(self, graph: Graph, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Node:
        node = graph.source(Kind.OPTIMIZER, name, shape, dtype, self.format)
        node.epoch = Epoch.OPTIMIZER
        return node

    def _trace(self, parameter: Node, gradient: Node) -> Any:
        def flat(value: Tensor, slope: Tensor, rate: Tensor, *states: Tensor) -> list[Tensor]:
            updated, after = self.step(value, slope, rate, dict(zip(self.states, states)))
            return [updated, *(after[k] for k in self.states)]

        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            like = torch.empty(parameter.shape)
            made = make_fx(flat)(
                like,
                torch.empty(parameter.shape),
                torch.empty(()),
                *[torch.empty(()) if k == "step" else torch.empty_like(like) for k in self.states],
            )
        made.graph.eliminate_dead_code()
        return made.graph
