"""Imports every family, so that its operations are registered. A new family is a new line here."""

from ttnn.operations import binary as binary
from ttnn.operations import comparison as comparison
from ttnn.operations import conversion as conversion
from ttnn.operations import creation as creation
from ttnn.operations import embedding as embedding
from ttnn.operations import files as files
from ttnn.operations import matmul as matmul
from ttnn.operations import memory as memory
from ttnn.operations import normalization as normalization
from ttnn.operations import reshaping as reshaping
from ttnn.operations import slicing as slicing
from ttnn.operations import ternary as ternary
from ttnn.operations import ternary_quantization as ternary_quantization
from ttnn.operations import transformer as transformer
from ttnn.operations import unary as unary
from ttnn.operations import unary_glu as unary_glu
from ttnn.operations import unary_typecast as unary_typecast
from ttnn.operations import reduction as reduction
from ttnn.operations import spreading as spreading
from ttnn.operations import tilizing as tilizing
from ttnn.operations import backward as backward
from ttnn.operations import backward_binary as backward_binary
from ttnn.operations import complex as complex
from ttnn.operations import binary_gates as binary_gates
from ttnn.operations import picking as picking
from ttnn.operations import arranging as arranging
