"""Boards and memory side by side with the official library: the same questions, and hundreds of allocations at the same addresses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent
PYTHON = Path(os.environ.get("TESSERA_OFFICIAL", HERE.parents[1] / ".interop" / "official" / "bin" / "python"))


def facts(python: Path | str, board: str, **environment: str) -> dict[str, Any]:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), str(HERE / "device_facts.py"), board]
    ran = subprocess.run(command, env=inherited | environment, capture_output=True, text=True, timeout=600, check=False)
    answers = [line[1:] for line in ran.stdout.splitlines() if line.startswith("\x01")]
    assert answers, f"{command} ended with {ran.returncode}; its last words:\n{ran.stderr[-2000:]}"
    found: dict[str, Any] = json.loads(answers[0])
    return found


@pytest.mark.parametrize("board", ["n150", "n300", "p150"])
def test_a_board_is_the_same_to_both(board: str) -> None:
    if not PYTHON.exists():
        pytest.skip("the official wheel is not installed; `make interop` does that")
    mock = str(HERE / "mock" / f"{board}.yaml")
    theirs = facts(PYTHON, board, TT_METAL_MOCK_CLUSTER_DESC_PATH=mock, TT_METAL_LOGGER_LEVEL="FATAL")
    ours = facts(sys.executable, board, TESSERA_BOARD=board)
    assert sum(len(trail) for name, trail in theirs.items() if name.startswith("walk")) > 600
    for name, answer in theirs.items():
        assert ours[name] == answer, name
