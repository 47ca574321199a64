#!/usr/bin/env python3
"""Write src/ttnn/interface.json: the official interface as one flat table of names.

    tools/make_interface.py [../shared/reference/ttnn-interface.json]

The observed interface is a tree of modules with reprs and import leaks in it. At run time only three questions are asked of
it: which overloads does a name have, which names exist, which values has an enum. So the tree is flattened to
`{"ttnn.add": {...}, "ttnn.transformer.split_query_key_value_and_split_heads": {...}}`, one name a line and in sorted order
(diffs stay readable), every signature in one form, `(name: type = default, *, ...) -> type`, without the receiver, and a
name that is exported from two modules is written once, with `same_as` in the other place.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT.parent / "shared" / "reference" / "ttnn-interface.json"
TARGET = ROOT / "src" / "ttnn" / "interface.json"
KINDS = ("op", "function", "class", "enum")
RECEIVER = re.compile(r"^\w*\((?:self|cls)(?:, \*, |, /, |, |(?=\)))")
ADDRESS = re.compile(r" at 0x[0-9a-f]+>")
NAME = re.compile(r"^\w+\(")


def signature(text: str, *, bound: bool) -> str:
    """One form for nanobind's `name(self, ...)` and inspect's `(...)`; addresses of one run are no facts."""
    text = ADDRESS.sub(" at 0x...>", text)
    if not bound:
        return NAME.sub("(", text)
    receiver = RECEIVER.match(text)
    if receiver is None:
        return NAME.sub("(", text)
    keyword_only = "*, " if receiver[0].endswith("*, ") else ""
    return "(" + keyword_only + text[receiver.end() :]


def member(value: Any) -> Any:
    """A class member: its overloads, or the word for what it is (`property`, `int`, ...)."""
    return [signature(s, bound=True) for s in value] if isinstance(value, list) else value


def entry(spec: dict[str, Any], name: str) -> dict[str, Any]:
    kind = spec["kind"]
    out: dict[str, Any] = {"kind": kind}
    if kind == "op":
        if spec["fqn"] != name:
            out["fqn"] = spec["fqn"]
        out |= {"cpp": spec["cpp"], "golden": spec["golden"]}
    if kind in ("op", "function"):
        out["signatures"] = [signature(s, bound=kind == "op") for s in spec["signatures"]]
    elif kind == "class":
        out["members"] = {key: member(spec["members"][key]) for key in sorted(spec["members"])}
    else:
        out["members"] = spec["members"]
    return out


def names(members: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, spec in members.items():
        if spec.get("kind") == "module":
            yield from names(spec.get("members", {}), f"{path}{name}.")
        elif spec.get("kind") in KINDS:
            yield path + name, entry(spec, path + name)


def flatten(tree: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Shortest names first, so that an object's plainest name holds its entry and the others point at it."""
    table: dict[str, dict[str, Any]] = {}
    first: dict[str, str] = {}
    for name, spec in sorted(names(tree, "ttnn."), key=lambda item: (item[0].count("."), item[0])):
        identity = json.dumps([name.rsplit(".", 1)[1], spec], sort_keys=True)
        owner = first.setdefault(identity, name)
        table[name] = spec if owner == name or spec["kind"] == "op" else {"kind": spec["kind"], "same_as": owner}
    return dict(sorted(table.items()))


def main(argv: list[str]) -> int:
    source = Path(argv[0]) if argv else SOURCE
    table = flatten(json.loads(source.read_text()))
    lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(spec, separators=(',', ':'))}" for name, spec in table.items())
    TARGET.write_text("{\n" + lines + "\n}\n")
    shown = TARGET.relative_to(ROOT)
    print(f"{shown}: {len(table)} names, {TARGET.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
