"""What an operation costs beside its arithmetic, and that the cost does not grow.

    python benchmarks/launch.py [--operations 100000]

First, small operations end to end from Python beside the same in torch. Then a long program of small operations in ten slices: processor time and memory of
the last slices must be those of the first ones.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import torch
from peers import compare, cpu_name, human

import ttnn
from tessera import native


def resident() -> int:
    """Bytes of memory this process holds now (its peak where the system does not say)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return pages * resource.getpagesize()


def small_operations(device: Any) -> None:
    x, y, row = torch.randn(32, 32).bfloat16(), torch.randn(32, 32).bfloat16(), torch.randn(1, 32).bfloat16()
    a, b, c = (ttnn.from_torch(t, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device) for t in (x, y, row))
    rows: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
        ("add", lambda: ttnn.add(a, b), lambda: torch.add(x, y)),
        ("add, a number", lambda: ttnn.add(a, 2.0), lambda: torch.add(x, 2.0)),
        ("add, a row", lambda: ttnn.add(a, c), lambda: torch.add(x, row)),
        ("exp", lambda: ttnn.exp(a), lambda: torch.exp(x)),
        ("softmax", lambda: ttnn.softmax(a, dim=-1), lambda: torch.softmax(x, -1)),
        ("sum", lambda: ttnn.sum(a, dim=-1), lambda: torch.sum(x, -1)),
        ("matmul", lambda: ttnn.matmul(a, b), lambda: torch.mm(x, y)),
        ("transpose", lambda: ttnn.transpose(a, 0, 1), lambda: x.t().contiguous()),
    ]
    print("| 32x32 bfloat16 | torch | ours | more |\n|---|---|---|---|")
    for name, ours, peer in rows:
        timing = compare(ours, peer)
        more = timing.ours - timing.peer
        print(f"| {name} | {human(timing.peer)} | {human(timing.ours)} | {'-' if more < 0 else '+'}{human(abs(more))} |", flush=True)


def long_program(device: Any, operations: int) -> None:
    x = ttnn.from_torch(torch.randn(32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    each = max(operations // 10 // 5, 1)
    print(f"\n| slice of {each * 5} operations | us each | memory | buffers alive | programs |\n|---|---|---|---|---|")
    times = []
    before = resident()
    for part in range(10):
        started = process_time()
        for step in range(each):
            y = ttnn.add(x, x)
            y = ttnn.multiply(y, 0.5)
            y = ttnn.add(y, float(part * each + step))  # a number that never comes again
            y = ttnn.exp(y)
            y = ttnn.matmul(y, x)
        times.append((process_time() - started) / (each * 5))
        memory = resident()
        print(
            f"| {part + 1} | {times[-1] * 1e6:.2f} | {memory / 2**20:.1f} MiB | {device.tensors_alive} | {device.num_program_cache_entries()} |",
            flush=True,
        )
    print(
        f"\nlast three slices against the three after the first: {sum(times[-3:]) / sum(times[1:4]):.2f} of the time, {(memory - before) / 2**20:+.1f} MiB in all"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=100_000)
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    device = ttnn.open_device(device_id=0)
    print(f"CPU: {cpu_name()}; native path: {native.name()}; torch {torch.__version__}; 1 thread\n")
    small_operations(device)
    long_program(device, args.operations)
    ttnn.close_device(device)


if __name__ == "__main__":
    main()
