#!/usr/bin/env python3
"""Measure what holds now and raise tests/conformance/floors.py to it. A floor is never lowered: what fell below one is said and stays.

tools/raise_floors.py            # some minutes where ../shared/reference lies beside this checkout
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # tests are no package of the distribution

from tests.conformance.floors import BUILT, FLOORS  # noqa: E402
from tests.conformance.replayer import read, replay  # noqa: E402
from tests.conformance.test_behaviour import SAMPLE, WHOLE  # noqa: E402

from tessera.cli.coverage import survey  # noqa: E402

PLACES = ROOT / "tests" / "conformance" / "floors.py"
MODULES = ("ttnn", "ttnn.transformer", "ttnn.kv_cache", "ttnn.experimental")


def raised(what: str, floor: float, found: float) -> float:
    if found < floor:
        print(f"{what}: {found} is below its floor {floor}")
    return max(floor, found)


def shares() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for kind, floors in FLOORS.items():
        found[kind] = dict(floors)
        for which, path in (("sample", SAMPLE / f"{kind}.jsonl"), ("whole", WHOLE / f"{kind}.dev.jsonl")):
            if path.is_file():
                found[kind][which] = raised(f"{kind} {which}", floors[which], math.floor(replay(kind, read(path)).share * 1000) / 1000)
    return found


def built() -> dict[str, dict[str, int]]:
    counts = Counter((name.module, name.kind) for name in survey({}) if name.built)
    found: dict[str, dict[str, int]] = {}
    for (module, kind), count in sorted(
        counts.items(), key=lambda item: (MODULES.index(item[0][0]) if item[0][0] in MODULES else 9, item[0])
    ):
        if module in MODULES:
            found.setdefault(module, {})[kind] = int(raised(f"{module} {kind}", BUILT.get(module, {}).get(kind, 0), count))
    return found


def table(name: str, rows: dict[str, dict[str, float]] | dict[str, dict[str, int]], text: str) -> str:
    def words(row: dict[str, float] | dict[str, int]) -> str:
        return ", ".join(f'"{key}": {value}' for key, value in row.items())

    body = "".join(f'    "{key}": {{{words(row)}}},\n' for key, row in rows.items())
    return re.sub(rf"({name}: [^\n]*= \{{\n).*?(\}}\n)", lambda match: match[1] + body + match[2], text, flags=re.DOTALL)


def main() -> int:
    text = table("BUILT", built(), table("FLOORS", shares(), PLACES.read_text()))
    PLACES.write_text(text)
    print(text[text.index("FLOORS") :])
    return 0


if __name__ == "__main__":
    sys.exit(main())
