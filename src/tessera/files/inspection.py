"""What can be said of tensor files: statistics, a picture, how two of them differ, whether they are whole."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from tessera.files import overlapped, tensors
from tessera.files.bands import bands
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


def statistics(passing: Iterable[torch.Tensor]) -> Statistics:
    """Of all bands together, seen once each."""
    total = finite = zeros = 0
    low, high, mean, spread = math.inf, -math.inf, 0.0, 0.0
    for band in passing:
        total += band.numel()
        zeros += int((band == 0).sum())
        good = band[torch.isfinite(band)] if band.is_floating_point() else band.reshape(-1)
        if not (count := good.numel()):
            continue
        wide = good.double()
        low, high = min(low, float(wide.min())), max(high, float(wide.max()))
        here = float(wide.mean())
        # Two sets of known mean and squared deviation make one (Chan et al.): no large sums that cancel.
        spread += float(((wide - here) ** 2).sum()) + (here - mean) ** 2 * finite * count / (finite + count)
        mean += (here - mean) * count / (finite + count)
        finite += count
    if not finite:
        low = high = mean = spread = math.nan
    return Statistics(total, low, high, mean, math.sqrt(spread / finite) if finite else math.nan, zeros, total - finite)


def checksum(image: torch.Tensor) -> str:
    """The first 16 digits of the SHA-256 of a buffer."""
    return hashlib.sha256(image.contiguous().numpy().data).hexdigest()[:16]


def heat_map(passing: Iterable[torch.Tensor], total: int, rows: int = 12, columns: int = 64) -> list[list[float]]:
    """The mean magnitude of blocks of a matrix of `total` rows, between 0 and 1 for the largest; NaN where nothing is finite."""
    sums = counts = torch.zeros(0, 0, dtype=torch.float64)
    seen = 0
    for band in passing:
        if not band.numel():
            continue
        if not seen:
            sums, counts = torch.zeros(2, min(rows, total), min(columns, band.shape[1]), dtype=torch.float64)
        to_row = torch.arange(seen, seen + len(band)) * len(sums) // total
        to_column = torch.arange(band.shape[1]) * sums.shape[1] // band.shape[1]
        magnitude = band.double().abs()
        finite = torch.isfinite(magnitude)
        for picture, part in ((sums, magnitude.where(finite, 0.0)), (counts, finite.double())):
            picture.index_add_(0, to_row, torch.zeros(len(band), sums.shape[1], dtype=torch.float64).index_add_(1, to_column, part))
        seen += len(band)
    means = sums / counts
    largest = means.nan_to_num(0).max() if seen else 0
    return [[float(v) for v in row] for row in (means / largest if largest > 0 else means)]


def shaded(picture: list[list[float]]) -> list[str]:
    """A heat map in characters; `?` where nothing is finite."""
    return ["".join("?" if math.isnan(v) else SHADES[min(int(v * len(SHADES)), len(SHADES) - 1)] for v in row) for row in picture]


def distinct(found: Stored) -> list[torch.Tensor]:
    """The image of each distinct part."""
    return list({id(image): image for image in found.images}.values())


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
        for image in distinct(found):
            for _ in bands(image, found.spec):
                pass
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
