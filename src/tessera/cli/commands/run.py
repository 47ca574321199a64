"""`tessera run`: an unmodified script on a chosen software board, and then what it used.

The script runs in this process as `__main__`, with its own arguments and its own folder first on the path, as `python SCRIPT`
would run it. Its exit code is ours.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
from pathlib import Path
from time import perf_counter
from typing import Any

EXAMPLES = """  tessera run examples/mlp.py
  tessera run --board p150 examples/bert.py
  tessera run --board t3000 --quiet -m my_package.train --steps 10
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from tessera.silicon import board

    parser.add_argument(
        "--board", choices=board.names(), metavar="BOARD", help=f"one of {', '.join(board.names())} (default: TESSERA_BOARD, else n150)"
    )
    parser.add_argument("--quiet", action="store_true", help="print no summary")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module, as in `python -m`")
    parser.add_argument("script", metavar="SCRIPT", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the script")


def run(args: argparse.Namespace) -> int:
    if not args.module and not Path(args.script).is_file():
        print(f"tessera run: there is no file {args.script!r}", file=sys.stderr)
        return 2
    if args.board:
        os.environ["TESSERA_BOARD"] = args.board
    started = perf_counter()
    code = execute(args.script, args.arguments, module=args.module)
    sys.stdout.flush()
    if not args.quiet:
        from tessera.cli.summary import show_summary

        show_summary(perf_counter() - started)
    return code


def execute(script: str, arguments: list[str], *, module: bool) -> int:
    """Run it and answer its exit code; an exception is shown as Python shows it, without our own frames."""
    sys.argv = [script, *arguments]
    sys.path[0:0] = [os.getcwd() if module else str(Path(script).resolve().parent)]
    try:
        if module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        return exit_code(end.code)
    except BaseException as error:
        outside = error.__traceback__
        while outside is not None and outside.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
            outside = outside.tb_next
        traceback.print_exception(type(error), error, outside)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def exit_code(code: Any) -> int:
    """What `sys.exit(code)` means to the shell."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1
