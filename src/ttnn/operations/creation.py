"""Tensors out of nothing: zeros, ones, full, empty, arange, random numbers, and their `_like` forms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import creation as engine
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.rounding import host_convert, to_grid
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.buffer import Buffer
from tessera.runtime.device import Device
from tessera.runtime.launch import launch
from tessera.runtime.observers import OBSERVERS, dispatching
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.conversion import to_device
from ttnn.operations.rules import name_of, require, require_device
from ttnn.tensor import host_tensor, spec_for

_FLOATS = (DataType.FLOAT32, DataType.BFLOAT16)


def _placed(values: torch.Tensor, spec: TensorSpec, device: Device | None) -> Tensor:
    """Values that were made on the host, as a tensor there or on a device."""
    if device is not None and OBSERVERS and not dispatching():  # a dry run makes no values
        device.require_open("to_device")
        return Tensor.of(spec, device.new_buffer(spec))
    tensor = Tensor.on_host(spec, [to_grid(values, spec.dtype, spec.tile).reshape(spec.dims).contiguous()])
    return tensor if device is None else to_device.function(tensor, device)  # type: ignore[no-any-return]


def _write(target: Tensor, values: torch.Tensor) -> Tensor:
    """Values into a tensor that was given for them."""
    require(
        target.spec.dims == tuple(values.shape),
        f"optional_tensor of shape {target.spec.dims} cannot hold a result of shape {tuple(values.shape)}",
    )
    if OBSERVERS and not dispatching():
        return target
    for index in range(len(target.buffer.values)):
        target.put(index, to_grid(values, target.spec.dtype, target.spec.tile))
    return target


def _no_fp8(dtype: DataType | None) -> None:
    require(
        dtype != DataType.FP8_E4M3,
        "full/zeros/ones: dtype=FP8_E4M3 is an output-only dtype; make the tensor in bfloat16 and convert it",
    )


def _full(
    shape: Sequence[int],
    value: float,
    dtype: DataType | None,
    layout: Layout | None,
    device: Device | None,
    memory_config: MemoryConfig | None,
    optional_tensor: Tensor | None = None,
) -> Tensor:
    dtype = DataType.BFLOAT16 if dtype is None else dtype
    if any(d < 0 for d in shape):
        raise TypeError(f"incompatible function arguments: shape={list(shape)} must be of non-negative extents")
    _no_fp8(dtype)
    if optional_tensor is not None:
        return _write(optional_tensor, filled(optional_tensor.spec.dims, value, optional_tensor.spec.dtype))
    return _placed(filled(shape, value, dtype), spec_for(shape, dtype, layout, memory_config), device)


def filled(shape: Sequence[int], value: float, dtype: DataType) -> torch.Tensor:
    """One value in every place, as the host converts numbers to this dtype."""
    exact = isinstance(value, int) and not FORMATS[dtype].is_float and abs(value) < 1 << 62
    one = engine.fill((1,), value if exact else float(value), torch.int64 if exact else torch.float32)
    return host_convert(one, dtype)[0].expand(tuple(shape))


@operation("ttnn.full", golden=torch.full, planned=False)
def full(
    shape: Sequence[int],
    fill_value: float,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    memory_config: MemoryConfig | None = None,
    optional_tensor: Tensor | None = None,
) -> Tensor:
    """A tensor of one value."""
    return _full(shape, fill_value, dtype, layout, device, memory_config, optional_tensor)


@operation("ttnn.zeros", golden=torch.zeros, planned=False)
def zeros(
    shape: Sequence[int],
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """A tensor of zeros."""
    return _full(shape, 0, dtype, layout, device, memory_config)


@operation("ttnn.ones", golden=torch.ones, planned=False)
def ones(
    shape: Sequence[int],
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """A tensor of ones."""
    return _full(shape, 1, dtype, layout, device, memory_config)


def _full_like(
    tensor: Tensor,
    value: float,
    dtype: DataType | None,
    layout: Layout | None,
    device: Device | None,
    memory_config: MemoryConfig | None,
    optional_tensor: Tensor | None,
) -> Tensor:
    """As the given tensor in everything that is not said; one fill program when it is a tiled tensor on a device."""
    spec = tensor.spec
    dtype = spec.dtype if dtype is None else dtype
    layout = spec.layout if layout is None else layout
    where = tensor.buffer.device if device is None else device
    if memory_config is None and where is not None:
        memory_config = spec.memory_config if tensor.buffer.device is not None else None
    _no_fp8(dtype)
    if (
        tensor.buffer.device is not None
        and spec.layout == Layout.TILE
        and layout == Layout.TILE
        and optional_tensor is None
        and where is tensor.buffer.device
    ):
        out = spec.replace(dtype=dtype, layout=layout, memory_config=memory_config)
        return launch(  # type: ignore[no-any-return]
            "FullLikeDeviceOperation",
            _fill_like,
            [tensor],
            out,
            attributes={"value": value, "dtype": dtype},
        )
    return _full(spec.dims, value, dtype, layout, where, memory_config, optional_tensor)


def _fill_like(values: torch.Tensor, *, value: float, dtype: DataType) -> torch.Tensor:
    return filled(values.shape, value, dtype)


@operation("ttnn.full_like", golden=torch.full_like)
def full_like(
    tensor: Tensor,
    fill_value: float,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    memory_config: MemoryConfig | None = None,
    optional_tensor: Tensor | None = None,
) -> Tensor:
    """A tensor of one value, as another tensor in everything else."""
    return _full_like(tensor, fill_value, dtype, layout, device, memory_config, optional_tensor)


@operation("ttnn.zeros_like", golden=torch.zeros_like)
def zeros_like(
    tensor: Tensor,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    memory_config: MemoryConfig | None = None,
    optional_tensor: Tensor | None = None,
) -> Tensor:
    """A tensor of zeros, as another tensor in everything else."""
    return _full_like(tensor, 0, dtype, layout, device, memory_config, optional_tensor)


@operation("ttnn.ones_like", golden=torch.ones_like)
def ones_like(
    tensor: Tensor,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    memory_config: MemoryConfig | None = None,
    optional_tensor: Tensor | None = None,
) -> Tensor:
    """A tensor of ones, as another tensor in everything else."""
    return _full_like(tensor, 1, dtype, layout, device, memory_config, optional_tensor)


@operation("ttnn.empty", golden=torch.zeros, planned=False)
def empty(
    shape: Sequence[int],
    dtype: DataType = DataType.BFLOAT16,
    layout: Layout = Layout.ROW_MAJOR,
    device: Device | None = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """Room on a device, not written: the software device reads zeros there."""
    require(device is not None, "empty: device must be given")
    assert device is not None
    spec = spec_for(shape, dtype, layout, memory_config)
    return Tensor.of(spec, device.new_buffer(spec))


@operation("ttnn.empty_like", golden=torch.zeros_like, planned=False)
def empty_like(
    tensor: Tensor,
    *,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """Room as another tensor's."""
    where = tensor.buffer.device if device is None else device
    require(where is not None, "empty_like: tensor must be on a device when no device is given")
    assert where is not None
    if memory_config is None:
        memory_config = tensor.spec.memory_config
    spec = spec_for(
        tensor.spec.dims, tensor.spec.dtype if dtype is None else dtype, tensor.spec.layout if layout is None else layout, memory_config
    )
    return Tensor.of(spec, where.new_buffer(spec))


@operation("ttnn.arange", golden=torch.arange, planned=False)
def arange(
    start: int = 0,
    end: int | None = None,
    step: int = 1,
    *,
    dtype: DataType = DataType.BFLOAT16,
    device: Device | None = None,
    memory_config: MemoryConfig | None = None,
    layout: Layout = Layout.ROW_MAJOR,
) -> Tensor:
    """Numbers from start (0 when only an end is given) up to end, step by step."""
    if end is None:
        start, end = 0, start
    require(step != 0, "arange: Step must be nonzero, got step=0")
    require(
        (end - start) * step >= 0,
        f"arange: Invalid range: Step direction does not match range bounds, got start={start}, end={end}, step={step}",
    )
    require(
        dtype in (*_FLOATS, DataType.UINT16, DataType.UINT32, DataType.INT32),
        f"arange: Unsupported dtype {name_of(dtype)}; it makes FLOAT32, BFLOAT16, INT32, UINT32 and UINT16",
    )
    values = engine.count(start, end, step)
    return _placed(values, spec_for(values.shape, dtype, layout, memory_config), device)


# -- random numbers


@operation("ttnn.rand", golden=torch.rand, planned=False)
def rand(
    shape: Any,
    device: Device | None = None,
    *,
    dtype: DataType = DataType.BFLOAT16,
    layout: Layout = Layout.TILE,
    memory_config: MemoryConfig | None = None,
    low: float = 0.0,
    high: float = 1.0,
    seed: int = 0,
    mesh_mapper: Any = None,
) -> Tensor:
    """Evenly spread numbers in [low, high). With a `mesh_mapper` configuration each chip gets its own slice of them."""
    require(
        dtype not in (DataType.UINT8, DataType.FP8_E4M3),
        f"[ttnn::rand] Output dtype {name_of(dtype)} is not supported.",
    )
    if layout == Layout.ROW_MAJOR and dtype == DataType.BFLOAT8_B:
        dtype = DataType.BFLOAT16  # drawn in tiles and untilized, which blocks do not survive
    spec = spec_for(tuple(shape), dtype, layout, memory_config)
    require(device is not None, "rand: device must be given")

    def draw() -> torch.Tensor:
        if FORMATS[dtype].is_float:
            return engine.uniform(spec.dims, low, high, seed)
        return engine.whole_uniform(spec.dims, math.floor(low), math.ceil(high), seed)

    return _drawn("UniformDeviceOperation", spec, device, draw, mesh_mapper)


@operation("ttnn.randn", golden=torch.randn, planned=False)
def randn(
    shape: Any,
    device: Device | None = None,
    *,
    dtype: DataType = DataType.BFLOAT16,
    layout: Layout = Layout.TILE,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    seed: int | None = None,
) -> Tensor:
    """Normally distributed numbers, mean 0 and deviation 1."""
    require(dtype in _FLOATS, f"Randn: Output tensor must be Float32 or Bfloat16, got dtype={name_of(dtype)}")
    spec = spec_for(tuple(shape), dtype, layout, memory_config)
    return _drawn("RandnDeviceOperation", spec, device, lambda: engine.normal(spec.dims, seed or 0))


def _drawn(name: str, spec: TensorSpec, device: Any, draw: Any, mapping: Any = None) -> Tensor:
    """Launch a drawing of random numbers: a program for each spec, a new draw for each call."""
    programs = (1 + (spec.layout != Layout.TILE) + (spec.dtype not in _FLOATS)) if spec.volume else 0
    if mapping is not None:
        from ttnn.distributed import create_mesh_mapper

        mapper = create_mesh_mapper(device, mapping)
        dims = tuple(mapper.cut(torch.empty(spec.dims, device="meta"))[0].shape)
        part = spec.replace(shape=Shape.of(dims))
        spread = mapper.topology()
        return launch(name, lambda: mapper.cut(draw()), [], part, device=device, programs=programs, across=True, topology=spread)  # type: ignore[no-any-return]
    return launch(name, lambda: draw(), [], spec, device=device, programs=programs)  # type: ignore[no-any-return]


def _golden_uniform(input: torch.Tensor, low: float = 0, high: float = 1, seed: int = 0, **words: Any) -> torch.Tensor:
    return input.uniform_(words.get("from", low), words.get("to", high))


@operation("ttnn.uniform", golden=_golden_uniform, planned=False, renames={"from": "low", "to": "high"})
def uniform(
    input: Tensor,
    low: float = 0,
    high: float = 1,
    seed: int = 0,
    *,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """Fill a tensor with evenly spread numbers in [from, to)."""
    require_device("uniform", input)
    require(input.spec.dtype in _FLOATS, f"Uniform: Input tensor must be Float32 or Bfloat16, got {name_of(input.spec.dtype)}")
    require(low < high, f"Uniform range lower bound must be less than upper bound, got [{low}, {high})")
    require(input.spec.layout == Layout.TILE, f"Uniform: Input tensor must be tilized, got layout={input.spec.layout}")
    if memory_config not in (None, input.spec.memory_config):
        raise NotImplementedError(
            f"uniform: memory_config={memory_config} is not the input's; it is filled where it is, in {input.spec.memory_config}"
        )
    spec = input.spec
    return launch("UniformDeviceOperation", lambda _: engine.uniform(spec.dims, low, high, seed), [input], spec, into=input)  # type: ignore[no-any-return]


@operation("ttnn.bernoulli", golden=torch.bernoulli, planned=False)
def bernoulli(
    input: Tensor,
    seed: int = 0,
    *,
    output: Tensor | None = None,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """One with the probability that the input says, else zero."""
    require_device("bernoulli", input)
    require(input.spec.layout == Layout.TILE, f"Bernoulli: Input tensor must be tilized, got layout={input.spec.layout}")
    require(input.spec.dtype in _FLOATS, f"Bernoulli: Input tensor must be Float32 or Bfloat16, got {name_of(input.spec.dtype)}")
    if output is not None:
        require(
            output.spec.dims == input.spec.dims,
            f"Bernoulli: Output and input tensor shape must be equal, got {output.spec.shape} and {input.spec.shape}",
        )
        spec = output.spec
    else:
        spec = input.spec.replace(
            dtype=dtype or DataType.FLOAT32 if dtype is None else dtype, memory_config=memory_config or input.spec.memory_config
        )
    require(
        spec.dtype != DataType.INT8, "bernoulli: dtype=INT8 is not supported: All input data-formats must have the same exponent format."
    )
    return launch("BernoulliDeviceOperation", lambda p: engine.bernoulli(p, seed), [input], spec, into=output)  # type: ignore[no-any-return]


@operation("ttnn.manual_seed", planned=False)
def manual_seed(seeds: Any = 0, *, device: Device | None = None, user_ids: Any = None, sub_core_grids: Any = None) -> Tensor | None:
    """Restart the random numbers that operations draw without a seed of their own."""
    if isinstance(seeds, Tensor):
        require_device("manual_seed", seeds)
        require(isinstance(user_ids, Tensor), "manual_seed: user_ids must be a tensor when seeds is a tensor")
        engine.reseed(int(seeds.values.reshape(-1)[0]))
        return seeds
    require(device is not None, "manual_seed: device must be given when seeds is a number")
    assert device is not None
    engine.reseed(int(seeds))
    spec = TensorSpec(Shape([1]), DataType.UINT32, Layout.ROW_MAJOR)
    return Tensor.of(spec, Buffer(spec, [torch.tensor([int(seeds)], dtype=torch.int64)]))


@operation("ttnn.from_buffer", golden=lambda buffer, shape, *_, **__: torch.tensor(list(buffer)).reshape(tuple(shape)), planned=False)
def from_buffer(
    buffer: Any, shape: Any, dtype: DataType, device: Device, layout: Layout | None = None, memory_config: MemoryConfig | None = None
) -> Tensor:
    """A tensor on a device of a plain Python buffer of numbers."""
    require(
        not FORMATS[dtype].is_block and dtype != DataType.FP8_E4M3,
        f"from_buffer: Unreachable dtype={name_of(dtype)}; a list fills FLOAT32, BFLOAT16 and integer tensors",
    )
    values = torch.tensor(list(buffer), dtype=torch.float32 if FORMATS[dtype].is_float else torch.int64)
    spec = spec_for(tuple(shape), dtype, layout, memory_config)
    require(values.numel() == spec.volume, f"from_buffer: Buffer size {values.numel()} differs from shape volume {spec.volume}")
    return to_device.function(host_tensor(values.reshape(spec.dims), spec), device)  # type: ignore[no-any-return]
