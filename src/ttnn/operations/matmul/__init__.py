"""Matrix products: the plain ones, the program configs they may be told to use, and their relatives."""

from ttnn.operations.matmul import minimal as minimal
from ttnn.operations.matmul import product as product
from ttnn.operations.matmul import relatives as relatives
