"""What a `ttnn` makes of values on the host, as JSON: conversions, tiles, padding, reshapes and printing of random tensors.

Run by `test_tensors.py`, with the Python that has the `ttnn` to be asked. Left out is where the official library's own answers depend on its vector
loops or read beyond the end: floats that do not fit an integer, and several matrices in tiles of ragged height.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

import ttnn

FLOATS = ("float32", "bfloat16", "bfloat8_b", "bfloat4_b")
WHOLES = ("int32", "uint32", "uint16", "uint8")
SHAPES = ([1], [5], [3, 7], [32, 32], [33, 65], [2, 32, 40], [2, 3, 64, 16], [1, 1, 1, 100])


def digest(values: Any) -> str:
    array = np.asarray(values, dtype=np.float64)
    return f"{array.shape} {hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]}"


def outcome(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error).__name__


def main() -> None:
    rng = np.random.default_rng(7)
    rows, tiles = ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT
    facts: dict[str, Any] = {}
    for shape in SHAPES:
        floats = (rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 6, shape)).astype(np.float32)
        wholes = rng.integers(0, 200, shape)
        for name in (*FLOATS, *WHOLES):
            dtype = getattr(ttnn, name)
            given = [v.item() for v in (floats if name in FLOATS else wholes).reshape(-1)]
            for layout in (rows, tiles):
                if name.endswith("_b") and layout is rows:
                    continue
                key = f"{shape} {name} {layout}"
                tensor = ttnn.Tensor(given, shape, dtype, layout)
                facts[f"{key} values"] = digest(tensor.to_list())
                facts[f"{key} shapes"] = [list(tensor.shape), list(tensor.padded_shape), tensor.volume(), tensor.logical_volume()]
                facts[f"{key} print"] = str(tensor)
                for other in (*FLOATS, *WHOLES):
                    # Only what both are sure of: floats among themselves, small whole numbers into anything.
                    if name in FLOATS and other in WHOLES:
                        continue
                    facts[f"{key} to {other}"] = outcome(lambda t=tensor, o=other: digest(ttnn.to_dtype(t, getattr(ttnn, o)).to_list()))
                facts[f"{key} relaid"] = outcome(lambda t=tensor, l=layout: digest(t.to(tiles if l is rows else rows).to_list()))
                if layout is rows:
                    facts[f"{key} padded to tiles"] = outcome(
                        lambda t=tensor: digest(t.pad_to_tile(3).unpad_from_tile(list(t.shape)).to_list())
                    )
                    facts[f"{key} reshaped"] = outcome(lambda t=tensor: digest(t.reshape([-1]).to_list()))
        array = floats.copy()
        for name in FLOATS:
            facts[f"{shape} array as {name}"] = digest(ttnn.Tensor(array, getattr(ttnn, name)).to_list())
    special = [0.0, -0.0, float("inf"), -float("inf"), 1e-40, 3.4e38, 1.00390625, 1.01171875] * 4
    for name in ("float32", "bfloat16"):
        facts[f"special {name}"] = str(ttnn.Tensor(special, [4, 8], getattr(ttnn, name), rows).to_list())
    print("\x01" + json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
