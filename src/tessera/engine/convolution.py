"""Convolutions over NHWC images, which the chip holds as rows of channels: fp32 accumulation, one rounding by the caller."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from tessera.engine.choice import engine_function
from tessera.engine.unary import Program, elementwise_unary


def images_of(rows: torch.Tensor, batch: int, height: int, width: int, channels: int) -> torch.Tensor:
    """[N, C, H, W] in fp32, channels last in memory. Rows beyond the images, and channels beyond theirs, are padding."""
    flat = rows.reshape(-1, rows.shape[-1])[: batch * height * width, :channels]
    return flat.to(torch.float32).reshape(batch, height, width, channels).permute(0, 3, 1, 2)


@engine_function
def conv2d(
    rows: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    images: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    activation: Program = (),
) -> torch.Tensor:
    """Cross-correlation of `images` = (batch, height, width, channels) with [out, in/groups, kh, kw]; `padding` is (top, bottom, left, right)."""
    x = images_of(rows, *images)
    top, bottom, left, right = padding
    if top == bottom and left == right:
        around: tuple[int, int] | int = (top, left)
    else:
        x, around = F.pad(x, (left, right, top, bottom)), 0
    flat = None if bias is None else bias.to(torch.float32).reshape(-1)[: weight.shape[0]]
    found = F.conv2d(x, weight.to(torch.float32), flat, tuple(stride), around, tuple(dilation), groups)
    result = found.permute(0, 2, 3, 1).reshape(1, 1, -1, weight.shape[0])
    return elementwise_unary(result, program=activation) if activation else result


@engine_function
def conv_transpose2d(
    rows: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    images: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    mirror: bool = True,
    activation: Program = (),
) -> torch.Tensor:
    """The transposed convolution with [in, out/groups, kh, kw]. A kernel that was mirrored by the caller is mirrored back."""
    x = images_of(rows, *images)
    kernel = weight.to(torch.float32)
    if not mirror:
        kernel = kernel.flip(-1, -2)
    outs = kernel.shape[1] * groups
    flat = None if bias is None else bias.to(torch.float32).reshape(-1)[:outs]
    top, bottom, left, right = padding
    found = F.conv_transpose2d(x, kernel, flat, tuple(stride), 0, tuple(output_padding), groups, tuple(dilation))
    height, width = found.shape[2:]
    found = found[:, :, top : height - bottom, left : width - right]
    result = found.permute(0, 2, 3, 1).reshape(1, 1, -1, outs)
    return elementwise_unary(result, program=activation) if activation else result


@engine_function
def conv3d(
    volumes: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    padding_mode: str = "zeros",
) -> torch.Tensor:
    """[N, D, H, W, C] with [out, in/groups, kd, kh, kw]."""
    x = volumes.to(torch.float32).permute(0, 4, 1, 2, 3)
    if padding_mode == "replicate":
        d, h, w = padding
        x, padding = F.pad(x, (w, w, h, h, d, d), mode="replicate"), (0, 0, 0)
    flat = None if bias is None else bias.to(torch.float32).reshape(-1)[: weight.shape[0]]
    found = F.conv3d(x, weight.to(torch.float32), flat, tuple(stride), tuple(padding), tuple(dilation), groups)
    return found.permute(0, 2, 3, 4, 1)


def spread(weight: torch.Tensor, *, ins: int, groups: int) -> torch.Tensor:
    """One group of all channels in place of several: zeros where a filter does not look. Filters beyond the last whole group look at what is left."""
    outs, each, height, width = weight.shape
    whole = torch.zeros(outs, ins, height, width, dtype=weight.dtype, device=weight.device)
    share = outs // groups
    for start in range(0, outs, share):
        first = start // share * each
        seen = max(0, min(each, ins - first))
        whole[start : start + share, first : first + seen] = weight[start : start + share, :seen]
    return whole


def turned(weight: torch.Tensor, *, groups: int, mirror: bool) -> torch.Tensor:
    """The kernel [in, out/groups, kh, kw] of a transposed convolution as that of a convolution, [out, in/groups, kh, kw]."""
    if mirror:
        weight = weight.flip(-1, -2)
    return torch.cat([part.transpose(0, 1) for part in weight.chunk(groups)])


def turned_back(weight: torch.Tensor, *, groups: int, mirror: bool) -> torch.Tensor:
    """The other way: `turned` is its own inverse."""
    return turned(weight, groups=groups, mirror=mirror)


def prepared(weight: torch.Tensor, *, groups: int) -> torch.Tensor:
    """The weights as the chip's kernel reads them: [1, 1, kh * kw * in, out], groups spread out with zeros between."""
    if groups > 1:
        weight = spread(weight, ins=weight.shape[1] * groups, groups=groups)
    return weight.permute(2, 3, 1, 0).reshape(1, 1, -1, weight.shape[0])


def unprepared(rows: torch.Tensor, *, kernel: Sequence[int], ins: int, outs: int, groups: int) -> torch.Tensor:
    """[out, in/groups, kh, kw] of prepared weights."""
    height, width = kernel
    whole = rows.reshape(height, width, ins, -1)[..., :outs].permute(3, 2, 0, 1)
    if groups == 1:
        return whole
    size, share = ins // groups, outs // groups
    return torch.cat([whole[g * share : (g + 1) * share, g * size : (g + 1) * size] for g in range(groups)])
