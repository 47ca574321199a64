"""Runs under the official wheel: loads every file of a folder and writes it again, with the values it read beside it.

python official_read.py FROM TO
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import ttnn

FROM, TO = Path(sys.argv[1]), Path(sys.argv[2])
said = {}
for path in sorted(FROM.glob("*.tensorbin")):
    print(path.name, file=sys.stderr, flush=True)  # the wheel sometimes ends the process: the last name is the culprit
    tensor = ttnn.load_tensor(path)
    ttnn.dump_tensor(TO / path.name, tensor)
    parts = ttnn.get_device_tensors(tensor)
    if not tensor.tile.transpose_within_face:
        np.save(TO / f"{path.stem}.npy", np.stack([np.array(part.to_list(), dtype=np.float64) for part in parts]))
    said[path.name] = [list(tensor.shape), list(tensor.padded_shape), str(tensor.dtype), str(tensor.layout), str(tensor.memory_config())]
for path in sorted(FROM.glob("*.overlappedtensorbin")):
    views = ttnn._ttnn.tensor.load_overlapped_tensors(str(path))
    ttnn._ttnn.tensor.dump_overlapped_tensors(str(TO / path.name), views)
    said[path.name] = {n: [list(v.tensor_shape), list(v.shard_shape), v.byte_offset, v.total_size] for n, v in sorted(views.items())}
(TO / "said.json").write_text(json.dumps(said))
