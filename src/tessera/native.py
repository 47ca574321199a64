"""The one door to the C++ part, so that the rest of the house asks one question: is there a native kernel for this?

`MODULE` is the compiled module, or None where it was not built or `TESSERA_NATIVE=0` asks for torch alone (how the
fallbacks are tested). A wrong `TESSERA_NATIVE_ISA` is an ImportError that says so: a forced choice is never ignored.
"""

from __future__ import annotations

import os
from types import ModuleType

import torch

__all__ = ["MODULE", "name", "takes", "threads"]

threads = torch.get_num_threads


def _load() -> ModuleType | None:
    if os.environ.get("TESSERA_NATIVE") == "0":
        return None
    try:
        from tessera import _native
    except ModuleNotFoundError:
        return None
    return _native


MODULE = _load()


def takes(*tensors: torch.Tensor) -> bool:
    """Whether native kernels can read these tensors: on the CPU, contiguous, and the module is there."""
    return MODULE is not None and all(tensor.device.type == "cpu" and tensor.is_contiguous() for tensor in tensors)


def name() -> str:
    """The instruction set in use, or "torch" where there is no native part."""
    return "torch" if MODULE is None else str(MODULE.isa())
