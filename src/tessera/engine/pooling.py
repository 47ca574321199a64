"""Pooling, resampling and folding of NHWC images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from tessera.engine.choice import engine_function
from tessera.engine.convolution import images_of


def _rows(images: torch.Tensor) -> torch.Tensor:
    batch, channels, height, width = images.shape
    return images.permute(0, 2, 3, 1).reshape(1, 1, batch * height * width, channels)


def _around(
    x: torch.Tensor,
    padding: Sequence[int],
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    value: float,
) -> torch.Tensor:
    """The images with their padding, and with what the last window hangs over the edge."""
    top, bottom, left, right = padding
    height, width = x.shape[2:]
    more_h = max(0, (size[0] - 1) * stride[0] + dilation[0] * (kernel[0] - 1) + 1 - (height + top + bottom))
    more_w = max(0, (size[1] - 1) * stride[1] + dilation[1] * (kernel[1] - 1) + 1 - (width + left + right))
    return F.pad(x, (left, right + more_w, top, bottom + more_h), value=value)


@engine_function
def max_pool2d(
    rows: torch.Tensor,
    *,
    images: Sequence[int],
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    indices: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The largest of each window; with `indices`, also where in its image it lies (the first, counted over height and width)."""
    x = images_of(rows, *images)
    top, _, left, _ = padding
    wide = _around(x, padding, size, kernel, stride, dilation, float("-inf"))
    if not indices:
        return _rows(F.max_pool2d(wide, tuple(kernel), tuple(stride), 0, tuple(dilation)))
    found, where = F.max_pool2d(wide, tuple(kernel), tuple(stride), 0, tuple(dilation), return_indices=True)
    across = wide.shape[3]
    return _rows(found), _rows((where // across - top) * images[2] + (where % across - left))


@engine_function
def avg_pool2d(
    rows: torch.Tensor,
    *,
    images: Sequence[int],
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    count_padding: bool,
    divisor: int | None,
) -> torch.Tensor:
    """The mean of each window; what hangs over the padded edge never counts, padding counts when asked."""
    x = images_of(rows, *images)
    one = (1, 1)
    total = F.avg_pool2d(_around(x, padding, size, kernel, stride, one, 0.0), tuple(kernel), tuple(stride), divisor_override=1)
    if divisor is not None:
        return _rows(total / divisor)
    top, bottom, left, right = padding
    ones = torch.ones(1, 1, *x.shape[2:])
    if count_padding:
        ones = F.pad(ones, (left, right, top, bottom), value=1.0)
        counted = _around(ones, (0, 0, 0, 0), size, kernel, stride, one, 0.0)
    else:
        counted = _around(ones, padding, size, kernel, stride, one, 0.0)
    count = F.avg_pool2d(counted, tuple(kernel), tuple(stride), divisor_override=1)
    return _rows(total / count)


@engine_function
def adaptive_pool2d(rows: torch.Tensor, *, images: Sequence[int], size: Sequence[int], largest: bool) -> torch.Tensor:
    x = images_of(rows, *images)
    height, width = size
    return _rows((F.adaptive_max_pool2d if largest else F.adaptive_avg_pool2d)(x, (height, width)))


@engine_function
def upsample(images: torch.Tensor, *, scale: Sequence[float], bilinear: bool) -> torch.Tensor:
    """[N, H, W, C] larger by a factor down and across."""
    x = images.permute(0, 3, 1, 2).to(torch.float32)
    if bilinear:
        found = F.interpolate(x, scale_factor=tuple(map(float, scale)), mode="bilinear", align_corners=False)
    elif all(float(s).is_integer() for s in scale):
        found = x.repeat_interleave(int(scale[0]), 2).repeat_interleave(int(scale[1]), 3)
    else:
        found = F.interpolate(x, scale_factor=tuple(map(float, scale)), mode="nearest")
    return found.permute(0, 2, 3, 1)


@engine_function
def grid_sample(images: torch.Tensor, grid: torch.Tensor, *, bilinear: bool, align_corners: bool) -> torch.Tensor:
    """[N, H, W, C] sampled at places in [-1, 1]; several places may share a grid row and then share an output row."""
    batch, rows, columns, width = grid.shape
    places = grid.to(torch.float32).reshape(batch, rows, columns * (width // 2), 2)
    x = images.permute(0, 3, 1, 2).to(torch.float32)
    found = F.grid_sample(x, places, mode="bilinear" if bilinear else "nearest", padding_mode="zeros", align_corners=align_corners)
    return found.permute(0, 2, 3, 1)


@engine_function
def fold(images: torch.Tensor, *, stride: Sequence[int], padding: Sequence[int]) -> torch.Tensor:
    """Each stride x stride patch of pixels becomes one pixel of that many more channels."""
    top, bottom, left, right = padding
    x = F.pad(images, (0, 0, left, right, top, bottom))
    batch, height, width, channels = x.shape
    h, w = stride
    return (
        x.reshape(batch, height // h, h, width // w, w, channels)
        .permute(0, 1, 3, 2, 4, 5)
        .reshape(batch, height // h, width // w, h * w * channels)
    )


def fold_turned(images: torch.Tensor, *, stride: Sequence[int], tile: int = 32) -> torch.Tensor:
    """`fold` of [N, C, H, W], as transposes of tiles do it: heights and widths are whole tiles, filled with zeros."""
    height, width = images.shape[2:]
    x = F.pad(images, (0, -width % tile, 0, -height % tile)).permute(0, 2, 3, 1)
    high, wide = (n // s * s for n, s in zip(x.shape[1:3], stride))
    found: torch.Tensor = fold(x[:, :high, :wide], stride=stride, padding=(0, 0, 0, 0))
    return found
