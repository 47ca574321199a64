"""The table of commands: each answers --help with examples, and output is plain where nobody looks at a terminal."""

import io

import pytest

from tessera.cli import main as cli
from tessera.cli.commands import inspect as inspecting
from tessera.cli.terminal import Table, amount, duration, plain, show


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main([name, "--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert "examples:" in said
    assert f"tessera {name}" in said


def test_help_lists_every_command_and_no_command_is_wrong_use(capsys: pytest.CaptureFixture) -> None:
    assert cli.main([]) == 2
    said = capsys.readouterr().out
    assert all(name in said for name in cli.COMMANDS)
    with pytest.raises(SystemExit) as end:
        cli.main(["dance"])
    assert end.value.code == 2


def test_doctor_names_versions_boards_and_the_native_path(capsys: pytest.CaptureFixture) -> None:
    assert cli.main(["doctor"]) == 0
    said = capsys.readouterr().out
    for word in ("torch", "native path", "n150", "galaxy", "TESSERA_BOARD", "packages"):
        assert word in said


def test_inspect_refuses_what_nothing_shows(capsys: pytest.CaptureFixture) -> None:
    assert cli.main(["inspect", "notes.odt"]) == 2
    assert "'notes.odt'" in capsys.readouterr().err
    assert inspecting.shower("coverage") == "tessera.cli.coverage"


def test_a_table_in_a_pipe_is_plain_lines() -> None:
    table = Table("sizes", ("name", "bytes"), [("a", "7"), ("longer", "1234")], frozenset({"bytes"}))
    assert list(plain(table)) == ["sizes", "  name    bytes", "  a           7", "  longer   1234"]
    stream = io.StringIO()
    show(table, stream)
    assert stream.getvalue().isascii()


def test_a_table_on_a_terminal_keeps_brackets_in_cells() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    show(Table("t", ("a",), [("[red]x[/red]",)]), stream)
    assert "[red]x[/red]" in stream.getvalue()


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 2**30, "3.0 GiB"), (5 * 2**40, "5120.0 GiB")]
)
def test_amounts(count: int, text: str) -> None:
    assert amount(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(2e-6, "2.0 us"), (0.0123, "12.3 ms"), (75, "75.00 s")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
