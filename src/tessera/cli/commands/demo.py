"""`tessera demo`: the demonstration of each language, in turn. This room may not import them, so they are named here and found by name."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import traceback

EXAMPLES = """  tessera demo
  tessera demo ttnn
  TESSERA_BOARD=p150 tessera demo
"""

DEMOS = {"ttnn": "ttnn.demo", "pybuda": "pybuda.demo"}
NEXT = """
Next:
  tessera run examples/mlp.py               any script of yours runs the same way
  tessera run --board n300 SCRIPT           on another board: `tessera doctor` lists them
  tessera inspect coverage                  which of TT-NN's names are here
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "which", nargs="*", choices=[*DEMOS, []], metavar="DEMO", help=f"any of {', '.join(DEMOS)} (default: all that are installed)"
    )


def run(args: argparse.Namespace) -> int:
    failed = 0
    for name in args.which or DEMOS:
        try:
            if importlib.util.find_spec(DEMOS[name]) is None:
                continue
            importlib.import_module(DEMOS[name]).main()
        except Exception:
            traceback.print_exc()
            failed = 1
        print()
    if not failed:
        print(NEXT.strip("\n"))
    return failed
