"""How far a result is from what it should be: Pearson's correlation, and units in the last place.

The two figures TT-NN's tests judge by. Both look at values that are not finite first: a NaN must meet a NaN and an infinity its equal, and
only the rest is measured.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tessera.runtime.tensor import Tensor

__all__ = ["comp_pcc", "comp_ulp", "pearson", "ulp"]


def as_torch(values: Any) -> torch.Tensor:
    """Values of a TT-NN tensor, a torch tensor or anything torch can read, as a torch tensor that has gradients no longer."""
    if isinstance(values, Tensor):
        from ttnn.operations.conversion import to_torch

        return as_torch(to_torch(values))
    return values.detach() if isinstance(values, torch.Tensor) else torch.as_tensor(values)


def finite_part(golden: torch.Tensor, calculated: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """Both sides where both are finite, and whether they agree wherever either is not."""
    odd = ~(torch.isfinite(golden) & torch.isfinite(calculated))
    agree = (torch.isnan(golden) & torch.isnan(calculated)) | (golden == calculated)
    return golden[~odd], calculated[~odd], bool(agree[odd].all())


def pearson(golden: Any, calculated: Any, rtol: float = 1e-5, atol: float = 1e-4) -> float:
    """Pearson's correlation of two tensors of one shape. Where it is not defined, since a side is constant or empty: 1.0 if they are close, else 0.0."""
    first, second = (as_torch(values).to(torch.float64) for values in (golden, calculated))
    if first.shape != second.shape:
        raise RuntimeError(f"tensors of shapes {list(first.shape)} and {list(second.shape)} cannot be correlated: the shapes must be equal")
    first, second, agree = finite_part(first.flatten(), second.flatten())
    if not agree:
        return 0.0
    if first.numel() == 0 or torch.equal(first, second):
        return 1.0
    apart = first - first.mean(), second - second.mean()
    scale = float(apart[0].norm() * apart[1].norm())
    if scale == 0.0 or not math.isfinite(scale):
        return 1.0 if torch.allclose(first, second, rtol, atol) else 0.0
    return max(-1.0, min(1.0, float(apart[0] @ apart[1]) / scale))


def comp_pcc(golden: Any, calculated: Any, pcc: float = 0.99, rtol: float = 1e-5, atol: float = 1e-4) -> tuple[bool, float]:
    """Whether the correlation reaches `pcc`, and what it is."""
    found = pearson(golden, calculated, rtol, atol)
    return found >= pcc, found


def ulp(x: Any) -> Any:
    """The distance from each value to the next larger magnitude of its dtype; downwards from the largest, NaN where there is none."""
    if isinstance(x, Tensor):
        from ttnn.operations.conversion import from_torch

        return from_torch(ulp(as_torch(x)), dtype=x.spec.dtype, layout=x.spec.layout, device=x.buffer.device)
    size = as_torch(x).abs()
    above = torch.nextafter(size, torch.full_like(size, math.inf))
    below = torch.nextafter(size, torch.zeros_like(size))
    return torch.where(torch.isinf(above), size - below, above - size)


def comp_ulp(golden: Any, calculated: Any, ulp_threshold: float, allow_nonfinite: bool = False) -> tuple[bool, str]:
    """Whether every value is within `ulp_threshold` units in the last place of `golden`, and a sentence with the largest distance."""
    want, got = as_torch(golden), as_torch(calculated)
    if want.shape != got.shape:
        return False, f"golden has shape {list(want.shape)} and calculated {list(got.shape)}: the shapes must be equal"
    if not allow_nonfinite and not bool(torch.isfinite(want).all() and torch.isfinite(got).all()):
        return False, "values that are not finite were found; allow_nonfinite=True compares them"
    want, got, agree = finite_part(want.flatten(), got.flatten().to(want.dtype))
    if not agree:
        return False, "a value that is not finite has no equal on the other side"
    if want.numel() == 0:
        return True, "Max ULP Delta: 0.0"
    apart = (want.double() - got.double()).abs() / ulp(want).double()
    worst = int(apart.argmax())
    largest = float(apart[worst])
    return (
        largest <= ulp_threshold,
        f"Max ULP Delta: {largest} at {worst} of the finite values: {float(want[worst])} against {float(got[worst])}",
    )
