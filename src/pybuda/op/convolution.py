"""Convolutions."""

from __future__ import annotations

from typing import Any

from pybuda.op.common import make
from pybuda.parameter import Parameter
from pybuda.tensor import Tensor

Operand = Tensor | Parameter


def _conv(op: str, name: str, activations: Tensor, weights: Operand, bias: Operand | None, **attrs: Any) -> Tensor:
    operands = [activations, weights] + ([bias] if bias is not None else [])
    plain = {"stride": 1, "dilation": 1, "groups": 1, "channel_last": False}
    padding = attrs.pop("padding")
    kept = {k: v for k, v in attrs.items() if v != plain.get(k)}
    return make(op, name, *operands, padding=list(padding) if isinstance(padding, tuple) else padding, **kept)


def Conv2d(
    name: str,
    activations: Tensor,
    weights: Operand,
    bias: Operand | None = None,
    stride: int = 1,
    padding: int | str | list[int] = "same",
    dilation: int = 1,
    groups: int = 1,
    channel_last: bool = False,
) -> Tensor:
    """A list of four paddings is [left, right, top, bottom]."""
    return _conv(
        "conv2d",
        name,
        activations,
        weights,
        bias,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        channel_last=channel_last,
    )


def Conv2dTranspose(
    name: str,
    activations: Tensor,
    weights: Operand,
    bias: Operand | None = None,
    stride: int = 1,
    padding: int | str = "same",
    dilation: int = 1,
    groups: int = 1,
    channel_last: bool = False,
) -> Tensor:
    return _conv(
        "conv2d_transpose",
        name,
        activations,
        weights,
        bias,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        channel_last=channel_last,
    )


def Conv3d(
    name: str,
    activations: Tensor,
    weights: Operand,
    bias: Operand | None = None,
    stride: int = 1,
    padding: int | str | list[int] = "same",
    dilation: int = 1,
    groups: int = 1,
    channel_last: bool = False,
) -> Tensor:
    return _conv(
        "conv3d",
        name,
        activations,
        weights,
        bias,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        channel_last=channel_last,
    )
