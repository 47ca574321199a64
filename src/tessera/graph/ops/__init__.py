"""The one table of graph operations: name, the function that computes it, its family and the chip's name for it.

The rule for every row is `fn(*inputs, **attrs)`: tensors by position, everything else by keyword. A row may point at a torch function or
at an engine function; nothing else in the graph room knows how an operation is computed. `ATEN` says which overloads of torch's own
operator set are which rows, so the torch frontend is a lookup.
"""

from tessera.graph.ops import backward, elementwise, linear, neural, reductions, shapes
from tessera.graph.ops.table import ATEN, OPS, Op, adapter_of, infer

__all__ = ["ATEN", "OPS", "Op", "adapter_of", "backward", "elementwise", "infer", "linear", "neural", "reductions", "shapes"]
