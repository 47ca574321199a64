"""What transformers are made of: attention in its forms, heads, rotary embeddings, caches."""

from ttnn.operations.transformer import attention as attention
from ttnn.operations.transformer import caches as caches
from ttnn.operations.transformer import decode as decode
from ttnn.operations.transformer import delta as delta
from ttnn.operations.transformer import heads as heads
from ttnn.operations.transformer import joining as joining
from ttnn.operations.transformer import prefill as prefill
from ttnn.operations.transformer import rotary as rotary
from ttnn.operations.transformer import softmax as softmax
from ttnn.operations.transformer import sparse as sparse
