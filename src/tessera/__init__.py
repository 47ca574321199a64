"""The machine: Tenstorrent's chips in software. Knows neither TT-NN nor PyBuda; see docs/architecture.md for its rooms."""

import os as _os

__version__ = "0.1.0"

# Huge pages for large tensors: a new output is then cleared by the kernel 2 MiB at a time, which makes whatever allocates its result
# several times faster (unpacking 128 MiB: 141 ms without, 14 with). torch reads this once, when it first makes a tensor.
_os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
