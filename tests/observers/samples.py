"""What the tests of this room share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

import ttnn


def read(folder: Path) -> list[dict[str, Any]]:
    """The traces of a folder, by number."""
    files = sorted(folder.glob("*.json"), key=lambda f: int(f.name.split("_")[0]))
    return [json.loads(f.read_text(), parse_constant=refuse) for f in files]


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def tensor(device: Any, *shape: int, dtype: Any = None, layout: Any = None, memory_config: Any = None) -> Any:
    torch.manual_seed(0)
    return ttnn.from_torch(
        torch.randn(*shape),
        dtype=dtype or ttnn.bfloat16,
        layout=layout or ttnn.TILE_LAYOUT,
        device=device,
        memory_config=memory_config,
    )
