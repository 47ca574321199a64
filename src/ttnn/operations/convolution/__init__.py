"""Convolutions, poolings and what goes with them, over NHWC images."""

from ttnn.operations.convolution import conv as conv
