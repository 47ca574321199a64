"""The architectures of examples/pybuda/models.py, and the same random numbers for every test."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def load_models():
    path = Path(__file__).resolve().parents[2] / "examples" / "pybuda" / "models.py"
    spec = importlib.util.spec_from_file_location("graph_models", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
