"""Every test starts with no devices, the default configuration and the same random numbers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

import pybuda

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "pybuda"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, tmp_path):
    monkeypatch.setenv("PYBUDA_BUILD_DIR", str(tmp_path / "build"))
    pybuda.pybuda_reset()
    torch.manual_seed(0)
    yield
    pybuda.pybuda_reset()


@pytest.fixture(scope="session")
def models() -> ModuleType:
    """The architectures of examples/pybuda/models.py."""
    spec = importlib.util.spec_from_file_location("pybuda_models", EXAMPLES / "models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
