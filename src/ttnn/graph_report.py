"""The official place of questions about a report's durations. Report databases for ttnn-visualizer are not written yet; see docs/observing.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ttnn.graph import extract_operation_durations, extract_total_duration_from_graph, import_report

__all__ = ["extract_operation_durations", "extract_total_duration_from_graph", "generate_svg", "import_report", "main"]


def generate_svg(graph: list[Any], output_path: str | Path) -> Path:
    """Draw a captured graph into a file (the `viz` extra)."""
    from ttnn.graph import visualize

    path = Path(output_path).with_suffix(".svg")
    visualize(graph, file_name=path)
    return path


def main() -> None:
    """`python -m ttnn.graph_report`: names what is missing."""
    import_report()


if __name__ == "__main__":
    main()
