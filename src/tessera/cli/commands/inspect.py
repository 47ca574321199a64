"""`tessera inspect`: look inside something. What it is decides who shows it: a row of `TOPICS` (a word) or of `FILES` (a suffix)."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

EXAMPLES = """  tessera inspect coverage
  tessera inspect coverage --output docs/coverage.md
"""

#: word or suffix -> (module, what it shows). A module offers `add_arguments(parser)` and `run(args) -> exit code`.
TOPICS: dict[str, tuple[str, str]] = {
    "coverage": ("tessera.cli.coverage", "the official interface against what the packages export"),
}
FILES: dict[str, tuple[str, str]] = {}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    words = [f"{word}: {what}" for word, (_, what) in TOPICS.items()]
    files = [f"a file ending in {suffix}: {what}" for suffix, (_, what) in FILES.items()]
    parser.add_argument("what", metavar="WHAT", help="; ".join(words + files))
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="its arguments; `tessera inspect WHAT --help` lists them")


def shower(what: str) -> str | None:
    """The module that shows `what`; None if nothing here can."""
    row = TOPICS.get(what) or FILES.get(Path(what).suffix)
    return row[0] if row else None


def run(args: argparse.Namespace) -> int:
    name = shower(args.what)
    if name is None:
        known = ", ".join([*TOPICS, *(f"*{suffix}" for suffix in FILES)])
        print(f"tessera inspect: nothing here shows {args.what!r}; known: {known}", file=sys.stderr)
        return 2
    module = importlib.import_module(name)
    parser = argparse.ArgumentParser(prog=f"tessera inspect {args.what}", description=module.__doc__)
    given = args.rest
    if args.what not in TOPICS:
        parser.add_argument("path", type=Path)
        given = [args.what, *given]
    module.add_arguments(parser)
    return cast(Callable[[argparse.Namespace], int], module.run)(parser.parse_args(given))
