from ttnn.operations.matmul import product as product
