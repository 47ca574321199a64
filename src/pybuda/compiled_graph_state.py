"""What a compiled graph is to those who feed it: names, shapes and formats of everything that goes in and comes out, in order."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tessera.graph.formats import DataFormat
from tessera.graph.ir import Kind

if TYPE_CHECKING:
    from pybuda.compile import CompileResults
    from pybuda.ttdevice import TTDevice


@dataclass
class CompiledGraphState:
    microbatch: int
    graph_name: str
    training: bool = False
    ordered_input_names: list[str] = field(default_factory=list)
    ordered_output_names: list[str] = field(default_factory=list)
    ordered_target_names: list[str] = field(default_factory=list)
    ordered_input_gradient_names: list[str] = field(default_factory=list)
    ordered_output_gradient_names: list[str] = field(default_factory=list)
    ordered_constant_node_names: list[str] = field(default_factory=list)
    ordered_parameter_node_names: list[str] = field(default_factory=list)
    ordered_intermediate_activation_names: list[str] = field(default_factory=list)
    ordered_input_shapes: list[list[int]] = field(default_factory=list)
    ordered_output_shapes: list[list[int]] = field(default_factory=list)
    ordered_target_shapes: list[list[int]] = field(default_factory=list)
    ordered_intermediate_shapes: list[list[int]] = field(default_factory=list)
    ordered_input_requires_grad: list[bool] = field(default_factory=list)
    ordered_output_requires_grad: list[bool] = field(default_factory=list)
    ordered_output_data_formats: list[DataFormat] = field(default_factory=list)

    @classmethod
    def of(cls, device: TTDevice, results: CompileResults, training: bool) -> CompiledGraphState:
        graph = results.graph
        inputs, targets = graph.of(Kind.INPUT), graph.of(Kind.TARGET)
        middle = [graph[n] for n in results.compiled.options.intermediates if n in graph]
        return cls(
            microbatch=results.compiled.options.batch,
            graph_name=graph.name,
            training=training,
            ordered_input_names=[n.name for n in inputs],
            ordered_output_names=[n.name for n in graph.outputs],
            ordered_target_names=[n.name for n in targets],
            ordered_input_gradient_names=[graph.gradients[n.name].name for n in inputs if n.name in graph.gradients],
            ordered_output_gradient_names=[n.name for n in graph.of(Kind.GRADIENT)],
            ordered_constant_node_names=[n.name for n in graph.of(Kind.CONSTANT)],
            ordered_parameter_node_names=[n.name for n in graph.of(Kind.PARAMETER)],
            ordered_intermediate_activation_names=[n.name for n in middle],
            ordered_input_shapes=[list(n.shape) for n in inputs],
            ordered_output_shapes=[list(n.shape) for n in graph.outputs],
            ordered_target_shapes=[list(n.shape) for n in targets],
            ordered_intermediate_shapes=[list(n.shape) for n in middle],
            ordered_input_requires_grad=[n.requires_grad for n in inputs],
            ordered_output_requires_grad=[bool(graph.of(Kind.GRADIENT)) for _ in graph.outputs],
            ordered_output_data_formats=[n.format for n in graph.outputs],
        )

    def get_tensor(self, device: TTDevice, name: str) -> Any:
        return device.executor.parameter(name)

    def to_dict(self) -> dict[str, Any]:
        made = asdict(self)
        made["ordered_output_data_formats"] = [f.to_json() for f in self.ordered_output_data_formats]
        return made
