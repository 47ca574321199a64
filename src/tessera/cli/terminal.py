"""Tables for people and for pipes.

On a terminal a table is drawn by rich; in a pipe it is plain aligned text without colour or box characters, one row a
line, so that `grep` and `awk` work on it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TextIO


@dataclass(frozen=True)
class Table:
    """Rows of cells under a heading; columns named in `right` are numbers and stand at the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[str] = field(default_factory=frozenset)


def show(table: Table, stream: TextIO | None = None) -> None:
    stream = stream or sys.stdout
    if stream.isatty():
        draw(table, stream)
    else:
        stream.write("".join(f"{line}\n" for line in plain(table)))


def draw(table: Table, stream: TextIO) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as RichTable

    grid = RichTable(title=escape(table.title), title_justify="left", header_style="bold")
    for column in table.columns:
        grid.add_column(escape(column), justify="right" if column in table.right else "left")
    for row in table.rows:
        grid.add_row(*(escape(cell) for cell in row))
    Console(file=stream).print(grid)


def plain(table: Table) -> Iterable[str]:
    cells = [list(table.columns), *(list(row) for row in table.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    yield table.title
    for row in cells:
        aligned = (
            cell.rjust(width) if column in table.right else cell.ljust(width) for cell, width, column in zip(row, widths, table.columns)
        )
        yield "  " + "  ".join(aligned).rstrip()


def amount(count: float) -> str:
    """Bytes as a person reads them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def duration(seconds: float) -> str:
    for limit, scale, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * scale:.1f} {unit}"
    return f"{seconds:.2f} s"
