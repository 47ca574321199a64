"""How an operation is declared, called and found again.

`@operation("ttnn.softmax", golden=...)` turns a function into a public operation. A call is bound to the official overloads, run, and, when it
turned out to be one launch on its own arguments, remembered whole: the next call with equal specs and arguments goes straight to computing.
"""

from __future__ import annotations

import csv
import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tessera.engine.native.direct import direct_of
from tessera.formats.dtype import FORMATS, DataType
from tessera.runtime.device import Device
from tessera.runtime.events import check_queue
from tessera.runtime.launch import Launch, recording
from tessera.runtime.launcher import VALUE_TYPES, Caller, Plan, equip, recording_begins, recording_ends
from tessera.runtime.observers import OBSERVERS, notify
from tessera.runtime.tensor import Tensor
from ttnn.binding import Binding, interface

REGISTERED_OPERATIONS: dict[str, Operation] = {}
#: What operations call the tensors that they write into.
OUTPUT_TENSORS = (
    "output_tensor",
    "optional_tensor",
    "optional_output_tensor",
    "out",
    "output",
    "output_tensors",
    "optional_output_tensors",
)


def plain_value_types(*types: type) -> None:
    """Declare immutable, hashable argument types (dtypes, layouts, memory configs, shapes): calls with them may be remembered."""
    VALUE_TYPES.update(types)


equip()


class Operation(Caller):
    """A public operation: callable, with its official name, overloads and golden function."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        golden_function: Callable[..., Any] | None = None,
        renames: dict[str, str] | None = None,
        planned: bool = True,
        bound: bool = False,
        is_cpp_operation: bool | None = None,
        is_experimental: bool = False,
        preprocess_golden_function_inputs: Callable[..., Any] | None = None,
        postprocess_golden_function_outputs: Callable[..., Any] | None = None,
        output_tensor_kwarg_names: tuple[str, ...] = OUTPUT_TENSORS,
    ) -> None:
        self.output_tensor_kwarg_names = tuple(output_tensor_kwarg_names)
        self.python_fully_qualified_name = name
        self.function = function
        self.golden_function = golden_function
        self.preprocess_golden_function_inputs = preprocess_golden_function_inputs
        self.postprocess_golden_function_outputs = postprocess_golden_function_outputs
        self.is_experimental = is_experimental or ".experimental." in name
        self.renames = renames or {}
        self.planned = planned
        self.bound = bound
        self._cpp = is_cpp_operation
        self.__name__ = name.rsplit(".", 1)[-1]
        self.__qualname__ = name
        self.__module__ = name.rsplit(".", 1)[0]
        self.__doc__ = function.__doc__

    @property
    def name(self) -> str:
        return self.python_fully_qualified_name

    @functools.cached_property
    def is_cpp_operation(self) -> bool:
        return bool(interface().get(self.name, {}).get("cpp")) if self._cpp is None else self._cpp

    @functools.cached_property
    def binding(self) -> Binding | None:
        """The official overloads; None for operations that are plain Python functions there too."""
        row = interface().get(self.name)
        return Binding(self.name, row["signatures"]) if row and (self.bound or row.get("cpp")) and row.get("signatures") else None

    def __repr__(self) -> str:
        return f"Operation(python_fully_qualified_name='{self.name}')"

    def __gt__(self, other: Operation) -> bool:
        return self.name < other.name

    # -- calling: `Caller` makes a key of specs and plain values, and runs the plan of a call that was seen before

    def _missed(self, key: Any, device: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call without a plan. `key` is None for one that is too rich to remember (program configs, torch tensors)."""
        if key is not None and self.planned and device.trace is None and device.num_chips == 1:
            return self._recorded(key, device, args, kwargs)
        return self._run(args, kwargs)

    def _recorded(self, key: Any, device: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the body once, and remember the call if it was a single launch on its own arguments."""
        given = args, kwargs
        args, kwargs = _told_apart(args, kwargs)
        outer, recording.launches = recording.launches, []
        recording_begins()
        try:
            result = self._run(args, kwargs)
        finally:
            recording_ends()
            mine, recording.launches = recording.launches, outer
            if outer is not None:
                outer.extend(mine)
        if len(mine) == 1 and mine[0] is not None and not mine[0][1]:
            record = mine[0][0]
            if len(record.outputs) == 1 and record.outputs[0] is result and not record.across and not record.mutates:
                places = {id(value): place for place, value in [*enumerate(args), *kwargs.items()] if value.__class__ is Tensor}
                if all(id(t) in places for t in record.inputs) and record.inputs and result.topology is None:
                    inputs = tuple(places[id(t)] for t in record.inputs)
                    device.programs.remember(key, _plan(record, inputs, result.spec))
        return result if args is given[0] else _given_back(result, (args, kwargs), given)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        binding = self.binding
        if binding is not None:
            queue = None
            for word in ("queue_id", "cq_id"):
                if word in kwargs and word not in binding.overloads[0].by_name:
                    queue = kwargs.pop(word)
            binding.check(args, kwargs)
            if self.renames:
                kwargs = {self.renames.get(k, k): v for k, v in kwargs.items()}
            if queue is not None:
                _check_queue(self.__name__, queue, (*args, *kwargs.values()))
                with command_queue(int(queue)):
                    return self.function(*args, **kwargs)
        return self.function(*args, **kwargs)

    def _watched(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            notify("operation_begins", self, args, kwargs)
            if any(o.sees_launches for o in OBSERVERS):
                result = self._run(args, dict(kwargs))
            else:
                result = self._unwatched(*args, **kwargs)
        except BaseException as error:
            notify("operation_fails", self, args, kwargs, error)
            raise
        notify("operation_ends", self, args, kwargs, result)
        return result


def _check_queue(called: str, queue: Any, arguments: tuple[Any, ...]) -> None:
    """The queue that a call names must be one of its device's."""
    for value in arguments:
        device = value.buffer.device if isinstance(value, Tensor) else value if isinstance(value, Device) else None
        if device is not None:
            check_queue(device, queue, called)
            return


def _given_back(result: Any, told_apart: tuple[Any, Any], given: tuple[Any, Any]) -> Any:
    """A result that is one of the second objects, as the tensor that the program gave."""
    for mine, theirs in zip((*told_apart[0], *told_apart[1].values()), (*given[0], *given[1].values())):
        if mine is result:
            return theirs
    return result


def _told_apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, where a tensor that was given twice is a second object on the same buffer: a launch then says which argument it means."""
    tensors = [v for v in (*args, *kwargs.values()) if v.__class__ is Tensor]
    if len(set(map(id, tensors))) == len(tensors):
        return args, kwargs
    seen: set[int] = set()

    def own(value: Any) -> Any:
        if value.__class__ is not Tensor or id(value) not in seen:
            seen.add(id(value))
            return value
        twin = object.__new__(Tensor)
        twin.spec, twin.buffer, twin.topology, twin.tensor_id = value.spec, value.buffer, value.topology, value.tensor_id
        return twin

    return tuple(own(v) for v in args), {word: own(v) for word, v in kwargs.items()}


def _plan(record: Launch, inputs: tuple[int | str, ...], spec: Any) -> Any:
    """A whole call that is known to be one launch, with the kernel that may be called for it and the inputs that may be tiles."""
    images = tuple(
        i
        for i in getattr(record.compute, "images", ())
        if i < len(inputs) and (record.compute.any_format or FORMATS[record.inputs[i].spec.dtype].is_block)  # type: ignore[attr-defined]
    )
    direct = None
    if all(t.spec.dtype is DataType.BFLOAT16 for t in (*record.inputs, *record.outputs)):
        direct = direct_of(record.compute, [t.spec.dims for t in record.inputs], spec.dims, record.attributes)
    return Plan(record.name, record.compute, record.attributes, inputs, spec, direct, images)


#: Official TT-NN has a fast and a slow class of operation; here one class is both.
FastOperation = Operation


def operation(name: str, *, golden: Callable[..., Any] | None = None, **options: Any) -> Callable[[Callable[..., Any]], Operation]:
    """Declare a public operation. `renames` maps argument names of other overloads to the function's own; `planned=False` for operations whose
    result is not a pure function of specs and values (random numbers, deallocation); `bound=True` for Python operations that official TT-NN binds as
    strictly as its C++ ones."""

    def declare(function: Callable[..., Any]) -> Operation:
        declared = Operation(name, function, golden_function=golden, **options)
        REGISTERED_OPERATIONS[name] = declared
        return declared

    return declare


def also_known_as(name: str, alias: str) -> None:
    """Give an operation a second public name: the same object under both."""
    REGISTERED_OPERATIONS[alias] = REGISTERED_OPERATIONS[name]


#: What hardware-only names need, by a part of their name: said beside the refusal.
NEEDS = {
    "socket": "a socket between real chips or hosts",
    "stream": "a stream service of a real card",
    "prefetch": "the DRAM prefetcher's kernels on a real card",
    "quasar": "a Quasar chip",
    "generic_op": "kernels compiled for Tensix cores",
    "program_descriptor": "kernels compiled for Tensix cores",
    "circular_buffer": "kernels compiled for Tensix cores",
    "fabric": "the fabric's firmware on a real card",
    "deepseek": "kernels written for one model on real cards",
    "light_metal": "a recording of a real card's commands",
    "profiler": "the profiler of a real card",
    "tracy": "the Tracy profiler",
    "test_": "a test kernel of official TT-NN",
}


def not_built(name: str) -> NotImplementedError:
    """The error of a public name that Tessera does not have; it says what the name would need where that is hardware."""
    need = next((f"; it needs {what}" for word, what in NEEDS.items() if word in name.lower()), "")
    return NotImplementedError(f"{name} is not built in Tessera{need}. docs/coverage.md lists what is")


class NotBuilt:
    """A public name of official TT-NN that Tessera does not have: it says so when it is used."""

    is_not_built = True

    def __init__(self, name: str) -> None:
        self.python_fully_qualified_name = name
        self.__name__ = name.rsplit(".", 1)[-1]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise not_built(self.python_fully_qualified_name)

    def __repr__(self) -> str:
        return f"<{self.python_fully_qualified_name}: not built in Tessera>"


@functools.cache
def not_built_class(name: str) -> type:
    """A class that Tessera does not have: a type, so that `isinstance` may ask for it, that cannot be made."""

    def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise not_built(name)

    return type(
        name.rsplit(".", 1)[-1],
        (),
        {"__new__": refuse, "is_not_built": True, "__doc__": f"{name}: not built in Tessera.", "__module__": name.rsplit(".", 1)[0]},
    )


# -- golden functions and registration, as programs use them


def attach_golden_function(operation: Operation, golden_function: Callable[..., Any], **options: Any) -> None:
    """Give an operation the torch function that says what it should compute."""
    operation.golden_function = golden_function
    for word in ("preprocess_golden_function_inputs", "postprocess_golden_function_outputs", "output_tensor_kwarg_names"):
        if options.get(word) is not None:
            setattr(operation, word, options[word])


def get_golden_function(operation: Operation) -> Callable[..., Any]:
    found = getattr(operation, "golden_function", None)
    if found is None:
        raise RuntimeError(f"{getattr(operation, 'python_fully_qualified_name', operation)} does not have a golden function")
    return found


get_fallback_function = get_golden_function


def query_registered_operations(include_experimental: bool = False) -> list[Operation]:
    found = dict.fromkeys(REGISTERED_OPERATIONS.values())
    return sorted((o for o in found if include_experimental or not o.is_experimental), key=lambda o: o.name)


def dump_operations(csv_file: str | Path, include_experimental: bool = False) -> None:
    """Write the registered operations as a table."""
    with Path(csv_file).open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["python_fully_qualified_name", "function", "golden_function", "is_cpp_operation", "is_experimental"])
        for o in query_registered_operations(include_experimental):
            table.writerow(
                [
                    o.name,
                    getattr(o.function, "__name__", ""),
                    getattr(o.golden_function, "__name__", ""),
                    o.is_cpp_operation,
                    o.is_experimental,
                ]
            )


# -- command queues


class _Queues(threading.local):
    stack: list[int]

    def __init__(self) -> None:
        self.stack = []


_queues = _Queues()


def get_current_command_queue_id_for_thread() -> int | None:
    return _queues.stack[-1] if _queues.stack else None


def push_current_command_queue_id_for_thread(cq_id: int) -> None:
    _queues.stack.append(int(cq_id))


def pop_current_command_queue_id_for_thread() -> int:
    if not _queues.stack:
        raise RuntimeError("no command queue was pushed in this thread")
    return _queues.stack.pop()


@contextmanager
def command_queue(cq_id: int) -> Iterator[None]:
    """Run the block's operations on one of the device's queues."""
    push_current_command_queue_id_for_thread(cq_id)
    try:
        yield
    finally:
        pop_current_command_queue_id_for_thread()


#: Names that official TT-NN has in this module, and where they live here.
_ELSEWHERE = {
    "create_module_if_not_exists": "registration",
    "register_cpp_operation": "registration",
    "register_python_operation": "registration",
    "register_pre_operation_hook": "hooks",
    "register_post_operation_hook": "hooks",
    "comp_pcc": "comparison",
    "comp_ulp": "comparison",
} | dict.fromkeys(
    (
        "compare_scalar_outputs",
        "compare_tensors_using_pcc",
        "default_postprocess_golden_function_outputs",
        "default_preprocess_golden_function_inputs",
        "get_all_tensors",
        "get_devices",
        "get_inplace_output_tensors",
        "get_output_tensor_ids",
        "get_tensor_report_record",
        "get_tensors",
        "get_ttnn_tensors",
        "postprocess_global_golden_function_outputs",
        "preprocess_global_golden_function_inputs",
        "refresh_or_invalidate_global_goldens",
        "set_output_tensor_id_decorator",
        "set_tensor_id",
        "should_compare_scalar_outputs",
        "should_compare_tensor_outputs",
        "to_torch_for_comparison",
    ),
    "golden_tools",
)


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(f"ttnn.{_ELSEWHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
