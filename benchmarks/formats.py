"""How fast numbers change form: each native kernel against memcpy of the bytes it touches, torch and numpy.

    python benchmarks/formats.py [--size 2048] [--threads 1] [--repeats 9]

"of memcpy" is the bandwidth of the kernel (bytes read plus bytes written, a second) over that of a copy which reads and
writes as many bytes in the same run, on the same number of threads: 0.50 is the goal on one thread. "x torch" and "x numpy"
say how many times longer the vectorised versions take. Times are the best of the repeats, taken in turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from tessera import native
from tessera.formats.dtype import FORMATS, DataType
from tessera.formats.layout import tilize, untilize
from tessera.formats.packing import pack_tiles, unpack_tiles
from tessera.formats.rounding import to_grid

BFP = {DataType.BFLOAT8_B: 7, DataType.BFLOAT4_B: 3}


@dataclass
class Case:
    name: str
    run: Callable[[], object]
    bytes: int
    numpy: Callable[[], object] | None = None


def numpy_tilize(x: np.ndarray) -> np.ndarray:
    h, w = x.shape
    return np.ascontiguousarray(x.reshape(h // 32, 2, 16, w // 32, 2, 16).transpose(0, 3, 1, 4, 2, 5)).reshape(-1)


def numpy_untilize(tiles: np.ndarray, h: int, w: int) -> np.ndarray:
    return np.ascontiguousarray(tiles.reshape(h // 32, w // 32, 2, 2, 16, 16).transpose(0, 2, 4, 1, 3, 5)).reshape(h, w)


def numpy_encode(x: np.ndarray, keep: int) -> tuple[np.ndarray, np.ndarray]:
    bits = x.reshape(-1, 16).view(np.uint32)
    exponent = (bits >> 23) & 255
    shared = exponent.max(-1, keepdims=True)
    mantissa = np.where(exponent == 0, 0, (bits & 0x7FFFFF) | 0x800000) >> np.minimum(shared - exponent, 31)
    drop = 24 - keep
    code = np.minimum((mantissa + ((1 << (drop - 1)) - 1) + ((mantissa >> drop) & 1)) >> drop, (1 << keep) - 1)
    return shared.astype(np.uint8), (np.where(code == 0, 0, (bits >> 31) << keep) | code).astype(np.uint8)


def numpy_decode(shared: np.ndarray, code: np.ndarray, keep: int) -> np.ndarray:
    value = (code & ((1 << keep) - 1)).astype(np.float32) * np.exp2(shared.astype(np.float32) - 127 - (keep - 1))
    return np.where(code >> keep, -value, value).astype(np.float32)


def numpy_pack(x: np.ndarray, keep: int) -> np.ndarray:
    shared, code = numpy_encode(numpy_tilize(x), keep)
    code = code.reshape(-1, 1024)
    if keep == 3:
        code = code[:, 0::2] | (code[:, 1::2] << 4)
    return np.concatenate([shared.reshape(-1, 64), code], 1).reshape(-1)


def cases(n: int) -> list[Case]:
    torch.manual_seed(0)
    f32 = torch.randn(n, n)
    bf16 = f32.bfloat16()
    found: list[Case] = []
    wide = f32.numpy()
    for dtype, keep in BFP.items():
        name, row = dtype.name.lower(), FORMATS[dtype]
        image = pack_tiles(f32, dtype)
        grid = to_grid(f32, dtype)
        codes = numpy_encode(wide, keep)
        for kind, values in (("float32", f32), ("bfloat16", bf16)):
            touched = values.nbytes + image.nbytes
            found.append(
                Case(
                    f"pack {kind} -> {name} tiles", lambda v=values, d=dtype: pack_tiles(v, d), touched, lambda k=keep: numpy_pack(wide, k)
                )
            )
        found.append(
            Case(
                f"unpack {name} tiles -> bfloat16",
                lambda i=image, r=row: unpack_tiles(i, (n, n), r),
                image.nbytes + grid.nbytes,
                lambda c=codes, k=keep: numpy_untilize(numpy_decode(*c, k), n, n),
            )
        )
        for kind, values in (("float32", f32), ("bfloat16", bf16)):
            found.append(
                Case(
                    f"to_grid {kind} -> {name}",
                    lambda v=values, d=dtype: to_grid(v, d),
                    values.nbytes + grid.nbytes,
                    lambda k=keep: numpy_decode(*numpy_encode(wide, k), k),
                )
            )
    for size, torch_dtype in ((1, torch.uint8), (2, torch.bfloat16), (4, torch.float32), (8, torch.int64)):
        x = torch.zeros(n, n, dtype=torch_dtype)
        tiles, array = tilize(x), np.zeros((n, n), f"V{size}" if size not in (1, 2, 4, 8) else f"u{size}")
        found.append(Case(f"tilize, {size} bytes an element", lambda x=x: tilize(x), 2 * x.nbytes, lambda a=array: numpy_tilize(a)))
        found.append(
            Case(
                f"untilize, {size} bytes an element",
                lambda t=tiles: untilize(t, (n, n)),
                2 * x.nbytes,
                lambda a=array: numpy_untilize(a, n, n),
            )
        )
    return found


def best(functions: list[Callable[[], object]], repeats: int) -> list[float]:
    """The best time of each, the functions taking turns so that a busy moment hits all of them."""
    times = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            times[i] = min(times[i], time.perf_counter() - start)
    return times


def without_native(function: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        module, native.MODULE = native.MODULE, None
        try:
            return function()
        finally:
            native.MODULE = module

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2048, help="side of the square matrix, a multiple of 32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"{args.size}x{args.size}, {args.threads} thread(s), native path: {native.name()}")
    print(f"{'':36}{'ms':>8}{'GB/s':>8}{'of memcpy':>11}{'x torch':>9}{'x numpy':>9}")
    for case in cases(args.size):
        source = torch.zeros(case.bytes // 2, dtype=torch.uint8)
        mine, copy = best([case.run, source.clone], args.repeats)
        slow = best([without_native(case.run)], min(args.repeats, 3))[0]
        numpy = best([case.numpy], min(args.repeats, 3))[0] if case.numpy else float("nan")
        print(f"{case.name:36}{mine * 1e3:8.2f}{case.bytes / mine / 1e9:8.1f}{copy / mine:11.2f}{slow / mine:9.1f}{numpy / mine:9.1f}")


if __name__ == "__main__":
    main()
