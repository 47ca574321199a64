"""The operations of the language. Every one takes its name first; an empty name is made up while tracing."""

from pybuda.op.common import PyBudaOp
from pybuda.op.convolution import Conv2d, Conv2dTranspose, Conv3d
from pybuda.op.eltwise_binary import (
    Add,
    BinaryStack,
    Divide,
    Equal,
    Greater,
    GreaterEqual,
    Heaviside,
    Less,
    LessEqual,
    LogicalAnd,
    Max,
    Min,
    Multiply,
    NotEqual,
    Power,
    Subtract,
)
from pybuda.op.eltwise_nary import Concatenate, IndexCopy, Interleave, Stack, Where
from pybuda.op.eltwise_unary import (
    Abs,
    Argmax,
    Buffer,
    Clip,
    Cosine,
    CumSum,
    Dropout,
    Exp,
    Gelu,
    Identity,
    LeakyRelu,
    Log,
    LogicalNot,
    Pow,
    Reciprocal,
    Relu,
    Sigmoid,
    Sine,
    Sqrt,
    Tanh,
    Tilize,
)
from pybuda.op.matmul import Matmul, SparseMatmul
from pybuda.op.others import BudaRequantize, Constant, Dequantize, DRAMQueue, Embedding, Quantize, Requantize, Resize2d, Resize3d
from pybuda.op.pooling import AvgPool1d, AvgPool2d, MaxPool1d, MaxPool2d, MaxPool3d
from pybuda.op.reduce import GroupedReduceAvg, ReduceAvg, ReduceMax, ReduceSum
from pybuda.op.tm import (
    AdvIndex,
    Broadcast,
    BudaPad,
    BudaUnpad,
    HSlice,
    HStack,
    Index,
    Narrow,
    Pad,
    PadTile,
    PixelShuffle,
    Repeat,
    Reshape,
    Select,
    Squeeze,
    Transpose,
    Unsqueeze,
    VSlice,
    VStack,
)

from pybuda.op import loss, nn  # isort: skip  (they define modules, which use the operations above)

__all__ = [name for name in dir() if name[0].isupper()] + ["loss", "nn"]
