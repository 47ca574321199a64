#!/usr/bin/env python3
"""Put observed behaviour to the `ttnn` on the path, row by row, and say what holds.

    python tests/conformance/replayer.py ops tests/data/behaviour/ops.jsonl [--match ttnn.add] [--misses out.jsonl] [--scores out.json]

A row holds when its outcome is the observed one: an equal result (shapes, dtype, layout, memory config, storage), the same text or
address, or an exception of the same type; a call that crashed the official library must raise. Messages are not compared.
All rows of one board and one set of device options share one open device, and all boards share this process: starting Python for each
would cost more than the rows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.conformance import rows as words

import ttnn

Row = dict[str, Any]
#: How a device is opened for rows that do not say.
OPTIONS = {"ops": {"l1_small_size": 16384}}


class WorldError(Exception):
    """A board did not open: none of its rows holds."""


@contextmanager
def world(board: str, options: dict[str, Any]) -> Iterator[Any]:
    """One open device of a board, as the rows were observed on: n300 as a 1x2 mesh with its fabric up."""
    before = os.environ.get("TESSERA_BOARD")
    os.environ["TESSERA_BOARD"] = board
    meshed = board == "n300"
    try:
        try:
            if meshed:
                ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
                device = ttnn.open_mesh_device(mesh_shape=ttnn.MeshShape(1, 2), **options)
            else:
                device = ttnn.open_device(device_id=0, **options)
        except Exception as error:
            raise WorldError(f"{board} with {options} does not open: {error}") from error
        try:
            yield device
        finally:
            ttnn.close_device(device)
            if meshed:
                ttnn.set_fabric_config(ttnn.FabricConfig.DISABLED)
    finally:
        if before is None:
            del os.environ["TESSERA_BOARD"]
        else:
            os.environ["TESSERA_BOARD"] = before


def refusal(error: BaseException) -> Row:
    return {"type": type(error).__name__, "message": str(error)[:500]}


def replay_op(device: Any, row: Row) -> Row:
    decode = words.Decoder(device)
    try:
        operation: Any = ttnn
        for name in row["op"].split(".")[1:]:
            operation = getattr(operation, name)
        args = [decode(value, f"args[{i}]") for i, value in enumerate(row["args"])]
        kwargs = {name: decode(value, f"kwargs.{name}") for name, value in row["kwargs"].items()}
    except Exception as error:
        return {"input_error": refusal(error)}
    device.clear_program_cache()
    try:
        result = operation(*args, **kwargs)
        return {"result": words.encode(result), "program_cache_delta_first": device.num_program_cache_entries()}
    except Exception as error:
        return {"error": refusal(error)}


def replay_type(device: Any, row: Row) -> Row:
    try:
        value = eval(row["expr"], {"ttnn": ttnn})
        return {"repr": repr(value), "str": str(value)}
    except Exception as error:
        return {"error": refusal(error)}


def replay_print(device: Any, row: Row) -> Row:
    try:
        values = [float(value) if isinstance(value, str) else value for value in row["values"]]
        made = ttnn.Tensor(values, row["shape"], getattr(ttnn.DataType, row["dtype"]), getattr(ttnn.Layout, row["layout"]))
        ttnn.set_printoptions(**row.get("reset_options", {"profile": "short"}))
        if row["options"]:
            ttnn.set_printoptions(**row["options"])
        return {"printed": str(made)}
    except Exception as error:
        return {"error": refusal(error)}
    finally:
        ttnn.set_printoptions(profile="short", sci_mode="default", precision=4)


def official_defect(row: Row) -> bool:
    """Rows that show what official TT-NN prints wrongly: matrices beyond the first, when tiles pad the height. We print what is there."""
    shape = row.get("shape", [])
    several = len(shape) > 2 and any(size != 1 for size in shape[:-2])
    return "printed" in row and row["layout"] == "TILE" and several and shape[-2] % 32 != 0


def replay_allocator(device: Any, row: Row) -> Row:
    """A sequence that starts and ends with an empty device."""
    alive: dict[int, Any] = {}
    steps = []
    for step in row["steps"]:
        done: Row = {}
        try:
            if step["op"] == "alloc":
                made = alive[step["id"]] = words.tensor(step["tensor"], device)
                done = {"address": made.buffer_address(), "page_size": made.buffer_page_size(), "num_pages": made.buffer_num_pages()}
            elif step["id"] in alive:
                ttnn.deallocate(alive.pop(step["id"]))
        except Exception as error:
            done = {"error": refusal(error)}
        steps.append(done)
    for made in alive.values():
        ttnn.deallocate(made)
    return {"steps": steps}


@dataclass(frozen=True)
class Verdict:
    """`holds`: the outcome is the observed one. `counted`: the number of programs is, too."""

    holds: bool
    counted: bool = True


def judge_steps(row: Row, got: Row) -> Verdict:
    def told(step: Row) -> Any:
        return "error" in step, *(step.get(key) for key in ("address", "page_size", "num_pages"))

    return Verdict(all(told(want) == told(have) for want, have in zip(row["steps"], got["steps"])))


def judge(kind: str, row: Row, got: Row) -> Verdict:
    if kind == "allocator":
        return judge_steps(row, got)
    refused = got.get("error") or got.get("input_error")
    if row.get("crash"):
        return Verdict(refused is not None)
    observed = row.get("error") or row.get("input_error")
    if observed is not None:
        return Verdict(refused is not None and refused["type"] == observed["type"])
    if kind == "ops":
        holds = "result" in got and words.comparable(row["result"]) == words.comparable(got["result"])
        return Verdict(holds, holds and row.get("program_cache_delta_first") == got["program_cache_delta_first"])
    return Verdict(refused is None and all(row[key] == got.get(key) for key in ("printed", "repr", "str") if key in row))


REPLAYS: dict[str, Callable[[Any, Row], Row]] = {
    "ops": replay_op,
    "types": replay_type,
    "print": replay_print,
    "allocator": replay_allocator,
}


def family(row: Row) -> str:
    """The file of `ttnn.operations` an operation is declared in; for other rows, the first public name they use."""
    if "op" not in row:
        first = re.search(r"ttnn\.\w+", row.get("expr", ""))
        return first[0] if first else row.get("dtype", row.get("arch", ""))
    operation: Any = ttnn
    for name in row["op"].split(".")[1:]:
        operation = getattr(operation, name, None)
    if operation is None or type(operation).__name__ == "NotBuilt":
        return "(not built)"
    function = getattr(operation, "function", operation)
    return str(getattr(function, "__module__", "?")).removeprefix("ttnn.operations.").removeprefix("ttnn.")


@dataclass
class Score:
    """What held, by family and by operation."""

    kind: str
    total: int = 0
    held: int = 0
    counted: int = 0
    families: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    operations: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    misses: list[Row] = field(default_factory=list)

    def add(self, row: Row, got: Row, verdict: Verdict) -> None:
        self.total += 1
        self.held += verdict.holds
        self.counted += verdict.holds and verdict.counted
        for table, name in ((self.families, family(row)), (self.operations, row.get("op", self.kind))):
            table[name][0] += verdict.holds
            table[name][1] += 1
        if not verdict.holds:
            self.misses.append({"row": row, "got": got})

    @property
    def share(self) -> float:
        return self.held / max(self.total, 1)

    def lines(self) -> Iterator[str]:
        """Families with misses, most of them first, and then the whole."""
        missing = {name: (held, total) for name, (held, total) in self.families.items() if held < total}
        for name, (held, total) in sorted(missing.items(), key=lambda item: (item[1][0] - item[1][1], item[0])):
            yield f"  {held:6d} of {total:6d}  {held / total:7.2%}  {name}"
        yield f"{self.kind}: {self.held} of {self.total} rows hold ({self.share:.2%}), {self.counted} with the observed number of programs"

    def worst(self, count: int = 20) -> list[tuple[str, int]]:
        return Counter({name: total - held for name, (held, total) in self.operations.items() if held < total}).most_common(count)


def read(path: Path, match: str = "") -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines() if match in line]


def sampled(rows: list[Row], count: int) -> list[Row]:
    """At most `count` rows, the same ones each time: those whose hashes come first."""
    if not count or len(rows) <= count:
        return rows
    return sorted(rows, key=lambda row: hashlib.sha256(json.dumps(row, sort_keys=True).encode()).digest())[:count]


def replay(kind: str, rows: Iterable[Row]) -> Score:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if kind == "print" and official_defect(row):
            continue
        groups[row.get("arch", "n150"), json.dumps(row.get("device", OPTIONS.get(kind, {})), sort_keys=True)].append(row)
    score = Score(kind)
    for (board, options), members in sorted(groups.items()):
        try:
            with world(board, json.loads(options)) as device:
                for row in members:
                    got = REPLAYS[kind](device, row)
                    score.add(row, got, judge(kind, row, got))
        except WorldError as error:
            for row in members:
                score.add(row, {"world": str(error)}, Verdict(False))
    return score


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=REPLAYS)
    parser.add_argument("file", type=Path)
    parser.add_argument("--match", default="", help="only rows whose text contains this")
    parser.add_argument("--sample", type=int, default=0, help="at most this many rows, chosen by hash")
    parser.add_argument("--misses", type=Path, help="write the rows that do not hold, with what came instead")
    parser.add_argument("--scores", type=Path, help="write {operation: [held, total]} as JSON")
    args = parser.parse_args()
    score = replay(args.kind, sampled(read(args.file, args.match), args.sample))
    if args.misses:
        args.misses.write_text("".join(json.dumps(miss) + "\n" for miss in score.misses))
    if args.scores:
        args.scores.write_text(json.dumps(score.operations, indent=0, sort_keys=True) + "\n")
    for line in score.lines():
        print(line)
    if args.kind == "ops" and score.misses:
        print("  most misses: " + ", ".join(f"{name} {count}" for name, count in score.worst()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
