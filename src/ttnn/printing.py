"""How a tensor prints.

Nested brackets with aligned numbers; a long dimension shows its first and last two entries. Numbers are in scientific
notation when their magnitudes are far apart, very large or very small, unless the options say otherwise. The options
belong to the process, as in official TT-NN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tessera.formats.dtype import FORMATS
from tessera.memory.spec import TensorSpec

INDENT = len("ttnn.Tensor(")
PROFILES = ("empty", "short", "full")
LONG, EDGE = 4, 2
"""A dimension with more than LONG entries shows EDGE of them at either end."""
PRECISION = 4
SPREAD, LARGE, SMALL = 1000.0, 1e8, 1e-4
"""Scientific where max/min exceeds SPREAD, max exceeds LARGE or min is below SMALL."""


@dataclass(slots=True)
class Options:
    profile: str = "short"
    sci_mode: bool | None = None
    precision: int = PRECISION


OPTIONS = Options()
_SCI_MODES: dict[str, bool | None] = {"default": None, "true": True, "false": False}


def set_printoptions(*, profile: str, sci_mode: bool | str | None = None, precision: int | None = None) -> None:
    """How tensors print from now on.

    `profile` is "empty", "short" or "full"; `sci_mode` is a bool, "true", "false" or "default" (as the numbers call for);
    `precision` counts decimals, 4 unless given.
    """
    if not isinstance(profile, str):
        raise TypeError(f"set_printoptions(): incompatible function arguments. profile={profile!r} must be a string")
    if profile.lower() not in PROFILES:
        raise RuntimeError(f"bad optional access: set_printoptions knows no profile={profile!r}, the profiles are {', '.join(PROFILES)}")
    mode = _SCI_MODES.get(sci_mode.lower(), sci_mode) if isinstance(sci_mode, str) else sci_mode
    if mode is not None and not isinstance(mode, bool):
        raise ValueError(f"sci_mode must be None, bool, or str (true, false, default), got sci_mode={sci_mode!r}")
    if precision is not None and not isinstance(precision, int):
        raise ValueError(f"precision must be None or int, got precision={precision!r}")
    OPTIONS.profile, OPTIONS.sci_mode, OPTIONS.precision = profile.lower(), mode, PRECISION if precision is None else int(precision)


def is_scientific(values: torch.Tensor) -> bool:
    """Whether the magnitudes call for scientific notation."""
    sizes = values.to(torch.float64).abs()
    sizes = sizes[torch.isfinite(sizes) & (sizes > 0)]
    if not sizes.numel():
        return False
    low, high = float(sizes.min()), float(sizes.max())
    return high / low > SPREAD or high > LARGE or low < SMALL


def number_format(values: torch.Tensor, options: Options) -> Callable[[Any], str]:
    """How one entry of `values` is written."""
    if not values.dtype.is_floating_point:
        return lambda v: f"{v:5d}"
    scientific = is_scientific(values) if options.sci_mode is None else options.sci_mode
    kind, width = ("e", options.precision + 7) if scientific else ("f", options.precision + 3)
    digits = options.precision if options.precision >= 0 else 6  # what C++ streams make of a negative precision
    return lambda v: f"{v:{max(width, 0)}.{digits}{kind}}"


def brackets(values: Any, dims: Sequence[int], write: Callable[[Any], str], full: bool, depth: int = 1) -> str:
    """Nested lists of numbers as text; `depth` counts the brackets that are open."""
    if not dims:
        return write(values)
    if not dims[0]:
        return "[]"
    innermost = len(dims) == 1
    chosen: list[Any] = list(range(dims[0]))
    if not full and dims[0] > LONG:
        chosen = [*chosen[:EDGE], None, *chosen[-EDGE:]]
    gap = " ..." if innermost else "..."
    shown = [gap if i is None else brackets(values[i], dims[1:], write, full, depth + 1) for i in chosen]
    join = ", " if innermost else "," + "\n" * min(len(dims) - 1, 2) + " " * (INDENT + depth)
    return "[" + join.join(shown) + "]"


def format_values(values: torch.Tensor, options: Options | None = None) -> str:
    """The numbers of a tensor, as the profile shows them."""
    options = options or OPTIONS
    if options.profile == "empty":
        return "..."
    write = number_format(values, options)
    full = options.profile == "full"
    dims = tuple(values.shape)
    if not full and values.numel() > 4096:
        # Only what is shown is turned into Python numbers.
        for axis, extent in enumerate(dims):
            if extent > LONG:
                ends = torch.cat([values.narrow(axis, 0, EDGE), values.narrow(axis, 0, 1), values.narrow(axis, extent - EDGE, EDGE)], axis)
                values = ends
        dims = tuple(values.shape)
    return brackets(values.tolist(), dims, write, full)


def format_tensor(values: torch.Tensor, spec: TensorSpec) -> str:
    """A tensor with these values (row-major, of the logical shape) and this spec."""
    if FORMATS[spec.dtype].is_float and not values.dtype.is_floating_point:
        values = values.float()
    body = format_values(values.reshape(spec.dims))
    return f"ttnn.Tensor({body}, {describe(spec)})"


def format_parts(parts: Sequence[tuple[int, Sequence[int], torch.Tensor]], spec: TensorSpec) -> str:
    """A tensor that lives on several chips: (chip id, its place in the mesh, values) for each."""
    blocks = []
    for chip, place, values in parts:
        blocks.append(f"device_id: {chip}, MeshCoordinate({list(place)})\n{format_tensor(values, spec)}")
    return "\n".join(blocks)


def format_unallocated(spec: TensorSpec) -> str:
    """A tensor whose buffer is gone."""
    return f"ttnn.Tensor(<buffer is not allocated>, {describe(spec)})"


def describe(spec: TensorSpec) -> str:
    return f"shape={spec.shape!r}, dtype={spec.dtype.cpp}, layout={spec.layout.cpp}"


__all__ = ["set_printoptions"]
