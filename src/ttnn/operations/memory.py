"""Where a tensor lives: moves between DRAM and L1, interleaved and sharded; copies, clones and reallocation.

The values do not change unless a dtype is asked for, so all of these share one engine function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tessera.formats.dtype import FORMATS, TILE_SIZE, DataType, Layout
from tessera.formats.rounding import host_convert
from tessera.memory.config import BufferType, MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from tessera.memory.geometry import CoreCoord, CoreRangeSet
from tessera.memory.spec import TensorSpec
from tessera.memory.work import num_cores_to_corerangeset
from tessera.runtime.buffer import Buffer
from tessera.runtime.device import Device
from tessera.runtime.events import check_queue
from tessera.runtime.launch import launch, on_host
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require, require_device
from ttnn.tensor import require_allocated, spec_for


def same(values: torch.Tensor) -> torch.Tensor:
    """The values as they are; `launch` rounds them where the output's dtype is another."""
    return values


def _check_target(what: str, memory_config: MemoryConfig | None) -> None:
    """A sharded memory config must say how it is sharded before data can move there."""
    if (
        memory_config is not None
        and memory_config.is_sharded()
        and memory_config.shard_spec is None
        and memory_config.nd_shard_spec is None
    ):
        raise RuntimeError(
            f"{what}: MemoryConfig must have Shard Spec specified for sharded memory layout; got {memory_config.memory_layout} without one"
        )


def _check_copy_dtypes(tensor: Tensor, out: TensorSpec) -> None:
    """What the copy kernels can read and write."""
    for role, dtype in (("inputs", tensor.spec.dtype), ("output tensors", out.dtype)):
        require(
            dtype != DataType.INT8,
            f"ttnn.copy only supports float, bfloat, fp8_e4m3, int32, uint32, uint16 and uint8 {role} but got {name_of(dtype)}",
        )
    require(
        tensor.spec.dtype == out.dtype or tensor.spec.layout == Layout.TILE,
        f"copy: Only tile layout supports dtype conversion, got {name_of(tensor.spec.dtype)} to {name_of(out.dtype)} in ROW_MAJOR",
    )


@operation("ttnn.to_memory_config", golden=lambda tensor, *_, **__: tensor)
def to_memory_config(
    tensor: Tensor, memory_config: MemoryConfig, dtype: DataType | None = None, output_tensor: Tensor | None = None
) -> Tensor:
    """The tensor at another place; one that is there already is answered as it is."""
    require(tensor.buffer.device is not None, "to_memory_config: Device Operations expect device tensors as inputs, got one on the host")
    require_allocated(tensor, "to_memory_config")
    _check_target("to_memory_config", memory_config)
    out = like(tensor, memory_config=memory_config, dtype=dtype)
    if out is tensor.spec and output_tensor is None:
        return tensor
    sharded = tensor.spec.is_sharded, out.is_sharded
    if sharded == (False, False) or output_tensor is not None:
        _check_copy_dtypes(tensor, out)
    name = {
        (False, False): "CopyDeviceOperation",
        (False, True): "InterleavedToShardedDeviceOperation",
        (True, False): "ShardedToInterleavedDeviceOperation",
        (True, True): "ReshardDeviceOperation",
    }[sharded]
    return launch(name, same, [tensor], out if output_tensor is None else output_tensor.spec, into=output_tensor)  # type: ignore[no-any-return]


def scheme_config(
    spec: TensorSpec,
    grid: CoreCoord | CoreRangeSet | tuple[int, int],
    shard_shape: Sequence[int],
    scheme: TensorMemoryLayout,
    orientation: ShardOrientation,
) -> MemoryConfig:
    """The memory config that a grid, a shard shape and a scheme stand for; a plain grid is filled with as many cores as there are shards."""
    if isinstance(grid, CoreRangeSet):
        return MemoryConfig(scheme, BufferType.L1, ShardSpec(grid, list(shard_shape), orientation))
    size = CoreCoord(*grid) if isinstance(grid, tuple) else grid
    height, width = spec.physical_shape
    rows, columns = math.ceil(height / shard_shape[0]), math.ceil(width / shard_shape[1])
    if scheme == TensorMemoryLayout.BLOCK_SHARDED:
        from tessera.memory.geometry import rectangle

        x, y = (columns, rows) if orientation == ShardOrientation.ROW_MAJOR else (rows, columns)
        require(
            x <= size.x and y <= size.y, f"Target number of cores {x}x{y} is greater than total number of available cores {size.x}x{size.y}"
        )
        cores = CoreRangeSet([rectangle(0, 0, x - 1, y - 1)])
    else:
        count = rows if scheme == TensorMemoryLayout.HEIGHT_SHARDED else columns
        require(
            count <= size.x * size.y, f"Target number of cores {count} is greater than total number of available cores {size.x * size.y}"
        )
        cores = num_cores_to_corerangeset(count, size, orientation == ShardOrientation.ROW_MAJOR)
    return MemoryConfig(scheme, BufferType.L1, ShardSpec(cores, list(shard_shape), orientation))


@operation("ttnn.interleaved_to_sharded", golden=lambda tensor, *_, **__: tensor)
def interleaved_to_sharded(input_tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """An interleaved tensor spread over cores in shards."""
    words = ("sharded_memory_config", "output_dtype") if (args and isinstance(args[0], MemoryConfig)) or "sharded_memory_config" in kwargs else (
        "grid", "shard_shape", "shard_scheme", "shard_orientation", "output_dtype",
    )  # fmt: skip
    given = dict(zip(words, args)) | kwargs
    require(
        input_tensor.buffer.device is not None,
        "interleaved_to_sharded: Device Operations expect device tensors as inputs, got one on the host",
    )
    require_allocated(input_tensor, "interleaved_to_sharded")
    config = given.get("sharded_memory_config")
    if config is None:
        config = scheme_config(input_tensor.spec, given["grid"], given["shard_shape"], given["shard_scheme"], given["shard_orientation"])
    require(config.is_sharded(), f"interleaved_to_sharded: Output memory config must be sharded, got {config.memory_layout}")
    require(not input_tensor.spec.is_sharded, "interleaved_to_sharded: Input tensor must be Interleaved; reshard moves sharded ones")
    _check_target("interleaved_to_sharded", config)
    ready = given.get("preallocated_output")
    out = like(input_tensor, memory_config=config, dtype=given.get("output_dtype"))
    return launch("InterleavedToShardedDeviceOperation", same, [input_tensor], out if ready is None else ready.spec, into=ready)  # type: ignore[no-any-return]


@operation("ttnn.sharded_to_interleaved", golden=lambda tensor, *_, **__: tensor)
def sharded_to_interleaved(input_tensor: Tensor, memory_config: MemoryConfig | None = None, output_dtype: DataType | None = None) -> Tensor:
    """A sharded tensor gathered to an interleaved one."""
    if not input_tensor.spec.is_sharded:
        return input_tensor
    require_device("sharded_to_interleaved", input_tensor)
    config = MemoryConfig() if memory_config is None else memory_config
    _check_target("sharded_to_interleaved", config)
    require(not config.is_sharded(), f"sharded_to_interleaved: Output memory config must be Interleaved, got {config.memory_layout}")
    return launch("ShardedToInterleavedDeviceOperation", same, [input_tensor], like(input_tensor, memory_config=config, dtype=output_dtype))  # type: ignore[no-any-return]


@operation("ttnn.reshard", golden=lambda tensor, *_, **__: tensor)
def reshard(input_tensor: Tensor, output_memory_config: MemoryConfig, output_tensor: Tensor | None = None) -> Tensor:
    """A sharded tensor in other shards."""
    require(input_tensor.buffer.device is not None, "reshard: Device Operations expect device tensors as inputs, got one on the host")
    require_device("reshard", input_tensor)
    require(input_tensor.spec.is_sharded, "reshard: input must be sharded, got an interleaved tensor")
    require(output_memory_config.is_sharded(), f"reshard: output must be sharded, got {output_memory_config.memory_layout}")
    _check_target("reshard", output_memory_config)
    out = like(input_tensor, memory_config=output_memory_config)
    return launch("ReshardDeviceOperation", same, [input_tensor], out if output_tensor is None else output_tensor.spec, into=output_tensor)  # type: ignore[no-any-return]


@operation("ttnn.clone", golden=lambda input, *_, **__: input.clone())
def clone(
    input: Tensor,
    *,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """A copy of a tensor."""
    require_device("clone", input)
    out = like(input, dtype=dtype, memory_config=memory_config)
    _check_target("clone", memory_config)
    require(
        input.spec.is_sharded == out.is_sharded,
        "Clone: mixed sharded/interleaved layout not currently supported. Both input and output must have the same layout; move one with ttnn.to_memory_config",
    )
    if out.dtype != input.spec.dtype:
        require(
            input.spec.layout == Layout.TILE, f"Clone: data type conversion is only supported with tile layout, got {input.spec.layout}"
        )
        block = any(FORMATS[d].is_block for d in (out.dtype, input.spec.dtype))
        require(
            not (block and DataType.INT8 in (out.dtype, input.spec.dtype)) and not _float_int8(input.spec.dtype, out.dtype),
            f"clone: no kernel converts {name_of(input.spec.dtype)} to {name_of(out.dtype)}: All input data-formats must have the same exponent format",
        )
    return launch("CloneOperation", same, [input], out)  # type: ignore[no-any-return]


def _float_int8(a: DataType, b: DataType) -> bool:
    """int8 shares no kernel with the 16-bit floats and the blocks."""
    return DataType.INT8 in (a, b) and bool({a, b} & {DataType.BFLOAT16})


@operation("ttnn.copy", golden=lambda a, b: a)
def copy(input_a: Tensor, input_b: Tensor) -> Tensor:
    """Write one tensor into another."""
    require(
        input_a.buffer.device is not None and input_b.buffer.device is not None, "copy: Device Operations expect device tensors as inputs"
    )
    return _copy_into(input_a, input_b)


def _copy_into(source: Tensor, target: Tensor) -> Tensor:
    require_device("copy", source, target)
    require(
        source.spec.dims == target.spec.dims,
        f"copy: Input tensor shape {source.spec.shape} does not match output tensor shape {target.spec.shape}",
    )
    require(
        source.spec.layout == target.spec.layout,
        f"copy: Input tensor layout ({name_of(source.spec.layout)}) must equal output tensor layout ({name_of(target.spec.layout)})",
    )
    _check_copy_dtypes(source, target.spec)
    return launch("CopyDeviceOperation", same, [source], target.spec, into=target)  # type: ignore[no-any-return]


@operation("ttnn.assign", golden=lambda input_tensor, *_, **__: input_tensor, renames={"input_a": "input_tensor"})
def assign(
    input_tensor: Tensor,
    input_b: Tensor | None = None,
    *,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """A copy at a place, or into another tensor."""
    require(input_tensor.buffer.device is not None, "assign: Device Operations expect device tensors as inputs")
    target = input_b if input_b is not None else output_tensor
    if target is not None:
        return _copy_into(input_tensor, target)
    out = like(input_tensor, memory_config=memory_config, dtype=dtype)
    _check_copy_dtypes(input_tensor, out)
    return launch("CopyDeviceOperation", same, [input_tensor], out)  # type: ignore[no-any-return]


def _move(what: str, tensor: Tensor, memory_config: MemoryConfig | None) -> Tensor:
    """The same content at a new address; the old room is given back. Between kinds of memory this is a program, within one it is not."""
    require(tensor.buffer.device is not None, f"{what}: Expected Tensor with DeviceStorage, got StorageType::HOST")
    require_allocated(tensor, what)
    out = like(tensor, memory_config=memory_config)
    require(
        not tensor.spec.is_sharded or out.is_sharded,
        f"{what}: Expected output tensor memory config to be sharded, as the input's is; got {out.memory_config.memory_layout}",
    )
    old = tensor.buffer
    assert old.device is not None
    old.device.require_open(what)
    if out.memory_config.buffer_type != tensor.spec.memory_config.buffer_type:
        moved: Tensor = launch("MoveDeviceOperation", same, [tensor], out)
        old.free()
        return moved
    values = [tensor.part(i) for i in range(len(old.values))]
    device = old.device
    old.free()
    return Tensor.of(out, device.new_buffer(out, list(values)), tensor.topology)


@operation("ttnn.move", golden=lambda input_tensor, **_: input_tensor, planned=False)
def move(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """The tensor at a new address, its old memory given back."""
    return _move("move", input_tensor, memory_config)


@operation("ttnn.reallocate", golden=lambda tensor, *_, **__: tensor, planned=False)
def reallocate(tensor: Tensor, memory_config: MemoryConfig | None = None) -> Tensor:
    """The tensor at a new address, to join free memory. A single-core tensor may come back where it was."""
    return _move("reallocate", tensor, memory_config)


@operation("ttnn.to_dtype", golden=lambda tensor, *_: tensor, planned=False)
def to_dtype(tensor: Tensor, dtype: DataType) -> Tensor:
    """A host tensor in another dtype. On the device that is `ttnn.typecast`."""
    require(
        tensor.buffer.device is None,
        "to_dtype: Expected Tensor with HostStorage, got StorageType::DEVICE; ttnn.typecast converts on the device",
    )
    given, layout = tensor.spec.dtype, tensor.spec.layout
    if dtype == given:
        return tensor
    if FORMATS[dtype].is_block and layout == Layout.ROW_MAJOR:
        require(
            len(tensor.spec.dims) >= 2 and not any(d % TILE_SIZE for d in tensor.spec.dims[-2:]),
            f"to_dtype: {name_of(dtype)} needs TILE layout, which would change the physical shape of {tensor.spec.shape}; pad the tensor first",
        )
    if DataType.FP8_E4M3 in (given, dtype) and layout == Layout.ROW_MAJOR:
        require(
            DataType.FLOAT32 in (given, dtype) or FORMATS[dtype].is_block,
            f"to_dtype: FP8_E4M3 cross-type conversion is only supported to/from FLOAT32, got {name_of(given)} to {name_of(dtype)}",
        )
    if FORMATS[dtype].is_block and layout == Layout.ROW_MAJOR:
        layout = Layout.TILE
    out = like(tensor, dtype=dtype, layout=layout)
    return on_host(lambda values: host_convert(values, dtype, out.tile), [tensor], out)


# -- room without content, and copies between host and device


def _spec_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[TensorSpec, Device]:
    """`(spec, device)` or `(shape, dtype, layout, device, memory_config=None)`."""
    if (args and isinstance(args[0], TensorSpec)) or "tensor_spec" in kwargs:
        given = dict(zip(("tensor_spec", "mesh_device"), args)) | kwargs
        return given["tensor_spec"], given["mesh_device"]
    given = dict(zip(("shape", "dtype", "layout", "mesh_device", "memory_config"), args)) | kwargs
    if not isinstance(given.get("mesh_device"), Device) or not isinstance(given.get("dtype"), DataType):
        raise TypeError(
            "incompatible function arguments: a tensor is allocated by (tensor_spec, mesh_device) or (shape, dtype, layout, mesh_device, memory_config=None)"
        )
    return spec_for(tuple(given["shape"]), given["dtype"], given["layout"], given.get("memory_config")), given["mesh_device"]


def _golden_room(*args: Any, **kwargs: Any) -> torch.Tensor:
    """Zeros: what room reads as before it is written."""
    spec = kwargs.get("tensor_spec", args[0] if args else None)
    shape = spec.shape if isinstance(spec, TensorSpec) else kwargs.get("shape", spec)
    return torch.zeros(tuple(shape))


@operation("ttnn.allocate_tensor_on_device", golden=_golden_room, planned=False)
def allocate_tensor_on_device(*args: Any, **kwargs: Any) -> Tensor:
    """Room on a device. It reads as zeros until it is written."""
    spec, device = _spec_of(args, kwargs)
    topology = None
    if device.num_chips > 1:
        from ttnn.distributed import replicated

        topology = replicated(device)
    return Tensor.of(spec, device.new_buffer(spec), topology)


@operation("ttnn.allocate_tensor_on_host", golden=_golden_room, planned=False)
def allocate_tensor_on_host(*args: Any, **kwargs: Any) -> Tensor:
    """Room on the host for a tensor of a device, zeros at first."""
    spec, device = _spec_of(args, kwargs)
    return Tensor.of(spec, Buffer(spec, [None] * device.num_chips))


def _same_kind(host: Tensor, device: Tensor, called: str) -> None:
    for what in ("shape", "dtype", "layout"):
        mine, theirs = getattr(host.spec, what), getattr(device.spec, what)
        require(mine == theirs, f"{called}: Host tensor has different {what}: {mine} on the host, {theirs} on the device")


@operation(
    "ttnn.copy_host_to_device_tensor", golden=lambda host_tensor, device_tensor, *_, **__: device_tensor.copy_(host_tensor), planned=False
)
def copy_host_to_device_tensor(host_tensor: Tensor, device_tensor: Tensor, cq_id: Any = None) -> None:
    """Write a host tensor into a device tensor's memory."""
    device = device_tensor.buffer.device
    require(host_tensor.buffer.device is None, "copy_host_to_device_tensor: host_tensor must be on the host")
    require(device is not None, "copy_host_to_device_tensor: device_tensor must be on a device")
    assert device is not None
    device.require_open("copy_host_to_device_tensor")
    check_queue(device, cq_id, "copy_host_to_device_tensor")
    require(device.trace is None, "Writes are not supported during trace capture. copy_host_to_device_tensor was called while capturing")
    _same_kind(host_tensor, device_tensor, "copy_host_to_device_tensor")
    for index in range(len(device_tensor.buffer.values)):
        part = host_tensor.part(index)
        device_tensor.put(index, part.clone() if host_tensor.buffer.borrowed else part)


@operation(
    "ttnn.copy_device_to_host_tensor", golden=lambda device_tensor, host_tensor, *_, **__: host_tensor.copy_(device_tensor), planned=False
)
def copy_device_to_host_tensor(device_tensor: Tensor, host_tensor: Tensor, blocking: bool = True, cq_id: Any = None) -> None:
    """Read a device tensor into a host tensor's memory."""
    device = device_tensor.buffer.device
    require(device is not None, "copy_device_to_host_tensor: device_tensor must be on a device")
    require(host_tensor.buffer.device is None, "copy_device_to_host_tensor: host_tensor must be on the host")
    assert device is not None
    device.require_open("copy_device_to_host_tensor")
    check_queue(device, cq_id, "copy_device_to_host_tensor")
    require(device.trace is None, "Reads are not supported during trace capture. copy_device_to_host_tensor was called while capturing")
    _same_kind(host_tensor, device_tensor, "copy_device_to_host_tensor")
    for index in range(len(host_tensor.buffer.values)):
        host_tensor.put(index, device_tensor.part(index))
