"""Files that tools wrote are what the tools would write today."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT.parent / "shared" / "reference"
pytestmark = [pytest.mark.whole, pytest.mark.skipif(not REFERENCE.is_dir(), reason="reference data is not beside this checkout")]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_interface_table(tmp_path: Path) -> None:
    flat = tool("make_interface").flatten(json.loads((REFERENCE / "ttnn-interface.json").read_text()))
    assert flat == json.loads((ROOT / "src" / "ttnn" / "interface.json").read_text())


@pytest.mark.parametrize("kind", ["ops", "types", "print", "allocator"])
def test_the_sample_of_behaviour(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = tool("make_samples")
    monkeypatch.setattr(maker, "TARGET", tmp_path)
    monkeypatch.setattr(maker, "ROOT", tmp_path)
    assert maker.main([str(REFERENCE / "behaviour")]) == 0
    assert (tmp_path / f"{kind}.jsonl").read_bytes() == (ROOT / "tests" / "data" / "behaviour" / f"{kind}.jsonl").read_bytes()
