"""Questions to a captured graph: what was called, what came out, how much L1 it took at most.

Every function takes the list of nodes that a capture answers, ours or one that official TT-NN wrote, and looks at nothing else.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tessera.formats.shape import Shape

Node = dict[str, Any]


@dataclass(frozen=True)
class TensorInfo:
    """Shape, bytes and kind of memory of a tensor in a graph."""

    shape: Shape
    size: int
    type: str

    def __repr__(self) -> str:
        return f"TensorInfo{{.shape = {self.shape}, .size = {self.size}, .type = {self.type}}}"


@dataclass(frozen=True)
class PeakMemoryUsagePerCore:
    """The most that one core's L1 held: circular buffers, tensors, and both at one time."""

    peak_cb: int
    peak_l1: int
    peak_total: int


def calls(graph: Sequence[Node]) -> Iterator[Node]:
    return (n for n in graph if n["node_type"] == "function_start")


def extract_calltrace(trace: Sequence[Node]) -> list[str]:
    """The names of all functions, in the order in which they began."""
    return [n["params"]["name"] for n in calls(trace)]


def _memory(graph: Sequence[Node]) -> Iterator[tuple[str, int, Node]]:
    """What changes L1: ("there" | "allocate" | "free" | "cb" | "cb_free", bytes, node). Buffers that were in L1 before the capture are there when first read."""
    made = {n["connections"][0] for n in graph if n["node_type"] == "buffer_allocate" and n["connections"]}
    for n in graph:
        kind, params = n["node_type"], n["params"] or {}
        if kind == "buffer" and n["counter"] not in made and params["type"] == "L1":
            yield "there", int(params["size"]), n
        elif kind in ("buffer_allocate", "buffer_deallocate") and n["connections"]:
            of = graph[n["connections"][0]]["params"]
            if of["type"] == "L1":
                yield ("allocate" if kind == "buffer_allocate" else "free"), int(of["size"]), n
        elif kind == "circular_buffer_allocate":
            yield "cb", int(params["size"]), n
        elif kind == "circular_buffer_deallocate_all":
            yield "cb_free", 0, n


def extract_peak_L1_memory_usage(trace: Sequence[Node]) -> int:
    """The largest sum of L1 buffers and circular buffers at any time, in bytes of the whole device."""
    tensors = circular = peak = 0
    for what, size, _ in _memory(trace):
        if what in ("there", "allocate"):
            tensors += size
        elif what == "free":
            tensors -= size
        else:
            circular = circular + size if what == "cb" else 0
        peak = max(peak, tensors + circular)
    return peak


def extract_resource_usage_per_core(trace: Sequence[Node], interleaved_storage_cores: int | None = None) -> PeakMemoryUsagePerCore:
    """The same for one core. A buffer whose node does not say what it takes of each bank is spread over `interleaved_storage_cores`."""
    cores = interleaved_storage_cores or _cores(trace)
    tensors = circular = peak_cb = peak_l1 = peak = 0
    share: dict[int, int] = {}
    for what, size, n in _memory(trace):
        if what in ("there", "allocate"):
            per_bank = int((n["params"] or {}).get("max_size_per_bank", 0)) or -(-size // cores)
            share[n["connections"][0] if what == "allocate" else n["counter"]] = per_bank
            tensors += per_bank
        elif what == "free":
            tensors -= share.pop(n["connections"][0], 0)
        else:
            circular = circular + size if what == "cb" else 0
        peak_cb, peak_l1, peak = max(peak_cb, circular), max(peak_l1, tensors), max(peak, tensors + circular)
    return PeakMemoryUsagePerCore(peak_cb, peak_l1, peak)


def _cores(graph: Sequence[Node]) -> int:
    for n in graph:
        found = re.fullmatch(r"\{\[0-0 - (\d+)-(\d+)\]\}", (n["params"] or {}).get("core_range_set", ""))
        if found:
            return (int(found[1]) + 1) * (int(found[2]) + 1)
    return 64


def _outputs(graph: Sequence[Node]) -> list[Node]:
    """The tensors that the last outermost function handed on: those on its own end, or on the last end inside it that has any."""
    last = next((i for i in range(len(graph) - 1, -1, -1) if _is_result(graph, i)), None)
    if last is None:
        return []
    return [graph[c] for c in graph[last]["connections"] if graph[c]["node_type"] == "tensor"]


def _is_result(graph: Sequence[Node], index: int) -> bool:
    n = graph[index]
    return n["node_type"] == "function_end" and any(graph[c]["node_type"] == "tensor" for c in n["connections"])


def extract_output_tensors(trace: Sequence[Node]) -> set[int]:
    """The nodes of the tensors that came out."""
    return {n["counter"] for n in _outputs(trace)}


def extract_output_info(trace: Sequence[Node]) -> list[TensorInfo]:
    """What came out: shapes, and the memory that was taken for each."""
    buffers = {c: n for n in trace if n["node_type"] == "buffer" for c in n["connections"]}
    found = []
    for n in _outputs(trace):
        home = buffers.get(n["counter"])
        size, kind = (home["params"]["size"], home["params"]["type"]) if home else (n["params"].get("size", 0), "SYSTEM_MEMORY")
        found.append(TensorInfo(Shape(_dims(n["params"]["shape"])), int(size), kind))
    return found


def _dims(text: str) -> list[int]:
    return [int(d) for d in re.findall(r"\d+", text)]


def count_intermediate_and_output_tensors(trace: Sequence[Node]) -> tuple[int, int]:
    """How many tensors the captured functions made on the way, and how many came out. A tensor counts once however many nodes it has."""
    outputs = {n["params"]["tensor_id"] for n in _outputs(trace)}
    made = {
        trace[c]["params"]["tensor_id"]
        for n in trace
        if n["node_type"] == "function_end"
        for c in n["connections"]
        if trace[c]["node_type"] == "tensor"
    }
    return len(made - outputs), len(outputs)


def _ends(graph: Sequence[Node]) -> dict[int, Node]:
    """Start of a function: the node of its end."""
    found, open_ = {}, []
    for n in graph:
        if n["node_type"] == "function_start":
            open_.append(n)
        elif n["node_type"] == "function_end":
            name = n["params"]["name"]
            at = next((i for i in range(len(open_) - 1, -1, -1) if open_[i]["params"]["name"] == name), None)
            if at is not None:
                found[open_.pop(at)["counter"]] = n
    return found


def extract_operation_durations(graph: Sequence[Node]) -> dict[int, float]:
    """Start of each function: how long it took, in seconds."""
    return {start: end["duration_ns"] / 1e9 for start, end in _ends(graph).items() if "duration_ns" in end}


def extract_total_duration_from_graph(graph: Sequence[Node]) -> float:
    """How long the capture took, in seconds."""
    end = graph[-1] if graph else {}
    return float(end.get("duration_ns", 0)) / 1e9


@dataclass
class _Vertex:
    node: Node
    into: list[int] = field(default_factory=list)
    out: list[int] = field(default_factory=list)
    inside: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    makes: list[int] = field(default_factory=list)
    info: list[str] = field(default_factory=list)


def extract_levelized_graph(trace: Sequence[Node], max_level: int = 1) -> list[dict[str, Any]]:
    """The data flow between functions no deeper than `max_level`: who reads what whose output is, and which functions are inside which."""
    levels = {n["counter"]: int(n["stacking_level"]) for n in calls(trace)}
    shown = {c: i for i, c in enumerate(c for c in levels if levels[c] <= max_level)}
    vertices = {c: _Vertex(trace[c]) for c in shown}
    ends = {end["counter"]: start for start, end in _ends(trace).items()}
    stack: list[int] = []
    producers: dict[Any, list[int]] = defaultdict(list)
    for n in trace:
        kind = n["node_type"]
        if kind == "function_start":
            around = [c for c in stack if c in vertices]
            if n["counter"] in vertices and around:
                vertices[around[-1]].inside.append(shown[n["counter"]])
            stack.append(n["counter"])
            for i in n["input_tensors"]:
                key = _tensor_key(trace[i])
                for reader in [c for c in stack if c in vertices]:
                    vertices[reader].reads.append(i)
                    for producer in producers[key]:
                        if producer != reader and levels[producer] == levels[reader] and shown[producer] not in vertices[reader].into:
                            vertices[reader].into.append(shown[producer])
                            vertices[producer].out.append(shown[reader])
        elif kind == "function_end":
            start = ends.get(n["counter"])
            tensors = [trace[c] for c in n["connections"] if trace[c]["node_type"] == "tensor"]
            for owner in [c for c in stack if c in vertices]:
                for t in tensors:
                    producers[_tensor_key(t)].append(owner)
                if tensors:
                    vertices[owner].info = [t["params"]["shape"] for t in tensors]
            if start in stack:
                stack.remove(start)
    return [
        {
            "counter": shown[c],
            "name": v.node["params"]["name"],
            "stacking_level": levels[c],
            "in_edges": sorted(v.into),
            "out_edges": sorted(v.out),
            "internals": v.inside,
            "output_info": v.info,
            "output_shape": v.info,
            "arguments": v.node["arguments"],
        }
        for c, v in vertices.items()
    ]


def _tensor_key(node: Node) -> Any:
    """What makes two nodes the same tensor: its memory while it is on a device, else its number."""
    params = node["params"]
    address = params.get("address")
    return (params.get("device_id"), params.get("buffer_type"), address) if address else params.get("tensor_id")
