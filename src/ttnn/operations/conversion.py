"""Between torch and TT-NN, host and device, one layout and another: the operations every program begins and ends with."""

from __future__ import annotations

from typing import Any

import torch

from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.rounding import to_grid
from tessera.formats.tile import Tile
from tessera.memory.config import MemoryConfig
from tessera.memory.mesh import TensorTopology
from tessera.memory.spec import TensorSpec
from tessera.runtime.buffer import Buffer
from tessera.runtime.device import Device
from tessera.runtime.events import check_queue
from tessera.runtime.launch import launch, on_host
from tessera.runtime.tensor import Tensor
from ttnn.core import TORCH_OF_DTYPE
from ttnn.decorators import operation
from ttnn.host_methods import with_padding
from ttnn.operations.memory import same
from ttnn.operations.rules import like, require
from ttnn.tensor import as_torch, host_tensor, require_allocated, spec_for

#: What `from_torch` makes of a torch dtype when no dtype is given.
DTYPE_OF_TORCH: dict[torch.dtype, DataType] = {
    torch.bfloat16: DataType.BFLOAT16,
    torch.float32: DataType.FLOAT32,
    torch.float16: DataType.BFLOAT16,
    torch.float64: DataType.FLOAT32,
    torch.int32: DataType.INT32,
    torch.int64: DataType.UINT32,
    torch.int16: DataType.UINT16,
    torch.uint8: DataType.UINT8,
    torch.int8: DataType.INT8,
    torch.uint16: DataType.UINT16,
    torch.uint32: DataType.UINT32,
    torch.bool: DataType.UINT8,
    torch.float8_e4m3fn: DataType.FP8_E4M3,
}

#: What `ttnn.distribute` sets for a block.
default_mapper: Any = None
default_composer: Any = None


@operation("ttnn.from_torch", golden=lambda tensor, *_, **__: tensor, planned=False)
def from_torch(
    tensor: Any,
    dtype: DataType | None = None,
    *,
    spec: TensorSpec | None = None,
    tile: Tile | None = None,
    pad_value: float | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    memory_config: MemoryConfig | None = None,
    mesh_mapper: Any = None,
    cq_id: Any = None,
    preserve_nan_values: bool = False,
    col_tilize: bool = False,
    enable_bfloat_opt: bool = False,
) -> Tensor | None:
    """A TT-NN tensor of a torch tensor, on the host or straight on a device; None of None.

    `pad_value` fills up tiles. `col_tilize` swaps the last two dimensions before block floats are packed, so that columns share exponents.
    `enable_bfloat_opt` rounds block floats as the device's packer does, where there is a device. NaN are preserved whatever
    `preserve_nan_values` says: here nothing is faster without them.
    """
    if tensor is None:
        return None
    if spec is not None:
        require(
            dtype is None and layout is None and memory_config is None and tile is None,
            "from_torch: spec says dtype, layout, memory_config and tile already; do not give them again",
        )
        require(tuple(tensor.shape) == spec.dims, f"from_torch: the tensor's shape {tuple(tensor.shape)} is not the spec's {spec.dims}")
        dtype, layout, memory_config, tile = spec.dtype, spec.layout, spec.memory_config, spec.tile
    given = as_torch(tensor)
    if dtype is None:
        require(given.dtype in DTYPE_OF_TORCH, f"from_torch: torch dtype {given.dtype} has no TT-NN counterpart; say which with dtype=")
        dtype = DTYPE_OF_TORCH[given.dtype]
    if FORMATS[dtype].is_block:
        require(layout in (None, Layout.TILE), f"Only TILE layout is supported for {dtype.name} dtype! from_torch got layout={layout}")
        layout = Layout.TILE
    given = given.detach()
    if device is not None:
        check_queue(device, cq_id, "from_torch")
    if col_tilize:
        require(FORMATS[dtype].is_block, f"from_torch: col_tilize=True needs dtype bfloat8_b or bfloat4_b, got {dtype.name}")
        require(spec is None, "from_torch: col_tilize=True changes the shape, so it cannot be given together with spec")
        require(given.dim() >= 2, f"from_torch: col_tilize=True needs a tensor of rank 2 or more, got shape {tuple(given.shape)}")
        given = given.transpose(-1, -2).contiguous()
    if enable_bfloat_opt and device is not None and FORMATS[dtype].is_block and given.is_floating_point():
        # Values that are on the grid already stay there when they are packed.
        given = to_grid(given.bfloat16(), dtype, tile, "device")
    if given.device.type != "cpu":
        given = given.cpu()
    mesh_mapper = mesh_mapper if mesh_mapper is not None else default_mapper
    if mesh_mapper is not None:
        from ttnn.distributed import distributed_tensor

        host = distributed_tensor(given, dtype, layout, memory_config, tile, mesh_mapper, pad_value)
    else:
        host = host_tensor(given, spec_for(given.shape, dtype, layout, memory_config, tile), pad_value)
    return host if device is None else to_device.function(host, device, memory_config=memory_config)  # type: ignore[no-any-return]


@operation("ttnn.to_torch", golden=lambda tensor, *_, **__: tensor, planned=False)
def to_torch(
    tensor: Tensor,
    dtype: torch.dtype | None = None,
    *,
    torch_rank: int | None = None,
    mesh_composer: Any = None,
    device: Device | None = None,
    cq_id: Any = None,
) -> torch.Tensor:
    """The tensor's values as torch; the memory is always the caller's own. `torch_rank` takes leading dimensions of 1 away until as many are left.

    `device` is accepted for programs that name the tensor's device; the tensor knows it.
    """
    require_allocated(tensor, "to_torch")
    where = tensor.buffer.device
    if where is not None:
        where.require_open("to_torch")
        check_queue(where, cq_id, "to_torch")
        require(device is None or device is where, f"to_torch: device={device!r} is not the tensor's device {where!r}")
        require(
            where.trace is None,
            "Reads are not supported during trace capture. to_torch was called between begin_trace_capture and end_trace_capture",
        )
    mesh_composer = mesh_composer if mesh_composer is not None else default_composer
    answer = TORCH_OF_DTYPE[tensor.spec.dtype] if dtype is None else dtype
    own: torch.Tensor | None = None
    if mesh_composer is not None:
        plain = mesh_composer.compose(tensor)
    else:
        parts = tensor.buffer.values
        require(
            len(parts) == 1,
            f"to_torch: the tensor has {len(parts)} parts, one for each chip; say how they fit together with mesh_composer=, or take them apart with ttnn.get_device_tensors",
        )
        own = tensor.buffer.copied_from_image(0, answer)
        plain = tensor.part(0) if own is None else own.reshape(tensor.spec.dims)
    converted = plain.to(answer)
    if own is None and (converted is plain or converted.data_ptr() == plain.data_ptr()):
        converted = plain.clone()
    if torch_rank is not None:
        require(
            converted.dim() <= torch_rank or all(d == 1 for d in converted.shape[: converted.dim() - torch_rank]),
            f"to_torch: torch_rank={torch_rank} is less than the rank of shape {tuple(converted.shape)}, whose leading dimensions are not all 1",
        )
        converted = converted.reshape(converted.shape[max(0, converted.dim() - torch_rank) :])
    return converted


@operation("ttnn.to_device", golden=lambda tensor, *_, **__: tensor, planned=False, bound=True)
def to_device(tensor: Tensor, device: Device, memory_config: MemoryConfig | None = None, *, queue_id: Any = None) -> Tensor:
    """The tensor on a device; a tensor that is there already is answered as it is."""
    require_allocated(tensor, "to_device")
    device.require_open("to_device")
    check_queue(device, queue_id, "to_device")
    if tensor.buffer.device is not None:
        require(
            tensor.buffer.device is device,
            "to_device: the tensor is on another device already; bring it to the host first with ttnn.from_device",
        )
        return tensor
    require(
        device.trace is None,
        "Writes are not supported during trace capture. to_device was called between begin_trace_capture and end_trace_capture",
    )
    if (
        memory_config is not None
        and memory_config.is_sharded()
        and memory_config.shard_spec is None
        and memory_config.nd_shard_spec is None
    ):
        raise RuntimeError(
            f"to_device: MemoryConfig must have Shard Spec specified for sharded memory layout; got {memory_config.memory_layout} without one"
        )
    spec = like(tensor, memory_config=memory_config) if memory_config is not None else tensor.spec
    source = tensor.buffer
    buffer = device.new_buffer(spec)
    topology, count = tensor.topology, len(source.values)
    places: list[int | None] = [i % count for i in range(device.num_chips)]
    if device.mine is not None:
        # The mesh spans processes: a chip of another one gets nothing here, and a tensor may hold our parts only.
        ours = sorted(device.mine)
        is_ours = topology is not None and list(topology.coords) == [
            place for i, place in enumerate(device.coordinates()) if i in device.mine
        ]
        places = [(ours.index(i) if is_ours else i % count) if device.drives(i) else None for i in range(device.num_chips)]
        if is_ours and topology is not None:
            count, topology = device.num_chips, TensorTopology(topology.shape, topology.placed, tuple(device.coordinates()))
    require(
        count in (1, device.num_chips),
        f"to_device: the tensor has {count} parts and the mesh has {device.num_chips} chips; they must be equal in number",
    )
    same_bytes = source.spec is tensor.spec and spec.padded_dims == tensor.spec.padded_dims
    if source.images is not None and same_bytes and any(v is None for v in source.values):
        # Only the bytes are there (a mapped file, say): they stay bytes until somebody asks for values.
        buffer.images = [None if i is None else source.images[i] for i in places]
        buffer.values = [None if i is None else source.values[i] for i in places]
    else:
        parts = tensor.parts
        copies = {id(part): part.clone() if source.borrowed else part for part in parts}
        buffer.values = [None if i is None else copies[id(parts[i])] for i in places]
        if source.images is not None and same_bytes:
            buffer.images = [None if i is None else source.images[i] for i in places]
    if topology is None and device.num_chips > 1:
        from ttnn.distributed import replicated

        topology = replicated(device)
    return Tensor.of(spec, buffer, topology)


@operation("ttnn.from_device", golden=lambda tensor, *_, **__: tensor, planned=False, bound=True)
def from_device(tensor: Tensor, blocking: bool = True, *, queue_id: Any = None) -> Tensor:
    """The tensor on the host. It keeps its memory config, as a file of it would."""
    require_allocated(tensor, "from_device")
    source = tensor.buffer
    if source.device is None:
        return tensor
    source.device.require_open("from_device")
    check_queue(source.device, queue_id, "from_device")
    require(
        source.device.trace is None,
        "Reads are not supported during trace capture. from_device was called between begin_trace_capture and end_trace_capture",
    )
    mine, topology = source.device.mine, tensor.topology
    if mine is not None and topology is not None:  # the mesh spans processes: what comes to the host is our parts
        ours = sorted(mine)
        topology = TensorTopology(topology.shape, topology.placed, tuple(topology.coords[i] for i in ours))
        buffer = Buffer(tensor.spec, [tensor.part(i) for i in ours])
    elif tensor.spec is source.spec:
        buffer = Buffer(tensor.spec, list(source.values), images=None if source.images is None else list(source.images))
    else:
        buffer = Buffer(tensor.spec, list(tensor.parts))
    return Tensor.of(tensor.spec, buffer, topology)


@operation("ttnn.to_layout", golden=lambda tensor, *_, **__: tensor)
def to_layout(
    tensor: Tensor,
    layout: Layout,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    *,
    sub_core_grids: Any = None,
    pad_value: float = 0.0,
) -> Tensor:
    """The same values in another layout; on the device also in another dtype or memory config."""
    require_allocated(tensor, "to_layout")
    spec, on_device = tensor.spec, tensor.buffer.device is not None
    if layout == spec.layout and not (on_device and (dtype not in (None, spec.dtype) or memory_config not in (None, spec.memory_config))):
        return tensor
    if not on_device:
        return with_padding(_to_layout_on_host(tensor, layout), pad_value)
    if layout == Layout.ROW_MAJOR:
        # Blocks cannot stand in rows: untilizing answers bfloat16.
        natural = DataType.BFLOAT16 if spec.dtype == DataType.BFLOAT8_B else spec.dtype
        require(
            dtype in (None, natural),
            f"to_layout: dtype cannot be different from tensor dtype when converting to ROW_MAJOR_LAYOUT on device; got {dtype} for a tensor of {spec.dtype}",
        )
        out = like(tensor, layout=layout, dtype=natural, memory_config=memory_config)
        return launch("UntilizeDeviceOperation", same, [tensor], out)  # type: ignore[no-any-return]
    aligned = all(d % t == 0 for d, t in zip(spec.dims[-2:], spec.tile.tile_shape)) and len(spec.dims) >= 2
    require(
        spec.dtype != DataType.INT8,
        f"to_layout: data type must be bfloat16, float32, uint32, int32, uint16, uint8, or fp8_e4m3, got {spec.dtype}",
    )
    require(
        aligned or spec.dtype != DataType.UINT8,
        f"to_layout: Can only tilize bfloat16/float32 or int32/uint32/uint16 or fp8_e4m3 tensors whose shape is not whole tiles, got {spec.dtype}",
    )
    # The chip cannot hold fp8 in tiles; it comes out of the unpacker as float32.
    natural = DataType.FLOAT32 if spec.dtype == DataType.FP8_E4M3 else spec.dtype
    require(
        aligned or spec.dtype != DataType.FP8_E4M3 or spec.padded_dims[-1:] > (32,),
        "to_layout: FP8_E4M3 tilize_with_val_padding requires more than one tile per row",
    )
    out = like(tensor, layout=layout, dtype=natural if dtype is None else dtype, memory_config=memory_config)
    if aligned:
        return launch("TilizeDeviceOperation", same, [tensor], out)  # type: ignore[no-any-return]
    return with_padding(launch("TilizeWithValPaddingDeviceOperation", same, [tensor], out), pad_value)


def _to_layout_on_host(tensor: Tensor, layout: Layout) -> Tensor:
    spec = tensor.spec
    if FORMATS[spec.dtype].is_block:
        whole = spec.padded_shape == spec.shape
        require(
            whole,
            f"to_layout: Tensor layout must be ROW_MAJOR for unpadding, and {spec.dtype} cannot be; convert it to another dtype first",
        )
        return tensor
    require(spec.dtype != DataType.FP8_E4M3, "to_layout: pad: FP8_E4M3 is not supported on the host in TILE layout")
    return on_host(same, [tensor], like(tensor, layout=layout))


@operation("ttnn.deallocate", planned=False)
def deallocate(tensor: Tensor, force: bool = True) -> None:
    """Give a tensor's memory back now: every tensor on the same buffer loses it. With `force=False`, not while there is another."""
    tensor.deallocate(force)  # type: ignore[attr-defined]
