"""One graph language for the whole machine: the typed IR, its frontends, its passes and its executor.

PyBuda's models are written in it, and TT-NN's captured graphs can be. The room knows torch and the rooms of the machine below it;
it knows neither `pybuda` nor `ttnn`.
"""

from tessera.graph.formats import DataFormat, MathFidelity
from tessera.graph.ir import Epoch, Graph, GraphError, Kind, Node

__all__ = ["DataFormat", "Epoch", "Graph", "GraphError", "Kind", "MathFidelity", "Node"]
