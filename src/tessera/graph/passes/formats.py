"""Which format every value has on the chip, and what each operation accumulates in and how faithfully it multiplies."""

from __future__ import annotations

import re
from dataclasses import dataclass

from loguru import logger

from tessera.graph.formats import DataFormat, MathFidelity, in_family, is_float, width
from tessera.graph.ir import Epoch, Graph, Kind, Node
from tessera.graph.ops import OPS


@dataclass(frozen=True)
class PrecisionRule:
    """A user's wish: which nodes (all given criteria must hold), and what becomes of them. Later rules win."""

    op_type: str | None = None
    name_regex: str | None = None
    epoch: Epoch | None = None
    is_gradient: bool | None = None
    output: DataFormat | None = None
    intermediate: DataFormat | None = None
    accumulate: DataFormat | None = None
    fidelity: MathFidelity | None = None
    inputs: tuple[tuple[int, DataFormat, bool], ...] = ()  # (operand, format, activations too)
    expected: bool = True  # a rule of the user's own that fits nothing is a mistake; one of a table is not

    def fits(self, node: Node) -> bool:
        if node.kind in (Kind.OUTPUT, Kind.QUEUE):
            return False
        name = node.op if node.kind is Kind.OP else node.kind.value
        return (
            (self.op_type is None or self.op_type in (name, node.tag(), "activation" if node.kind is Kind.INPUT else name))
            and (self.name_regex is None or re.fullmatch(self.name_regex, node.name) is not None)
            and (self.epoch is None or self.epoch is node.epoch)
            and (self.is_gradient is None or node.kind is not Kind.OP or self.is_gradient == (node.epoch is Epoch.BACKWARD))
        )


_SAME_AS_INPUT = {"tm", "nop", "getitem"}


@dataclass(frozen=True)
class AssignFormats:
    """The default format goes on every float value; a value that is already narrower keeps its width in the default's family."""

    default: DataFormat | None = None
    fp32_fallback: DataFormat | None = None  # what Float32 becomes on chips without it
    accumulate: DataFormat | None = None
    fidelity: MathFidelity | None = None
    rules: tuple[PrecisionRule, ...] = ()
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

        for rule in self.rules:
            self._apply(graph, rule)
        for node in graph.of(Kind.OUTPUT):
            if node.dtype.is_floating_point:
                node.format = node.inputs[0].format

    def _apply(self, graph: Graph, rule: PrecisionRule) -> None:
        found = False
        for node in graph.nodes:
            if not rule.fits(node):
                continue
            found = True
            if rule.output is not None and node.dtype.is_floating_point:
                node.format = rule.output
            if node.kind is not Kind.OP:
                continue
            node.accumulate = rule.accumulate or node.accumulate
            node.intermediate = rule.intermediate or node.intermediate
            node.fidelity = rule.fidelity or node.fidelity
            for port, fmt, activations in rule.inputs:
                source = node.inputs[port] if port < len(node.inputs) else None
                if (
                    source is not None
                    and source.dtype.is_floating_point
                    and (activations or source.kind in (Kind.PARAMETER, Kind.CONSTANT))
                ):
                    source.format = fmt
        if not found and rule.expected:
            logger.warning(f"{graph.name}: a mixed-precision rule fits nothing in the graph: {rule}")

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
