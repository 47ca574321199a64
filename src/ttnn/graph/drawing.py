"""A captured graph for people: indented text, or a drawing by graphviz (the `viz` extra)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Node = dict[str, Any]
_COLOURS = {
    "capture_start": "grey",
    "capture_end": "grey",
    "function_start": "lightblue",
    "function_end": "lightblue",
    "tensor": "lightyellow",
    "buffer": "lightgreen",
    "error": "salmon",
}


def label(node: Node) -> str:
    """A node in a few words."""
    params, kind = node["params"] or {}, node["node_type"]
    if kind in ("function_start", "function_end"):
        return str(params["name"])
    if kind == "tensor":
        return f"{params['tensor_id']}: {params['shape']}"
    if "size" in params:
        where = f" at {params['address']}" if "address" in params else ""
        return f"{kind} {params['size']} B {params.get('type', '')}{where}".replace("  ", " ")
    return str(kind)


def pretty_format(captured_graph: Sequence[Node]) -> str:
    """One line for each node but the ends of functions, indented by how deep it stands."""
    lines = []
    for node in captured_graph:
        if node["node_type"] == "function_end":
            continue
        depth = int(node["stacking_level"])
        lines.append(f"{node['counter']:>5}  {'  ' * depth}{label(node)}")
        if node["node_type"] == "function_start" and node["input_tensors"]:
            inputs = ", ".join(label(captured_graph[i]) for i in node["input_tensors"])
            lines[-1] += f" ({inputs})"
    return "\n".join(lines)


def pretty_print(captured_graph: Sequence[Node]) -> None:
    print(pretty_format(captured_graph))


def visualize_node(graphviz_graph: Any, node: Node) -> None:
    graphviz_graph.node(
        str(node["counter"]), label(node), shape="box", style="filled", fillcolor=_COLOURS.get(node["node_type"], "white"), fontsize="10"
    )


def visualize_edge(graphviz_graph: Any, source_node_id: int, sink_node_id: int) -> None:
    graphviz_graph.edge(str(source_node_id), str(sink_node_id))


def visualize(
    captured_graph: Sequence[Node],
    *,
    file_name: str | Path | None = None,
    visualize_node: Callable[[Any, Node], None] = visualize_node,
    visualize_edge: Callable[[Any, int, int], None] = visualize_edge,
) -> Any:
    """The graph as a `graphviz.Digraph`; with a file name also as that file, in the format of its suffix."""
    from ttnn.tracer import graphviz

    drawing = graphviz().Digraph(engine="dot")
    drawing.attr(rankdir="TB")
    for node in captured_graph:
        visualize_node(drawing, node)
        for sink in node["connections"]:
            visualize_edge(drawing, node["counter"], sink)
    if file_name is not None:
        path = Path(file_name)
        drawing.render(path.with_suffix(""), format=path.suffix.lstrip(".") or "svg", cleanup=True)
    return drawing
