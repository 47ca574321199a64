"""Convolutions of bfloat16 by torch's own bfloat16 kernels, which accumulate in fp32 and round once: no widened copies of images and weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tessera.engine.native.norm import plain
from tessera.engine.unary import Program


def conv2d(
    rows: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    images: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    activation: Program = (),
) -> Any:
    batch, height, width, channels = images
    top, bottom, left, right = padding
    if activation or not plain(rows) or weight.dtype is not torch.bfloat16 or (bias is not None and bias.dtype is not torch.bfloat16):
        return NotImplemented
    if top != bottom or left != right or rows.shape[-1] != channels or rows.numel() != batch * height * width * channels:
        return NotImplemented
    outs = weight.shape[0]
    x = rows.reshape(batch, height, width, channels).permute(0, 3, 1, 2)
    flat = None if bias is None else bias.reshape(-1)[:outs]
    found = F.conv2d(x, weight, flat, tuple(stride), (top, left), tuple(dilation), groups)
    return found.permute(0, 2, 3, 1).reshape(1, 1, -1, outs)
