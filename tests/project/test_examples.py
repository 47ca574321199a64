"""Every example runs to its end, as a user would start it. Examples check their own results against torch and raise if they are off."""

import os
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*.py") if "pybuda" not in path.parts[len(ROOT.parts) + 1])


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT / "examples")))
def test_example_runs(script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    monkeypatch.delitem(os.environ, "TESSERA_BOARD", raising=False)
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out, "an example says what it did"


def test_every_example_explains_itself() -> None:
    for script in EXAMPLES:
        assert script.read_text().lstrip().startswith('"""'), script
