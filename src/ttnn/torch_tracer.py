"""The official place of tracing torch functions; `ttnn.tracer` traces both."""

from __future__ import annotations

from ttnn.tracer import get_graph, trace, visualize

__all__ = ["get_graph", "trace", "visualize"]
