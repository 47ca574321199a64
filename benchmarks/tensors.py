"""What it costs to get to the first tensor and to bring tensors in and out, beside torch.

    python benchmarks/tensors.py [--threads 1] [--size 4096]

Conversions: `from_torch` to a TILE tensor on the device and `to_torch` back, beside a clone and a cast of the same tensor to the same dtype (goal: at most
1.5 times as long). A device tensor makes its tiles' bytes when somebody asks for bytes; the rows "with its bytes" ask.
Start: seconds of processor time that `import ttnn` takes after `import torch` (goal: 0.3), and the wall's for `open_device` (goal: 0.05), each in
processes of their own; of official ttnn too where `make interop` has put it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peers import compare, cpu_name, human

import ttnn
from tessera import native

ROOT = Path(__file__).resolve().parents[1]
OFFICIAL = ROOT / ".interop" / "official" / "bin" / "python"

START = """
import json, sys
from time import perf_counter, process_time
times = {}
if "torch" in sys.argv:
    wall, busy = perf_counter(), process_time()
    import torch
    times["import torch"] = [process_time() - busy, perf_counter() - wall]
wall, busy = perf_counter(), process_time()
import ttnn
times["import ttnn"] = [process_time() - busy, perf_counter() - wall]
wall, busy = perf_counter(), process_time()
device = ttnn.open_device(device_id=0)
times["open_device"] = [process_time() - busy, perf_counter() - wall]
ttnn.close_device(device)
print(json.dumps(times))
"""


def start(python: str, *words: str, environment: dict[str, str] | None = None, rounds: int = 5) -> dict[str, tuple[float, float]]:
    """Seconds of (processor, wall) for each step of a fresh process: the fastest of the rounds, after one that only warms the files."""
    best: dict[str, tuple[float, float]] = {}
    for count in range(rounds + 1):
        ran = subprocess.run(
            [python, "-c", START, *words], env=os.environ | (environment or {}), cwd=ROOT, capture_output=True, text=True, check=True
        )
        if count:
            for name, (busy, wall) in json.loads(ran.stdout.splitlines()[-1]).items():
                held = best.get(name, (float("inf"), float("inf")))
                best[name] = min(held[0], busy), min(held[1], wall)
    return best


def starting() -> None:
    print("\n| start | processor | wall | goal |\n|---|---|---|---|")
    ours = start(sys.executable, "torch")
    goals = {"import ttnn": "0.3 s more than torch", "open_device": "50 ms"}
    rows = [(name, times, goals.get(name, "the peer")) for name, times in ours.items()]
    if OFFICIAL.exists():
        mock = ROOT / "tests" / "interop" / "mock" / "n150.yaml"
        environment = {"TT_METAL_MOCK_CLUSTER_DESC_PATH": str(mock), "TT_METAL_LOGGER_LEVEL": "FATAL"}
        rows += [
            (f"official: {name}", times, "the peer") for name, times in start(str(OFFICIAL), environment=environment, rounds=2).items()
        ]
    for name, (busy, wall), goal in rows:
        print(f"| {name} | {human(busy)} | {human(wall)} | {goal} |", flush=True)
    print(f"\nimport ttnn takes {ours['import ttnn'][0] / ours['import torch'][0]:.2f} of what import torch takes")


def conversions(device: Any, size: int, threads: int) -> None:
    wide = torch.randn(size, size)
    narrow = wide.bfloat16()

    def there(source: torch.Tensor, dtype: Any) -> Any:
        return ttnn.from_torch(source, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)

    held = there(wide, ttnn.bfloat16)
    blocks = there(wide, ttnn.bfloat8_b)
    rows: list[tuple[str, Callable[[], Any], str, Callable[[], Any]]] = [
        ("fp32 to the device as bfloat16", lambda: there(wide, ttnn.bfloat16), "clone, bfloat16()", lambda: wide.clone().bfloat16()),
        (
            "the same, with its bytes",
            lambda: there(wide, ttnn.bfloat16).buffer.image(0),
            "clone, bfloat16()",
            lambda: wide.clone().bfloat16(),
        ),
        ("bfloat16 to the device", lambda: there(narrow, ttnn.bfloat16), "clone", lambda: narrow.clone()),
        ("bfloat16 back", lambda: ttnn.to_torch(held), "clone", lambda: narrow.clone()),
        (
            "bfloat16 back as fp32",
            lambda: ttnn.to_torch(held, dtype=torch.float32),
            "clone, float()",
            lambda: narrow.clone().float(),
        ),
        (
            "fp32 there and back",
            lambda: ttnn.to_torch(there(wide, ttnn.bfloat16)),
            "clone, bfloat16(), clone",
            lambda: wide.clone().bfloat16().clone(),
        ),
        ("fp32 to the device as bfloat8_b", lambda: there(wide, ttnn.bfloat8_b), "clone, bfloat16()", lambda: wide.clone().bfloat16()),
        ("bfloat8_b back", lambda: ttnn.to_torch(blocks), "clone, float()", lambda: narrow.clone().float()),
    ]
    print(f"\n| {size}x{size}, TILE | ours | torch | what torch does | ours/torch |\n|---|---|---|---|---|")
    for name, ours, doing, peer in rows:
        timing = compare(ours, peer, rounds=5, seconds=0.05, threads=threads)
        print(f"| {name} | {human(timing.ours)} | {human(timing.peer)} | {doing} | {timing.ratio:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--size", type=int, default=4096)
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.set_num_threads(args.threads)
    print(f"CPU: {cpu_name()}; native path: {native.name()}; torch {torch.__version__}; {args.threads} thread(s)")
    with ttnn.manage_device(0) as device:
        conversions(device, args.size, args.threads)
    starting()


if __name__ == "__main__":
    main()
