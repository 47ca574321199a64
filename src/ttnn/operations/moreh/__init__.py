"""Training operations: reductions, norms, losses, products and optimizers with their gradients, as MOREH's framework calls them."""

from ttnn.operations.moreh import losses as losses
from ttnn.operations.moreh import making as making
from ttnn.operations.moreh import norms as norms
from ttnn.operations.moreh import optimizers as optimizers
from ttnn.operations.moreh import products as products
from ttnn.operations.moreh import reducing as reducing
from ttnn.operations.moreh import softmax as softmax
from ttnn.operations.moreh.softmax import MorehSoftmaxBackwardOp as MorehSoftmaxBackwardOp
from ttnn.operations.moreh.softmax import MorehSoftmaxBackwardOpParallelizationStrategy as MorehSoftmaxBackwardOpParallelizationStrategy
from ttnn.operations.moreh.softmax import MorehSoftmaxOp as MorehSoftmaxOp
from ttnn.operations.moreh.softmax import MorehSoftmaxOpParallelizationStrategy as MorehSoftmaxOpParallelizationStrategy
