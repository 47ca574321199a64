"""The one place where anything runs on a device.

An operation hands over an engine function, its input tensors, the specs of its outputs and its attributes. `launch` finds or
adds the program (the program cache *is* the set of plans that were made), allocates, computes, rounds into the output format and
wraps. Whatever watches operations attaches to `observers`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch

from tessera.engine.packed import Packed
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.rounding import to_grid
from tessera.formats.tile import DEFAULT_TILE
from tessera.runtime.buffer import Buffer
from tessera.runtime.observers import OBSERVERS, dispatching, notify
from tessera.runtime.tensor import Tensor

if TYPE_CHECKING:
    from tessera.memory.mesh import TensorTopology
    from tessera.memory.spec import TensorSpec
    from tessera.runtime.device import Device

Compute = Callable[..., Any]

#: Formats whose grid is a whole torch dtype: a result of that dtype is on the grid already.
_WHOLE = {dtype: row.values for dtype, row in FORMATS.items() if not row.is_block and row.bits == row.values.itemsize * 8}


@dataclass(slots=True)
class Launch:
    """One device operation: what was computed from which buffers into which. A trace is a list of these."""

    name: str
    compute: Compute
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: dict[str, Any]
    across: bool = False
    mutates: bool = False
    is_program_hit: bool = False
    programs: int = 1
    device: Device | None = None
    notes: dict[str, Any] = field(default_factory=dict)


class Recording(threading.local):
    """What the public operation now running in this thread has launched: (launch, wrote into a ready-made output), or None for a
    launch that went by a plan. A call that was a single launch on its own arguments can be remembered whole."""

    launches: list[tuple[Launch, bool] | None] | None = None


recording = Recording()


def frozen(value: Any) -> Any:
    """A hashable form of an attribute, for program keys."""
    if isinstance(value, (list, tuple)):
        return tuple(frozen(v) for v in value)
    if isinstance(value, Mapping):
        return tuple(sorted((k, frozen(v)) for k, v in value.items()))
    key = getattr(value, "key", None)  # value types that official TT-NN compares by identity say what makes them the same
    if key is not None:
        return type(value), key
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def launch(
    name: str,
    compute: Compute,
    inputs: Sequence[Tensor],
    out: TensorSpec | Sequence[TensorSpec],
    *,
    attributes: Mapping[str, Any] | None = None,
    runtime: Sequence[str] = (),
    into: Tensor | Sequence[Tensor | None] | None = None,
    device: Device | None = None,
    programs: int = 1,
    key: Any = None,
    across: bool = False,
    mutates: bool = False,
    topology: TensorTopology | None = None,
) -> Any:
    """Run one device operation and return its output tensor (a list of them when `out` is a list).

    `runtime` names attributes that the chip passes at run time, so that they are not part of the program's key. `into` gives
    ready-made outputs. `programs` says how many device programs this is on the chip. `across` hands `compute` lists of parts, one for each
    chip. `mutates` lets `compute` write into its first input's values and return them (a KV cache): pass that input as `into` too.
    """
    many = not hasattr(out, "dims")
    specs: Sequence[TensorSpec] = out if many else [out]  # type: ignore[assignment, list-item]
    given: Sequence[Tensor | None] = [into] if isinstance(into, Tensor) else (into or [None] * len(specs))
    attrs = dict(attributes or {})
    if device is None:
        device = inputs[0].buffer.device
    if device is None:
        raise RuntimeError(f"{name}: Input tensor A must be on device, got storage type: StorageType::HOST")
    device.require_open(name)
    for tensor in inputs:
        if not tensor.buffer.allocated:
            raise RuntimeError(f"{name}: Tensor is not allocated. A deallocated tensor was given as input")
        if tensor.buffer.device is not device:
            where = "on the host (StorageType::HOST)" if tensor.buffer.device is None else "on another device"
            raise RuntimeError(f"{name}: all inputs must be on device {list(device.chips)}; one of shape {tensor.spec.dims} is {where}")

    if any(s.dtype is DataType.FLOAT32 for s in specs) and not any(t.spec.dtype is DataType.FLOAT32 for t in inputs):
        compute = getattr(compute, "torch", compute)  # native forms round to bfloat16 where their operands are

    hit = device.programs.use(
        (name, key, tuple([t.spec for t in inputs]), tuple(specs), frozen({k: v for k, v in attrs.items() if k not in runtime})),
        name,
        programs,
    )
    dry = bool(OBSERVERS) and not dispatching()
    outputs = []
    for spec, ready in zip(specs, given):
        if ready is None:
            place = topology if topology is not None else (inputs[0].topology if inputs else None)
            ready = Tensor.of(spec, device.new_buffer(spec, dry=dry), place)
        outputs.append(ready)
    record = Launch(name, compute, tuple(inputs), tuple(outputs), attrs, across, mutates, hit, programs, device)
    if device.trace is not None:
        device.trace.append(record)
    elif not dry:
        run(record)
    if OBSERVERS:
        notify("launched", record)
    if recording.launches is not None:
        recording.launches.append((record, into is not None))
    return outputs if many else outputs[0]


def run(record: Launch) -> None:
    """Compute a launch and write its outputs. Replaying a trace is calling this again."""
    started = perf_counter()
    inputs, outputs, attributes, device = record.inputs, record.outputs, record.attributes, record.device
    count = max((len(t.buffer.values) for t in (*inputs, *outputs)), default=1)
    if record.across:
        results = record.compute(*[t.parts for t in inputs], **attributes)
        per_output = results if isinstance(results, tuple) else (results,)
        for tensor, parts in zip(outputs, per_output):
            for index, values in enumerate(parts):
                if device is None or device.drives(index):
                    write(tensor, index, values)
    else:
        done: dict[tuple[int, ...], tuple[list[Any], Any]] = {}
        for index in range(count):
            if device is not None and not device.drives(index):
                continue
            values = operands(record.compute, inputs, index)
            if record.mutates:
                values[0] = None  # whoever holds the values keeps them from being written in place
                values[0] = inputs[0].writable(index)
            same = tuple(id(v.lone) if isinstance(v, Packed) and v.lone is not None else id(v) for v in values)
            if same not in done:
                done[same] = values, record.compute(*values, **attributes)  # kept: an id names nothing else while its object lives
            result = done[same][1]
            if record.mutates and result is values[0]:
                outputs[0].put(index, result)  # written in place and on the grid: a large cache is not rounded again
            elif len(outputs) == 1 and not isinstance(result, tuple):
                write(outputs[0], index, result)
            else:
                for tensor, part in zip(outputs, result):
                    write(tensor, index, part)
    if record.device is not None:
        record.device.count(record.name, perf_counter() - started)


#: Formats whose tiles a product can read in place, and their bits of magnitude.
_IN_PLACE = {DataType.BFLOAT8_B: 7, DataType.BFLOAT4_B: 3}
#: Buffers that were the packed input of a computation once: the second time their image is made and kept.
_met: WeakSet[Buffer] = WeakSet()


def operands(compute: Compute, inputs: Sequence[Tensor], index: int) -> list[Any]:
    """One part of every input: its values, or the tiles themselves where the computation can take them."""
    places = getattr(compute, "images", ())
    return [operand(t, index) if i in places else t.part(index) for i, t in enumerate(inputs)]


def operand(tensor: Tensor, index: int = 0) -> Any:
    """A matrix of block floats as its tiles, what has no values yet as its bytes, anything else as its values. Packing pays for what is
    used again."""
    spec, buffer = tensor.spec, tensor.buffer
    if spec is not buffer.spec:
        return tensor.part(index)
    if index >= len(buffer.values):
        index = 0
    bits = _IN_PLACE.get(spec.dtype, 0)
    if not bits and buffer.values[index] is not None:
        return tensor.part(index)
    if bits and (spec.tile != DEFAULT_TILE or len(spec.dims) < 2 or spec.volume != spec.dims[-1] * spec.dims[-2]):
        bits = 0
    lone = buffer.lone_image(index)
    if lone is not None and spec.padded_dims != spec.dims:
        lone = None
    if lone is None:
        if not bits:
            return tensor.part(index)
        if buffer.images is None or buffer.images[index] is None:
            if buffer not in _met:
                _met.add(buffer)
                return tensor.part(index)
    elements = spec.tile.height * spec.tile.width if spec.layout is Layout.TILE else 1
    return Packed(spec.dims, FORMATS[spec.dtype], elements, bits, lambda: buffer.image(index), lambda: tensor.part(index), lone)


def write(tensor: Tensor, index: int, result: torch.Tensor) -> None:
    """Round a result into the tensor's format and make it the content of one part."""
    tensor.put(index, rounded(result, tensor.spec))


def rounded(result: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    """A result as the values face of `spec`: on the grid of its dtype, contiguous, of the logical shape."""
    if result.dtype is not _WHOLE.get(spec.dtype):
        result = to_grid(result, spec.dtype, spec.tile)
    if result.shape != spec.dims:
        if result.numel() != math.prod(spec.dims):
            raise RuntimeError(f"a result of shape {tuple(result.shape)} does not fit an output of shape {spec.dims}")
        result = result.reshape(spec.dims)
    return result if result.is_contiguous() else result.contiguous()


def alias(tensor: Tensor, spec: TensorSpec) -> Tensor:
    """Another view of the same bytes: no program, no allocation. Logical volumes must agree."""
    device = tensor.buffer.device
    if device is not None:
        device.require_open("a view of a tensor")
    return Tensor.of(spec, tensor.buffer, tensor.topology)


def on_host(compute: Compute, inputs: Sequence[Tensor], out: TensorSpec, **attributes: Any) -> Tensor:
    """The same computing for tensors on the host: no program, no device memory, nothing for the device's observers."""
    count = max(len(t.buffer.values) for t in inputs)
    parts: list[torch.Tensor | None] = [rounded(compute(*[t.part(i) for t in inputs], **attributes), out) for i in range(count)]
    return Tensor.of(out, Buffer(out, parts), inputs[0].topology)
