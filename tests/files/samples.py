"""Files written by official TT-NN that tests read: one of each kind, in tests/data/tensorbin."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "tensorbin"
#: Plain tensors of every dtype, layout and tile, with their source (`src.npy`) and values (`val.npy`).
ROWS: list[dict[str, Any]] = json.loads((FOLDER / "manifest.json").read_text())
PLAIN = [FOLDER / f"{row['name']}.tensorbin" for row in ROWS]
#: Shardings, meshes and topologies.
SPREAD = sorted((FOLDER / "official").glob("*.tensorbin"))
OVERLAPPED = sorted((FOLDER / "official").glob("*.overlappedtensorbin"))


def header(path: Path) -> bytes:
    data = path.read_bytes()
    return data[8 : 8 + struct.unpack("<Q", data[:8])[0]]


def with_header(header: bytes, data: bytes) -> bytes:
    """A file of these two regions, laid out as official files are."""
    header += bytes(-(8 + len(header)) % 64)
    return struct.pack("<Q", len(header)) + header + data
