"""Block floats: sixteen numbers, one exponent, and how a float32 becomes a few bits of magnitude beside it.

The arithmetic is on the bits of float32, in torch, and is the definition that the native kernels must match bit for bit
(they do it once more, faster). A code is sign then magnitude, the leading one stored; its value is
magnitude * 2^(exponent - 127 - (bits - 1)).

Two roundings are known. "host": what TT-NN's library does when it packs: the mantissa is shifted under the shared exponent,
what falls off is lost, then round to nearest even. "device": what the packer of the chip does, as seen in typecasts on
a simulated chip: round to nearest, ties away from zero; a format of fewer than seven magnitude bits is cut off from a
seven-bit one, whose elements have already been rounded once to seven bits under their own exponents.

Subnormal numbers become zero, in both directions: a number that would decode to a subnormal is zero for every reader of the
chip, and counting it as one would make packing change a tensor twice. Infinities and NaN survive as far as their
first bits do. The five-bit family ("a") clamps the shared exponent to 1..31 around a bias of 15: larger numbers saturate,
blocks that hold nothing of the range are zero.
"""

from __future__ import annotations

from typing import Literal

import torch

from tessera.formats.dtype import BLOCK, Format

__all__ = ["MAGNITUDE_BITS_OF_PACKER", "Rounding", "decode", "encode", "pack_codes", "unpack_codes"]

Rounding = Literal["host", "device"]

MAGNITUDE_BITS_OF_PACKER = 7
FRACTION = 23
FIVE_BIT_REBIAS = 127 - 15


def _half_up(bits: torch.Tensor, drop: int) -> torch.Tensor:
    return ((bits + (1 << (drop - 1))) >> drop) << drop


def encode(groups: torch.Tensor, row: Format, rounding: Rounding = "host") -> tuple[torch.Tensor, torch.Tensor]:
    """float32 of shape (..., 16) to (stored exponents of shape (...), codes of shape (..., 16)), both int32."""
    if groups.shape[-1] != BLOCK or groups.dtype != torch.float32:
        raise RuntimeError(f"encode: groups must be float32 with a last dimension of {BLOCK}, got {groups.dtype} {list(groups.shape)}")
    bits = groups.contiguous().view(torch.int32)
    keep = row.mantissa
    magnitude = bits & 0x7FFFFFFF
    if rounding == "device" and keep < MAGNITUDE_BITS_OF_PACKER:
        rounded = _half_up(magnitude, FRACTION + 1 - MAGNITUDE_BITS_OF_PACKER)
        magnitude = torch.where(magnitude < 0x7F800000, rounded, magnitude)
    exponent = magnitude >> FRACTION
    shared = exponent.amax(-1, keepdim=True)
    mantissa = torch.where(exponent == 0, 0, (magnitude & 0x7FFFFF) | 0x800000)
    if row.exponent == 5:
        clamped = shared.clamp(FIVE_BIT_REBIAS + 1, FIVE_BIT_REBIAS + 31)
        mantissa = torch.where(shared < clamped, 0, torch.where(exponent > clamped, 0xFFFFFF, mantissa))
        shared = torch.where(shared < clamped, FIVE_BIT_REBIAS, clamped)
    shifted = mantissa >> (shared - exponent).clamp(0, 31)
    drop = FRACTION + 1 - keep
    limit = (1 << keep) - 1
    if rounding == "host":
        code = ((shifted + ((1 << (drop - 1)) - 1) + ((shifted >> drop) & 1)) >> drop).clamp_max(limit)
    else:
        wide = FRACTION + 1 - MAGNITUDE_BITS_OF_PACKER
        code = ((shifted + (1 << (wide - 1))) >> wide).clamp_max((1 << MAGNITUDE_BITS_OF_PACKER) - 1) >> (MAGNITUDE_BITS_OF_PACKER - keep)
    code = torch.where((bits < 0) & (code != 0), code | (1 << keep), code)
    stored = shared - FIVE_BIT_REBIAS if row.exponent == 5 else shared
    return stored.squeeze(-1), code


def decode(exponents: torch.Tensor, codes: torch.Tensor, row: Format) -> torch.Tensor:
    """The inverse, of shape (..., 16) and in the dtype of the format's values."""
    keep = row.mantissa
    shared = exponents.to(torch.int32).unsqueeze(-1)
    if row.exponent == 5:
        shared = shared + FIVE_BIT_REBIAS
    codes = codes.to(torch.int32)
    normal = (codes & ((1 << keep) - 1)).float().view(torch.int32)
    exponent = (normal >> FRACTION) + shared - 127 - (keep - 1)
    magnitude = (normal & 0x7FFFFF) | (exponent << FRACTION)
    magnitude = torch.where((normal == 0) | (exponent <= 0), 0, magnitude)
    bits = magnitude | ((codes >> keep) << 31)
    if row.values == torch.bfloat16:  # the upper half is exact, and keeps the bits of a NaN
        return (bits >> 16).to(torch.int16).view(torch.bfloat16)
    return bits.view(torch.float32)


def pack_codes(codes: torch.Tensor, row: Format) -> torch.Tensor:
    """Codes to bytes along the last dimension, the first code in the lowest bits."""
    each = 8 // row.bits
    if each == 1:
        return codes.to(torch.uint8)
    lanes: torch.Tensor = codes.unflatten(-1, (-1, each))
    shifts = torch.arange(0, 8, row.bits, dtype=torch.int32, device=codes.device)
    return (lanes << shifts).sum(-1).to(torch.uint8)


def unpack_codes(packed: torch.Tensor, row: Format) -> torch.Tensor:
    """The inverse of `pack_codes`: int32 codes."""
    each = 8 // row.bits
    if each == 1:
        return packed.to(torch.int32)
    shifts = torch.arange(0, 8, row.bits, dtype=torch.int32, device=packed.device)
    return ((packed.to(torch.int32).unsqueeze(-1) >> shifts) & ((1 << row.bits) - 1)).flatten(-2)
