"""CONTRIBUTING.md promises that an operation, a dtype, a board and an observer are each a row or a small function. Its own lines are tried here."""

import ast
import re
from importlib import resources
from pathlib import Path

import pytest
import yaml

import ttnn
from tessera.formats import dtype
from tessera.silicon import board

PAGE = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text()


def block(language: str, holding: str) -> str:
    (found,) = [text for text in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if holding in text]
    return found


def test_it_is_one_page() -> None:
    assert len(PAGE.splitlines()) < 90


def test_the_board_that_is_shown_is_a_board() -> None:
    shown = yaml.safe_load(block("yaml", "name: p150"))
    held = yaml.safe_load((resources.files("tessera.silicon") / "boards" / "p150.yaml").read_text())
    assert shown.items() <= held.items()
    assert board.get(shown["name"]).arch == shown["chip"]


def test_the_row_of_a_dtype_makes_a_format() -> None:
    (row,) = [line.split("#")[0].strip().rstrip(",") for line in block("python", "_float(").splitlines() if line.startswith("_float")]
    arguments = ast.parse(row.replace(", DataType.FLOAT16", ""), mode="eval").body.args
    names = [ast.unparse(argument) for argument in arguments]
    (same,) = [entry for entry in dtype.TABLE if entry.name == ast.literal_eval(names[0])]
    assert [str(same.values), str(same.bits), str(same.exponent), str(same.mantissa)] == names[1:]


def test_the_observer_that_is_shown_sees_an_operation(capsys: pytest.CaptureFixture) -> None:
    with ttnn.manage_device(0) as device:
        a, b = (ttnn.ones((32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device) for _ in range(2))
        exec(block("python", "Observer"), {"ttnn": ttnn, "a": a, "b": b})
    assert "[(32, 32), (32, 32)]" in capsys.readouterr().out


def test_paths_that_are_named_exist() -> None:
    root = Path(__file__).resolve().parents[2]
    for path in re.findall(r"`((?:src|tests|native|docs)/[\w/.]+)`", PAGE):
        assert (root / path).exists(), path
