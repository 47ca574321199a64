"""The passes, in the order the compiler runs them: each a frozen dataclass with a name and one `apply`."""

from tessera.graph.passes.base import Pass
from tessera.graph.passes.decompose import Decompose
from tessera.graph.passes.fold import FoldConstants, FoldNorms
from tessera.graph.passes.movement import EraseInverses

__all__ = ["Decompose", "EraseInverses", "FoldConstants", "FoldNorms", "Pass"]
