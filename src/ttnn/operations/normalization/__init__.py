"""Normalisations: softmax and its fused forms, layer and RMS norms, group and batch norms."""

from ttnn.operations.normalization import layer as layer
from ttnn.operations.normalization import softmax as softmax
