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
  tessera inspect weights.tensorbin
  tessera inspect a.tensorbin --diff b.tensorbin
  tessera inspect model_cache/ --verify
  tessera inspect model.safetensors --to model_cache/ --dtype bfloat8_b
"""

#: word or suffix -> (module, what it shows). A module offers `add_arguments(parser)` and `run(args) -> exit code`.
TOPICS: dict[str, tuple[str, str]] = {
    "coverage": ("tessera.cli.coverage", "the official interface against what the packages export"),
}
#: The suffix "" is a folder.
FILES: dict[str, tuple[str, str]] = {
    suffix: ("tessera.cli.commands.inspect_file", what)
    for suffix, what in {
        ".tensorbin": "spec, shards, checksums, statistics, a heat map; --diff, --verify, --to",
        ".overlappedtensorbin": "the views of a fused tensor",
        ".safetensors": "its tensors; --to a folder of tensor files",
        ".npy": "its array; --to a tensor file",
        "": "the tensor files of a folder; --verify, --to",
    }.items()
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    words = [f"{word}: {what}" for word, (_, what) in TOPICS.items()]
    files = [f"a file ending in {suffix}: {what}" if suffix else f"a folder: {what}" for suffix, (_, what) in FILES.items()]
    parser.add_argument("what", metavar="WHAT", help="; ".join(words + files))
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="its arguments; `tessera inspect WHAT --help` lists them")


def shower(what: str) -> str | None:
    """The module that shows `what`; None if nothing here can."""
    row = TOPICS.get(what) or FILES.get("" if Path(what).is_dir() else Path(what).suffix or ".none")
    return row[0] if row else None


def run(args: argparse.Namespace) -> int:
    name = shower(args.what)
    if name is None:
        known = ", ".join([*TOPICS, *(f"*{suffix}" if suffix else "a folder" for suffix in FILES)])
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
