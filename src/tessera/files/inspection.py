"""What can be said of tensor files: statistics, a picture, how two of them differ, whether they are whole."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from tessera.files import overlapped, tensors
from tessera.files.container import aligned
from tessera.files.tensors import Stored
from tessera.formats.dtype import FORMATS
from tessera.formats.packing import unpack
from tessera.memory.mesh import PlacementShard

SHADES = " .:-=+*#%@"
_CACHE_NAME = re.compile(r"_dtype_(\w+?)_layout_(\w+)$")


@dataclass(frozen=True)
class Statistics:
    """Of the finite values, save for the counts."""

    count: int
    low: float
    high: float
    mean: float
    deviation: float
    zeros: int
    not_finite: int


def statistics(values: torch.Tensor) -> Statistics:
    flat = values.reshape(-1)
    finite = flat[torch.isfinite(flat)] if flat.is_floating_point() else flat
    wide = finite.double()
    count = wide.numel()
    return Statistics(
        flat.numel(),
        float(wide.min()) if count else math.nan,
        float(wide.max()) if count else math.nan,
        float(wide.mean()) if count else math.nan,
        float(wide.std(correction=0)) if count else math.nan,
        int((flat == 0).sum()),
        flat.numel() - count,
    )


def checksum(image: torch.Tensor) -> str:
    """The first 16 digits of the SHA-256 of a buffer."""
    return hashlib.sha256(image.contiguous().numpy().data).hexdigest()[:16]


def heat_map(values: torch.Tensor, rows: int = 12, columns: int = 64) -> list[list[float]]:
    """The mean magnitude of blocks of the tensor folded to a matrix, between 0 and 1 for the largest; NaN where nothing is finite."""
    matrix = values.reshape(-1, values.shape[-1] if values.dim() else 1)
    height, width = min(rows, matrix.shape[0]), min(columns, matrix.shape[1])
    if not height or not width:
        return []
    picture = torch.empty(height, width, dtype=torch.float64)
    for i in range(height):  # a band of rows at a time, so that a large tensor is never widened as a whole
        band = matrix[i * matrix.shape[0] // height : (i + 1) * matrix.shape[0] // height].double().abs()
        edges = [j * matrix.shape[1] // width for j in range(width + 1)]
        by_column = torch.where(torch.isfinite(band), band, torch.nan).nanmean(0)
        picture[i] = torch.stack([by_column[a:b].nanmean() for a, b in zip(edges, edges[1:])])
    largest = picture.nan_to_num(0).max()
    return [[float(v) for v in row] for row in (picture / largest if largest > 0 else picture)]


def shaded(picture: list[list[float]]) -> list[str]:
    """A heat map in characters; `?` where nothing is finite."""
    return ["".join("?" if math.isnan(v) else SHADES[min(int(v * len(SHADES)), len(SHADES) - 1)] for v in row) for row in picture]


def parts(found: Stored) -> list[torch.Tensor]:
    """The values of each distinct part."""
    return [unpack(image, found.spec) for image in {id(i): i for i in found.images}.values()]


def whole(found: Stored) -> torch.Tensor:
    """One tensor of all parts, put together as the topology says."""
    made = {id(i): unpack(i, found.spec) for i in found.images}
    pieces = [made[id(i)] for i in found.images]
    if len(made) == 1:
        return pieces[0]
    if found.topology.shape.mesh_size() != len(pieces):
        raise RuntimeError(
            f"its {len(pieces)} parts are not all of a distribution over {list(found.topology.shape)}; they cannot be put together"
        )
    for extent, placement in zip(reversed(list(found.topology.shape)), reversed(found.topology.placed)):
        groups = [pieces[i : i + extent] for i in range(0, len(pieces), extent)]
        pieces = [torch.cat(g, placement.dim) if isinstance(placement, PlacementShard) else g[0] for g in groups]
    return pieces[0]


# -- differences


@dataclass(frozen=True)
class Difference:
    """`ulp` counts steps of the coarser of the two formats; None for integers."""

    elements: int
    differing: int
    max_abs: float
    ulp: int | None
    pcc: float


def _steps(values: torch.Tensor, narrow: bool) -> torch.Tensor:
    """Floats as integers that rise by one from each number to the next."""
    bits = values.bfloat16().view(torch.int16).to(torch.int64) if narrow else values.float().view(torch.int32).to(torch.int64)
    return torch.where(bits < 0, -(bits + (1 << (15 if narrow else 31))), bits)


def difference(a: torch.Tensor, b: torch.Tensor) -> Difference:
    """How two tensors of one shape differ. NaN equals NaN."""
    if a.shape != b.shape:
        raise RuntimeError(f"shapes differ: {list(a.shape)} and {list(b.shape)}")
    x, y = a.reshape(-1).double(), b.reshape(-1).double()
    unequal = ~((x == y) | (x.isnan() & y.isnan()))
    distance = torch.where(unequal, (x - y).abs(), 0.0).nan_to_num(math.inf, math.inf)
    floats = a.is_floating_point() and b.is_floating_point()
    narrow = torch.bfloat16 in (a.dtype, b.dtype)
    ulp = None
    if floats:
        steps = torch.where(unequal.reshape(-1), (_steps(a.reshape(-1), narrow) - _steps(b.reshape(-1), narrow)).abs(), 0)
        ulp = int(steps.max()) if len(steps) else 0
    return Difference(len(x), int(unequal.sum()), float(distance.max()) if len(x) else 0.0, ulp, pcc(x, y))


def pcc(x: torch.Tensor, y: torch.Tensor) -> float:
    """Pearson's correlation of the finite pairs; 1 for equal constants, NaN where it is undefined."""
    finite = torch.isfinite(x) & torch.isfinite(y)
    x, y = x[finite], y[finite]
    if torch.equal(x, y):
        return 1.0
    x, y = x - x.mean(), y - y.mean()
    norm = float(x.norm() * y.norm())
    return float(x @ y) / norm if norm else math.nan


# -- whether files are whole


@dataclass(frozen=True)
class Verdict:
    """`problem` is empty for a file that is fine."""

    path: Path
    size: int
    problem: str
    summary: str = ""


def verify(folder: Path) -> Iterator[Verdict]:
    """Judge every tensor file under a folder, and what writers left behind there."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        if path.suffix in (tensors.EXTENSION, overlapped.EXTENSION):
            yield judge(path)
        elif path.name.startswith(".") and path.suffix in (".tmp", ".lock") and tensors.EXTENSION in path.suffixes[:-1]:
            yield Verdict(path, path.stat().st_size, "left behind by a writer that was killed; it can be deleted")


def judge(path: Path) -> Verdict:
    """Read a file to its last byte."""
    size = path.stat().st_size
    try:
        if path.suffix == overlapped.EXTENSION:
            views = overlapped.load(path)
            return Verdict(path, size, "", f"{len(views)} views")
        found = tensors.read(path)
        for values in parts(found):
            statistics(values)
        problem = _wrong_name(path, found) or _trailing(path, found)
    except RuntimeError as error:
        return Verdict(path, size, str(error))
    shape = "x".join(map(str, found.spec.dims)) or "scalar"
    return Verdict(path, size, problem, f"{shape} {found.spec.dtype.name} {found.spec.layout.name}, {len(found.images)} shard(s)")


def _wrong_name(path: Path, found: Stored) -> str:
    name = _CACHE_NAME.search(path.stem)
    if not name:
        return ""
    promised, held = (name[1].upper(), name[2]), (found.spec.dtype.name, found.spec.layout.name)
    return "" if promised == held or "None" in promised else f"its name promises {' '.join(promised)} and it holds {' '.join(held)}"


def _trailing(path: Path, found: Stored) -> str:
    with open(path, "rb") as file:
        header = int.from_bytes(file.read(8), "little")
    data = path.stat().st_size - 8 - header
    used = len({id(i) for i in found.images}) * aligned(found.spec.image_size)
    return f"{data - used} bytes behind the last buffer belong to nothing" if data > used else ""


def element_bits(found: Stored) -> float:
    """Bits that an element takes in the file, padding and exponents included."""
    return found.spec.image_size * 8 / found.spec.volume if found.spec.volume else float(FORMATS[found.spec.dtype].bits)
