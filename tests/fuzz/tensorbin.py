"""Atheris looks for a file that does anything but load or raise RuntimeError. Run by `make fuzz`, not by pytest.

    python tests/fuzz/tensorbin.py [folder of files it found] -max_total_time=600

atheris is not among the dependencies of the project (it needs clang where there is no wheel): `pip install atheris`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports():
    from tessera.files import overlapped, tensors
    from tessera.files.bands import bands

FOLDER = Path(tempfile.mkdtemp())
KINDS = ((FOLDER / "a.tensorbin", tensors.load), (FOLDER / "a.overlappedtensorbin", overlapped.load))


def one_input(data: bytes) -> None:
    for path, load in KINDS:
        path.write_bytes(data)
        try:
            loaded = load(path)
        except RuntimeError:
            continue
        if not isinstance(loaded, dict):
            for i in range(len(loaded.buffer.values)):
                for _ in bands(loaded.buffer.image(i), loaded.spec):
                    pass


def main() -> None:
    seeds = Path(__file__).parents[1] / "data" / "tensorbin"
    given = [a for a in sys.argv[1:] if not a.startswith("-")]
    arguments = [sys.argv[0], *sys.argv[1:], *([] if given else [str(FOLDER / "found")]), str(seeds), str(seeds / "official")]
    (FOLDER / "found").mkdir()
    atheris.Setup(arguments, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
