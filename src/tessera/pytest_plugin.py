"""Operation tracing for any test suite: `pytest --trace-params [--trace-params-with-values]`.

pytest imports this module in every session of every project that has Tessera installed, so nothing heavy is imported until a flag asks for it. Traces
go where they go without pytest and are kept. Only the fixture `operation_traces` removes anything: the folder that it made itself in
pytest's temporary area.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

FLAGS = {
    "--trace-params": "write a JSON file with the parameters of every ttnn operation",
    "--trace-params-with-values": "with --trace-params: write the values of tensors too",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    add = parser.addoption
    for flag, text in FLAGS.items():
        with suppress(ValueError):  # another plugin, such as tt-metal's own, has it already
            add(flag, action="store_true", default=False, help=text)

    def tolerant(*names: Any, **words: Any) -> None:
        if FLAGS.keys().isdisjoint(names):
            add(*names, **words)

    parser.addoption = tolerant  # type: ignore[method-assign]  # a conftest that adds the same flags comes later


def pytest_configure(config: pytest.Config) -> None:
    values = config.getoption("--trace-params-with-values", default=False)
    if not config.getoption("--trace-params", default=False):
        if values:
            raise pytest.UsageError("--trace-params-with-values says what --trace-params should write: give both")
        return
    tracer = importlib.import_module("ttnn.operation_tracer")
    tracer.enable_tracing()
    tracer.enable_tensor_value_serialization(bool(values))


def pytest_unconfigure(config: pytest.Config) -> None:
    if config.getoption("--trace-params", default=False):
        importlib.import_module("ttnn.operation_tracer").enable_tracing(False)


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.getoption("--trace-params", default=False):
        return None
    what = "with values" if config.getoption("--trace-params-with-values", default=False) else "without values"
    return f"operation traces: {importlib.import_module('ttnn.operation_tracer').trace_folder()} ({what})"


@pytest.fixture
def operation_traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that this test's operations are traced to; it goes away with the test."""
    ttnn = importlib.import_module("ttnn")
    tracer = importlib.import_module("ttnn.operation_tracer")
    folder = tmp_path_factory.mktemp("operation_parameters")
    before = ttnn.CONFIG.operation_parameter_log_dir, tracer.is_tracing_enabled()
    ttnn.CONFIG.operation_parameter_log_dir = folder
    tracer.enable_tracing()
    try:
        yield folder
    finally:
        ttnn.CONFIG.operation_parameter_log_dir = before[0]
        tracer.enable_tracing(before[1])
        shutil.rmtree(folder, ignore_errors=True)
