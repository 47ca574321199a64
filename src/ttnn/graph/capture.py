"""Watches operations and writes down what happened as the nodes of a graph, in the shape of official TT-NN.

A node is `{counter, node_type, params, connections, arguments, input_tensors, stacking_level[, duration_ns]}`. Functions nest: a public
operation (`ttnn.add`) holds device operations (`BinaryNgDeviceOperation`), which hold the making of their outputs. An edge leads from a function to
what it did and to what followed it, from a tensor to the function that read it, from a buffer to its tensors.

A device operation is heard of when it has run, its outputs' memory before that; the observer therefore keeps what was allocated until it learns what for.
With `dispatch` False nothing is computed and nothing allocated: every address is 0, and everything else is as if.
"""

from __future__ import annotations

import json
import threading
import traceback
from functools import lru_cache
from time import perf_counter_ns, time_ns
from typing import Any

from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import TensorMemoryLayout
from tessera.memory.spec import TensorSpec
from tessera.runtime.buffer import Buffer
from tessera.runtime.device import Device
from tessera.runtime.launch import Launch
from tessera.runtime.observers import Observer
from tessera.runtime.tensor import Tensor
from ttnn.core import element_size

Node = dict[str, Any]

#: Official global call counts go up in these steps.
CALL_COUNT_STEP = 1024
#: Device operations whose circular buffers are known: two pages for each operand and the output, in every core's L1.
BUFFERED = {"BinaryNgDeviceOperation": 2}
#: What official TT-NN calls the function that allocates, by the public operation that asked. The device operations make theirs themselves.
MOVES = {
    "ttnn.from_torch": ("ttnn::convert_python_tensor_to_tt_tensor", "Tensor::to_device"),
    "ttnn.as_tensor": ("ttnn::convert_python_tensor_to_tt_tensor", "Tensor::to_device"),
    "ttnn.to_device": ("Tensor::to_device",),
    "ttnn.load_tensor": ("Tensor::to_device",),
}
CREATE = "tt::tt_metal::create_device_tensor"


# -- how things are spelled, remembered for each spec


def shape_text(dims: tuple[int, ...]) -> str:
    return f"Shape([{', '.join(map(str, dims))}])"


@lru_cache(maxsize=4096)
def tensor_size(spec: TensorSpec) -> int:
    """Bytes of all padded elements; block floats count one byte each, as official graphs do."""
    volume = 1
    for d in spec.padded_dims:
        volume *= d
    return volume * (1 if spec.dtype in (DataType.BFLOAT8_B, DataType.BFLOAT4_B) else element_size(spec.dtype))


@lru_cache(maxsize=4096)
def host_params(spec: TensorSpec) -> dict[str, Any]:
    return {
        "dtype": spec.dtype.cpp,
        "layout": spec.layout.cpp,
        "shape": shape_text(spec.dims),
        "size": tensor_size(spec),
        "storage_type": "HOST",
    }


@lru_cache(maxsize=4096)
def device_params(spec: TensorSpec) -> dict[str, Any]:
    return {
        "buffer_type": spec.memory_config.buffer_type.value,
        "dtype": spec.dtype.cpp,
        "layout": spec.layout.cpp,
        "memory_config": repr(spec.memory_config),
        "shape": shape_text(spec.dims),
        "size": tensor_size(spec),
        "storage_type": "DEVICE",
    }


@lru_cache(maxsize=4096)
def tensor_text(spec: TensorSpec, on_device: bool) -> str:
    """A tensor as an argument of a function."""
    if spec.layout is Layout.TILE:
        tile = spec.tile
        height, width = tile.tile_shape
        face = tile.face_shape
        page = f"TilePageConfig(tile=Tile(tile_shape={{{height}, {width}}},face_shape={{{face[0]}, {face[1]}}},num_faces={tile.num_faces}))"
        alignment = f"[{height}, {width}]"
    else:
        page, alignment = "RowMajorPageConfig()", "[1]"
    return (
        f"Tensor(storage={'Device' if on_device else 'Host'}Storage(),tensor_spec=TensorSpec(logical_shape={shape_text(spec.dims)},"
        f"tensor_layout=TensorLayout(dtype={spec.dtype.cpp},page_config=PageConfig(config={page}),"
        f"memory_config={spec.memory_config!r},alignment=Alignment({alignment}))))"
    )


def argument_text(value: Any) -> str:
    if isinstance(value, Tensor):
        return tensor_text(value.spec, value.buffer.device is not None)
    if isinstance(value, bool):
        return str(int(value))
    if value is None:
        return "std::nullopt"
    if isinstance(value, (list, tuple)):
        return f"SmallVector([{', '.join(argument_text(v) for v in value)}])"
    return str(getattr(value, "cpp", None) or value)


def attributes_text(attributes: dict[str, Any]) -> str:
    inner = ", ".join(f"{name}={argument_text(value)}" for name, value in attributes.items() if not callable(value))
    return f"operation_attributes_t({inner})"


@lru_cache(maxsize=64)
def worker_ranges(grid: tuple[int, int]) -> str:
    return json.dumps([{"end": {"x": grid[0] - 1, "y": grid[1] - 1}, "start": {"x": 0, "y": 0}}], separators=(",", ":"))


def memory_params(buffer: Buffer) -> dict[str, Any]:
    """The common parameters of a buffer and of its coming and going."""
    config = buffer.spec.memory_config
    plan = buffer.allocation.plan if buffer.allocation is not None else None
    size = plan.page_size * plan.num_pages if plan is not None else 0
    return {
        "buffer_type": config.buffer_type.value,
        "device_id": buffer.device.mesh_id if buffer.device is not None else 0,
        "layout": config.memory_layout.name,
        "size": size,
        "type": config.buffer_type.name,
    }


class _Thread(threading.local):
    """Where one thread is: the open functions, what it allocated for a reason not known yet, the last function that ended."""

    stack: list[int]
    operations: list[tuple[str, tuple[Any, ...], int, bool]]
    """The public operations under way: name, arguments, depth of the stack before it (-1 for one that is not shown), whether what it calls is shown."""
    started: list[int]
    pending: list[Buffer]
    ended: int

    def __init__(self) -> None:
        self.stack = [0]
        self.operations = []
        self.started = []
        self.pending = []
        self.ended = -1


class Capture(Observer):
    """One graph, from begin to end."""

    def __init__(self, dispatch: bool, *, stack_traces: bool = False, records: bool = False) -> None:
        self.dispatch = dispatch
        self.stack_traces = stack_traces
        self.records: list[dict[str, Any]] | None = [] if records else None
        self.nodes: list[Node] = []
        self.devices: dict[int, Device] = {}
        self.buffers: dict[int, int] = {}
        """Number of a buffer: its node."""
        self.allocated_as: dict[int, dict[str, Any]] = {}
        self.managers: set[int] = set()
        self.programs = 0
        self.began_at = time_ns()
        self._began = perf_counter_ns()
        self._thread = _Thread()
        self._lock = threading.RLock()
        self._node("capture_start", None, level=0)

    # -- nodes

    def _node(self, kind: str, params: Any, *, connections: list[int] | None = None, level: int | None = None) -> int:
        node: Node = {
            "arguments": [],
            "connections": [] if connections is None else connections,
            "counter": 0,
            "input_tensors": [],
            "node_type": kind,
            "params": params,
            "stacking_level": len(self._thread.stack) - 1 if level is None else level,
        }
        counter = len(self.nodes)  # nothing is made between here and the append: a finalizer could add a node of its own
        node["counter"] = counter
        self.nodes.append(node)
        return counter

    def _connect(self, source: int, sink: int) -> None:
        self.nodes[source]["connections"].append(sink)

    def start(
        self,
        name: str,
        inputs: tuple[Tensor, ...] = (),
        arguments: list[str] | None = None,
        extra: dict[str, Any] | None = None,
        count: int = 0,
    ) -> int:
        """A function begins, reading some tensors."""
        at = self._thread
        params = {"inputs": str(count), "name": name}
        if extra:
            params |= extra
        counter = self._node("function_start", params, level=len(at.stack))
        if at.ended >= 0:
            self._connect(at.ended, counter)
            at.ended = -1
        self._connect(at.stack[-1], counter)
        at.stack.append(counter)
        at.started.append(perf_counter_ns())
        node = self.nodes[counter]
        if arguments:
            node["arguments"] = arguments
        for tensor in inputs:
            made = self.tensor(tensor)
            self._connect(made, counter)
            node["input_tensors"].append(made)
        return counter

    def end(self, outputs: tuple[Tensor, ...] = ()) -> None:
        """The innermost function ends, handing on some tensors."""
        at = self._thread
        if len(at.stack) < 2:
            return
        start = at.stack[-1]
        counter = self._node("function_end", {"name": self.nodes[start]["params"]["name"]})
        self.nodes[counter]["duration_ns"] = perf_counter_ns() - at.started.pop()
        self._connect(start, counter)
        level = len(at.stack) - 1
        at.stack.pop()
        for tensor in outputs:
            self._connect(counter, self.tensor(tensor, level))
        at.ended = counter

    def tensor(self, tensor: Tensor, level: int | None = None) -> int:
        device, buffer = tensor.buffer.device, tensor.buffer
        if device is None:
            return self._node("tensor", {**host_params(tensor.spec), "tensor_id": tensor.tensor_id}, level=level)
        known = self.buffer(buffer)
        address = getattr(buffer.allocation, "address", 0)
        where = [{"address": address, "device_id": chip, "mesh_device_id": device.mesh_id} for chip in device.chips]
        counter = self._node(
            "tensor",
            {
                "address": address,
                "device_id": device.mesh_id,
                "device_tensors": json.dumps(where, separators=(",", ":")),
                **device_params(tensor.spec),
                "tensor_id": tensor.tensor_id,
            },
            level=level,
        )
        self._connect(known, counter)
        return counter

    def buffer(self, buffer: Buffer) -> int:
        known = self.buffers.get(buffer.unique_id)
        if known is None:
            known = self._node("buffer", memory_params(buffer))
            self.buffers[buffer.unique_id] = known
            self._connect(self._thread.stack[-1], known)
            if buffer.device is not None:
                self.devices.setdefault(buffer.device.mesh_id, buffer.device)
        return known

    def _allocate(self, buffer: Buffer) -> None:
        known = self.buffer(buffer)
        parent = self._thread.stack[-1]
        allocation, config = buffer.allocation, buffer.spec.memory_config
        interleaved = config.memory_layout is TensorMemoryLayout.INTERLEAVED
        params = memory_params(buffer) | {
            "address": getattr(allocation, "address", 0),
            "max_size_per_bank": getattr(allocation, "size", 0),
            "num_cores": 0 if interleaved or allocation is None else allocation.num_banks,
            "page_size": getattr(allocation, "aligned_page_size", 0),
        }
        self.allocated_as[buffer.unique_id] = params
        counter = self._node("buffer_allocate", params, connections=[known])
        self._connect(parent, counter)

    def _create(self, buffer: Buffer, tensor: Tensor | None, name: str = CREATE, arguments: list[str] | None = None) -> None:
        """A function whose work is to make room for one tensor."""
        if arguments is None:
            spec = buffer.spec
            arguments = [shape_text(spec.dims), spec.dtype.cpp, spec.layout.cpp, hex(id(buffer.device)), repr(spec.memory_config)]
        self.start(name, arguments=arguments, count=len(arguments))
        self._allocate(buffer)
        self.end((tensor,) if tensor is not None else ())

    # -- what is heard

    def operation_begins(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with self._lock:
            self._flush(())
            at = self._thread
            if (
                at.operations and not at.operations[-1][3]
            ):  # inside an operation that is C++ in official TT-NN: its device operations are seen, no more
                name, given, _, _ = at.operations[-1]
                at.operations.append((name, given, -1, False))
                return
            at.operations.append((operation.python_fully_qualified_name, args, len(at.stack), not operation.is_cpp_operation))
            self.start(operation.python_fully_qualified_name)
            if self.records is not None and len(at.operations) == 1:
                self.records.append(record_of(operation.python_fully_qualified_name, args, kwargs, self.stack_traces))
            if self.stack_traces:
                self.nodes[at.stack[-1]]["stack_trace"] = python_stack()

    def operation_ends(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        with self._lock:
            if self._is_hidden():
                self._thread.operations.pop()
                return
            self._flush(tuple(tensors_of(result)))
            self._leave([t.tensor_id for t in tensors_of(result)])

    def operation_fails(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: BaseException) -> None:
        with self._lock:
            if self._is_hidden():
                self._thread.operations.pop()
                return
            self._flush(())
            parent = self._thread.stack[-1]
            words = {
                "error_type": type(error).__name__,
                "error_message": str(error),
                "error_operation": operation.python_fully_qualified_name,
            }
            self._connect(parent, self._node("error", words))
            self._leave([])

    def _is_hidden(self) -> bool:
        operations = self._thread.operations
        return bool(operations) and operations[-1][2] < 0

    def _leave(self, outputs: list[int]) -> None:
        at = self._thread
        if not at.operations:  # it began before the capture did
            return
        depth = at.operations.pop()[2]
        while len(at.stack) > depth:
            self.end()
        if self.records and not at.operations:
            self.records[-1]["output_tensor_ids"] = outputs

    def allocated(self, buffer: Buffer) -> None:
        self._thread.pending.append(buffer)

    def freed(self, buffer: Buffer) -> None:
        with self._lock:
            if buffer in self._thread.pending:  # it came and went
                self._flush(())
            known = self.buffers.get(buffer.unique_id)
            if known is None:
                return
            self.start("Tensor::deallocate")
            params = self.allocated_as.get(buffer.unique_id) or {**self.nodes[known]["params"]}
            counter = self._node("buffer_deallocate", params, connections=[known])
            self._connect(self._thread.stack[-1], counter)
            self.end()

    def launched(self, launch: Launch) -> None:
        with self._lock:
            at = self._thread
            fresh = {b.unique_id: b for b in at.pending}
            mine = [t for t in launch.outputs if t.buffer.unique_id in fresh]
            owned = {t.buffer.unique_id for t in mine}
            at.pending = [b for b in at.pending if b.unique_id not in owned]
            self._flush(())
            device = launch.device
            texts = ", ".join(tensor_text(t.spec, True) for t in launch.inputs)
            extra = {"program_cache_hit": launch.is_program_hit}
            self.start(launch.name, launch.inputs, [attributes_text(launch.attributes), f"{{{texts}}}"], extra, count=len(launch.inputs))
            for tensor in mine:
                self._create(tensor.buffer, tensor)
            at.ended = -1
            if device is not None:
                self._program(launch, device)
            self.end(launch.outputs)

    def _program(self, launch: Launch, device: Device) -> None:
        """The circular buffers of a program, where known, and its execution."""
        parent = self._thread.stack[-1]
        self._connect(parent, self._node("circular_buffer_deallocate_all", {"device_id": device.mesh_id}, connections=[parent]))
        grid = (device.grid.x, device.grid.y)
        pages = BUFFERED.get(launch.name)
        if pages is not None and all(t.spec.layout is Layout.TILE and not t.spec.is_sharded for t in (*launch.inputs, *launch.outputs)):
            address = device.memory.l1_base
            for tensor in (*launch.inputs, *launch.outputs):
                size = pages * tensor.spec.page_size
                params = {
                    "address": address,
                    "core_range_set": f"{{[0-0 - {grid[0] - 1}-{grid[1] - 1}]}}",
                    "device_id": device.chips[0],
                    "globally_allocated": "0",
                    "size": size,
                }
                self._connect(parent, self._node("circular_buffer_allocate", params))
                address += size
        if not self.dispatch:
            return
        if device.mesh_id not in self.managers:
            self.managers.add(device.mesh_id)
            subs = json.dumps([{"sub_device_id": 0, "worker_core_ranges": json.loads(worker_ranges(grid))}], separators=(",", ":"))
            params = {"device_id": device.mesh_id, "sub_device_manager_id": 0, "sub_devices": subs}
            self._connect(parent, self._node("sub_device_manager", params))
        for _ in range(launch.programs):
            self.programs += 1
            params = {
                "command_queue_id": 0,
                "device_id": device.mesh_id,
                "global_call_count": CALL_COUNT_STEP * self.programs,
                "physical_device_id": device.chips[0],
                "runtime_id": self.programs,
                "sub_device_id": 0,
                "sub_device_manager_id": 0,
                "worker_core_ranges": worker_ranges(grid),
            }
            self._connect(parent, self._node("program_execution", params))

    def _flush(self, results: tuple[Tensor, ...]) -> None:
        """Write down what was allocated without a device operation: a move from the host, or plain room."""
        at = self._thread
        if not at.pending:
            return
        pending, at.pending = at.pending, []
        name, args = at.operations[-1][:2] if at.operations else ("", ())
        for buffer in pending:
            if buffer.unique_id in self.buffers:
                continue
            tensor = next((t for t in results if t.buffer is buffer), None)
            *around, inner = MOVES.get(name, (CREATE,))
            for outer in around:
                spec = buffer.spec
                self.start(outer, arguments=[spec.dtype.cpp, spec.layout.cpp, repr(spec.memory_config)], count=3)
            if inner == CREATE:
                self._create(buffer, tensor)
            else:
                source = next((a for a in args if isinstance(a, Tensor)), None)
                arguments = [tensor_text(buffer.spec, False), hex(id(buffer.device)), "1"]
                self.start(inner, (source,) if source is not None else (), arguments, count=3)
                self._allocate(buffer)
                self.end((tensor,) if tensor is not None else ())
            for _ in around:
                self._thread.ended = -1
                self.end((tensor,) if tensor is not None else ())
            at.ended = -1

    def finish(self) -> list[Node]:
        """The graph. Functions still open in other threads stay open."""
        with self._lock:
            self._flush(())
            counter = self._node("capture_end", None, level=0)
            self.nodes[counter]["duration_ns"] = perf_counter_ns() - self._began
            self._connect(self._thread.ended if self._thread.ended >= 0 else 0, counter)
            return self.nodes


def tensors_of(value: Any) -> list[Tensor]:
    """The tensors in a result, however nested."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [t for v in value for t in tensors_of(v)]


def python_stack() -> list[str]:
    """The program's own frames, innermost first, as the report shows them."""
    frames = [f for f in traceback.extract_stack() if "/ttnn/" not in f.filename and "/tessera/" not in f.filename]
    return [f'  File "{f.filename}", line {f.lineno}, in {f.name}\n    {f.line}\n' for f in reversed(frames)]


def record_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], stack: bool) -> dict[str, Any]:
    """What Python knows of a call: its arguments as text, its tensors by number."""
    words = {**kwargs, **{str(i): v for i, v in enumerate(args)}}
    return {
        "name": name,
        "arguments": {word: argument_summary(value) for word, value in words.items()},
        "input_tensor_ids": [t.tensor_id for v in words.values() for t in tensors_of(v)],
        "python_stack_trace": python_stack() if stack else [],
        "output_tensor_ids": [],
    }


def argument_summary(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"ttnn.Tensor(shape={value.spec.shape}, dtype={value.spec.dtype}, layout={value.spec.layout})"
    if type(value).__module__ == "torch" and hasattr(value, "shape"):
        return f"torch.Tensor(shape={list(value.shape)}, dtype={value.dtype})"
    return str(value)
