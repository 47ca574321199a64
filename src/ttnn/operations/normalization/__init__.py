"""Normalisations: softmax and its fused forms, layer and RMS norms, group and batch norms."""

from ttnn.operations.normalization import distributed as distributed
from ttnn.operations.normalization import fused as fused
from ttnn.operations.normalization import group as group
from ttnn.operations.normalization import layer as layer
from ttnn.operations.normalization import softmax as softmax
from ttnn.operations.normalization import whole as whole
