"""Operations of a program's own: registered under a public name, called, traced, captured and compared like those of the library."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ttnn.decorators import OUTPUT_TENSORS, REGISTERED_OPERATIONS, Operation

__all__ = ["create_module_if_not_exists", "register_cpp_operation", "register_python_operation"]


def create_module_if_not_exists(module_name: str) -> ModuleType:
    """The module of this name; it and those above it are made where they are missing."""
    found = sys.modules.get(module_name)
    if found is None:
        try:
            found = importlib.import_module(module_name)
        except ModuleNotFoundError:
            found = ModuleType(module_name, f"Operations of {module_name}.")
            sys.modules[module_name] = found
    above, _, name = module_name.rpartition(".")
    if above:
        parent = create_module_if_not_exists(above)
        if not isinstance(vars(parent).get(name), ModuleType):
            setattr(parent, name, found)
    return found


def _register(made: Operation) -> Operation:
    if made.name in REGISTERED_OPERATIONS:
        raise ValueError(f"{made.name}: an operation of this name is registered already")
    REGISTERED_OPERATIONS[made.name] = made
    return made


def register_cpp_operation(target_module: ModuleType, func_name: str, function: Callable[..., Any]) -> Operation:
    """Make a native function an operation of a module. A function that knows its `python_fully_qualified_name` gets that, else the module's."""
    name = getattr(function, "python_fully_qualified_name", None) or f"{target_module.__name__}.{func_name}"
    made = _register(Operation(name, function, planned=False, is_cpp_operation=True))
    setattr(target_module, func_name, made)
    return made


def register_python_operation(
    *,
    name: str,
    is_experimental: bool = False,
    is_method: bool = False,
    golden_function: Callable[..., Any] | None = None,
    preprocess_golden_function_inputs: Callable[..., Any] | None = None,
    postprocess_golden_function_outputs: Callable[..., Any] | None = None,
    output_tensor_kwarg_names: tuple[str, ...] = OUTPUT_TENSORS,
    doc: str | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """Make a Python function an operation. Its name starts with "ttnn."; the modules on the way are made."""
    if not name.startswith("ttnn."):
        raise RuntimeError(f'register_python_operation: name={name!r} must start with "ttnn."')

    def register(function: Callable[..., Any]) -> Any:
        made = _register(
            Operation(
                name,
                function,
                golden_function=golden_function,
                planned=False,
                is_cpp_operation=False,
                is_experimental=is_experimental,
                preprocess_golden_function_inputs=preprocess_golden_function_inputs,
                postprocess_golden_function_outputs=postprocess_golden_function_outputs,
                output_tensor_kwarg_names=output_tensor_kwarg_names,
            )
        )
        if doc is not None:
            made.__doc__ = doc
        if is_method:
            return _method(made, function)
        module, _, short = name.rpartition(".")
        setattr(create_module_if_not_exists(module), short, made)
        return made

    return register


def _method(operation: Operation, function: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function, which becomes a method where it is hung on a class."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return operation(self, *args, **kwargs)

    call.__name__ = operation.__name__
    call.__doc__ = operation.__doc__
    call.decorated_function = function  # type: ignore[attr-defined]
    return call
