"""Making tensors (arange, full), picking from them (getitem), and folding patches back into pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tessera.engine import moreh as engine
from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.device import Device
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.moreh import goldens
from ttnn.operations.rules import name_of, require, require_device

_MADE = (DataType.BFLOAT16, DataType.FLOAT32, DataType.INT32)


@operation("ttnn.moreh_arange", golden=goldens.arange, planned=False)
def moreh_arange(
    start: float = 0,
    end: float = 0,
    step: float = 1,
    device: Device | None = None,
    *,
    output: Tensor | None = None,
    untilize_out: bool = False,
    dtype: DataType = DataType.BFLOAT16,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """Numbers from start by steps: a row in tiles, or a vector in rows with `untilize_out`."""
    what = "moreh_arange"
    require(device is not None, f"{what}: device must be given")
    require(dtype in _MADE, f"{what}: unsupported output dtype {name_of(dtype)}")
    require(step != 0, f"{what}: step must not be zero")
    require((end - start) * step >= 0, f"{what}: step={step} leads away from end={end}, which is on the other side of start={start}")
    count = math.ceil((end - start) / step)
    shape, layout = ((count,), Layout.ROW_MAJOR) if untilize_out else ((1, count), Layout.TILE)
    out = TensorSpec.of(Shape.of(shape), dtype, layout, memory_config)
    if output is not None:
        require(
            output.spec.volume == count and output.spec.dtype == dtype, f"{what}: output must hold {count} elements of {name_of(dtype)}"
        )
        out = output.spec
    attributes = {"start": start, "end": end, "step": step, "whole": dtype == DataType.INT32}
    return launch("MorehArangeOperation", engine.ramp, [], out, attributes=attributes, device=device, into=output)  # type: ignore[no-any-return]


def _full(
    shape: Sequence[int], value: float, dtype: DataType, layout: Layout, device: Device, memory_config: MemoryConfig | None
) -> Tensor:
    require(dtype in _MADE, f"Full: Unsupported data type {name_of(dtype)}")
    if dtype == DataType.INT32:
        require(-(2**31) <= value < 2**31, f"Full: fill_value {value} is out of range for INT32")
    out = TensorSpec.of(Shape.of(tuple(shape)), dtype, layout, memory_config)
    whole = dtype == DataType.INT32
    attributes = {"shape": out.dims, "value": int(value) if whole else float(value), "whole": whole}
    return launch("FullOperation", engine.full, [], out, attributes=attributes, device=device)  # type: ignore[no-any-return]


@operation("ttnn.moreh_full", golden=goldens.full, planned=False)
def moreh_full(
    shape: Sequence[int],
    fill_value: float,
    device: Device,
    *,
    dtype: DataType = DataType.BFLOAT16,
    layout: Layout = Layout.TILE,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """One number everywhere."""
    return _full(list(shape), fill_value, dtype, layout, device, memory_config)


@operation("ttnn.moreh_full_like", golden=goldens.full_like, planned=False)
def moreh_full_like(
    input: Tensor,
    fill_value: float,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """One number everywhere, in the shape of another tensor."""
    require_device("moreh_full_like", input)
    spec, device = input.spec, input.buffer.device
    assert device is not None
    wanted = spec.layout if layout is None else layout
    config = spec.memory_config if memory_config is None else memory_config
    return _full(spec.dims, fill_value, spec.dtype if dtype is None else dtype, wanted, device, config)


@operation("ttnn.moreh_getitem", golden=goldens.getitem)
def moreh_getitem(
    input: Tensor | None = None,
    index_tensors: Sequence[Tensor] = (),
    index_dims: Sequence[int] = (),
    *,
    output: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """Elements by lists of numbers along dimensions."""
    what = "moreh_getitem"
    require(input is not None, f"{what}: input must be given")
    assert input is not None
    spec, dims = input.spec, tuple(index_dims)
    rank = len(spec.dims)
    require_device(what, input, *index_tensors)
    require(
        spec.dtype in (DataType.INT32, DataType.BFLOAT16),
        f"{what}: Input tensor must be of type INT32 or BFLOAT16! Got {name_of(spec.dtype)}",
    )
    require(
        0 < len(index_tensors) == len(dims),
        f"{what}: index_tensors and index_dims must be equally many, got {len(index_tensors)} and {len(dims)}",
    )
    require(all(0 <= d < rank for d in dims), f"{what}: index_dims={list(dims)} must be dimensions of a tensor of rank {rank}")
    require(all(b - a == 1 for a, b in zip(dims, dims[1:])), f"{what}: index_dims={list(dims)} must follow each other")
    require(
        not (spec.layout == Layout.ROW_MAJOR and rank - 1 in dims),
        f"{what}: getitem for ROW_MAJOR layout not support W index tensor! dim {rank - 1}",
    )
    require(rank > 1, f"{what}: the input must have at least two dimensions, got {spec.shape}")
    counts = {t.spec.volume for t in index_tensors}
    for tensor in index_tensors:
        require(
            tensor.spec.dtype in (DataType.INT32, DataType.UINT32),
            f"{what}: index tensors must be INT32 or UINT32, got {name_of(tensor.spec.dtype)}",
        )
    require(len(counts) == 1, f"{what}: index tensors must be equally long, got {sorted(counts)}")
    shape = (*spec.dims[: dims[0]], counts.pop(), *spec.dims[dims[-1] + 1 :])
    made = spec.replace(shape=Shape.of(shape), memory_config=spec.memory_config if memory_config is None else memory_config)
    require(output is None or output.spec.dims == shape, f"{what}: output must have shape {shape}")
    out = made if output is None else output.spec
    return launch("MorehGetItemOperation", engine.getitem, [input, *index_tensors], out, attributes={"dims": dims}, into=output)  # type: ignore[no-any-return]


@operation("ttnn.moreh_fold", golden=goldens.fold)
def moreh_fold(
    input: Tensor,
    output: Tensor | None = None,
    output_size: Sequence[int] = (),
    kernel_size: Sequence[int] = (),
    dilation: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    stride: Sequence[int] = (1, 1),
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """Columns of patches, [N, C * kernel, L] or without N, summed back into a picture."""
    what, spec = "moreh_fold", input.spec
    require_device(what, input)
    require(spec.layout == Layout.ROW_MAJOR, "Fold: only support input in ROW_MAJOR")
    rank, patch = len(spec.dims), math.prod(kernel_size)
    require(rank in (2, 3), f"{what}: the input must have two or three dimensions, got {spec.shape}")
    require(patch > 0 and spec.dims[-2] % patch == 0, f"{what}: {spec.dims[-2]} rows must be whole patches of {list(kernel_size)}")
    blocks = math.prod(
        (size + 2 * p - d * (k - 1) - 1) // s + 1 for size, p, d, k, s in zip(output_size, padding, dilation, kernel_size, stride)
    )
    require(spec.dims[-1] == blocks, f"{what}: output_size={list(output_size)} has {blocks} patches, the input {spec.dims[-1]}")
    shape = (*spec.dims[:-2], spec.dims[-2] // patch, *output_size)
    made = spec.replace(shape=Shape.of(shape), memory_config=spec.memory_config if memory_config is None else memory_config)
    require(output is None or output.spec.dims == shape, f"{what}: output must have shape {shape}")
    attributes = {
        "size": tuple(output_size),
        "kernel": tuple(kernel_size),
        "dilation": tuple(dilation),
        "padding": tuple(padding),
        "stride": tuple(stride),
    }
    out = made if output is None else output.spec
    return launch("MorehFoldOperation", engine.fold, [input], out, attributes=attributes, into=output)  # type: ignore[no-any-return]
