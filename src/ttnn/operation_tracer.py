"""Parameter tracing: a JSON file for every operation that is called, with its arguments and what it returned.

Switched on by `_ENABLE_TRACE = True`, by `enable_tracing()`, or by `--trace-params` among the program's arguments. The switch is a property of this module: turning
it attaches or detaches an observer, so that an operation pays nothing while it is off. A file is written after the operation returned; whatever
goes wrong with it is logged, and the operation's result stands.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import lru_cache, wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from tessera.runtime import observers
from ttnn.config import CONFIG, FIELDS
from ttnn.config_serialization import compute_kernel_config_to_dict, memory_config_to_dict, program_config_to_dict
from ttnn.tracing import folder, text
from ttnn.tracing.serialize import Serializer, encode, numbers

__all__ = [
    "compute_kernel_config_to_dict",
    "enable_tensor_value_serialization",
    "enable_tracing",
    "is_tracing_enabled",
    "memory_config_to_dict",
    "program_config_to_dict",
    "serialize_operation_parameters",
    "serialize_value",
    "set_sweep_source_hash",
    "trace_folder",
    "wrap_function_for_tracing",
]

FOLDER_VARIABLE = "TTNN_OPERATION_TRACE_DIR"
DEFAULT_FOLDER = Path("generated/ttnn/operation_parameters")

#: Whether tensors' values are written too.
_SERIALIZE_TENSOR_VALUES = False
#: Whether `--trace-params` is among the program's arguments; None until first looked for.
_TRACE_PARAMS_IN_ARGV: bool | None = None
#: Written into every file when it is set: which line of a sweep the program runs.
_SWEEP_SOURCE_HASH: str | None = None


class _State(threading.local):
    serializing = False
    inside = 0
    """How many operations are under way that are C++ in official TT-NN, or were called by one: what those call is their own affair."""


class _Counter:
    """The last number written; `floor` is what a program set it to, until the next file."""

    last = 0
    floor = 0


_state = _State()


class ParameterTracing(observers.Observer):
    """Writes a file when an operation ends."""

    sees_launches = False

    def operation_begins(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _state.inside or operation.is_cpp_operation:
            _state.inside += 1

    def operation_fails(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: BaseException) -> None:
        _state.inside = max(0, _state.inside - 1)

    def operation_ends(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        _state.inside = max(0, _state.inside - 1)
        if not _state.inside:
            trace(operation.python_fully_qualified_name, args, kwargs, result)


_tracing = ParameterTracing()


class _Switches(ModuleType):
    """This module's class: the switches that programs set as plain attributes."""

    @property
    def _ENABLE_TRACE(self) -> bool:
        return _tracing in observers.OBSERVERS

    @_ENABLE_TRACE.setter
    def _ENABLE_TRACE(self, value: bool) -> None:
        if bool(value) and _tracing not in observers.OBSERVERS:
            observers.attach(_tracing)
        elif not value and _tracing in observers.OBSERVERS:
            observers.detach(_tracing)

    @_ENABLE_TRACE.deleter
    def _ENABLE_TRACE(self) -> None:  # as patches of tests undo themselves
        self._ENABLE_TRACE = False

    @property
    def _OPERATION_COUNTER(self) -> int:
        return _Counter.last

    @_OPERATION_COUNTER.setter
    def _OPERATION_COUNTER(self, value: int) -> None:
        _Counter.last = _Counter.floor = int(value)

    @_OPERATION_COUNTER.deleter
    def _OPERATION_COUNTER(self) -> None:
        self._OPERATION_COUNTER = 0

    @property
    def _IS_SERIALIZING(self) -> bool:
        return _state.serializing

    @_IS_SERIALIZING.setter
    def _IS_SERIALIZING(self, value: bool) -> None:
        _state.serializing = bool(value)

    @_IS_SERIALIZING.deleter
    def _IS_SERIALIZING(self) -> None:
        _state.serializing = False


def enable_tracing(enable: bool = True) -> None:
    """Start, or stop, to write a file for every operation."""
    setattr(sys.modules[__name__], "_ENABLE_TRACE", enable)


def enable_tensor_value_serialization(enable: bool = True) -> None:
    """Write the values of tensors too, or their descriptions only."""
    global _SERIALIZE_TENSOR_VALUES
    _SERIALIZE_TENSOR_VALUES = bool(enable)


def set_sweep_source_hash(hash_value: str | None = None) -> None:
    """Mark the files that follow."""
    global _SWEEP_SOURCE_HASH
    _SWEEP_SOURCE_HASH = hash_value


def is_tracing_enabled() -> bool:
    return _tracing in observers.OBSERVERS


_is_tracing_enabled = is_tracing_enabled


def trace_folder() -> Path:
    """Where files go: the environment's folder, CONFIG.operation_parameter_log_dir, below CONFIG.root_report_path if that was changed, or the default."""
    return _folder(os.environ.get(FOLDER_VARIABLE), CONFIG.operation_parameter_log_dir, CONFIG.root_report_path)


@lru_cache(maxsize=16)
def _folder(variable: str | None, given: Path | None, root: Path) -> Path:
    if variable or given:
        return Path(variable or given)  # type: ignore[arg-type]
    return root / "operation_parameters" if root != FIELDS["root_report_path"][1] else DEFAULT_FOLDER


def trace(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Write the file of one call, unless it was called by the writing itself."""
    if _state.serializing:
        return
    _state.serializing = True
    try:
        values = _SERIALIZE_TENSOR_VALUES and observers.dispatching()
        _write(name, args, kwargs, trace_folder(), result, values)
    finally:
        _state.serializing = False


def serialize_value(value: Any, serialize_tensor_values: bool | None = None) -> Any:
    """One argument as JSON data, values of tensors as nested lists."""
    made = Serializer(
        _SERIALIZE_TENSOR_VALUES if serialize_tensor_values is None else serialize_tensor_values, CONFIG.operation_trace_style
    )
    return _unmarked(made.data(value), made)


def _unmarked(data: Any, made: Serializer) -> Any:
    """Data with nested lists in the places of marks."""
    if isinstance(data, list):
        return [_unmarked(d, made) for d in data]
    if isinstance(data, dict):
        return {k: numbers(made.contents[int(v.split("-")[2])].tolist()) if k == "values" else _unmarked(v, made) for k, v in data.items()}
    return data


def _serialize_torch_tensor(value: Any, serialize_values: bool) -> dict[str, Any]:
    return serialize_value(value, serialize_values)  # type: ignore[no-any-return]


_serialize_ttnn_tensor = _serialize_torch_tensor


def serialize_operation_parameters(
    operation_name: str,
    function_args: tuple[Any, ...],
    function_kwargs: dict[str, Any],
    log_dir: Path,
    return_value: Any | None = None,
    serialize_tensor_values: bool = True,
) -> None:
    """Write the file of one call."""
    _write(operation_name, tuple(function_args), dict(function_kwargs), Path(log_dir), return_value, serialize_tensor_values)


def _write(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], where: Path, result: Any, values: bool) -> None:
    style = CONFIG.operation_trace_style
    made = Serializer(values, style)
    timestamp = datetime.now().strftime("%Y%m%d_%H%M%S_%f")
    pieces = (_guide if style == "guide" else _official)(made, name, timestamp, args, kwargs, result)
    file = f"_{_file_name(name)}_{timestamp}.json"
    floor, _Counter.floor = _Counter.floor, 0
    _Counter.last = folder.write(os.fspath(where), file, pieces, floor)


@lru_cache(maxsize=4096)
def _file_name(operation: str) -> str:
    """An operation's name as part of a file's."""
    return re.sub(r"[^\w-]", "_", operation.replace("::", "_"))[:150]


Pieces = Callable[[int], Iterable[bytes]]


def _guide(made: Serializer, name: str, timestamp: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Pieces:
    given = [made.text(arg) for arg in args]
    words = [(word, made.text(arg)) for word, arg in kwargs.items()]
    returned = made.text(result) if result is not None else None
    fields = [
        ("operation_name", encode(name)),
        ("timestamp", f'"{timestamp}"'),
        ("args", "[]"),
        ("kwargs", "{}"),
        ("num_tensors", str(made.tensors)),
    ]
    if _SWEEP_SOURCE_HASH is not None:
        fields.append(("sweep_source_hash", encode(_SWEEP_SOURCE_HASH)))
    if returned is not None:
        fields.append(("return_value", returned))

    def pieces(number: int) -> Iterable[bytes]:
        numbered = [("operation_number", str(number)), ("operation_id", str(number)), *fields]
        return text.pieces(text.guide_text(numbered, given, words), made.contents)

    return pieces


def _official(made: Serializer, name: str, timestamp: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Pieces:
    data: dict[str, Any] = {
        "operation_id": 0,
        "operation_name": name,
        "args": [{"position": i, "value": made.data(arg)} for i, arg in enumerate(args)],
        "kwargs": {word: made.data(arg) for word, arg in kwargs.items()},
    }
    if _SWEEP_SOURCE_HASH is not None:
        data["sweep_source_hash"] = _SWEEP_SOURCE_HASH
    if result is not None:
        data["return_value"] = made.data(result)
    return lambda number: text.pieces(text.official_text({**data, "operation_id": number}), made.contents)


def wrap_function_for_tracing(original_function: Callable[..., Any], operation_name: str) -> Callable[..., Any]:
    """A function whose calls are traced like an operation's while tracing is on."""

    @wraps(original_function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = original_function(*args, **kwargs)
        if is_tracing_enabled():
            try:
                trace(operation_name, args, kwargs, result)
            except Exception as error:
                observers.report(_tracing, "operation_ends", error)
        return result

    return call


_TRACE_PARAMS_IN_ARGV = "--trace-params" in sys.argv
sys.modules[__name__].__class__ = _Switches
if _TRACE_PARAMS_IN_ARGV:
    enable_tracing()
