"""Fourier transforms along the last dimension, as real and imaginary parts, and integral images."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import experimental as engine
from tessera.formats.dtype import DataType
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require, require_device

Parts = tuple[Tensor, Tensor]
PRECISIONS = ("precise", "fast")
FLOATS = (DataType.FLOAT32, DataType.BFLOAT16)


def _transform(what: str, real: Tensor, imag: Any, precision: str, *, inverse: bool = False, length: int | None = None) -> Parts:
    if isinstance(imag, str):
        imag, precision = None, imag
    require_device(what, real, imag)
    require(precision in PRECISIONS, f"{what}: precision={precision!r} must be one of {', '.join(PRECISIONS)}")
    for part in (real, imag):
        require(part is None or part.spec.dtype in FLOATS, f"{what}: inputs must be FLOAT32 or BFLOAT16, got {name_of(real.spec.dtype)}")
    require(len(real.spec.dims) > 0, f"{what}: the input must have a dimension to transform")
    require(imag is None or imag.spec.dims == real.spec.dims, f"{what}: real and imaginary parts must have the same shape")
    shape = real.spec.dims if length is None else (*real.spec.dims[:-1], length)
    out = like(real, shape=shape)
    inputs = [real] if imag is None else [real, imag]
    attributes = {"inverse": inverse, "length": length}
    first, second = launch("FftDeviceOperation", engine.fourier, inputs, [out, out], attributes=attributes, key=precision)
    return first, second


def _golden(real: torch.Tensor, imag: Any = None, *_: Any, **__: Any) -> Any:
    return engine.fourier(real, imag if isinstance(imag, torch.Tensor) else None)


def _golden_inverse(real: torch.Tensor, imag: torch.Tensor, *_: Any, **__: Any) -> Any:
    return engine.fourier(real, imag, inverse=True)


@operation("ttnn.experimental.fft", golden=_golden)
def fft(input_real: Tensor, input_imag: Tensor | str | None = None, precision: str = "precise") -> Parts:
    """The discrete Fourier transform along the last dimension."""
    return _transform("fft", input_real, input_imag, precision)


@operation("ttnn.experimental.ifft", golden=_golden_inverse)
def ifft(spectrum_real: Tensor, spectrum_imag: Tensor, precision: str = "precise") -> Parts:
    """Its inverse, divided by the length."""
    return _transform("ifft", spectrum_real, spectrum_imag, precision, inverse=True)


@operation("ttnn.experimental.bluestein_fft", golden=_golden)
def bluestein_fft(
    input_real: Tensor, *rest: Any, input_imag: Tensor | None = None, N: int | None = None, precision: str = "precise"
) -> Parts:
    """The transform of any length N, whatever its factors."""
    values = list(rest)
    imag = values.pop(0) if values and isinstance(values[0], Tensor) else input_imag
    length = int(values.pop(0)) if values else int(N or 0)
    precision = values.pop(0) if values else precision
    require(
        length == input_real.spec.dims[-1],
        f"bluestein_fft: N={length} must be the length of the last dimension, {input_real.spec.dims[-1]}",
    )
    return _transform("bluestein_fft", input_real, imag, precision, length=length)


@operation("ttnn.experimental.fft_three_pass", golden=_golden)
def fft_three_pass(
    input_real: Tensor,
    *rest: Any,
    input_imag: Tensor | None = None,
    full_N: int | None = None,
    precision: str = "precise",
    inverse: bool = False,
) -> Parts:
    """The transform of long rows, which the chip takes in three passes."""
    values = list(rest)
    imag = values.pop(0) if values and isinstance(values[0], Tensor) else input_imag
    length = int(values.pop(0)) if values else int(full_N or 0)
    precision = values.pop(0) if values else precision
    inverse = values.pop(0) if values else inverse
    require(
        length == input_real.spec.dims[-1],
        f"fft_three_pass: full_N={length} must be the length of the last dimension, {input_real.spec.dims[-1]}",
    )
    return _transform("fft_three_pass", input_real, imag, precision, inverse=inverse)


@operation("ttnn.experimental.intimg", golden=lambda input_tensor: input_tensor.cumsum(-3).cumsum(-2))
def intimg(input_tensor: Tensor) -> Tensor:
    """The integral image of [batch, height, width, channels]: every pixel the sum of those above and left of it."""
    what, spec = "intimg", input_tensor.spec
    require_device(what, input_tensor)
    require(len(spec.dims) == 4, f"{what}: the input must be [batch, height, width, channels], got {spec.shape}")
    require(spec.dtype in FLOATS, f"{what}: the input must be FLOAT32 or BFLOAT16, got {name_of(spec.dtype)}")
    return launch("IntImgDeviceOperation", engine.integral_image, [input_tensor], spec)  # type: ignore[no-any-return]
