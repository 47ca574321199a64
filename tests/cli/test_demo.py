"""`tessera demo` shows a block that agrees with torch, what it cost, and where to go next."""

import re

import pytest

from tessera.cli import main as cli
from tessera.cli.commands import demo


def test_the_ttnn_demo_agrees_with_torch(capsys: pytest.CaptureFixture) -> None:
    assert cli.main(["demo", "ttnn"]) == 0
    said = capsys.readouterr().out
    figures = {name: (float(pcc), float(ulp)) for name, pcc, ulp in re.findall(r"^  (BF\w+) +([\d.]+) +([\d.]+)", said, re.MULTILINE)}
    assert figures["BFLOAT16"][0] > 0.999
    assert figures["BFLOAT8_B"][0] > 0.99
    assert figures["BFLOAT16"][1] < figures["BFLOAT8_B"][1]
    for word in ("operations on devices:", "peak L1", "peak DRAM", "Next:"):
        assert word in said
    assert "MiB" in said


def test_a_demo_that_fails_fails_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(demo, "DEMOS", {"broken": "tessera.cli.terminal"})  # a module without main()
    assert cli.main(["demo"]) == 1
    assert "AttributeError" in capsys.readouterr().err
