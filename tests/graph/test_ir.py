"""The IR: names, text, diff, order, copies."""

from __future__ import annotations

import torch

from tessera.graph.formats import DataFormat
from tessera.graph.frontends.aten import make_node
from tessera.graph.ir import TM, Epoch, Graph, Kind

F32 = DataFormat.Float32


def small() -> Graph:
    graph = Graph("small")
    x = graph.source(Kind.INPUT, "x", (2, 4), torch.float32, F32)
    w = graph.source(Kind.PARAMETER, "w", (4, 3), torch.float32, F32, torch.randn(4, 3))
    product = graph.add(make_node("product", "matmul", [x, w], {}, torch.empty(2, 3)))
    graph.output(graph.add(make_node("relu", "relu", [product], {}, torch.empty(2, 3))))
    return graph


def test_text_is_readable_and_complete():
    assert small().text().splitlines() == [
        "graph small {",
        "  %x = input() : [2, 4] Float32 float32",
        "  %w = parameter() : [4, 3] Float32 float32",
        "  %product = matmul(%x, %w) : [2, 3] Float32 float32",
        "  %relu = relu(%product) : [2, 3] Float32 float32",
        "  %small.output_relu = output(%relu) : [2, 3] Float32 float32",
        "}",
    ]


def test_everything_that_matters_shows_in_the_text():
    graph = small()
    node = graph["product"]
    node.format, node.accumulate, node.epoch = DataFormat.Bfp8_b, DataFormat.Float16_b, Epoch.BACKWARD
    node.tms[1] = [TM("transpose", (("dim0", -1), ("dim1", -2)))]
    node.tags["original_op_type"] = "linear"
    line = graph.text().splitlines()[3]
    assert (
        line
        == "  %product = matmul(%x, %w | transpose(dim0=-1, dim1=-2)) : [2, 3] Bfp8_b float32 acc=Float16_b @bwd #original_op_type=linear"
    )


def test_diff():
    one, two = small(), small()
    assert one.diff(two) == ""
    two["relu"].op = "gelu"
    assert "-  %relu = relu(%product)" in one.diff(two)
    assert "+  %relu = gelu(%product)" in one.diff(two)


def test_names_are_unique_and_deterministic():
    graph = small()
    names = [graph.add(make_node("relu", "relu", [graph["product"]], {}, torch.empty(2, 3))).name for _ in range(3)]
    assert names == ["relu_1", "relu_2", "relu_3"]


def test_a_copy_shares_nothing_that_changes():
    graph = small()
    twin = graph.copy()
    twin["product"].attrs["transpose_b"] = True
    twin.rename(twin["relu"], "other")
    assert "transpose_b" not in graph.text()
    assert "relu" in graph
    assert twin.outputs[0].inputs[0] is twin["other"]


def test_sweep_drops_what_nobody_reads_and_keeps_the_interface():
    graph = small()
    graph.add(make_node("dead", "exp", [graph["product"]], {}, torch.empty(2, 3)))
    graph.source(Kind.PARAMETER, "unused", (1,), torch.float32, F32)
    assert graph.sweep() == 1
    assert "dead" not in graph
    assert "unused" in graph


def test_sort_restores_the_running_order_and_changes_nothing_else():
    graph = small()
    text = graph.text()
    graph.nodes.reverse()
    graph.sort()
    places = {n: i for i, n in enumerate(graph.nodes)}
    assert all(places[s] < places[n] for n in graph.nodes for s in n.inputs)
    again = small()
    again.sort()
    assert again.text() == text
