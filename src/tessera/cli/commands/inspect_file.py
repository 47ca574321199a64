"""Tensor files: what is in one, how two differ, whether those of a folder are whole, and conversion from and to safetensors and npy."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tessera.cli.terminal import Table, amount, show
from tessera.files import conversion, inspection, overlapped, tensors
from tessera.files.bands import bands, unordered
from tessera.files.container import open_file
from tessera.formats.dtype import FORMATS, DataType, Layout

EXAMPLES = """  tessera inspect weights.tensorbin
  tessera inspect a.tensorbin --diff b.tensorbin
  tessera inspect model_cache/ --verify
  tessera inspect model_cache/ --to model.safetensors
  tessera inspect model.safetensors --to model_cache/ --dtype bfloat8_b
"""

#: Suffixes that this module shows; "" is a folder.
SUFFIXES = (tensors.EXTENSION, overlapped.EXTENSION, ".safetensors", ".npy", "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    dtypes = sorted(d.name.lower() for d in FORMATS)
    parser.epilog = f"examples:\n{EXAMPLES}"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--diff", metavar="OTHER", type=Path, help="compare with another tensor file: max abs, ULP, PCC")
    parser.add_argument("--verify", action="store_true", help="read every tensor file of the folder to its last byte")
    parser.add_argument("--to", metavar="TARGET", type=Path, help="convert: a .safetensors, .npy or .tensorbin file, or a folder")
    parser.add_argument("--dtype", choices=dtypes, help="dtype of the tensor files that --to writes")
    parser.add_argument("--layout", choices=["row_major", "tile"], help="their layout")


def run(args: argparse.Namespace) -> int:
    path: Path = args.path
    try:
        if args.to is not None:
            return _convert(path, args.to, args.dtype, args.layout)
        if args.diff is not None:
            return _diff(path, args.diff)
        if args.verify or path.is_dir():
            return _verify(path, args.verify)
        if path.suffix == overlapped.EXTENSION:
            return _show_views(path)
        if path.suffix in (".safetensors", ".npy"):
            return _show_foreign(path)
        return _show(path)
    except (RuntimeError, OSError) as error:
        print(f"tessera inspect: {error}", file=sys.stderr)
        return 1


def _number(value: float) -> str:
    return f"{value:.6g}"


def _show(path: Path) -> int:
    file = open_file(path)
    found = tensors.contents(file, file.root)
    spec = found.spec
    rows = [
        ("shape", f"{list(spec.dims)}, padded {list(spec.padded_shape)}"),
        ("dtype", f"{spec.dtype.name}, {inspection.element_bits(found):.2f} bits an element"),
        ("layout", spec.layout.name + (f", tiles of {spec.tile.height}x{spec.tile.width}" if spec.layout is Layout.TILE else "")),
        ("transposed tiles", "yes" if spec.layout is Layout.TILE and spec.tile.transposed else "no"),
        ("memory config", repr(spec.memory_config)),
        ("mesh", f"{list(found.mesh)}, distributed over {list(found.topology.shape)} as {found.topology.placements()}"),
        ("file", f"{amount(file.file_size)}: header {amount(file.header_size)}, data {amount(file.data.numel())}"),
    ]
    show(Table(str(path), ("property", "value"), rows))
    by_image = {id(image): image for image in found.images}
    stats = {key: inspection.statistics(unordered(image, spec)) for key, image in by_image.items()}
    sums = {key: inspection.checksum(image) for key, image in by_image.items()}
    columns = ("at", "bytes", "sha256", "min", "max", "mean", "std", "zeros", "not finite")
    shards = []
    for place, image in zip(found.topology.coords, found.images):
        s = stats[id(image)]
        numbers = (_number(n) for n in (s.low, s.high, s.mean, s.deviation))
        shards.append((str(list(place)), str(image.numel()), sums[id(image)], *numbers, str(s.zeros), str(s.not_finite)))
    show(Table(f"{len(found.images)} shard(s), {len(by_image)} stored", columns, shards, frozenset(columns[1:2] + columns[3:])))
    print(f"mean magnitude, {inspection.SHADES.strip()[0]} low to {inspection.SHADES[-1]} high")
    for line in inspection.shaded(inspection.heat_map(bands(found.images[0], spec), math.prod(spec.dims[:-1]))):
        print(f"  |{line}|")
    return 0


def _show_views(path: Path) -> int:
    views = overlapped.load(path)
    rows = [
        (
            name,
            str(v.tensor_shape),
            str(v.shard_shape),
            v.dtype.name,
            str(v.tile_shape),
            str(v.core_range_set),
            str(v.byte_offset),
            str(v.total_size),
        )
        for name, v in views.items()
    ]
    show(Table(str(path), ("view", "shape", "shard", "dtype", "tile", "cores", "from byte", "bytes"), rows))
    return 0


def _show_foreign(path: Path) -> int:
    rows = [
        (name, str(list(values.shape)), str(values.dtype).removeprefix("torch."), amount(values.nbytes))
        for name, values in conversion.contents(path)
    ]
    show(Table(str(path), ("tensor", "shape", "dtype", "size"), rows))
    return 0


def _diff(path: Path, other: Path) -> int:
    a, b = tensors.read(path), tensors.read(other)
    for what in ("shape", "dtype", "layout", "memory_config"):
        left, right = getattr(a.spec, what), getattr(b.spec, what)
        if left != right:
            print(f"{what}: {left} and {right}")
    d = inspection.difference(inspection.whole(a), inspection.whole(b))
    rows = [
        ("elements", str(d.elements)),
        ("differing", f"{d.differing} ({100 * d.differing / max(d.elements, 1):.3g} %)"),
        ("max abs", _number(d.max_abs)),
        ("max ULP", "-" if d.ulp is None else str(d.ulp)),
        ("PCC", f"{d.pcc:.9f}"),
    ]
    show(Table(f"{path} against {other}", ("measure", "value"), rows))
    return 0 if d.differing == 0 else 1


def _verify(path: Path, strict: bool) -> int:
    if not path.exists():
        raise RuntimeError(f"{path} does not exist")
    verdicts = list(inspection.verify(path)) if path.is_dir() else [inspection.judge(path)]
    base = path if path.is_dir() else path.parent
    rows = [(str(v.path.relative_to(base)), amount(v.size), v.summary, v.problem or "ok") for v in verdicts]
    bad = sum(bool(v.problem) for v in verdicts)
    show(Table(f"{path}: {len(verdicts)} files, {bad} with problems", ("file", "size", "tensor", "verdict"), rows, frozenset({"size"})))
    return int(strict and bad > 0)


@contextmanager
def _progress(total: int) -> Iterator[conversion.Progress]:
    from tqdm import tqdm

    with tqdm(total=total, unit="B", unit_scale=True, disable=None) as bar:

        def done(name: str, size: int) -> None:
            bar.set_postfix_str(name, refresh=False)
            bar.update(size)

        yield done


def _convert(path: Path, target: Path, dtype: str | None, layout: str | None) -> int:
    kind = DataType[dtype.upper()] if dtype else None
    order = Layout[layout.upper()] if layout else None
    if path.suffix in (".safetensors", ".npy"):
        with _progress(path.stat().st_size) as done:
            conversion.convert(path, target, kind, order, done)
    else:
        if target.suffix not in (".safetensors", ".npy"):
            raise RuntimeError(f"--to {target}: tensor files become .safetensors or .npy")
        if kind is not None or order is not None:
            raise RuntimeError("--dtype and --layout are for the tensor files that --to writes")
        sources = sorted(path.rglob(f"*{tensors.EXTENSION}")) if path.is_dir() else [path]
        if not sources:
            raise RuntimeError(f"{path} holds no {tensors.EXTENSION} files")
        with _progress(sum(s.stat().st_size for s in sources)) as done:
            conversion.export(sources, target, done)
    print(f"wrote {target}")
    return 0
