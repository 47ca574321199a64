"""Resizing of images and volumes."""

from __future__ import annotations

from pybuda.op.common import make
from pybuda.tensor import Tensor


def Resize2d(
    name: str,
    operandA: Tensor,
    sizes: list[int],
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    extrapolation_value: int = 0,
    channel_last: bool = False,
) -> Tensor:
    if len(sizes) != 2:
        raise ValueError(f"Resize2d: sizes={sizes} must be [height, width]")
    return make("resize2d", name, operandA, sizes=list(sizes), method=method, align_corners=align_corners, channel_last=channel_last)


def Resize3d(
    name: str,
    operandA: Tensor,
    sizes: list[int],
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    extrapolation_value: int = 0,
    channel_last: bool = False,
) -> Tensor:
    if len(sizes) != 3:
        raise ValueError(f"Resize3d: sizes={sizes} must be [depth, height, width]")
    return make("resize3d", name, operandA, sizes=list(sizes), method=method, align_corners=align_corners, channel_last=channel_last)
