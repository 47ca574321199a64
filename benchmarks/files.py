"""Tensor files against safetensors, torch.save, a raw write, and official ttnn in its own environment when that is there.

    python benchmarks/files.py [--mib 1024] [--repeats 5] [--folder build] [--threads 1] [--cold]

`dump`: each of them writes the same tensor and syncs it; "of raw" is its time over that of writing as many bytes with `write`, `fsync` and
`rename` to the same folder (goal: at most 1.1), best over best and, because disks are moody, the median of the rounds. `load`: from the name of a
file that is in the page cache to the first sum of its values (`--cold`: of a file that is not), by what a user calls:

    ttnn.sum              ttnn.to_torch(ttnn.sum(ttnn.load_tensor(path, device=device)))
    to_torch              ttnn.to_torch(ttnn.load_tensor(path)).sum()
    to_torch bfloat16     ttnn.to_torch(ttnn.load_tensor(path), dtype=torch.bfloat16).sum()      (block floats: otherwise it answers float32)
    safetensors           load_file(path)["t"].sum()
    torch.load            torch.load(path, weights_only=True).sum(), and with mmap=True

Both are the best of the repeats (loads: of twice as many), taken in turns so that a busy machine is busy for all. Loads also show the processor time
that they took, which says more on a machine that others use. `open` is `load_tensor` alone.
Official ttnn gives its values as a list only, so its `load` is timed as `load_tensor` and a change of layout, which touches every byte
(block floats have one layout, so there is nothing to time).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file

import ttnn

ROOT = Path(__file__).resolve().parents[1]
OFFICIAL = ROOT / ".interop" / "official" / "bin" / "python"

OFFICIAL_SCRIPT = """
import json, os, sys, time
import ttnn
path, copy = sys.argv[1:3]
times = {"open": [], "load": [], "dump": []}
for _ in range(int(sys.argv[3])):
    start = time.perf_counter()
    tensor = ttnn.load_tensor(path)
    times["open"].append(time.perf_counter() - start)
    if tensor.dtype == ttnn.bfloat16:
        tensor.to(ttnn.TILE_LAYOUT if tensor.layout == ttnn.ROW_MAJOR_LAYOUT else ttnn.ROW_MAJOR_LAYOUT)
        times["load"].append(time.perf_counter() - start)
    start = time.perf_counter()
    ttnn.dump_tensor(copy, tensor)
    file = os.open(copy, os.O_RDONLY)
    os.fsync(file)
    os.close(file)
    times["dump"].append(time.perf_counter() - start)
    os.unlink(copy)
print(json.dumps(times))
"""


class Took(NamedTuple):
    wall: float
    processor: float


def sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


def raw_write(path: Path, data: memoryview) -> None:
    part = path.with_suffix(".part")
    with open(part, "wb", buffering=0) as file:
        rest = data
        while rest:
            rest = rest[file.write(rest[: 1 << 26]) :]
        os.fsync(file.fileno())
    os.rename(part, path)


def forget(folder: Path) -> None:
    """Take the files of a folder out of the page cache."""
    for path in folder.iterdir():
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def in_turns(runs: dict[str, Callable[[], object]], repeats: int, before: Callable[[], object] = lambda: None) -> dict[str, list[Took]]:
    times: dict[str, list[Took]] = {name: [] for name in runs}
    names = list(runs)
    for turn in range(repeats):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:  # nobody always comes after the same one
            before()
            start, busy = perf_counter(), process_time()
            runs[name]()
            times[name].append(Took(perf_counter() - start, process_time() - busy))
    return times


def official(path: Path, repeats: int) -> dict[str, float]:
    mock = ROOT / "tests" / "interop" / "mock" / "n150.yaml"
    environment = os.environ | {"TT_METAL_MOCK_CLUSTER_DESC_PATH": str(mock), "TT_METAL_LOGGER_LEVEL": "FATAL"}
    command = [str(OFFICIAL), "-c", OFFICIAL_SCRIPT, str(path), str(path.with_name("official.tensorbin")), str(repeats)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return {name: min(times) for name, times in json.loads(ran.stdout.splitlines()[-1]).items() if times}


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(name: str, tensor: ttnn.Tensor, values: torch.Tensor, device: ttnn.MeshDevice, folder: Path, repeats: int, cold: bool) -> None:
    """`values` is the same content as the others hold it."""
    ours, theirs, pickled, raw = (folder / n for n in ("ours.tensorbin", "theirs.safetensors", "pickled.pt", "raw.bin"))
    image = memoryview(tensor.buffer.image(0).numpy())
    size = image.nbytes
    print(f"\n{name}: {size / 2**20:.0f} MiB of data")
    writers: dict[str, Callable[[], object]] = {
        "raw write": lambda: raw_write(raw, image),
        "dump_tensor": lambda: ttnn.dump_tensor(ours, tensor),
        "safetensors": lambda: (save_file({"t": values}, theirs), sync(theirs)),
        "torch.save": lambda: (torch.save(values, pickled), sync(pickled)),
    }
    times = in_turns(writers, repeats)
    raw.unlink()
    rows = []
    for who, found in times.items():
        raws = times["raw write"]
        best, usual = min(found).wall / min(raws).wall, statistics.median(a.wall / b.wall for a, b in zip(found, raws))
        rows.append(("dump", who, min(found).wall, f"{best:.2f} of raw (median {usual:.2f})"))

    def plain_sum(found: torch.Tensor) -> float:
        return float(found.sum())

    before = resident()
    start = perf_counter()
    opened = ttnn.load_tensor(ours)
    rows.append(("open", "load_tensor", perf_counter() - start, f"{(resident() - before) / 2**20:.1f} MiB resident"))
    del opened

    readers: dict[str, Callable[[], object]] = {
        "ttnn.sum": lambda: float(ttnn.to_torch(ttnn.sum(ttnn.load_tensor(ours, device=device)))),
        "to_torch": lambda: plain_sum(ttnn.to_torch(ttnn.load_tensor(ours))),
    }
    if tensor.dtype != ttnn.bfloat16:
        readers["to_torch bfloat16"] = lambda: plain_sum(ttnn.to_torch(ttnn.load_tensor(ours), dtype=torch.bfloat16))
    readers |= {
        "safetensors": lambda: plain_sum(load_file(theirs)["t"]),
        "torch.load": lambda: plain_sum(torch.load(pickled, weights_only=True)),
        "torch.load mmap": lambda: plain_sum(torch.load(pickled, weights_only=True, mmap=True)),
    }
    times = in_turns(readers, 2 * repeats, (lambda: forget(folder)) if cold else (lambda: None))
    best = {n: Took(*(min(column) for column in zip(*found))) for n, found in times.items()}
    others = [best[n] for n in ("safetensors", "torch.load", "torch.load mmap")]
    wall, processor = (min(column) for column in zip(*others))
    for who, took in best.items():
        note = f"{took.wall / wall:.2f} of the fastest other; processor {took.processor * 1e3:.1f} ms, {took.processor / processor:.2f}"
        rows.append(("load", who, took.wall, note))
    if OFFICIAL.exists():
        pickled.unlink()
        found = official(ours, repeats)
        rows += [(what, "official ttnn", t, "") for what, t in found.items()]
    for what, who, seconds, note in rows:
        print(f"  {what:5} {who:18} {seconds * 1e3:9.1f} ms  {note}")
    for path in folder.iterdir():
        path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--cold", action="store_true")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    rows = args.mib * 2**20 // 2 // 4096
    values = torch.randn(rows, 4096).bfloat16()
    device = ttnn.open_device(device_id=0)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for layout in (ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT):
            tensor = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=layout)
            measure(f"bfloat16 {layout.name}", tensor, values, device, Path(folder), args.repeats, args.cold)
        del tensor
        wide = torch.randn(rows * 32 // 17, 4096)[: rows * 32 // 17 // 32 * 32].bfloat16()
        tensor = ttnn.from_torch(wide, dtype=ttnn.bfloat8_b)
        measure("bfloat8_b TILE (the others hold its values as bfloat16)", tensor, wide, device, Path(folder), args.repeats, args.cold)
    ttnn.close_device(device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
