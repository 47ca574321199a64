"""What a pass is."""

from __future__ import annotations

from typing import Protocol

from tessera.graph.ir import Graph


class Pass(Protocol):
    """Changes a graph in place and keeps its results. Its fields are its options; two equal passes do the same."""

    @property
    def name(self) -> str: ...

    def apply(self, graph: Graph) -> None: ...
