"""`tessera trace`: a folder of operation traces as a table, compared with another, or run again."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tessera.cli.terminal import Table, duration, show
from tessera.cli.traces import Call, Filter, Folder

EXAMPLES = """  tessera trace generated/ttnn/operation_parameters
  tessera trace traces/ --op matmul --dtype bfloat8_b
  tessera trace traces/ --shape '1,1,*,64'
  tessera trace before/ --compare after/
  tessera trace traces/ --replay --repeat 5
"""

#: What runs calls again lives above this room; it is found by name.
REPLAY = "ttnn.replay"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="a folder of trace files")
    parser.add_argument("--op", default="", help="only operations whose name holds this, or fits this pattern (ttnn.*_bw)")
    parser.add_argument("--dtype", default="", help="only calls with a tensor of this dtype")
    parser.add_argument("--shape", default="", metavar="D,D,...", help="only calls with a tensor of this shape; * stands for any extent")
    parser.add_argument("--limit", type=int, default=0, metavar="N", help="show no more than N calls")
    parser.add_argument("--compare", type=Path, metavar="OTHER", help="say where another trace goes another way; exit code 1 if it does")
    parser.add_argument("--replay", action="store_true", help="run the calls again, on recorded values or random ones; check and time them")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="with --replay: run each call N times and take the fastest")
    parser.add_argument("--seed", type=int, default=0, help="with --replay: of the random values")


def run(args: argparse.Namespace) -> int:
    for path in (args.folder, args.compare):
        if path is not None and not path.is_dir():
            print(f"tessera trace: {path} is not a folder", file=sys.stderr)
            return 2
    if args.limit < 0 or args.repeat < 1:
        print("tessera trace: --limit must not be negative and --repeat must be at least 1", file=sys.stderr)
        return 2
    chosen = Filter(args.op, args.dtype, tuple(d.strip() for d in args.shape.strip("[]()").split(",") if d.strip()))
    folder = Folder(args.folder)
    if not len(folder):
        print(f"tessera trace: {args.folder} holds no trace files", file=sys.stderr)
        return 1
    if args.compare is not None:
        code = compare(folder, Folder(args.compare), chosen)
    elif args.replay:
        code = replay(folder, chosen, args)
    else:
        code = listing(folder, chosen, args.limit)
    return code


def progress(what: str) -> Any:
    """A progress bar on a terminal, nothing elsewhere."""
    from tqdm import tqdm

    return lambda items: tqdm(items, desc=what, unit="call", file=sys.stderr, disable=None, leave=False)


def reading(folder: Folder, chosen: Filter) -> Iterator[Call]:
    return (call for call in folder.calls(progress(f"reading {folder.path.name}")) if chosen.passes(call))


def complain(*folders: Folder) -> None:
    for folder in folders:
        for problem in folder.problems:
            print(f"tessera trace: {problem}", file=sys.stderr)


def listing(folder: Folder, chosen: Filter, limit: int) -> int:
    rows, total, counts = [], 0, Counter[str]()
    for call in reading(folder, chosen):
        total += 1
        counts[call.name] += 1
        if not limit or total <= limit:
            rows.append((str(call.number), call.name, call.inputs, call.output))
    title = f"{folder.path}: {total} calls of {len(counts)} operations"
    show(
        Table(
            title + (f", the first {limit} shown" if limit and total > limit else ""),
            ("#", "operation", "arguments", "result"),
            rows,
            frozenset("#"),
        )
    )
    complain(folder)
    return 0


def compare(ours: Folder, theirs: Folder, chosen: Filter) -> int:
    """The first call that differs, and how often each operation is called in each."""
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    first: tuple[int, Call | None, Call | None] | None = None
    for index, pair in enumerate(zip_longest(reading(ours, chosen), reading(theirs, chosen))):
        for count, call in zip(counts, pair):
            if call is not None:
                count[call.name] += 1
        a, b = pair
        if first is None and (a is None or b is None or a.signature != b.signature):
            first = (index + 1, a, b)
    if first is None:
        print(f"the same {counts[0].total()} calls in both")
    else:
        index, a, b = first
        print(f"first difference at call {index}:")
        for folder, call in ((ours, a), (theirs, b)):
            said = "ends here" if call is None else f"#{call.number} {call.name}({call.inputs}) -> {call.output}"
            print(f"  {folder.path}: {said}")
    names = sorted(counts[0].keys() | counts[1].keys())
    differing = [n for n in names if counts[0][n] != counts[1][n]]
    rows = [
        (n, str(counts[0][n]), str(counts[1][n]), "" if counts[0][n] == counts[1][n] else f"{counts[1][n] - counts[0][n]:+d}")
        for n in names
    ]
    columns = ("operation", str(ours.path), str(theirs.path), "change")
    show(Table(f"calls by operation, {len(differing)} counts differ", columns, rows, frozenset(columns[1:])))
    complain(ours, theirs)
    return 0 if first is None else 1


def replay(folder: Folder, chosen: Filter, args: argparse.Namespace) -> int:
    """Run the calls; what could not be run says why."""
    try:
        player = importlib.import_module(REPLAY)
    except ModuleNotFoundError as error:
        print(f"tessera trace: --replay needs {error.name}", file=sys.stderr)
        return 1
    rows: list[tuple[str, ...]] = []
    seconds, outcomes = 0.0, Counter[str]()
    calls: Iterable[Call] = reading(folder, chosen)
    for call, done in player.replay(calls, repeat=args.repeat, seed=args.seed):
        outcomes[done.outcome] += 1
        seconds += done.seconds or 0.0
        if not args.limit or len(rows) < args.limit:
            took = "" if done.seconds is None else duration(done.seconds)
            rows.append((str(call.number), call.name, call.inputs, took, f"{done.outcome}{': ' if done.why else ''}{done.why}"))
    summary = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    show(
        Table(
            f"{folder.path}: {summary}; {duration(seconds)} in all",
            ("#", "operation", "arguments", "time", "outcome"),
            rows,
            frozenset(("#", "time")),
        )
    )
    complain(folder)
    return 1 if outcomes["differs"] or outcomes["failed"] else 0
