"""The pytest plugin, in test suites of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
import ttnn

def test_one():
    ttnn.zeros([2, 3])

def test_two(tmp_path):
    (tmp_path / "kept").write_text("x")
    ttnn.ones([2])
"""


def run(folder: Path, *flags: str, suite: str = SUITE, conftest: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "test_suite.py").write_text(suite)
    if conftest:
        (folder / "conftest.py").write_text(conftest)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TTNN_", "PYTEST_"))}
    plugin = [] if _installed() else ["-p", "tessera.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={folder}", *plugin, "test_suite.py", *flags]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(e.value == "tessera.pytest_plugin" for e in entry_points(group="pytest11"))


def test_without_flags_nothing_is_traced_or_imported(tmp_path: Path) -> None:
    done = run(tmp_path, suite="import sys\ndef test(): assert 'torch' not in sys.modules and 'ttnn' not in sys.modules\n")
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "generated").exists()


def test_trace_params_writes_to_the_default_folder_and_keeps_it(tmp_path: Path) -> None:
    done = run(tmp_path, "--trace-params")
    assert done.returncode == 0, done.stdout + done.stderr
    files = sorted((tmp_path / "generated" / "ttnn" / "operation_parameters").glob("*.json"))
    assert [f.name.rsplit("_", 3)[0] for f in files] == ["1_ttnn_zeros", "2_ttnn_ones"]
    assert "values" not in json.loads(files[0].read_text())["return_value"]
    assert "operation traces: generated/ttnn/operation_parameters (without values)" in done.stdout


def test_with_values(tmp_path: Path) -> None:
    done = run(tmp_path, "--trace-params", "--trace-params-with-values")
    assert done.returncode == 0, done.stdout + done.stderr
    first = next((tmp_path / "generated" / "ttnn" / "operation_parameters").glob("1_*.json"))
    assert json.loads(first.read_text())["return_value"]["values"] == [[0.0] * 3] * 2


def test_values_alone_are_a_usage_error(tmp_path: Path) -> None:
    done = run(tmp_path, "--trace-params-with-values")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--trace-params" in done.stderr and not (tmp_path / "generated").exists()


def test_the_fixture_makes_and_removes_its_own_folder_only(tmp_path: Path) -> None:
    suite = """
import ttnn
from pathlib import Path

def test(operation_traces, tmp_path):
    ttnn.zeros([2])
    assert len(list(operation_traces.glob("1_ttnn_zeros_*.json"))) == 1
    (tmp_path / "mine").write_text("x")
    Path("folders").write_text(f"{operation_traces}\\n{tmp_path}")

def test_after():
    ttnn.zeros([2])
"""
    done = run(tmp_path, f"--basetemp={tmp_path / 'base'}", suite=suite)
    assert done.returncode == 0, done.stdout + done.stderr
    made, own = (tmp_path / "folders").read_text().split("\n")
    assert not Path(made).exists() and (Path(own) / "mine").exists() and not (tmp_path / "generated").exists()


def test_another_conftest_may_have_the_same_flags(tmp_path: Path) -> None:
    conftest = "def pytest_addoption(parser):\n    parser.addoption('--trace-params', action='store_true', help='theirs')\n    parser.addoption('--other')\n"
    done = run(tmp_path, "--trace-params", "--other=1", conftest=conftest)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "generated" / "ttnn" / "operation_parameters").glob("*.json"))) == 2
