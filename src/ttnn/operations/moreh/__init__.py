"""Training operations: reductions, norms, losses, products and optimizers with their gradients, as MOREH's framework calls them.

Programs also call them here, by their names without the prefix (`ttnn.operations.moreh.sum`).
"""

from ttnn.decorators import REGISTERED_OPERATIONS
from ttnn.operations.moreh import losses as losses
from ttnn.operations.moreh import making as making
from ttnn.operations.moreh import norms as norms
from ttnn.operations.moreh import optimizers as optimizers
from ttnn.operations.moreh import products as products
from ttnn.operations.moreh import reducing as reducing
from ttnn.operations.moreh import softmaxes as softmaxes
from ttnn.operations.moreh.softmaxes import MorehSoftmaxBackwardOp as SoftmaxBackwardOp
from ttnn.operations.moreh.softmaxes import MorehSoftmaxBackwardOpParallelizationStrategy as SoftmaxBackwardOpParallelizationStrategy
from ttnn.operations.moreh.softmaxes import MorehSoftmaxOp as SoftmaxOp
from ttnn.operations.moreh.softmaxes import MorehSoftmaxOpParallelizationStrategy as SoftmaxOpParallelizationStrategy

_PREFIX = "ttnn.moreh_"
globals().update({name.removeprefix(_PREFIX): found for name, found in REGISTERED_OPERATIONS.items() if name.startswith(_PREFIX)})

__all__ = [
    "SoftmaxBackwardOp",
    "SoftmaxBackwardOpParallelizationStrategy",
    "SoftmaxOp",
    "SoftmaxOpParallelizationStrategy",
    "losses",
    "making",
    "norms",
    "optimizers",
    "products",
    "reducing",
    "softmaxes",
]
