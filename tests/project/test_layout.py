"""The house as a newcomer finds it: packages import, importing opens nothing, and the set-up files agree with each other."""

import json
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tessera", "ttnn", "pybuda", "tt_smi", "bitnet_tt")


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_imports(package: str) -> None:
    __import__(package)


def test_every_module_says_why_it_is_there() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "src").rglob("*.py"))
        if path.stat().st_size and not path.read_text().lstrip().startswith(('"""', 'r"""'))
    ]
    assert not silent, f"modules without a docstring: {silent}"


def test_import_of_ttnn_opens_no_device_and_no_optional_library() -> None:
    code = (
        "import sys, ttnn; "
        "print([m for m in ('onnx', 'onnxruntime', 'textual', 'openpyxl', 'tensorflow', 'jax', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_interface_table_is_flat_and_sorted() -> None:
    table = json.loads((resources.files("ttnn") / "interface.json").read_text())
    assert list(table) == sorted(table)
    assert sum(spec["kind"] == "op" for spec in table.values()) == 802
    assert all(spec["same_as"] in table for spec in table.values() if "same_as" in spec)
    assert all(s.startswith("(") for spec in table.values() for s in spec.get("signatures", []))


def test_torch_is_pinned_where_pip_would_choose_freely(project: dict) -> None:
    assert (ROOT / "constraints.txt").read_text().split() == ["torch==2.13.0"]
    for line in (ROOT / "Makefile").read_text().splitlines():
        if "torch" in line and "pip install" in line:
            assert "--constraint" in line
    assert any(d.startswith("torch") for d in project["project"]["dependencies"])


def test_the_command_is_registered(project: dict) -> None:
    module, function = project["project"]["scripts"]["tessera"].split(":")
    assert callable(getattr(__import__(module, fromlist=[function]), function))
