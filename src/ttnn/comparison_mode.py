"""Comparison mode: every operation's result beside what torch says it should be.

*Local* comparison computes the golden function on the values that the operation was given: how good is this operation. *Global* comparison computes it on
the golden results of the operations before: how far has the program drifted. Both are measured by Pearson's correlation against
`CONFIG.comparison_mode_pcc`; what falls short is logged, or raised when `CONFIG.comparison_mode_should_raise_exception` says so. Records are
kept by `ttnn.graph.comparison_records()`.

Only the operations that the program calls itself are compared. An operation without a golden function, or whose golden function cannot take
its arguments, is left out, and said to be, once.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from loguru import logger

from tessera.formats.dtype import FORMATS
from tessera.runtime import observers
from tessera.runtime.tensor import Tensor
from ttnn.comparison import comp_pcc
from ttnn.config import CONFIG
from ttnn.decorators import OUTPUT_TENSORS

__all__ = ["ComparisonFailed", "ComparisonMode", "compare", "switch"]

#: Arguments that say where and how to compute, and nothing of what.
PLACES = frozenset(
    (*OUTPUT_TENSORS, "memory_config", "device", "mesh_device", "layout", "dtype", "compute_kernel_config", "program_config", "core_grid")
    + ("queue_id", "cq_id", "sub_core_grids", "sub_device_id", "output_dtype", "fast_and_approximate_mode", "use_legacy", "conv_config")
)


class ComparisonFailed(RuntimeError):
    """A result that is further from its golden one than the session allows."""


class Skipped(Exception):
    """There is nothing to compare with."""


def as_golden(value: Any) -> Any:
    """An argument as torch sees it: tensors as torch tensors, everything else as it is."""
    if isinstance(value, Tensor):
        if not value.buffer.allocated or len(value.buffer.values) > 1:
            raise Skipped("a tensor is deallocated or on several chips")
        plain = value.part(0)
        if not FORMATS[value.spec.dtype].is_float:
            return plain.to(torch.int64) if plain.dtype is torch.int32 and value.spec.dtype.name.startswith("UINT") else plain
        return plain
    if isinstance(value, (list, tuple)):
        return type(value)(as_golden(v) for v in value)
    if isinstance(value, dict):
        return {k: as_golden(v) for k, v in value.items()}
    return value


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The tensors and numbers of a result, with where they stand in it."""
    if isinstance(value, (list, tuple)):
        for i, v in enumerate(value):
            yield from leaves(v, (*path, i))
    elif isinstance(value, dict):
        for k, v in value.items():
            yield from leaves(v, (*path, k))
    elif isinstance(value, (Tensor, torch.Tensor, int, float)) and not isinstance(value, bool):
        yield path, value


def accepted(golden: Callable[..., Any], words: dict[str, Any]) -> dict[str, Any]:
    """The keywords that a golden function takes."""
    try:
        parameters = inspect.signature(golden).parameters.values()
    except (TypeError, ValueError):  # torch's own functions do not say
        return {k: v for k, v in words.items() if k not in PLACES}
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return {k: v for k, v in words.items() if k not in PLACES}
    names = {p.name for p in parameters}
    return {k: v for k, v in words.items() if k in names and k not in PLACES}


def compare(
    name: str, golden: Any, output: Any, level: str, place: str = "", *, desired: float | None = None, fail: bool | None = None
) -> dict[str, Any]:
    """One result against its golden one; the record of it. `desired` and `fail` are what `CONFIG` says, unless given."""
    desired = CONFIG.comparison_mode_pcc if desired is None else desired
    if isinstance(output, Tensor):
        output = as_golden(output)
    expected = torch.as_tensor(golden).to(torch.float64)
    found = torch.as_tensor(output).to(torch.float64)
    if expected.numel() == found.numel() and expected.shape != found.shape:
        expected = expected.reshape(found.shape)
    if expected.shape != found.shape:
        matches, pcc = False, 0.0
    else:
        matches, pcc = comp_pcc(expected, found, desired)
    if not matches:
        said = f"{name}: Comparing output tensor {place or 0} against CPU {level} failed: pcc is {pcc} but should be >={desired}"
        if CONFIG.comparison_mode_should_raise_exception if fail is None else fail:
            raise ComparisonFailed(said)
        logger.error(said)
    return {"matches": bool(matches), "desired_pcc": desired, "actual_pcc": float(pcc)}


@dataclass
class _Call:
    """One operation under way: what its golden functions will be given."""

    local: tuple[Any, Any] | None
    world: tuple[Any, Any] | None
    skipped: str = ""


@dataclass
class _Thread(threading.local):
    calls: list[_Call | None] = field(default_factory=list)


class ComparisonMode(observers.Observer):
    """Computes and compares golden results while it is attached."""

    may_raise = True
    sees_launches = False

    def __init__(self) -> None:
        self._thread = _Thread()
        self._goldens: dict[int, torch.Tensor] = {}
        """Golden results by the number of the tensor that they belong to, while it lives."""
        self._said: set[str] = set()
        self._golden_ids = 0

    def operation_begins(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls = self._thread.calls
        calls.append(None)
        if len(calls) > 1 or getattr(operation, "golden_function", None) is None or not observers.dispatching():
            return
        try:
            calls[-1] = self._prepared(operation, args, kwargs)
        except Skipped as why:
            self._skip(operation, str(why))
        except Exception as error:
            self._skip(operation, f"{type(error).__name__}: {error}")

    def _prepared(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        prepare = operation.preprocess_golden_function_inputs
        if prepare is not None:
            given = prepare(args, kwargs)
            return _Call(given, None)
        return _Call(as_golden((args, kwargs)), self._propagated((args, kwargs)))

    def _propagated(self, value: Any) -> Any:
        """The arguments with golden results where there are any."""
        if isinstance(value, Tensor):
            return self._goldens.get(value.tensor_id) if value.tensor_id in self._goldens else as_golden(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self._propagated(v) for v in value)
        if isinstance(value, dict):
            return {k: self._propagated(v) for k, v in value.items()}
        return value

    def operation_fails(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: BaseException) -> None:
        if self._thread.calls:
            self._thread.calls.pop()

    def operation_ends(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        call = self._thread.calls.pop() if self._thread.calls else None
        if call is None:
            self._forget(result)
            return
        try:
            self._compare(operation, call, args, kwargs, result)
        except ComparisonFailed:
            raise
        except Exception as error:
            self._skip(operation, f"{type(error).__name__}: {error}")
            self._forget(result)

    def _compare(self, operation: Any, call: _Call, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        name = operation.python_fully_qualified_name
        outputs = list(leaves(result))
        failed: ComparisonFailed | None = None
        for level, given in (("local", call.local), ("global", call.world)):
            if given is None:
                continue
            goldens = dict(leaves(self._golden(operation, *given, args, kwargs, result)))
            records = []
            for place, output in outputs:
                golden = goldens.get(place, goldens.get(()) if len(outputs) == 1 else None)
                if golden is None:
                    continue
                tensor_id = output.tensor_id if isinstance(output, Tensor) else -1
                self._golden_ids += 1
                record = {"tensor_id": tensor_id, "golden_tensor_id": self._golden_ids}
                try:
                    record |= compare(name, golden, output, f"{level} golden", ".".join(map(str, place)))
                except ComparisonFailed as error:
                    failed = failed or error
                    record |= {"matches": False, "desired_pcc": CONFIG.comparison_mode_pcc, "actual_pcc": _pcc_of(str(error))}
                records.append(record)
                if level == "global" and isinstance(output, Tensor) and isinstance(golden, torch.Tensor):
                    self._keep(output, golden)
            from ttnn import graph

            graph.record_tensor_comparison_data(**{f"{level}_tensor_comparison_records": records})
        if failed is not None:
            raise failed

    def _golden(self, operation: Any, args: Any, kwargs: Any, real_args: Any, real_kwargs: Any, result: Any) -> Any:
        golden = operation.golden_function
        made = golden(*args, **accepted(golden, kwargs))
        after = operation.postprocess_golden_function_outputs
        return after(made, real_args, real_kwargs) if after is not None else made

    def _keep(self, tensor: Tensor, golden: torch.Tensor) -> None:
        if tensor.tensor_id not in self._goldens:
            weakref.finalize(tensor, self._goldens.pop, tensor.tensor_id, None)
        self._goldens[tensor.tensor_id] = golden

    def _forget(self, result: Any) -> None:
        """A result that was not compared has no golden one any more."""
        for _, output in leaves(result):
            if isinstance(output, Tensor):
                self._goldens.pop(output.tensor_id, None)

    def _skip(self, operation: Any, why: str) -> None:
        name = operation.python_fully_qualified_name
        if name not in self._said:
            self._said.add(name)
            logger.warning(f"comparison mode: {name} is not compared: {why}")

    # -- for functions of ttnn.decorators that speak of global golden results

    def golden_arguments(self, value: Any) -> Any:
        """Arguments with golden results where they are known, as torch tensors where not."""
        return self._propagated(value)

    def keep_golden(self, tensor: Tensor, golden: torch.Tensor) -> None:
        self._keep(tensor, golden)

    def drop_golden(self, tensor: Tensor) -> None:
        self._goldens.pop(tensor.tensor_id, None)


def _pcc_of(message: str) -> float:
    return float(message.rpartition("pcc is ")[2].partition(" ")[0])


_mode = ComparisonMode()


def current() -> ComparisonMode:
    """The mode that is on, or was last."""
    return _mode


def switch(on: bool) -> None:
    """What `CONFIG.enable_comparison_mode` does."""
    global _mode
    if on and _mode not in observers.OBSERVERS:
        _mode = ComparisonMode()
        observers.attach(_mode)
    elif not on and _mode in observers.OBSERVERS:
        observers.detach(_mode)
