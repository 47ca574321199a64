"""Layers: composites, and small modules with parameters of their own."""

from __future__ import annotations

from typing import Any

import torch

from pybuda.module import PyBudaModule
from pybuda.op.common import make
from pybuda.op.convolution import Conv2d, Conv2dTranspose
from pybuda.op.matmul import Matmul, SparseMatmul
from pybuda.op.pooling import AvgPool2d, MaxPool1d, MaxPool2d
from pybuda.parameter import Parameter
from pybuda.tensor import Tensor

Operand = Tensor | Parameter


def Softmax(name: str, operandA: Tensor, *, dim: int, stable: bool = True) -> Tensor:
    return make("softmax", name, operandA, dim=dim, stable=None if stable else False)


def LogSoftmax(name: str, operandA: Tensor, *, dim: int, stable: bool = True) -> Tensor:
    return make("log_softmax", name, operandA, dim=dim, stable=None if stable else False)


def Layernorm(name: str, operandA: Tensor, weights: Operand, bias: Operand, dim: int = -1, epsilon: float = 1e-05) -> Tensor:
    """Over the last dimension, which is the one the chip normalises."""
    rank = len(operandA.shape)
    if dim not in (-1, rank - 1):
        raise ValueError(f"Layernorm: dim={dim} must be the last dimension (-1)")
    width = operandA.shape[-1]
    flat = [
        p if len(p.shape) == 1 else make("reshape", f"{name}.{what}" if name else "", p, shape=[width])
        for p, what in ((weights, "weight"), (bias, "bias"))
    ]
    return make("layernorm", name, operandA, *flat, normalized_shape=[width], eps=epsilon)


def Batchnorm(
    name: str, operandA: Tensor, weights: Operand, bias: Operand, running_mean: Operand, running_var: Operand, epsilon: float = 1e-05
) -> Tensor:
    return make("batchnorm", name, operandA, weights, bias, running_mean, running_var, eps=epsilon)


class Linear(PyBudaModule):
    def __init__(self, name: str, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(name)
        self.in_features, self.out_features = in_features, out_features
        bound = in_features**-0.5
        self.weights = Parameter(torch.empty(in_features, out_features).uniform_(-bound, bound))
        self.has_bias = bias
        if bias:
            self.bias = Parameter(torch.empty(1, out_features).uniform_(-bound, bound))

    def forward(self, activations: Tensor) -> Tensor:
        return Matmul(f"{self.name}.matmul", activations, self.weights, self.bias if self.has_bias else None)


def _kernel(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else tuple(size)  # type: ignore[return-value]


class Conv2dModule(PyBudaModule):
    def __init__(
        self,
        name: str,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: int = 1,
        padding: Any = "same",
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        t_stream_workaround: bool = False,
    ) -> None:
        super().__init__(name)
        rows, columns = _kernel(kernel_size)
        bound = (in_channels // groups * rows * columns) ** -0.5
        self.weights = Parameter(torch.empty(out_channels, in_channels // groups, rows, columns).uniform_(-bound, bound))
        self.has_bias = bias
        if bias:
            self.bias = Parameter(torch.empty(out_channels).uniform_(-bound, bound))
        self.options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

    def forward(self, activations: Tensor) -> Tensor:
        return Conv2d(f"{self.name}.conv2d", activations, self.weights, self.bias if self.has_bias else None, **self.options)


class ConvTranspose2dModule(PyBudaModule):
    def __init__(
        self,
        name: str,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: int = 1,
        padding: Any = "same",
        output_padding: int = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int = 1,
        padding_mode: str = "zeros",
    ) -> None:
        super().__init__(name)
        if output_padding != 0 or padding_mode != "zeros":
            raise NotImplementedError(
                "ConvTranspose2dModule: output_padding other than 0 and padding_mode other than 'zeros' are not built"
            )
        rows, columns = _kernel(kernel_size)
        bound = (out_channels // groups * rows * columns) ** -0.5
        self.weights = Parameter(torch.empty(in_channels, out_channels // groups, rows, columns).uniform_(-bound, bound))
        self.has_bias = bias
        if bias:
            self.bias = Parameter(torch.empty(out_channels).uniform_(-bound, bound))
        self.options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

    def forward(self, activations: Tensor) -> Tensor:
        return Conv2dTranspose(
            f"{self.name}.conv2d_transpose", activations, self.weights, self.bias if self.has_bias else None, **self.options
        )


class _Pool(PyBudaModule):
    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name)
        self.options = options


class MaxPool1dModule(_Pool):
    def __init__(
        self,
        name: str,
        kernel_size: Any,
        stride: int = 1,
        padding: Any = 0,
        dilation: int = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> None:
        super().__init__(
            name,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            ceil_mode=ceil_mode,
            return_indices=return_indices,
        )

    def forward(self, activations: Tensor) -> Tensor:
        return MaxPool1d(f"{self.name}.max_pool1d", activations, **self.options)


class MaxPool2dModule(_Pool):
    def __init__(
        self,
        name: str,
        kernel_size: Any,
        stride: int = 1,
        padding: Any = "same",
        dilation: int = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> None:
        super().__init__(
            name,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            ceil_mode=ceil_mode,
            return_indices=return_indices,
        )

    def forward(self, activations: Tensor) -> Tensor:
        return MaxPool2d(f"{self.name}.max_pool2d", activations, **self.options)


class AvgPool2dModule(_Pool):
    def __init__(
        self,
        name: str,
        kernel_size: Any,
        stride: int = 1,
        padding: Any = "same",
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> None:
        super().__init__(
            name,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            divisor_override=divisor_override,
        )

    def forward(self, activations: Tensor) -> Tensor:
        return AvgPool2d(f"{self.name}.avg_pool2d", activations, **self.options)


class SparseMatmulModule(PyBudaModule):
    def __init__(self, name: str, sparseA: Any) -> None:
        super().__init__(name)
        self.add_constant("sparse", sparseA.value() if isinstance(sparseA, Tensor) else sparseA)

    def forward(self, denseB: Tensor) -> Tensor:
        return SparseMatmul(f"{self.name}.sparse_matmul", self.get_constant("sparse"), denseB)


__all__ = [
    "AvgPool2dModule",
    "Batchnorm",
    "Conv2dModule",
    "ConvTranspose2dModule",
    "Layernorm",
    "Linear",
    "LogSoftmax",
    "MaxPool1dModule",
    "MaxPool2dModule",
    "Softmax",
    "SparseMatmulModule",
]
