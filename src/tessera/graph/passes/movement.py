"""Erase tensor manipulations that undo each other: the chip pays for every one, and a model read from a framework has many."""

from __future__ import annotations

from dataclasses import dataclass

from tessera.graph.ir import Graph, Kind, Node

_RESHAPES = {"reshape", "flatten", "unflatten", "squeeze", "unsqueeze"}


def _permutation(node: Node) -> list[int] | None:
    rank = len(node.shape)
    if node.op == "permute":
        return [d % rank for d in node.attrs["dims"]]
    if node.op == "transpose":
        order = list(range(rank))
        a, b = node.attrs["dim0"] % rank, node.attrs["dim1"] % rank
        order[a], order[b] = order[b], order[a]
        return order
    return None


def _is_identity(node: Node) -> bool:
    source = node.inputs[0]
    if node.op in _RESHAPES | {"expand", "broadcast"}:
        return node.shape == source.shape
    if node.op == "index":
        return node.shape == source.shape and node.attrs.get("stride", 1) == 1
    if node.op == "nop" or node.op == "cast":
        return node.dtype is source.dtype and not node.tags.get("user")
    order = _permutation(node)
    return order is not None and order == sorted(order)


@dataclass(frozen=True)
class EraseInverses:
    """Reshape of reshape is one reshape, transpose of transpose one permutation or nothing; to a fixed point."""

    keep: frozenset[str] = frozenset()  # values somebody wants to see under their own name
    name: str = "erase-inverses"

    def apply(self, graph: Graph) -> None:
        changed = True
        while changed:
            changed = False
            for node in graph:
                if node.kind is not Kind.OP or not node.inputs or node.tags.get("keep") or node.name in self.keep:
                    continue
                changed |= self._step(graph, node)
            graph.sweep()

    def _step(self, graph: Graph, node: Node) -> bool:
        source = node.inputs[0]
        readers = [n for n in graph.nodes if node in n.inputs] if _is_identity(node) else []
        if readers and not (source.kind is not Kind.OP and any(r.kind is Kind.OUTPUT for r in readers)):
            graph.replace(node, source)
            return True
        if source.kind is not Kind.OP or source.tags.get("keep") or source.name in self.keep or not source.inputs:
            return False
        if node.op in _RESHAPES and source.op in _RESHAPES:
            node.inputs[0] = source.inputs[0]
            node.op, node.attrs = "reshape", {"shape": list(node.shape)}
            return True
        outer, inner = _permutation(node), _permutation(source)
        if outer is not None and inner is not None:
            node.inputs[0] = source.inputs[0]
            node.op, node.attrs = "permute", {"dims": [inner[d] for d in outer]}
            return True
        return False
