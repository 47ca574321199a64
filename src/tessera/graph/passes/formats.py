"""Which format every value has on the chip, and what each operation accumulates in and how faithfully it multiplies."""

from __future__ import annotations

from dataclasses import dataclass

from tessera.graph.formats import DataFormat, MathFidelity, in_family, is_float, width
from tessera.graph.ir import Graph, Kind, Node
from tessera.graph.ops import OPS

_SAME_AS_INPUT = {"tm", "nop", "getitem"}


@dataclass(frozen=True)
class AssignFormats:
    """The default format goes on every float value; a value that is already narrower keeps its width in the default's family."""

    default: DataFormat | None = None
    fp32_fallback: DataFormat | None = None  # what Float32 becomes on chips without it
    accumulate: DataFormat | None = None
    fidelity: MathFidelity | None = None
    name: str = "formats"

    def apply(self, graph: Graph) -> None:
        for node in graph.nodes:
            own = DataFormat[node.tags["format"]] if "format" in node.tags else None
            if node.dtype.is_floating_point and is_float(node.format):
                node.format = self._format(own or node.format)
            for part in node.parts:
                if part.dtype.is_floating_point:
                    part.format = self._format(part.format)
        for node in graph.nodes:
            if node.kind is Kind.OUTPUT and node.dtype.is_floating_point:
                node.format = node.inputs[0].format
            if node.kind is not Kind.OP:
                continue
            if (
                OPS[node.op].family in _SAME_AS_INPUT
                and node.inputs
                and node.dtype.is_floating_point
                and node.inputs[0].dtype.is_floating_point
            ):
                node.format = node.inputs[0].format
            node.accumulate = self._accumulate(node)
            node.intermediate = node.accumulate
            node.fidelity = MathFidelity.HiFi4 if not node.dtype.is_floating_point else self.fidelity

    def _format(self, own: DataFormat) -> DataFormat:
        if self.default is not None:
            family = "b" if self.default.name.endswith("_b") else "a" if self.default is not DataFormat.Float32 else ""
            own = self.default if width(own) >= width(self.default) or not is_float(own) else in_family(own, family) if family else own
        if own is DataFormat.Float32 and self.fp32_fallback is not None:
            return self.fp32_fallback
        return own

    def _accumulate(self, node: Node) -> DataFormat:
        operand = node.inputs[0].format if node.inputs else node.format
        if self.accumulate is not None and is_float(operand):
            if self.accumulate is DataFormat.Float32 and self.fp32_fallback is not None:
                return self.fp32_fallback
            return self.accumulate
        if operand is DataFormat.Float32:
            return operand
        if not is_float(operand):
            return DataFormat.Int32
        return DataFormat.Float16_b if operand.name.endswith("_b") else DataFormat.Float16
