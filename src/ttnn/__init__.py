"""TT-NN: the machine spoken to operation by operation.

Importing it opens nothing and imports no optional dependency. Every public name of official TT-NN is here or says, when it is
used, that Tessera does not have it yet.
"""

from __future__ import annotations

import functools
import gc
import importlib
import sys
from types import ModuleType
from typing import Any

# A collection in the middle of importing would walk all of torch for nothing: half of the time that importing takes.
_collecting = gc.isenabled()
gc.disable()

from tessera import __version__ as __version__
from tessera.runtime.tensor import Tensor as Tensor

from ttnn import types as types  # isort: skip
from ttnn.types import *  # isort: skip  # noqa: F403
from ttnn import config as config, core as core, decorators as decorators, device as device, distributed as distributed  # isort: skip
from ttnn.config import *  # noqa: F403
from ttnn.core import *  # noqa: F403
from ttnn.device import *  # noqa: F403
from ttnn.distributed import *  # noqa: F403
from ttnn.distributed_context import *  # noqa: F403
from ttnn.fabric import *  # noqa: F403
from ttnn.group_norm import *  # noqa: F403
from ttnn.program_configs import *  # noqa: F403
from ttnn.program_descriptors import *  # noqa: F403
from ttnn.queues import *  # noqa: F403
from ttnn.semaphores import *  # noqa: F403

from ttnn.queues import _ttnn_execute_trace as _ttnn_execute_trace  # isort: skip
from ttnn.device import _get_arch_name as _get_arch_name, _ttnn_cleanup as _ttnn_cleanup  # isort: skip
from ttnn import cluster as cluster  # isort: skip

from ttnn import tensor as _tensor  # isort: skip
from ttnn.binding import interface as _interface
from ttnn.decorators import (
    NotBuilt as _NotBuilt,
)
from ttnn.decorators import (
    not_built_class as _not_built_class,
)
from ttnn.decorators import (
    attach_golden_function as attach_golden_function,
)
from ttnn.decorators import (
    command_queue as command_queue,
)
from ttnn.decorators import (
    dump_operations as dump_operations,
)
from ttnn.decorators import (
    get_fallback_function as get_fallback_function,
)
from ttnn.decorators import (
    get_golden_function as get_golden_function,
)
from ttnn.decorators import (
    query_registered_operations as query_registered_operations,
)

from ttnn import operations as operations  # isort: skip
from ttnn.hooks import (  # isort: skip
    register_post_operation_hook as register_post_operation_hook,
    register_pre_operation_hook as register_pre_operation_hook,
)
from ttnn.profiler import *  # isort: skip  # noqa: F403
from ttnn.registration import (  # isort: skip
    create_module_if_not_exists as create_module_if_not_exists,
    register_cpp_operation as register_cpp_operation,
    register_python_operation as register_python_operation,
)
from ttnn.operations.convolution.weights import (  # isort: skip
    prepare_conv_bias as prepare_conv_bias,
    prepare_conv_transpose2d_bias as prepare_conv_transpose2d_bias,
    prepare_conv_transpose2d_weights as prepare_conv_transpose2d_weights,
    prepare_conv_weights as prepare_conv_weights,
)
from ttnn.operations.files import (  # isort: skip
    OverlappedTensor as OverlappedTensor,
    dump_overlapped_tensors as dump_overlapped_tensors,
    load_overlapped_tensors as load_overlapped_tensors,
)

decorators.plain_value_types(
    types.DataType, types.Layout, types.MemoryConfig, types.Shape, types.UnaryOpType, types.BcastOpDim, types.BcastOpMath
)
_tensor.equip()
device.equip()


def _publish() -> None:
    """Put every registered operation where its name says, making the modules on the way."""
    for name, found in decorators.REGISTERED_OPERATIONS.items():
        path = name.split(".")
        place: Any = sys.modules[__name__]
        for depth in range(2, len(path)):
            module = ".".join(path[:depth])
            if not hasattr(place, path[depth - 1]):
                made = ModuleType(module, f"Operations of {module}.")
                made.__getattr__ = _missing(module)  # type: ignore[method-assign]
                sys.modules[module] = made
                setattr(place, path[depth - 1], made)
            place = getattr(place, path[depth - 1])
        setattr(place, path[-1], found)


def _missing(module: str) -> Any:
    def find(name: str) -> Any:
        full = f"{module}.{name}"
        row = None if name.startswith("__") else _interface().get(full)
        if row is not None and "same_as" in row:  # official modules show names of each other
            return functools.reduce(getattr, row["same_as"].split(".")[1:], sys.modules[__name__])
        if row is not None and row.get("kind") in ("op", "function"):
            return _NotBuilt(full)
        if row is not None and row.get("kind") == "class":
            return _not_built_class(full)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find


#: Modules that clients import by name and that most programs never touch.
_LAZY = (
    "cluster",
    "graph",
    "operation_tracer",
    "profiler",
    "tracer",
    "model_preprocessing",
    "dot_access",
    "reflection",
    "comparison",
    "graph_report",
    "config_serialization",
    "graph_tracer_utils",
    "torch_tracer",
)

importlib.import_module("ttnn.operations.registry")
_publish()

if "--trace-params" in sys.argv:  # operation tracing can be asked for on any program's command line
    importlib.import_module("ttnn.operation_tracer")


def _comparison_mode(on: bool) -> None:
    if on or "ttnn.comparison_mode" in sys.modules:
        importlib.import_module("ttnn.comparison_mode").switch(on)


config.when_set("enable_comparison_mode", _comparison_mode)
if _collecting:
    gc.enable()
_find = _missing(__name__)
for _module in (cluster, core, device, distributed, types):
    _module.__getattr__ = _missing(_module.__name__)  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    if name in _LAZY or name == "_ttnn":
        try:
            return importlib.import_module(f"ttnn.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"ttnn.{name}":
                raise
    return _find(name)
