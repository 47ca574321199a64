"""The passes, in the order the compiler runs them: each a frozen dataclass with a name and one `apply`."""

from tessera.graph.passes.autograd import Autograd
from tessera.graph.passes.base import Pass
from tessera.graph.passes.decompose import Decompose
from tessera.graph.passes.fold import FoldConstants, FoldNorms
from tessera.graph.passes.formats import AssignFormats
from tessera.graph.passes.fuse import FusePatterns
from tessera.graph.passes.movement import EraseInverses

__all__ = ["AssignFormats", "Autograd", "Decompose", "EraseInverses", "FoldConstants", "FoldNorms", "FusePatterns", "Pass"]
