"""What TT-NN's users see of a tensor: constructors, attributes, methods and operators, hung on the machine's own class.

Methods that are operations under another spelling are rows of a table at the end.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.packing import pack
from tessera.formats.rounding import host_convert
from tessera.formats.shape import Shape
from tessera.formats.tile import Tile
from tessera.memory.config import MemoryConfig
from tessera.memory.mesh import SINGLE, TensorTopology
from tessera.memory.spec import TensorSpec
from tessera.runtime.buffer import Buffer
from tessera.runtime.device import Device
from tessera.runtime.observers import OBSERVERS
from tessera.runtime.tensor import Tensor
from ttnn import host_buffer, host_methods
from ttnn.core import element_size
from ttnn.types import StorageType

_NUMPY_DTYPES = {
    "float32": DataType.FLOAT32,
    "bfloat16": DataType.BFLOAT16,
    "int32": DataType.INT32,
    "uint32": DataType.UINT32,
    "uint16": DataType.UINT16,
    "uint8": DataType.UINT8,
    "int8": DataType.INT8,
    "int64": DataType.UINT32,
    "int16": DataType.UINT16,
    "bool": DataType.UINT8,
}


def spec_for(
    shape: Sequence[int], dtype: DataType, layout: Layout | None = None, memory_config: MemoryConfig | None = None, tile: Tile | None = None
) -> TensorSpec:
    """The spec of a new tensor; block floats choose TILE when nothing is said, everything else ROW_MAJOR."""
    if layout is None:
        layout = Layout.TILE if FORMATS[dtype].is_block else Layout.ROW_MAJOR
    return TensorSpec.of(Shape(list(shape)), dtype, layout, memory_config, tile)


def as_torch(data: Any) -> torch.Tensor:
    """A torch tensor of what was given: torch, numpy or a nested list."""
    if isinstance(data, torch.Tensor):
        return data
    if isinstance(data, np.ndarray):
        if data.dtype.name in ("float16", "float64") or (data.dtype.kind not in "fiub" and data.dtype.name != "bfloat16"):
            raise RuntimeError(
                f"a Tensor cannot be made of a numpy array of {data.dtype}: convert it to float32, bfloat16 or an integer type first"
            )
        if data.dtype.name == "bfloat16":
            return torch.from_numpy(np.ascontiguousarray(data).view(np.int16)).view(torch.bfloat16)
        contiguous = np.ascontiguousarray(data).reshape(data.shape)
        return torch.from_numpy(contiguous if contiguous.flags.writeable else contiguous.copy())
    return torch.tensor(data)


def host_tensor(data: torch.Tensor, spec: TensorSpec, pad: float | None = None) -> Tensor:
    """A host tensor of the given values, converted as the host converts; memory is borrowed where nothing has to change. `pad` is what fills up its
    tiles; no operation reads that, so it lies in the bytes only."""
    if pad and spec.layout is Layout.TILE and spec.padded_dims != spec.dims:
        return _padded_tensor(data, spec, pad)
    values = host_convert(data, spec.dtype, spec.tile if spec.layout is Layout.TILE else None)
    borrowed = values is data or values.data_ptr() == data.data_ptr()
    values = values.reshape(spec.dims)
    return Tensor.on_host(spec, [values if values.is_contiguous() else values.contiguous()], borrowed=borrowed)


def _padded_tensor(data: torch.Tensor, spec: TensorSpec, pad: float) -> Tensor:
    if FORMATS[spec.dtype].is_block:  # what pads a block shares its exponent: the values are what comes out of the bytes
        return Tensor.of(spec, Buffer(spec, [None], images=[pack(data.reshape(spec.dims), spec, pad)]))
    values = host_convert(data, spec.dtype, spec.tile).reshape(spec.dims).contiguous()
    borrowed = values.data_ptr() == data.data_ptr()
    return Tensor.of(spec, Buffer(spec, [values], images=[pack(values, spec, pad)], borrowed=borrowed))


def _construct(self: Tensor, *args: Any, **kwargs: Any) -> None:
    """`Tensor(tensor)`, `Tensor(list, shape, dtype, layout, ...)` or `Tensor(array, dtype, device=..., layout=...)`."""
    made = _make(*args, **kwargs)
    self.spec, self.buffer, self.topology, self.tensor_id = made.spec, made.buffer, made.topology, made.tensor_id


def _make(*args: Any, **kwargs: Any) -> Tensor:
    if not args and not kwargs:
        raise TypeError(
            "__init__(): incompatible function arguments. Tensor() needs data: another tensor, an array, or a list with shape, dtype and layout"
        )
    if len(args) == 1 and not kwargs and isinstance(args[0], Tensor):
        return Tensor.of(args[0].spec, args[0].buffer, args[0].topology)
    words = dict(zip(("tensor",), args)) if args and not isinstance(args[0], (list, tuple)) else dict(zip(("data",), args))
    rest = args[1:]
    if "data" in words or "data" in kwargs:
        order = ("shape", "data_type", "layout", "device", "memory_config", "tile", "pad_value")
        if rest[3:4] and not isinstance(rest[3], (Device, type(None))):
            order = ("shape", "data_type", "layout", "tile", "pad_value")
    else:
        order = ("data_type", "device", "layout", "mem_config", "tile", "cq_id", "pad_value", "mesh_mapper")
    if len(rest) > len(order):
        raise TypeError(
            f"__init__(): incompatible function arguments. Tensor() takes at most {len(order) + 1} positional arguments, got {len(args)}"
        )
    words |= dict(zip(order, rest))
    clash = set(words) & set(kwargs)
    unknown = set(kwargs) - {*order, "tensor", "data", "mesh_mapper"}
    if clash or unknown:
        raise TypeError(
            f"__init__(): incompatible function arguments. Tensor() got {sorted(clash or unknown)} {'twice' if clash else 'which it does not know'}"
        )
    words |= kwargs
    dtype, layout, device, tile = words.get("data_type"), words.get("layout"), words.get("device"), words.get("tile")
    for name, value, kind in (("data_type", dtype, DataType), ("layout", layout, Layout), ("device", device, Device), ("tile", tile, Tile)):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"__init__(): incompatible function arguments. {name}={value!r} must be a {kind.__name__}")
    memory_config = words.get("memory_config") or words.get("mem_config")
    if "data" in words:
        data, shape = words["data"], words.get("shape")
        if shape is None or dtype is None or layout is None or not all(isinstance(v, (int, float, np.number)) for v in data):
            raise TypeError(
                "__init__(): incompatible function arguments. Tensor(list, ...) takes a flat list of numbers, shape, data_type and layout"
            )
        flat = torch.tensor(
            list(data), dtype=torch.float64 if FORMATS[dtype].is_float or any(isinstance(v, float) for v in data) else torch.int64
        )
        if flat.dtype is torch.float64:
            flat = flat.float()
        spec = spec_for(shape, dtype, layout, memory_config, tile)
        if flat.numel() != math.prod(spec.dims):
            raise RuntimeError(
                f"Tensor(): {flat.numel()} values do not fill shape {list(spec.dims)}, which has {math.prod(spec.dims)} elements"
            )
        tensor = host_tensor(flat.reshape(spec.dims), spec, words.get("pad_value"))
    else:
        data = words["tensor"]
        if not isinstance(data, (torch.Tensor, np.ndarray)):
            raise TypeError(f"__init__(): incompatible function arguments. Tensor() cannot be made of {type(data).__name__}")
        from ttnn.operations.conversion import from_torch

        given = as_torch(data)
        if dtype is None:
            dtype = _NUMPY_DTYPES[str(given.dtype).removeprefix("torch.")]
        mapper = words.get("mesh_mapper")
        return from_torch.function(  # type: ignore[no-any-return]
            given,
            dtype=dtype,
            layout=spec_for(given.shape, dtype, layout).layout,
            tile=tile,
            pad_value=words.get("pad_value"),
            device=device,
            memory_config=memory_config,
            mesh_mapper=mapper,
            cq_id=words.get("cq_id"),
        )
    if device is not None:
        from ttnn.operations.conversion import to_device

        return to_device.function(tensor, device, memory_config=memory_config)  # type: ignore[no-any-return]
    return tensor


# -- attributes


def require_allocated(tensor: Tensor, what: str) -> None:
    if not tensor.buffer.allocated:
        raise RuntimeError(f"{what}: Tensor is not allocated. It was deallocated and cannot be used any more")


def require_readable(tensor: Tensor, what: str) -> None:
    """Its content may be asked for now: it is there, its device is open, and no trace is captured, whose operations have not run."""
    require_allocated(tensor, what)
    device = tensor.buffer.device
    if device is not None:
        device.require_open(what)
        if device.trace is not None:
            raise RuntimeError(
                f"Reads are not supported during trace capture. {what} was called between begin_trace_capture and end_trace_capture"
            )


def _device_buffer(tensor: Tensor, what: str) -> Any:
    if tensor.buffer.device is None:
        raise RuntimeError(f"StorageType::HOST doesn't support {what} method: the tensor is on the host, move it to a device first")
    require_allocated(tensor, what)
    return tensor.buffer


def _item(tensor: Tensor) -> int | float:
    volume = math.prod(tensor.spec.dims)
    if volume != 1:
        raise RuntimeError(f"tensor.item() requires tensor to have exactly one element, but got {volume} elements")
    if tensor.spec.dtype == DataType.FP8_E4M3:
        raise RuntimeError("FP8_E4M3 item() is not supported; convert the tensor to bfloat16 first")
    require_readable(tensor, "item")
    value = tensor.values.reshape(()).item()
    return float(value) if FORMATS[tensor.spec.dtype].is_float else int(value)


def _to_list(tensor: Tensor) -> Any:
    require_readable(tensor, "to_list")
    if tensor.spec.dtype is DataType.FP8_E4M3:
        raise RuntimeError("Tensor.to_list(): FP8_E4M3 is not supported; convert the tensor to bfloat16 first")
    values = tensor.values
    return values.float().tolist() if FORMATS[tensor.spec.dtype].is_float else values.tolist()


def _deallocate(tensor: Tensor, force: bool = False) -> None:
    """Give the tensor's memory back; without `force` not while another tensor shows it too."""
    if force or sys.getrefcount(tensor.buffer) <= 2:  # the tensor's own reference, and the count's
        tensor.buffer.free()


def _storage(tensor: Tensor) -> StorageType:
    return StorageType.HOST if tensor.buffer.device is None else StorageType.DEVICE


PROPERTIES: dict[str, Callable[[Tensor], Any]] = {
    "shape": lambda t: t.spec.shape,
    "padded_shape": lambda t: t.spec.padded_shape,
    "dtype": lambda t: t.spec.dtype,
    "layout": lambda t: t.spec.layout,
    "tile": lambda t: t.spec.tile,
}

METHODS: dict[str, Callable[..., Any]] = {
    "memory_config": lambda t: t.spec.memory_config,
    "storage_type": _storage,
    "device": lambda t: t.buffer.device,
    "devices": lambda t: [t.buffer.device],
    "device_coords": lambda t: list(t.buffer.device.coordinates()) if t.buffer.device else [],
    "is_allocated": lambda t: t.buffer.allocated,
    "is_sharded": lambda t: t.spec.memory_config.is_sharded(),
    "is_per_core_allocated": lambda t: False,
    "is_range_lockstep_allocated": lambda t: False,
    "get_dtype": lambda t: t.spec.dtype,
    "get_layout": lambda t: t.spec.layout,
    "get_tile": lambda t: t.spec.tile,
    "volume": lambda t: math.prod(t.spec.padded_shape),
    "logical_volume": lambda t: math.prod(t.spec.dims),
    "element_size": lambda t: element_size(t.spec.dtype),
    "buffer_address": lambda t: getattr(_device_buffer(t, "buffer_address").allocation, "address", 0),
    "buffer_page_size": lambda t: _device_buffer(t, "buffer_page_size").allocation.page_size,
    "buffer_aligned_page_size": lambda t: _device_buffer(t, "buffer_aligned_page_size").allocation.aligned_page_size,
    "buffer_num_pages": lambda t: _device_buffer(t, "buffer_num_pages").allocation.num_pages,
    "buffer_unique_id": lambda t: t.buffer.unique_id if t.buffer.device is not None and t.buffer.allocated else None,
    "tensor_topology": lambda t: t.topology if t.topology is not None else SINGLE,
    "item": _item,
    "to_list": _to_list,
    "deallocate": _deallocate,
}


def _update_topology(tensor: Tensor, topology: TensorTopology) -> None:
    tensor.topology = topology


def _to(tensor: Tensor, target: Any, mem_config: MemoryConfig | None = None, cq_id: Any = None) -> Tensor:
    from ttnn.operations.conversion import to_device, to_layout

    if isinstance(target, Layout):
        return to_layout.function(tensor, target)  # type: ignore[no-any-return]
    if isinstance(target, Device):
        return to_device.function(tensor, target, memory_config=mem_config, queue_id=cq_id)  # type: ignore[no-any-return]
    raise TypeError(f"to(): incompatible function arguments. It takes a device or a Layout, got {type(target).__name__}")


def _cpu(tensor: Tensor, blocking: bool = True, cq_id: Any = None) -> Tensor:
    from ttnn.operations.conversion import from_device

    return tensor if tensor.buffer.device is None else from_device.function(tensor, blocking, queue_id=cq_id)  # type: ignore[no-any-return]


def _to_torch(tensor: Tensor, mesh_composer: Any = None) -> torch.Tensor:
    from ttnn.operations.conversion import to_torch

    return to_torch.function(tensor, mesh_composer=mesh_composer)  # type: ignore[no-any-return]


def _to_numpy(tensor: Tensor, mesh_composer: Any = None) -> np.ndarray[Any, Any]:
    if tensor.spec.dtype is DataType.FP8_E4M3:
        raise RuntimeError("Tensor.to_numpy(): FP8_E4M3 is not supported; convert the tensor to bfloat16 first")
    plain = _to_torch(tensor, mesh_composer)
    return (plain.float() if plain.dtype is torch.bfloat16 else plain).numpy()


METHODS |= host_methods.METHODS | host_buffer.METHODS
METHODS |= {"update_tensor_topology": _update_topology, "to": _to, "cpu": _cpu, "to_torch": _to_torch, "to_numpy": _to_numpy}


# -- operators: each is an operation under another spelling


def _reflected(op: str) -> Callable[[Tensor, Any], Any]:
    def call(self: Tensor, other: Any) -> Any:
        import ttnn

        return getattr(ttnn, op)(other, self)

    return call


def _plain(op: str) -> Callable[..., Any]:
    def call(self: Tensor, *args: Any) -> Any:
        import ttnn

        return getattr(ttnn, op)(self, *args)

    return call


OPERATORS = {
    "__add__": "add",
    "__sub__": "subtract",
    "__mul__": "multiply",
    "__truediv__": "divide",
    "__matmul__": "matmul",
    "__pow__": "pow",
    "__eq__": "eq",
    "__ne__": "ne",
    "__gt__": "gt",
    "__ge__": "ge",
    "__lt__": "lt",
    "__le__": "le",
    "__neg__": "neg",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__invert__": "bitwise_not",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
    "__iadd__": "add_",
    "__isub__": "subtract_",
    "__imul__": "multiply_",
    "__itruediv__": "divide_",
}


def _getitem(self: Tensor, index: Any) -> Any:
    from ttnn.operations.slicing import getitem

    return _watched_getitem()(self, index) if OBSERVERS else getitem(self, index)


@functools.cache
def _watched_getitem() -> Any:
    """Indexing as the operation that observers see."""
    from ttnn.decorators import Operation
    from ttnn.operations.slicing import getitem

    return Operation("ttnn.Tensor.__getitem__", getitem, planned=False)


def _string(self: Tensor) -> str:
    from ttnn.printing import format_parts, format_tensor, format_unallocated

    if not self.buffer.allocated:
        return format_unallocated(self.spec)
    device = self.buffer.device
    if device is not None and device.trace is not None:
        require_readable(self, "str")
    if device is not None and device.num_chips > 1:
        return format_parts(list(zip(device.chips, device.coordinates(), self.parts)), self.spec)
    return format_tensor(self.values, self.spec)


def equip() -> None:
    """Hang all of it on the class. Called once, by `import ttnn`."""
    for name, read in PROPERTIES.items():
        setattr(Tensor, name, property(read))
    for name, method in METHODS.items():
        setattr(Tensor, name, method)
    for name, op in OPERATORS.items():
        setattr(Tensor, name, _plain(op))
    setattr(Tensor, "__radd__", _plain("add"))
    setattr(Tensor, "__rmul__", _plain("multiply"))
    setattr(Tensor, "__rsub__", _reflected("subtract"))
    setattr(Tensor, "__rtruediv__", _reflected("divide"))
    Tensor.__init__ = _construct  # type: ignore[method-assign]
    Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]
    Tensor.__getitem__ = _getitem  # type: ignore[attr-defined]
    Tensor.__repr__ = Tensor.__str__ = _string  # type: ignore[method-assign]
    Tensor.__module__ = "ttnn"
