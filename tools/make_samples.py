#!/usr/bin/env python3
"""Choose the rows of observed behaviour that `make test` replays, and write them under tests/data/behaviour.

    tools/make_samples.py [../shared/reference/behaviour]

Rows are chosen by the hash of their text, so that the choice is the same on every machine and owes nothing to what holds today.
Operations get a few rows each, results and refusals both; texts of official messages are left out.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT.parent / "shared" / "reference" / "behaviour"
TARGET = ROOT / "tests" / "data" / "behaviour"
#: Rows for each operation, by how the call ended.
PER_OPERATION = {"result": 4, "error": 2, "input_error": 1, "crash": 1}
ROWS = {"types": 600, "print": 250, "allocator": 150}

Row = dict[str, Any]


def by_hash(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: hashlib.sha256(json.dumps(row, sort_keys=True).encode()).digest())


def without_messages(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: without_messages(v)
            for key, v in value.items()
            if key not in ("message", "no_info", "signatures_omitted", "after", "banks")
        }
    return [without_messages(v) for v in value] if isinstance(value, list) else value


def sample_operations(rows: list[Row]) -> list[Row]:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["op"], next(end for end in PER_OPERATION if end in row)].append(row)
    return [row for (_, end), group in sorted(groups.items()) for row in by_hash(group)[: PER_OPERATION[end]]]


def main(argv: list[str]) -> int:
    source = Path(argv[0]) if argv else SOURCE
    TARGET.mkdir(parents=True, exist_ok=True)
    for kind in ("ops", *ROWS):
        rows = [json.loads(line) for line in (source / f"{kind}.dev.jsonl").read_text().splitlines()]
        chosen = sample_operations(rows) if kind == "ops" else by_hash(rows)[: ROWS[kind]]
        path = TARGET / f"{kind}.jsonl"
        path.write_text("".join(json.dumps(without_messages(row), separators=(",", ":")) + "\n" for row in chosen))
        print(f"{path.relative_to(ROOT)}: {len(chosen)} rows, {path.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
