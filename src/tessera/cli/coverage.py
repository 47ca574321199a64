"""The official interface against what the packages really export: the page docs/coverage.md.

For every name of `ttnn/interface.json`: is it here, is it built, is its signature the official one, and (operations) what share of the
observed calls in this checkout's sample ends as it was observed. Nothing is kept by hand, so the page cannot flatter.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tessera.cli.terminal import Table, show

PARAMETER = re.compile(r"(\w+)\s*(?::|=|$)")
#: Modules of the interface whose names are what users write; the others are official internals that happen to be importable.
PUBLIC = ("ttnn", "ttnn.transformer", "ttnn.kv_cache", "ttnn.experimental")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, help="write the whole page as Markdown, instead of a table here")
    parser.add_argument("--no-behaviour", action="store_true", help="leave out the replay of observed calls (it takes most of the time)")


@dataclass(frozen=True)
class Name:
    """One name of the official interface, and how far ours is."""

    name: str
    kind: str
    present: bool
    built: bool
    signature: bool | None
    held: int = 0
    observed: int = 0

    @property
    def module(self) -> str:
        return self.name.rpartition(".")[0]


def run(args: argparse.Namespace) -> int:
    names = list(survey({} if args.no_behaviour else behaviour()))
    if args.output is None:
        show(summary(names))
        return 0
    args.output.write_text(page(names))
    built = sum(name.built for name in names)
    print(f"{args.output}: {built} of {len(names)} names")
    return 0


# -- looking -----------------------------------------------------------------


def survey(scores: dict[str, list[int]]) -> Iterator[Name]:
    ttnn = importlib.import_module("ttnn")
    table: dict[str, dict[str, Any]] = json.loads((Path(str(ttnn.__file__)).parent / "interface.json").read_text())
    for name, spec in table.items():
        if name.rpartition(".")[2] in ("Any", "ClassVar") or name.rpartition(".")[2].startswith("_"):
            continue  # what official modules themselves import
        found, present = resolve(ttnn, name)
        held, observed = scores.get(name, (0, 0))
        official = table[spec["same_as"]] if "same_as" in spec else spec
        built = present and is_built(found)
        yield Name(name, spec["kind"], present, built, same_signature(found, official) if built else None, held, observed)


def resolve(root: ModuleType, name: str) -> tuple[Any, bool]:
    found: Any = root
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part)
        except AttributeError:
            return None, False
    return found, True


def is_built(found: Any) -> bool:
    """False for the stand-in that refuses to work because the operation is not there yet."""
    return not getattr(found, "is_not_built", False)


def parameters(signature: str) -> list[str]:
    """The parameter names of a signature in text: `(a: int, b: tuple[int, int] = (1, 2), *, c=None) -> X`."""
    names, depth, start = [], 0, 1
    for place, letter in enumerate(signature):
        if letter in "([{<":
            depth += 1
        elif letter in ")]}" or (letter == ">" and signature[place - 1] != "-"):
            depth -= 1
        if (letter == "," and depth == 1) or depth == 0:
            piece = signature[start:place].strip()
            if piece not in ("", "*", "/") and (match := PARAMETER.match(piece.lstrip("*"))):
                names.append(match[1])
            start = place + 1
        if depth == 0:
            break
    return names


def same_signature(found: Any, official: dict[str, Any]) -> bool | None:
    """Whether every official parameter can be given by its name (operations are bound against the official overloads); None if there is
    nothing to compare."""
    if official["kind"] == "enum":
        return {str(key) for key in official["members"]} <= set(getattr(found, "__members__", {}))
    if official["kind"] == "class":
        return all(hasattr(found, member) for member in official["members"])
    if not official.get("signatures"):
        return None
    function = getattr(found, "function", found)
    renames = getattr(found, "renames", {})
    try:
        mine = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in mine.values()):
        return True
    wanted = {renames.get(name, name) for text in official["signatures"] for name in parameters(text) if not name.startswith("arg")}
    return wanted <= mine.keys()


def behaviour() -> dict[str, list[int]]:
    """Held and observed calls of each operation, by this checkout's own replayer; nothing where there is no checkout."""
    root = Path(__file__).resolve().parents[3]
    replayer, sample = root / "tests" / "conformance" / "replayer.py", root / "tests" / "data" / "behaviour" / "ops.jsonl"
    if not (replayer.is_file() and sample.is_file()):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        scores = Path(folder) / "scores.json"
        done = subprocess.run([sys.executable, replayer, "ops", sample, "--scores", scores], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the replay of observed calls failed: {done.stderr.strip().splitlines()[-1:]}")
        found: dict[str, list[int]] = json.loads(scores.read_text())
    return found


# -- telling -----------------------------------------------------------------


def share(part: int, whole: int) -> str:
    return f"{part} of {whole}" if whole else "-"


def by_module(names: Iterable[Name]) -> dict[str, list[Name]]:
    modules: dict[str, list[Name]] = defaultdict(list)
    for name in names:
        modules[name.module].append(name)
    return {
        module: modules[module] for module in sorted(modules, key=lambda m: (m not in PUBLIC, PUBLIC.index(m) if m in PUBLIC else 0, m))
    }


COLUMNS = ("module", "kind", "present", "built", "signature", "calls that hold")


def summary_rows(names: list[Name]) -> Iterator[tuple[str, ...]]:
    for module, members in by_module(names).items():
        kinds: dict[str, list[Name]] = defaultdict(list)
        for name in members:
            kinds[name.kind].append(name)
        for kind, group in sorted(kinds.items()):
            compared = [name for name in group if name.signature is not None]
            yield (
                module,
                kind,
                share(sum(n.present for n in group), len(group)),
                share(sum(n.built for n in group), len(group)),
                share(sum(bool(n.signature) for n in compared), len(compared)),
                share(sum(n.held for n in group), sum(n.observed for n in group)),
            )


def summary(names: list[Name]) -> Table:
    return Table("the official interface", COLUMNS, list(summary_rows(names)), frozenset(COLUMNS[2:]))


def page(names: list[Name]) -> str:
    """The Markdown page: the summary, then every name of the modules that users write, the absent ones first."""
    lines = [
        "# Coverage",
        "",
        "Generated by `tessera inspect coverage --output docs/coverage.md` from the official interface (ttnn 0.81.1) against what the packages",
        "export. *Signature*: every official parameter can be given by its name. *Calls that hold*: of the observed calls sampled in",
        "`tests/data/behaviour`, those with the observed result or refusal.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
        *("| " + " | ".join(row) + " |" for row in summary_rows(names)),
        "",
    ]
    for module, members in by_module(names).items():
        if module not in PUBLIC:
            continue
        missing = [name.name for name in members if not name.built]
        lines += [f"## {module}", "", f"Missing: {', '.join(f'`{name}`' for name in missing) or 'nothing'}.", ""]
        operations = [name for name in members if name.kind in ("op", "function") and name.built]
        if operations:
            lines += ["| name | signature | calls that hold |", "|---|---|---|"]
            words = {True: "equal", False: "differs", None: "-"}
            lines += [f"| `{n.name}` | {words[n.signature]} | {share(n.held, n.observed)} |" for n in operations]
            lines.append("")
    return "\n".join(lines)
