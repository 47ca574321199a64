"""What README.md shows a newcomer is true: its example runs as it stands, and the files and commands it names exist."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_example_runs_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(example.strip().splitlines()) <= 11
    script = tmp_path / "first.py"
    script.write_text(example)
    runpy.run_path(str(script), run_name="__main__")
    *_, pcc = capsys.readouterr().out.split()
    assert float(pcc) > 0.999


def test_it_opens_with_the_two_commands() -> None:
    assert re.search(r"```\nmake demo.*\nmake test.*\n```", "\n".join(README.splitlines()[:8]))


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/index.md"])
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), f"{page} links to {target}"


def test_make_targets_that_are_named_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"`make ([a-z-]+)`", (ROOT / page).read_text()):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page} names make {target}"
