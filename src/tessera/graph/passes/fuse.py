"""Patterns that run as one operation: a bias inside its matmul, an activation inside the matmul or convolution before it, and attention
written out by hand. Fewer roundings and fewer trips through memory, on the chip as on the host.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tessera.graph.frontends.aten import make_node
from tessera.graph.ir import Epoch, Graph, Kind, Node

# Activations the matmul engine can apply on the way out, and the attributes under which they may be fused.
ACTIVATIONS = {"relu", "gelu", "sigmoid", "tanh", "silu", "hardswish", "relu6"}


@dataclass(frozen=True)
class FusePatterns:
    keep: frozenset[str] = frozenset()  # names that must stay values of their own
    training: bool = False
    name: str = "fuse"

    def apply(self, graph: Graph) -> None:
        for rule in (self._bias, self._rms_norm, self._attention, self._activation):
            users = graph.users()
            outside = graph.kept()
            for node in graph:
                if node.kind is Kind.OP and node.epoch is Epoch.FORWARD and node.name in graph:
                    if rule(graph, node, users, outside):
                        graph.sweep()
                        users = graph.users()

    def _alone(self, node: Node, users: dict[Node, list[Node]], outside: set[Node]) -> bool:
        """Only one reader, nobody outside, and nobody asked to see it."""
        return node.kind is Kind.OP and len(users.get(node, ())) == 1 and node not in outside and node.name not in self.keep

    def _bias(self, graph: Graph, node: Node, users: dict[Node, list[Node]], outside: set[Node]) -> bool:
        if node.op != "add" or node.attrs or len(node.inputs) != 2 or node.name in self.keep:
            return False
        for product, bias in (node.inputs, reversed(node.inputs)):
            if (
                product.op == "matmul"
                and len(product.inputs) == 2
                and self._alone(product, users, outside)
                and bias.kind in (Kind.PARAMETER, Kind.CONSTANT)
                and math.prod(bias.shape) == product.shape[-1] == (bias.shape or (0,))[-1]
                and len(bias.shape) <= len(product.shape)
            ):
                node.op, node.inputs, node.attrs = "matmul", [*product.inputs, bias], dict(product.attrs)
                node.tags["fused"] = product.name
                return True
        return False

    def _activation(self, graph: Graph, node: Node, users: dict[Node, list[Node]], outside: set[Node]) -> bool:
        if self.training or node.op not in ACTIVATIONS or node.name in self.keep or set(node.attrs) - {"approximate"}:
            return False
        base = node.inputs[0]
        if base.op not in ("matmul", "conv2d") or base.attrs.get("activation") or not self._alone(base, users, outside):
            return False
        kind = node.op if not node.attrs else f"{node.op}_{node.attrs['approximate']}"
        attrs = {**base.attrs, "activation": kind}
        node.op, node.inputs, node.attrs = base.op, list(base.inputs), attrs
        node.tags["fused"] = base.name
        return True

    def _rms_norm(self, graph: Graph, node: Node, users: dict[Node, list[Node]], outside: set[Node]) -> bool:
        """weight * (x * rsqrt(mean(x * x) + eps)), in either order of each product."""
        if self.training or node.op != "multiply" or node.attrs or len(node.inputs) != 2 or node.name in self.keep:
            return False
        for weight, scaled in (node.inputs, node.inputs[::-1]):
            if weight.kind not in (Kind.PARAMETER, Kind.CONSTANT) or weight.shape != node.shape[-1:]:
                continue
            if scaled.op != "multiply" or scaled.attrs or len(scaled.inputs) != 2 or not self._alone(scaled, users, outside):
                continue
            for x, root in (scaled.inputs, scaled.inputs[::-1]):
                eps = self._root_mean_square(x, root, users, outside)
                if eps is not None:
                    node.op, node.inputs, node.attrs = "rms_norm", [x, weight], {"normalized_shape": [node.shape[-1]], "eps": eps}
                    node.tags["fused"] = scaled.name
                    return True
        return False

    def _root_mean_square(self, x: Node, root: Node, users: dict[Node, list[Node]], outside: set[Node]) -> float | None:
        """The epsilon, if `root` is rsqrt(mean(x * x) + epsilon) over the last dimension and read by nobody else."""
        if root.op != "rsqrt" or not self._alone(root, users, outside):
            return None
        shifted = root.inputs[0]
        if shifted.op != "add" or set(shifted.attrs) != {"other"} or not self._alone(shifted, users, outside):
            return None
        mean = shifted.inputs[0]
        if (
            mean.op != "reduce_avg"
            or not mean.attrs.get("keepdim")
            or mean.attrs.get("dim") not in (-1, [-1], len(x.shape) - 1, [len(x.shape) - 1])
        ):
            return None
        square = mean.inputs[0]
        by_power = square.op == "pow" and square.attrs == {"exponent": 2} and square.inputs == [x]
        by_product = square.op == "multiply" and not square.attrs and square.inputs == [x, x]
        if not (by_power or by_product) or not (self._alone(mean, users, outside) and self._alone(square, users, outside)):
            return None
        return float(shifted.attrs["other"])

    def _attention(self, graph: Graph, node: Node, users: dict[Node, list[Node]], outside: set[Node]) -> bool:
        """softmax(q k^T * scale [+ mask]) v, over the last two of four dimensions."""
        if self.training or node.op != "matmul" or len(node.inputs) != 2 or node.attrs or len(node.shape) != 4:
            return False
        softmax, value = node.inputs
        if softmax.op != "softmax" or softmax.attrs.get("dim", -1) not in (-1, 3) or not self._alone(softmax, users, outside):
            return False
        scores, mask, scale = softmax.inputs[0], None, 1.0
        if scores.op == "add" and len(scores.inputs) == 2 and not scores.attrs and self._alone(scores, users, outside):
            scores, mask = scores.inputs
        if scores.op in ("divide", "multiply") and self._alone(scores, users, outside):
            factor = scores.attrs.get("other")
            if (
                factor is None
                and len(scores.inputs) == 2
                and scores.inputs[1].kind is Kind.CONSTANT
                and math.prod(scores.inputs[1].shape) == 1
            ):
                factor = float(scores.inputs[1].value)
            if not isinstance(factor, (int, float)) or set(scores.attrs) - {"other"}:
                return False
            scale = 1.0 / factor if scores.op == "divide" else float(factor)
            scores = scores.inputs[0]
        if scores.op != "matmul" or scores.attrs or len(scores.inputs) != 2 or not self._alone(scores, users, outside):
            return False
        query, turned = scores.inputs
        if not len(turned.shape) == len(query.shape) == len(value.shape) == 4:
            return False
        if not (query.shape[:2] == turned.shape[:2] == value.shape[:2]) or query.shape[-1] != value.shape[-1]:
            return False
        if mask is not None and not (mask.dtype is query.dtype and _fits(mask.shape, softmax.shape)):
            return False
        key = _turn_back(graph, turned, softmax)
        node.op, node.attrs = "attention", {"scale": scale}
        node.inputs = [query, key, value] + ([mask] if mask is not None else [])
        node.tags["fused"] = softmax.name
        return True


def _turn_back(graph: Graph, turned: Node, before: Node) -> Node:
    """`turned` with its last two dimensions swapped; one permutation with the one that made it, or none at all."""
    order = [0, 1, 2, 3]
    source = turned
    if turned.kind is Kind.OP and turned.op == "transpose":
        a, b = turned.attrs["dim0"] % 4, turned.attrs["dim1"] % 4
        order[a], order[b] = order[b], order[a]
        source = turned.inputs[0]
    elif turned.kind is Kind.OP and turned.op == "permute":
        order, source = [d % 4 for d in turned.attrs["dims"]], turned.inputs[0]
    order = [order[0], order[1], order[3], order[2]]
    if order == [0, 1, 2, 3]:
        return source
    shape = tuple(source.shape[d] for d in order)
    example = torch.empty(shape, dtype=source.dtype, device="meta")
    return graph.add(make_node(f"{turned.name}.back", "permute", [source], {"dims": order}, example, source=turned.source), before=before)


def _fits(shape: tuple[int, ...], scores: tuple[int, ...]) -> bool:
    return len(shape) <= 4 and all(a in (1, b) for a, b in zip(reversed(shape), reversed(scores)))
