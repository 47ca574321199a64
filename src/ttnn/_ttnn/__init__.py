"""A thin facade of official TT-NN's compiled module.

Programs reach into `ttnn._ttnn.tensor.CoreRange` and the like. Each submodule here answers with what `ttnn` itself exports
under the same name, so there is one of everything. `ttnn._ttnn.operations.<family>` answers for operations.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

SUBMODULES = [
    "activation",
    "bfp_utils",
    "cluster",
    "core",
    "device",
    "disaggregation",
    "events",
    "fabric",
    "global_circular_buffer",
    "global_semaphore",
    "graph",
    "hd_socket",
    "mesh_socket",
    "multi_device",
    "profiler",
    "program_descriptor",
    "reports",
    "tensor",
    "types",
    "operations",
]
FAMILIES = [
    "binary",
    "binary_backward",
    "ccl",
    "conv",
    "copy",
    "core",
    "creation",
    "data_movement",
    "embedding",
    "experimental",
    "full",
    "generic",
    "kv_cache",
    "loss",
    "matmul",
    "moreh",
    "normalization",
    "pool",
    "prefetcher",
    "quantization",
    "rand",
    "reduction",
    "sliding_window",
    "ternary",
    "transformer",
    "trace",
    "unary",
    "uniform",
    "copy_tensor",
    "events",
    "full_like",
    "point_to_point",
    "sampling",
]
#: Names that `ttnn` itself does not export: submodule -> name -> where it is.
ELSEWHERE = {
    "tensor": dict.fromkeys(("dump_tensor_flatbuffer", "load_tensor_flatbuffer"), "ttnn.operations.files"),
}


class _Facade(ModuleType):
    """A module that answers with `ttnn`'s own names."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        import ttnn

        last = self.__name__.rsplit(".", 1)[-1]
        if name in ELSEWHERE.get(last, {}):
            return getattr(importlib.import_module(ELSEWHERE[last][name]), name)
        for place in (getattr(ttnn, last, None) if last in ("cluster", "transformer", "experimental", "kv_cache", "graph") else None, ttnn):
            found = getattr(place, name, None) if place is not None else None
            if found is not None:
                return found
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def _make(name: str) -> _Facade:
    module = _Facade(name, f"What official TT-NN has in `{name}`.")
    sys.modules[name] = module
    return module


for _name in SUBMODULES:
    globals()[_name] = _make(f"{__name__}.{_name}")
for _name in FAMILIES:
    setattr(globals()["operations"], _name, _make(f"{__name__}.operations.{_name}"))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_FALLBACK, name)


_FALLBACK = _Facade(__name__)
