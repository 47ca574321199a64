"""What the tests of this room share: files written by official TT-NN, and numbers that are awkward to round."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tessera.formats.dtype import DataType, Layout
from tessera.formats.layout import flat
from tessera.formats.shape import Shape
from tessera.formats.tile import DEFAULT_TILE, Tile
from tessera.memory.spec import TensorSpec

DATA = Path(__file__).parents[1] / "data"
WHOLE = Path(__file__).parents[2] / ".." / "shared" / "reference"

NAME = re.compile(r"(?P<dtype>[a-z]+\d+(?:_b)?)_(?:row_major|mem_l1|tile(?:(?P<h>\d+)x(?P<w>\d+))?)(?P<t>_t)?(?:_|$)")


@dataclass
class Sample:
    """One file: its spec, the numbers it was made from, the numbers official TT-NN reads from it, and its data bytes."""

    path: Path

    def __post_init__(self) -> None:
        stem = self.path.name.removesuffix(".tensorbin")
        match = NAME.match(stem)
        assert match, stem
        folder = self.path.parent
        self.source = torch.from_numpy(_signed(np.load(folder / f"{stem}.src.npy")))
        self.values = torch.from_numpy(np.load(folder / f"{stem}.val.npy"))
        raw = self.path.read_bytes()
        self.image = torch.frombuffer(bytearray(raw[8 + int.from_bytes(raw[:8], "little") :]), dtype=torch.uint8)
        tile = Tile((int(match["h"]), int(match["w"])), bool(match["t"])) if match["h"] else DEFAULT_TILE
        layout = Layout.ROW_MAJOR if "row_major" in stem else Layout.TILE
        if "mem_l1" in stem:
            layout = Layout.TILE
        self.spec = TensorSpec.of(Shape(list(self.source.shape)), DataType[match["dtype"].upper()], layout, tile=tile)


def _signed(array: np.ndarray) -> np.ndarray:
    return array.astype(np.int64) if array.dtype in (np.uint16, np.uint32) else array


def awkward(shape: tuple[int, ...], seed: int, specials: bool = True) -> torch.Tensor:
    """Numbers of many magnitudes, zeros of both signs, and (with `specials`) infinities, NaN, subnormals and huge numbers."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator) * torch.exp2(torch.randint(-20, 20, shape, generator=generator).float())
    kind = torch.randint(0, 60, shape, generator=generator)
    x[kind == 0], x[kind == 1] = 0.0, -0.0
    if specials:
        for i, value in enumerate((float("inf"), -float("inf"), float("nan"), 1e-40, -1e-38, 3e38, 2e-38)):
            x[kind == 2 + i] = value
    return x


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal to the last bit, NaN and signed zeros included."""
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(_bits(a), _bits(b))


def _bits(x: torch.Tensor) -> torch.Tensor:
    return flat(x).view(torch.uint8)
