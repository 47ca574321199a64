"""Constant folding: what depends on no input and no trainable value is computed once, on the host, in full precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tessera.graph.ir import Epoch, Graph, Kind, Node
from tessera.graph.ops import OPS


@dataclass(frozen=True)
class FoldConstants:
    """Positions, masks and rotary tables become constants before any format can round what they are made from."""

    limit: int = 64 * 2**20  # elements; a larger result is cheaper to compute than to keep
    name: str = "constant-folding"

    def apply(self, graph: Graph) -> None:
        known: dict[Node, torch.Tensor | tuple[torch.Tensor, ...]] = {}
        for node in graph:
            if node.kind is Kind.CONSTANT and node.value is not None:
                known[node] = node.value
            elif node.kind is Kind.OP and node.epoch is Epoch.FORWARD and not OPS[node.op].random and all(i in known for i in node.inputs):
                if not node.inputs and OPS[node.op].family != "make":
                    continue
                with torch.no_grad():
                    known[node] = OPS[node.op].fn(*[known[i] for i in node.inputs], **node.attrs)
        users = graph.users()
        for node, value in known.items():
            if node.kind is Kind.CONSTANT or not isinstance(value, torch.Tensor) or value.numel() > self.limit:
                continue
            if not any(user not in known for user in users[node]) and node not in graph.kept():
                continue
            made = Node(
                node.name + "_const", Kind.CONSTANT, "constant", [], {}, node.shape, value.dtype, node.format, value=value.contiguous()
            )
            graph.add(made, before=node)
            graph.replace(node, made)
        graph.sweep()


@dataclass(frozen=True)
class FoldNorms:
    """An inference-time batch norm after a convolution is a scale of its weights: one operation and one rounding fewer.

    Only for graphs whose weights stay what they are: the folded weight keeps the name of the convolution's weight.
    """

    name: str = "fold-batchnorm"

    def apply(self, graph: Graph) -> None:
        users = graph.users()
        for norm in graph.ops("batchnorm"):
            conv = norm.inputs[0]
            if conv.op != "conv2d" or users[conv] != [norm] or conv.attrs.get("channel_last"):
                continue
            sources = [*conv.inputs[1:], *norm.inputs[1:]]
            if any(s.kind not in (Kind.PARAMETER, Kind.CONSTANT) or s.value is None for s in sources):
                continue
            weight, bias = conv.inputs[1], conv.inputs[2] if len(conv.inputs) > 2 else None
            gamma, beta, mean, var = (s.value.detach().double() for s in norm.inputs[1:])
            scale = gamma / torch.sqrt(var + norm.attrs.get("eps", 1e-5))
            shift = beta - mean * scale
            if bias is not None:
                shift = shift + bias.value.detach().double().reshape(-1) * scale
            folded = (weight.value.detach().double() * scale.reshape(-1, 1, 1, 1)).to(weight.dtype)
            w = graph.add(
                Node(weight.name + "_folded", Kind.CONSTANT, "constant", [], {}, weight.shape, weight.dtype, weight.format, value=folded),
                before=conv,
            )
            b = graph.add(
                Node(
                    (bias or norm.inputs[2]).name + "_folded",
                    Kind.CONSTANT,
                    "constant",
                    [],
                    {},
                    tuple(shift.shape),
                    weight.dtype,
                    weight.format,
                    value=shift.to(weight.dtype),
                ),
                before=conv,
            )
            conv.inputs = [conv.inputs[0], w, b]
            conv.tags["folded"] = ",".join(s.name for s in sources)
            graph.replace(norm, conv)
        graph.sweep()
