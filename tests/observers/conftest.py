"""A device, and switches that are off again after every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ttnn
import ttnn.operation_tracer
from tessera.runtime.observers import OBSERVERS


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    opened = ttnn.open_device(device_id=0)
    yield opened
    ttnn.close_device(opened)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    yield
    ttnn.operation_tracer.enable_tracing(False)
    ttnn.operation_tracer.enable_tensor_value_serialization(False)
    while ttnn.graph.is_graph_capture_active():
        ttnn.graph.end_graph_capture()
    ttnn.graph.reset_comparison_records_data()
    assert not OBSERVERS


@pytest.fixture
def traces(tmp_path: Path) -> Iterator[Path]:
    """A folder that is traced to."""
    before = ttnn.CONFIG.root_report_path
    ttnn.CONFIG.root_report_path = str(tmp_path)
    ttnn.operation_tracer._ENABLE_TRACE = True
    yield tmp_path / "operation_parameters"
    ttnn.operation_tracer._ENABLE_TRACE = False
    ttnn.CONFIG.root_report_path = before
