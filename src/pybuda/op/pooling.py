"""Pooling."""

from __future__ import annotations

from typing import Any

from pybuda.op.common import make
from pybuda.tensor import Tensor


def _max_pool(
    rank: int,
    name: str,
    activations: Tensor,
    kernel_size: Any,
    stride: int,
    padding: Any,
    dilation: int,
    ceil_mode: bool,
    return_indices: bool,
    surround: bool,
    channel_last: bool,
) -> Tensor:
    if return_indices:
        raise NotImplementedError(f"MaxPool{rank}d: return_indices=True is not built; take the maximum only")
    if surround:
        raise NotImplementedError(
            f"MaxPool{rank}d: max_pool_add_sub_surround works around a limit of the chip's packer that the software device does not have; leave it False"
        )
    return make(
        f"max_pool{rank}d",
        name,
        activations,
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
        channel_last=channel_last or None,
    )


def MaxPool1d(
    name: str,
    activations: Tensor,
    kernel_size: int | tuple[int, int],
    stride: int = 1,
    padding: int | str = 0,
    dilation: int = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    return _max_pool(1, name, activations, kernel_size, stride, padding, dilation, ceil_mode, return_indices, False, False)


def MaxPool2d(
    name: str,
    activations: Tensor,
    kernel_size: int | tuple[int, int],
    stride: int = 1,
    padding: int | str = "same",
    dilation: int = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    max_pool_add_sub_surround: bool = False,
    max_pool_add_sub_surround_value: float = 1.0,
    channel_last: bool = False,
) -> Tensor:
    return _max_pool(
        2, name, activations, kernel_size, stride, padding, dilation, ceil_mode, return_indices, max_pool_add_sub_surround, channel_last
    )


def MaxPool3d(
    name: str,
    activations: Tensor,
    kernel_size: int | tuple[int, int, int],
    stride: int = 1,
    padding: int | str = "same",
    dilation: int = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    max_pool_add_sub_surround: bool = False,
    max_pool_add_sub_surround_value: float = 1.0,
    channel_last: bool = False,
) -> Tensor:
    return _max_pool(
        3, name, activations, kernel_size, stride, padding, dilation, ceil_mode, return_indices, max_pool_add_sub_surround, channel_last
    )


def AvgPool1d(
    name: str,
    activations: Tensor,
    kernel_size: int | tuple[int],
    stride: int = 1,
    padding: int | str = "same",
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    return make(
        "avg_pool1d",
        name,
        activations,
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


def AvgPool2d(
    name: str,
    activations: Tensor,
    kernel_size: int | tuple[int, int],
    stride: int = 1,
    padding: int | str = "same",
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
    channel_last: bool = False,
) -> Tensor:
    extra: dict[str, Any] = {"channel_last": True} if channel_last else {}
    if divisor_override is not None:
        extra["divisor_override"] = int(divisor_override)
    return make(
        "avg_pool2d",
        name,
        activations,
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        **extra,
    )
