"""`tessera run` is `python` on a chosen board, with a summary after."""

import subprocess
import sys
from pathlib import Path

import pytest

WORKS = """
import sys, os
print("args", sys.argv[1:], "as", __name__, "on", os.environ["TESSERA_BOARD"])
import beside
print(beside.VALUE)
"""
ENDS = "import sys\nsys.exit({code})\n"
COMPUTES = """
import torch, ttnn
with ttnn.manage_device(0) as device:
    a = ttnn.ones((64, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    print(float(ttnn.to_torch(ttnn.add(a, a)).float().sum()))
"""


def tessera(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tessera.cli.main", *map(str, args)], capture_output=True, text=True)


def test_the_script_sees_what_python_would_show_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 'found beside the script'\n")
    (tmp_path / "script.py").write_text(WORKS)
    done = tessera("run", "--board", "p150", tmp_path / "script.py", "--board", "mine", "-v")
    assert done.returncode == 0, done.stderr
    assert "args ['--board', 'mine', '-v'] as __main__ on p150" in done.stdout
    assert "found beside the script" in done.stdout
    assert "opened no device" in done.stdout


@pytest.mark.parametrize(("code", "seen"), [("0", 0), ("3", 3), ("None", 0), ("'why it stopped'", 1)])
def test_the_exit_code_of_the_script_is_kept(tmp_path: Path, code: str, seen: int) -> None:
    (tmp_path / "script.py").write_text(ENDS.format(code=code))
    done = tessera("run", "--quiet", tmp_path / "script.py")
    assert done.returncode == seen
    assert ("why it stopped" in done.stderr) == ("why" in code)


def test_an_exception_is_shown_without_our_own_frames(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("def inner():\n    1 / 0\ninner()\n")
    done = tessera("run", "--quiet", tmp_path / "script.py")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "script.py" in done.stderr
    assert "runpy" not in done.stderr
    assert "commands/run.py" not in done.stderr


def test_the_summary_counts_what_devices_did(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(COMPUTES)
    done = tessera("run", "--board", "n150", tmp_path / "script.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "8192.0"
    assert "operations on devices:" in done.stdout
    assert "peak DRAM" in done.stdout
    assert "took" in done.stdout


def test_a_missing_script_and_an_unknown_board_are_wrong_arguments(tmp_path: Path) -> None:
    missing = tessera("run", tmp_path / "no.py")
    assert missing.returncode == 2
    assert "there is no file" in missing.stderr
    unknown = tessera("run", "--board", "n9000", tmp_path / "no.py")
    assert unknown.returncode == 2
    assert "n150" in unknown.stderr
