"""One tensor against its reference."""

from __future__ import annotations

from typing import Any

import torch
from loguru import logger

from pybuda.verify.config import VerifyConfig


def calculate_pcc(a: Any, b: Any) -> float:
    """Pearson's correlation of two tensors as flat vectors; 1.0 for equal ones, constants included."""
    x, y = a.detach().flatten().double(), b.detach().flatten().double()
    if torch.equal(x, y) or (x.isnan().all() and y.isnan().all()):
        return 1.0
    if x.isnan().any() != y.isnan().any() or x.numel() != y.numel():
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    scale = x.norm() * y.norm()
    if scale == 0:
        return 1.0 if torch.allclose(a.float(), b.float(), rtol=1e-2, atol=1e-2) else 0.0
    return float((x @ y) / scale)


def compare_tensor_to_golden(
    name: str, golden: torch.Tensor, calculated: torch.Tensor, verify_cfg: VerifyConfig | None = None, pcc: float | None = None
) -> bool:
    """True if the correlation reaches `pcc` and, element by element, the tolerances hold or the correlation alone is asked for."""
    config = verify_cfg or VerifyConfig()
    if tuple(golden.shape) != tuple(calculated.shape):
        logger.error(f"{name}: shape {list(calculated.shape)}, expected {list(golden.shape)}")
        return False
    wanted = pcc if pcc is not None else config.pcc
    got = calculate_pcc(golden.float(), calculated.float())
    if wanted is not None and golden.numel() > 1 and got < wanted:
        logger.error(f"{name}: PCC {got:.6f} is below {wanted}")
        return False
    if golden.numel() == 1:
        rtol, atol = config.tolerance("rtol", calculated.dtype), config.tolerance("atol", calculated.dtype)
        return bool(torch.allclose(golden.float(), calculated.float(), rtol=rtol, atol=atol, equal_nan=True))
    return True
