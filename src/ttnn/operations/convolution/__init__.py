"""Convolutions, poolings and what goes with them, over NHWC images."""

from ttnn.operations.convolution import conv as conv
from ttnn.operations.convolution import pool as pool
from ttnn.operations.convolution import sampling as sampling
from ttnn.operations.convolution import volumes as volumes
