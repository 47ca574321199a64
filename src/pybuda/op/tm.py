"""Tensor manipulations: values move, none changes."""

from __future__ import annotations

import torch

from pybuda.op.common import make
from pybuda.tensor import Tensor


def HSlice(name: str, operandA: Tensor, slices: int) -> Tensor:
    if operandA.shape[-1] % slices:
        raise ValueError(f"HSlice: slices={slices} must divide the {operandA.shape[-1]} columns of the operand")
    return make("hslice", name, operandA, slices=slices)


def HStack(name: str, operandA: Tensor, slices: int = -1) -> Tensor:
    return make("hstack", name, operandA, slices=slices)


def VSlice(name: str, operandA: Tensor, slices: int) -> Tensor:
    if operandA.shape[-2] % slices:
        raise ValueError(f"VSlice: slices={slices} must divide the {operandA.shape[-2]} rows of the operand")
    return make("vslice", name, operandA, slices=slices)


def VStack(name: str, operandA: Tensor, slices: int = -1) -> Tensor:
    return make("vstack", name, operandA, slices=slices)


def Transpose(name: str, operandA: Tensor, dim0: int, dim1: int, z_dim_slice: int = -1, out_dtype: torch.dtype = torch.float32) -> Tensor:
    return make("transpose", name, operandA, dim0=dim0, dim1=dim1)


def Reshape(name: str, operandA: Tensor, shape: tuple[int, ...]) -> Tensor:
    return make("reshape", name, operandA, shape=list(shape))


def Index(name: str, operandA: Tensor, dim: int, start: int, stop: int | None = None, stride: int = 1) -> Tensor:
    """Elements `start` to `stop` of a dimension; without `stop`, one element."""
    length = operandA.shape[dim]
    if stop is None:
        stop = start + 1
    begin, end = (start + length if start < 0 else start), (stop + length if stop < 0 else stop)
    if begin < 0 and stop == 0:  # Index(..., -1): the last element
        end = length
    if start == -1 and stop == 0:
        end = length
    return make("index", name, operandA, dim=dim, start=begin, stop=end, stride=stride)


def AdvIndex(name: str, operandA: Tensor, operandB: Tensor, dim: int = 0) -> Tensor:
    return make("adv_index", name, operandA, operandB, dim=dim)


def Select(name: str, operandA: Tensor, dim: int, index: int | tuple[int, int], stride: int = 0) -> Tensor:
    pair = (index, 1) if isinstance(index, int) else tuple(index)
    return make("select", name, operandA, dim=dim, index=pair, stride=stride)


def Pad(
    name: str, operandA: Tensor, pad: tuple[int, int, int, int] | tuple[int, int], mode: str = "constant", channel_last: bool = False
) -> Tensor:
    if mode not in ("constant", "replicate", "reflect"):
        raise ValueError(f"Pad: mode={mode!r} must be 'constant', 'replicate' or 'reflect'")
    if len(pad) not in (2, 4):
        raise ValueError(f"Pad: pad={pad} must have two or four amounts")
    return make("pad", name, operandA, pad=list(pad), mode=mode, channel_last=channel_last or None)


def PadTile(name: str, operandA: Tensor, dim: int, original_length: int) -> Tensor:
    return make("pad_tile", name, operandA, dim=dim, original_length=original_length)


def Broadcast(name: str, operandA: Tensor, dim: int, shape: int) -> Tensor:
    return make("broadcast", name, operandA, dim=dim, shape=shape)


def Repeat(name: str, operandA: Tensor, factors: list[int]) -> Tensor:
    return make("repeat", name, operandA, repeats=list(factors))


def Unsqueeze(name: str, operandA: Tensor, dim: int) -> Tensor:
    return make("unsqueeze", name, operandA, dim=dim)


def Squeeze(name: str, operandA: Tensor, dim: int) -> Tensor:
    return make("squeeze", name, operandA, dim=dim)


def Narrow(name: str, operandA: Tensor, dim: int, start: int, length: int, original_length: int) -> Tensor:
    return make("narrow_to", name, operandA, label="narrow", dim=dim, start=start, length=length, original_length=original_length)


def PixelShuffle(name: str, operandA: Tensor, upscale_factor: int) -> Tensor:
    return make("pixel_shuffle", name, operandA, upscale_factor=upscale_factor)


def BudaPad(name: str, operandA: Tensor, paddings: tuple[int, int], value: float) -> Tensor:
    return make("buda_pad", name, operandA, paddings=tuple(paddings), value=value)


def BudaUnpad(name: str, operandA: Tensor, original_length: tuple[int, ...], paddings: tuple[int, int]) -> Tensor:
    return make("buda_unpad", name, operandA, original_length=tuple(original_length), paddings=tuple(paddings))
