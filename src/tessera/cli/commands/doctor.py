"""`tessera doctor`: everything about this installation that explains a difference between two machines."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from tessera import __version__
from tessera.cli.terminal import Table, amount, show

EXAMPLES = """  tessera doctor
  TESSERA_NATIVE_ISA=portable tessera doctor
"""

LIBRARIES = ("torch", "numpy", "nanobind", "onnx", "onnxruntime", "textual", "tokenizers", "safetensors", "tensorflow_cpu", "jax")
VARIABLES = ("TESSERA_BOARD", "TESSERA_NUMERICS", "TESSERA_NATIVE_ISA", "TTNN_CONFIG_PATH", "TTNN_CONFIG_OVERRIDES", "OMP_NUM_THREADS")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing to choose: a report that leaves things out helps nobody."""


def run(args: argparse.Namespace) -> int:
    native, healthy = native_rows()
    show(Table("software", ("what", "value"), list(software_rows())))
    show(Table("machine", ("what", "value"), [*machine_rows(), *native]))
    show(board_table())
    show(Table("places", ("what", "value"), list(place_rows())))
    if not healthy:
        print("tessera doctor: the native module does not load; `make install` builds it", file=sys.stderr)
    return 0 if healthy else 1


def version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def software_rows() -> Iterator[tuple[str, str]]:
    yield "tessera", __version__
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    for library in LIBRARIES:
        yield library, version(library)


def processor() -> str:
    """The processor's own name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def machine_rows() -> Iterator[tuple[str, str]]:
    import torch

    yield "system", platform.platform()
    yield "processor", processor()
    yield "cores", f"{len(os.sched_getaffinity(0))} usable of {os.cpu_count()}; torch uses {torch.get_num_threads()} threads"
    yield "memory", amount(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    yield "torch kernels", str(torch.backends.cpu.get_cpu_capability())


def native_rows() -> tuple[list[tuple[str, str]], bool]:
    try:
        native = importlib.import_module("tessera._native")
    except ImportError as error:
        return [("native path", f"not loaded: {error}")], False
    rows = [("native path", f"{native.isa()} (this CPU runs {', '.join(native.runnable_isas())})"), ("native module", str(native.__file__))]
    return rows, True


def board_table() -> Table:
    from tessera.silicon import board

    current = board.current_name()
    rows = []
    for name in board.names():
        each = board.get(name)
        grid, dram = f"{each.compute_grid.x}x{each.compute_grid.y}", f"{each.dram.banks} x {amount(each.dram.bank_size)}"
        mark = "*" if name == current else ""
        rows.append((mark, name, each.arch, str(each.num_chips), grid, amount(each.l1.size), dram, f"{each.clock_hz / 1e9:.2f} GHz"))
    columns = ("", "board", "chip", "chips", "grid", "L1 per core", "DRAM banks", "clock")
    return Table("boards (* is the one that opens; TESSERA_BOARD or --board chooses)", columns, rows, frozenset({"chips"}))


def place_rows() -> Iterator[tuple[str, str]]:
    import tessera

    yield "packages", str(Path(tessera.__file__).parent.parent)
    yield "python", sys.executable
    for name in VARIABLES:
        yield name, os.environ.get(name, "(not set)")
