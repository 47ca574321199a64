"""What it costs to be watched, and what it costs not to be.

    python benchmarks/observers.py [--calls 100000] [--files 5000] [--long 100000] [--mib 16] [--folder DIR]

`off` is a call with nobody watching, `removed` the same call through the way in that does not look for watchers; both are the median of many short
rounds taken in turns, and the spread between two halves of the same rounds says what difference means nothing. `tracing` is a call with parameter tracing on,
less the call itself; beside it stands what merely creating files of that size costs on this file system, which is most of it.
`values` writes one tensor with its values. `flat` traces many operations and looks at the process's memory on the way. `capture` is
`ttnn.add` under graph capture; `NO_DISPATCH` of tensors whose sum would take far longer. Nothing is deleted before the end: ext4 creates files slowly
for a while after many were deleted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch

import ttnn
from ttnn import operation_tracer

ROUND = 2000


def timed(call: Callable[[], Any], count: int, clock: Callable[[], float] = perf_counter) -> float:
    """Seconds a call."""
    started = clock()
    for _ in range(count):
        call()
    return (clock() - started) / count


def off_and_removed(op: Any, a: Any, b: Any, calls: int) -> None:
    plain, direct = op, op._unwatched
    off: list[float] = []
    removed: list[float] = []
    for _ in range(max(4, calls // ROUND)):
        off.append(timed(lambda: plain(a, b), ROUND))
        removed.append(timed(lambda: direct(a, b), ROUND))
    us = [1e6 * statistics.median(times) for times in (off, removed)]
    halves = [1e6 * abs(statistics.median(t[::2]) - statistics.median(t[1::2])) for t in (off, removed)]
    print(f"off       {us[0]:8.3f} us a call over {len(off) * ROUND} calls")
    print(f"removed   {us[1]:8.3f} us; difference {us[0] - us[1]:+.3f} us, noise {max(halves):.3f} us")


def resident() -> float:
    """MiB of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def files_alone(folder: Path, count: int, size: int) -> float:
    """Seconds to create a file of this size, with nothing else."""
    folder.mkdir()
    data, where = b"x" * size, os.open(folder, os.O_RDONLY)
    started = perf_counter()
    for i in range(count):
        handle = os.open(f"{i}_ttnn_add_20260115_104616_{i:06}.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=where)
        os.write(handle, data)
        os.close(handle)
    seconds = (perf_counter() - started) / count
    os.close(where)
    return seconds


def tracing(a: Any, b: Any, folder: Path, count: int) -> None:
    untraced = timed(lambda: ttnn.add(a, b), count)
    rounds, size = [], 0
    for i in range(3):
        place = folder / f"traces{i}"
        ttnn.CONFIG.operation_parameter_log_dir = place
        operation_tracer.enable_tracing()
        ttnn.add(a, b)
        began = process_time()
        traced = timed(lambda: ttnn.add(a, b), count)
        cpu = (process_time() - began) / count
        operation_tracer.enable_tracing(False)
        size = next(place.iterdir()).stat().st_size
        rounds.append((traced - untraced, cpu, files_alone(folder / f"alone{i}", count, size)))
    cost, cpu, alone = min(rounds)
    print(
        f"tracing   {cost * 1e6:8.1f} us an operation without values ({cpu * 1e6:.1f} us of CPU); "
        f"creating files of {size} B alone: {alone * 1e6:.1f} us"
    )


def values(folder: Path, mib: int) -> None:
    for dtype in (ttnn.bfloat16, ttnn.float32, ttnn.bfloat8_b, ttnn.int32, ttnn.uint8):
        width = {ttnn.float32: 4, ttnn.int32: 4, ttnn.bfloat16: 2}.get(dtype, 1)
        given = torch.randn(mib * 2**20 // width // 1024, 1024) * 50
        tensor = ttnn.from_torch(
            given if dtype not in (ttnn.int32, ttnn.uint8) else given.abs().to(torch.int32), dtype=dtype, layout=ttnn.TILE_LAYOUT
        )

        name = str(dtype).rpartition(".")[2].lower()

        def write(tensor: Any = tensor, name: str = name) -> None:
            operation_tracer.serialize_operation_parameters("ttnn.relu", (tensor,), {}, folder / name)

        write()  # the values face of a packed format is made once
        rates = [mib / min(timed(write, 1, clock) for _ in range(3)) for clock in (perf_counter, process_time)]
        text = max(f.stat().st_size for f in (folder / name).iterdir()) / 2**20
        name = str(dtype).rpartition(".")[2].lower()
        print(
            f"values    {rates[0]:8.0f} MiB/s of {name}, {rates[1]:.0f} MiB of it in a second of CPU ({text:.0f} MiB of text from {mib} MiB)"
        )


def flat(a: Any, b: Any, folder: Path, count: int) -> None:
    ttnn.CONFIG.operation_parameter_log_dir = folder / "long"
    operation_tracer.enable_tracing()
    seen, started = [], perf_counter()
    for part in range(10):
        for _ in range(count // 10):
            ttnn.add(a, b)
        seen.append(resident())
        if part == 0:
            before = resident()
    seconds = perf_counter() - started
    operation_tracer.enable_tracing(False)
    written = sum(1 for _ in (folder / "long").iterdir())
    print(
        f"flat      {written} operations in {seconds:.1f} s; memory {before:.1f} MiB after a tenth, {seen[-1]:.1f} MiB at the end, most {max(seen):.1f}"
    )


def capture(a: Any, b: Any, count: int) -> None:
    """In seconds of CPU: captures are short, and a busy machine would be most of what is seen."""
    plain = timed(lambda: ttnn.add(a, b), count, process_time)
    ttnn.graph.begin_graph_capture()
    normal = timed(lambda: ttnn.add(a, b), count, process_time)
    ttnn.graph.end_graph_capture()
    print(f"capture   {1e6 * (normal - plain):8.1f} us of CPU more an operation with RunMode.NORMAL")
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NO_DISPATCH)
    big = ttnn.empty([1, 32, 4096, 4096], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=a.device())
    calls = {"add": lambda: ttnn.add(big, big), "matmul": lambda: ttnn.matmul(big, big), "softmax": lambda: ttnn.softmax(big, dim=-1)}
    for name, call in calls.items():
        call()
        wall, cpu = timed(call, count), timed(call, count, process_time)
        print(f"dry run   {1e6 * cpu:8.1f} us of CPU ({1e6 * wall:.1f} us) for ttnn.{name} of 1 GiB tensors with RunMode.NO_DISPATCH")
    ttnn.graph.end_graph_capture()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000, help="calls for off and removed")
    parser.add_argument("--files", type=int, default=5000, help="operations traced for the cost of one")
    parser.add_argument("--long", type=int, default=100_000, help="operations traced for flat memory; 0 leaves it out")
    parser.add_argument("--mib", type=int, default=16, help="tensor data for the rate with values")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where files are written")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    device = ttnn.open_device(device_id=0)
    a, b = (ttnn.rand([2, 3], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device) for _ in range(2))
    ttnn.add(a, b)
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        off_and_removed(ttnn.add, a, b, args.calls)
        tracing(a, b, folder, args.files)
        values(folder, args.mib)
        if args.long:
            flat(a, b, folder, args.long)
        capture(a, b, 500)
    ttnn.close_device(device)


if __name__ == "__main__":
    main()
