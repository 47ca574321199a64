"""Entry point of `tessera`.

A subcommand is a row of `COMMANDS` and a module of the same name under `tessera.cli.commands`. Only the module of the
command that was asked for is imported, so `tessera --help` answers before torch has loaded.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from tessera import __version__

COMMANDS: dict[str, str] = {
    "demo": "a transformer block on a software n150, compared with torch: the place to start",
    "run": "run an unmodified script on a software board, then say what it used",
    "doctor": "versions, CPU, native path, boards and folders: what to paste into a bug report",
    "trace": "operation traces: show, filter, compare, and run again",
    "inspect": "look inside: the coverage of the official interface, and the files that Tessera writes",
}

EPILOG = """examples:
  tessera demo
  tessera run --board n300 examples/mlp.py
  tessera doctor
  tessera inspect coverage

exit codes: 0 done, 1 the work failed, 2 wrong arguments; `run` keeps the exit code of the script.
"""


class Command(Protocol):
    """What a module under `commands/` offers."""

    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, args: argparse.Namespace) -> int: ...


def load(name: str) -> Command:
    return cast(Command, importlib.import_module(f"tessera.cli.commands.{name}"))


def overview() -> argparse.ArgumentParser:
    """The parser of the top level: which command, and nothing of its arguments."""
    parser = argparse.ArgumentParser(
        prog="tessera",
        description="Tenstorrent's software stack on the computer you already have.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tessera {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary, add_help=False)
    return parser


def parser_of(name: str, command: Command) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"tessera {name}",
        description=COMMANDS[name][:1].upper() + COMMANDS[name][1:] + ".",
        epilog=f"examples:\n{command.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    name = argv[0] if argv else ""
    if name not in COMMANDS:
        parser = overview()
        parser.parse_args(argv)  # answers --help and --version, refuses an unknown word
        parser.print_help()
        return 2
    command = load(name)
    try:
        return command.run(parser_of(name, command).parse_args(argv[1:]))
    except BrokenPipeError:  # `tessera ... | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
