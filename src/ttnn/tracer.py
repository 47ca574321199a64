"""Traces a program to a graph of its operations: to look at it, to draw it, to write it as code.

Within `with trace():` every TT-NN operation that the program calls, and every torch function, becomes a node; an edge leads from the node that made
a tensor to the node that reads it. `get_graph(result)` is the part that a result depends on; `visualize` draws it (the `viz` extra) and `codegen`
writes it as a Python function.
"""

from __future__ import annotations

import importlib
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from time import perf_counter
from typing import Any

import networkx as nx
import torch
from torch.overrides import TorchFunctionMode, resolve_name

from tessera.memory.config import MemoryConfig
from tessera.runtime import observers
from tessera.runtime.device import Device
from tessera.runtime.tensor import Tensor

__all__ = ["Step", "codegen", "get_graph", "graphviz", "is_tracing_enabled", "trace", "trace_function", "visualize"]


def graphviz() -> Any:
    """The optional library that draws."""
    try:
        return importlib.import_module("graphviz")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("drawing graphs needs the graphviz package: pip install tessera[viz]", name="graphviz") from error


@dataclass(frozen=True)
class Step:
    """What a node of the graph is: one call, or a tensor that came from outside (`operation` None)."""

    number: int
    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    shapes: tuple[tuple[int, ...], ...] = ()
    seconds: float = 0.0
    is_input: bool = False

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def label(self) -> str:
        shapes = " ".join(str(list(s)) for s in self.shapes)
        return f"{self.name}\n{shapes}".strip()


@dataclass(frozen=True)
class Reference:
    """An argument that is a result: of which step, and which of its results."""

    step: Step
    index: int


def is_tensor(value: Any) -> bool:
    return isinstance(value, (Tensor, torch.Tensor))


def tensors(value: Any) -> Iterator[Any]:
    """The tensors in a value, however nested."""
    if is_tensor(value):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors(v)


def replaced(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value with its tensors changed."""
    if is_tensor(value):
        return change(value)
    if isinstance(value, (list, tuple)):
        changed = [replaced(v, change) for v in value]
        return type(value)(changed) if type(value) in (list, tuple) else changed
    if isinstance(value, dict):
        return {k: replaced(v, change) for k, v in value.items()}
    return value


class Tracing(observers.Observer):
    """Grows the graph while it is attached."""

    sees_launches = False

    def __init__(self) -> None:
        self.graph: nx.MultiDiGraph[Any] = nx.MultiDiGraph()
        self.count = 0
        self.lock = threading.RLock()
        self.local = threading.local()
        self.made: dict[int, tuple[weakref.ref[Any], Reference]] = {}

    # -- which step made a tensor

    def reference(self, tensor: Any) -> Reference:
        found = self.made.get(id(tensor))
        if found is not None and found[0]() is tensor:
            return found[1]
        step = self.step("input", (), {}, (tensor,), 0.0, is_input=True)
        return Reference(step, 0)

    def step(self, name: str, args: Any, kwargs: Any, results: Any, seconds: float, is_input: bool = False) -> Step:
        outputs = list(tensors(results))
        with self.lock:
            given = [self.reference(t) for t in tensors((args, kwargs))]
            fixed = replaced(args, self.reference), replaced(kwargs, self.reference)
            self.count += 1
            step = Step(self.count, name, *fixed, tuple(tuple(t.shape) for t in outputs), seconds, is_input)
            self.graph.add_node(step)
            for position, reference in enumerate(given):
                self.graph.add_edge(reference.step, step, source=reference.index, sink=position)
            for index, tensor in enumerate(outputs):
                self.made[id(tensor)] = (weakref.ref(tensor), Reference(step, index))
        return step

    # -- what is heard

    @property
    def stack(self) -> list[float]:
        if not hasattr(self.local, "stack"):
            self.local.stack = []
        return self.local.stack  # type: ignore[no-any-return]

    def operation_begins(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.stack.append(perf_counter())

    def operation_fails(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: BaseException) -> None:
        if self.stack:
            self.stack.pop()

    def operation_ends(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if not self.stack:
            return
        started = self.stack.pop()
        if not self.stack:
            self.step(operation.python_fully_qualified_name, args, kwargs, result, perf_counter() - started)


class _TorchCalls(TorchFunctionMode):
    """Hears torch functions that the program calls itself, not those that operations compute with."""

    def __init__(self, tracing: Tracing) -> None:
        super().__init__()
        self.tracing = tracing

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        started = perf_counter()
        result = func(*args, **kwargs)
        if not self.tracing.stack and any(True for _ in tensors(result)) and not getattr(func, "__name__", "").startswith("__get"):
            name = resolve_name(func) or getattr(func, "__name__", str(func))
            self.tracing.step(name, args, kwargs, result, perf_counter() - started)
        return result


_tracing: list[Tracing] = []


def is_tracing_enabled() -> bool:
    return bool(_tracing)


@contextmanager
def trace() -> Iterator[Tracing]:
    """Trace a block. The graph can be asked for within it and after it."""
    made = Tracing()
    _tracing.append(made)
    observers.attach(made)
    global _last
    _last = made
    try:
        with _TorchCalls(made):
            yield made
    finally:
        observers.detach(made)
        _tracing.remove(made)


_last: Tracing | None = None


def trace_function(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[nx.MultiDiGraph[Any], Any]:
    """Call a function and answer the graph of what it called, and its result."""
    with trace():
        result = function(*args, **kwargs)
        return get_graph(result), result


def get_graph(value: Any) -> nx.MultiDiGraph[Any]:
    """The steps that a tensor, or several, depend on."""
    tracing = _tracing[-1] if _tracing else _last
    if tracing is None:
        raise RuntimeError("get_graph: nothing was traced; call it on a result of a block under ttnn.tracer.trace()")
    steps = [r.step for r in outputs_of(tracing, value)]
    kept = set(steps).union(*(nx.ancestors(tracing.graph, s) for s in steps))
    graph: nx.MultiDiGraph[Any] = tracing.graph.subgraph(kept).copy()
    graph.graph["outputs"] = outputs_of(tracing, value)
    return graph


def outputs_of(tracing: Tracing, value: Any) -> list[Reference]:
    found = []
    for tensor in tensors(value):
        known = tracing.made.get(id(tensor))
        if known is None or known[0]() is not tensor:
            raise RuntimeError("get_graph: a tensor was not made under ttnn.tracer.trace()")
        found.append(known[1])
    if not found:
        raise RuntimeError(f"get_graph: there is no tensor in {value!r}")
    return found


def visualize(*values: Any, file_name: str | Path | None = None) -> Any:
    """Draw the graph of results as a `graphviz.Digraph`; with a file name also as that file, in the format of its suffix."""
    graph = values[0] if len(values) == 1 and isinstance(values[0], nx.MultiDiGraph) else get_graph(values)
    drawing = graphviz().Digraph()
    for step in ordered(graph):
        colour = "lightgrey" if step.is_input else ("lightblue" if step.name.startswith("ttnn.") else "lightyellow")
        drawing.node(str(step.number), step.label, shape="box", style="filled", fillcolor=colour)
    for source, sink in graph.edges():
        drawing.edge(str(source.number), str(sink.number))
    if file_name is not None:
        path = Path(file_name)
        drawing.render(path.with_suffix(""), format=path.suffix.lstrip(".") or "svg", cleanup=True)
    return drawing


def ordered(graph: nx.MultiDiGraph[Any]) -> list[Step]:
    """The steps in the order in which they ran."""
    return sorted(graph.nodes, key=lambda step: step.number)


# -- code


def codegen(*values: Any, name: str = "program") -> str:
    """The graph of results as a Python function of its inputs (and of `device`, where one is used)."""
    graph = values[0] if len(values) == 1 and isinstance(values[0], nx.MultiDiGraph) else get_graph(values)
    steps = ordered(graph)
    names: dict[Step, str] = {}
    inputs, lines, uses = [], [], {"device": False, "torch": False}
    for step in steps:
        if step.is_input:
            names[step] = f"input_{len(inputs)}"
            inputs.append(names[step])
            continue
        names[step] = f"value_{len(names) - len(inputs)}"
        lines.append(f"    {names[step]} = {_call(step, names, uses)}")
    outputs = [_refer(r, names) for r in graph.graph["outputs"]]
    parameters = ", ".join([*inputs, *(["device"] if uses["device"] else [])])
    head = ["import torch\n" if uses["torch"] else "", "import ttnn\n\n\n", f"def {name}({parameters}):\n"]
    return "".join(head) + "\n".join([*lines, f"    return {', '.join(outputs)}"]) + "\n"


def _call(step: Step, names: dict[Step, str], uses: dict[str, bool]) -> str:
    args = [_code(a, names, uses) for a in step.args]
    args += [f"{word}={_code(a, names, uses)}" for word, a in step.kwargs.items()]
    if step.name == "ttnn.Tensor.__getitem__":
        return f"{args[0]}[{args[1]}]"
    uses["torch"] |= step.name.startswith("torch.")
    return f"{step.name}({', '.join(args)})"


def _refer(reference: Reference, names: dict[Step, str]) -> str:
    name = names[reference.step]
    return name if len(reference.step.shapes) == 1 else f"{name}[{reference.index}]"


def _code(value: Any, names: dict[Step, str], uses: dict[str, bool]) -> str:
    """An argument as an expression."""
    if isinstance(value, Reference):
        return _refer(value, names)
    if isinstance(value, Device):
        uses["device"] = True
        return "device"
    if isinstance(value, Enum):
        return f"ttnn.{type(value).__name__}.{value.name}"
    if isinstance(value, MemoryConfig):
        return _memory_config(value)
    if isinstance(value, torch.dtype):
        uses["torch"] = True
        return str(value)
    if isinstance(value, tuple):
        return f"({', '.join(_code(v, names, uses) for v in value)}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(_code(v, names, uses) for v in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k!r}: {_code(v, names, uses)}' for k, v in value.items())}}}"
    if type(value).__name__ == "Shape":
        return f"ttnn.Shape({list(value)})"
    if type(value).__name__.endswith("ComputeKernelConfig"):
        fields = ("math_fidelity", "math_approx_mode", "fp32_dest_acc_en", "packer_l1_acc", "dst_full_sync_en")
        return f"ttnn.WormholeComputeKernelConfig({', '.join(f'{f}={_code(getattr(value, f), names, uses)}' for f in fields)})"
    return repr(value)


def _memory_config(config: MemoryConfig) -> str:
    if config == MemoryConfig():
        return "ttnn.DRAM_MEMORY_CONFIG"
    kinds = f"ttnn.TensorMemoryLayout.{config.memory_layout.name}, ttnn.BufferType.{config.buffer_type.name}"
    if config.shard_spec is None:
        return f"ttnn.MemoryConfig({kinds})"
    spec = config.shard_spec
    ranges = ", ".join(
        f"ttnn.CoreRange(ttnn.CoreCoord({r.start.x}, {r.start.y}), ttnn.CoreCoord({r.end.x}, {r.end.y}))" for r in spec.grid.ranges()
    )
    shard = f"ttnn.ShardSpec(ttnn.CoreRangeSet({{{ranges}}}), {list(spec.shape)}, ttnn.ShardOrientation.{spec.orientation.name})"
    return f"ttnn.MemoryConfig({kinds}, {shard})"
