"""Processes that load one file share its pages."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import torch

import ttnn

READER = """
    import sys, ttnn
    loaded = ttnn.load_tensor(sys.argv[1])
    total = float(loaded.values.sum())
    print("ready", flush=True)
    sys.stdin.readline()
    fields = {}
    inside = False
    for line in open("/proc/self/smaps"):
        if "-" in line.split()[0]:
            inside = line.rstrip().endswith(sys.argv[1])
        elif inside:
            name, number = line.split()[:2]
            if number.isdigit():
                fields[name] = fields.get(name, 0) + int(number)
    print(fields["Rss:"], fields["Pss:"], fields["Private_Dirty:"], total, flush=True)
"""


def test_two_readers_hold_the_pages_once(tmp_path: Path) -> None:
    path = tmp_path / "a.tensorbin"
    ttnn.dump_tensor(path, ttnn.from_torch(torch.ones(4096, 4096), dtype=ttnn.bfloat16))  # 32 MiB
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(READER), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
    for reader in readers:
        said, _ = reader.communicate("\n", timeout=60)
        resident, proportional, dirty, total = map(float, said.split())
        assert total == 4096 * 4096
        assert resident >= 32 * 1024
        assert proportional < 0.75 * resident, "half of each page, or less"
        assert dirty == 0
        break  # the second is alone by now
