"""Tensors on the host side by side with the official library: the same values after every conversion, the same padding, the same printed text."""

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


def facts(python: Path | str, **environment: str) -> dict[str, Any]:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), str(HERE / "tensor_facts.py")]
    ran = subprocess.run(command, env=inherited | environment, capture_output=True, text=True, timeout=600, check=False)
    answers = [line[1:] for line in ran.stdout.splitlines() if line.startswith("\x01")]
    assert answers, f"{command} ended with {ran.returncode}; its last words:\n{ran.stderr[-2000:]}"
    found: dict[str, Any] = json.loads(answers[0])
    return found


def test_values_are_the_same_to_both() -> None:
    if not PYTHON.exists():
        pytest.skip("the official wheel is not installed; `make interop` does that")
    theirs = facts(PYTHON, TT_METAL_MOCK_CLUSTER_DESC_PATH=str(HERE / "mock" / "n150.yaml"), TT_METAL_LOGGER_LEVEL="FATAL")
    ours = facts(sys.executable)
    assert len(theirs) > 800
    assert theirs.keys() == ours.keys()
    differing = {name: (answer, ours[name]) for name, answer in theirs.items() if ours[name] != answer}
    assert not differing, f"{len(differing)} of {len(theirs)} differ, the first: {next(iter(differing.items()))}"
