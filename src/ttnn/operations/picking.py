"""Elements by index: gather, scatter and their kin, index_fill, nonzero."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import movement as engine
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require, require_device, unsigned

_INDEX = (DataType.UINT32, DataType.UINT16)


def _dim(what: str, dim: int, rank: int) -> int:
    require(-rank <= dim < rank, f"{what}: dim {dim} is out of range for tensor rank {rank}")
    return dim % rank


@operation("ttnn.gather", golden=lambda input, dim, index, **_: torch.gather(input, dim, index.to(torch.int64)))
def gather(
    input: Tensor,
    dim: int,
    index: Tensor,
    *,
    sparse_grad: bool = False,
    memory_config: MemoryConfig | None = None,
    out: Tensor | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """The elements that an index tensor names along a dimension."""
    require_device("gather", input, index)
    a, b = input.spec, index.spec
    require(
        len(a.dims) == len(b.dims),
        f"gather: Input and index tensor must have the same number of dimensions. Got input dim: {len(a.dims)} and index dim: {len(b.dims)}",
    )
    along = _dim("gather", dim, len(a.dims))
    require(len(a.dims) > 1, f"gather: Can't convert shape rank: {a.shape} has rank {len(a.dims)}, the kernel needs a matrix")
    for k, (have, want) in enumerate(zip(a.dims, b.dims)):
        require(
            k == along or want <= have,
            f"gather: Ends {want} must be less than or equal to the shape of the tensor {have}, in dimension {k}",
        )
    require(
        a.layout == b.layout,
        f"gather: Input tensor and index tensor must have the same layout. Got {name_of(a.layout)} and {name_of(b.layout)}",
    )
    require(b.dtype in _INDEX, f"gather: index tensor must be of type UINT32 or UINT16. Got: {name_of(b.dtype)}")
    spec = like(input, shape=b.dims, memory_config=memory_config) if out is None else out.spec
    return launch("GatherDeviceOperation", engine.gather, [input, index], spec, attributes={"dim": along}, into=out)  # type: ignore[no-any-return]


def _scatter(
    what: str, values: Tensor, dim: int, index: Tensor, source: Tensor, memory_config: MemoryConfig | None, how: str | None
) -> Tensor:
    require_device(what, values, index, source)
    rank = len(values.spec.dims)
    require(
        rank == len(index.spec.dims),
        f"{what}: input_rank must be equal to index_rank (input_rank == {rank}, index_rank == {len(index.spec.dims)})",
    )
    require(
        rank == len(source.spec.dims),
        f"{what}: input_rank must be equal to source_rank (input_rank == {rank}, source_rank == {len(source.spec.dims)})",
    )
    require(-rank <= dim < rank, f"{what}: scatter: dim {dim} is out of range for tensor rank {rank}")
    along = dim % rank
    require(not FORMATS[index.spec.dtype].is_float, f"{what}: index_dtype is not integer, it is {index.spec.dtype.name}.")
    for k, (n, have, given) in enumerate(zip(index.spec.dims, values.spec.dims, source.spec.dims)):
        require(
            k == along or n <= have,
            f"{what}: index_shape[{k}] <= input_shape[{k}] == false (index_shape: {index.spec.shape}, input_shape: {values.spec.shape})",
        )
        require(
            n <= given,
            f"{what}: index_shape[{k}] <= source_shape[{k}] == false (index_shape: {index.spec.shape}, source_shape: {source.spec.shape})",
        )
    require(how in (None, "add", "multiply"), f"{what}: reduce must be either 'add' or 'multiply' (case-sensitive), got {how}")
    for role, tensor in (("input", values), ("source", source)):
        require(
            not (tensor.spec.dtype == DataType.FLOAT32 and tensor.spec.layout == Layout.TILE and what != "scatter_add"),
            f"{what}: Scatter doesn't work for fp32 tiled tensors yet - {role} tensor is {name_of(tensor.spec.dtype)} {name_of(tensor.spec.layout)}.",
        )
    require(
        source.spec.dtype == values.spec.dtype,
        f"{what}: input and source must have the same dtype, got {values.spec.dtype} and {source.spec.dtype}",
    )
    out = like(values, memory_config=memory_config)
    # The kernel walks the last dimension of rows: tiles are untilized and other dimensions brought there and back.
    tiled = sum(t.spec.layout == Layout.TILE for t in (values, index, source))
    programs = 1 + tiled + (values.spec.layout == Layout.TILE) + (4 if along != rank - 1 else 0)
    return launch(
        "ScatterDeviceOperation", engine.scatter, [values, index, source], out, attributes={"dim": along, "how": how}, programs=programs
    )  # type: ignore[no-any-return]


@operation("ttnn.scatter", golden=lambda input, dim, index, src, **_: input.scatter(dim, index.to(torch.int64), src))
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    reduce: str | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """Source elements written (or added, or multiplied) at the places an index tensor names."""
    return _scatter("scatter", input, dim, index, src, memory_config, reduce)


@operation("ttnn.scatter_add", golden=lambda input, dim, index, src, **_: input.scatter_add(dim, index.to(torch.int64), src))
def scatter_add(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """Source elements added at the places an index tensor names."""
    return _scatter("scatter_add", input, dim, index, src, memory_config, "add")


@operation("ttnn.tosa_gather", golden=lambda input, index, **_: engine.gather_rows.torch(input, index))
def tosa_gather(input: Tensor, index: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """Rows of each batch by index."""
    require_device("tosa_gather", input, index)
    n, k, c = _tosa("tosa_gather", input, index)
    return launch(
        "GatherDeviceOperation",
        engine.gather_rows,
        [input, index],
        like(input, shape=(n, index.spec.dims[1], c), memory_config=memory_config),
        key=k,
    )  # type: ignore[no-any-return]


@operation("ttnn.tosa_scatter", golden=lambda input, index, src, **_: engine.scatter_rows.torch(input, index, src))
def tosa_scatter(input: Tensor, index: Tensor, src: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """Rows written into each batch by index."""
    require_device("tosa_scatter", input, index, src)
    _, _, width = _tosa("tosa_scatter", input, index)
    require(
        src.spec.dims == (*index.spec.dims, width), f"tosa_scatter: src must be of shape {[*index.spec.dims, width]}, got {src.spec.shape}"
    )
    require(
        input.spec.dtype != DataType.INT8,
        "tosa_scatter: data type must be bfloat16, float32, uint32, int32, uint16, uint8, or fp8_e4m3, got INT8",
    )
    return launch("ScatterDeviceOperation", engine.scatter_rows, [input, index, src], like(input, memory_config=memory_config))  # type: ignore[no-any-return]


def _tosa(what: str, values: Tensor, index: Tensor) -> tuple[int, int, int]:
    require(
        len(values.spec.dims) == 3 and len(index.spec.dims) == 2 and values.spec.dims[0] == index.spec.dims[0],
        f"{what}: input must be [batch, rows, width] and index [batch, count], got {values.spec.shape} and {index.spec.shape}",
    )
    n, k, c = values.spec.dims
    return n, k, c


def _index_fill(what: str, values: Tensor, dim: int, index: Tensor, value: float, memory_config: MemoryConfig | None) -> Tensor:
    unsigned(what, "dim", dim)
    require_device(what, values, index)
    rank, dtype = len(values.spec.dims), values.spec.dtype
    require(dim < rank, f"{what}: Index fill: Invalid dimension {dim} for rank {rank}")
    require(values.spec.layout == Layout.ROW_MAJOR, f"{what}: Index fill: Only supporting row major layout, got {values.spec.layout}")
    require(len(index.spec.dims) == 1, f"{what}: Index fill: Index tensor must be 1D, got {index.spec.shape}")
    require(
        index.spec.dtype == DataType.UINT32, f"{what}: Index fill: Index tensor must have UINT32 dtype; got {name_of(index.spec.dtype)}"
    )
    kind = "float" if isinstance(value, float) else "int"
    fits = (DataType.BFLOAT16, DataType.FLOAT32) if kind == "float" else (DataType.INT32, DataType.UINT32, DataType.UINT16)
    require(
        dtype in fits,
        f"{what}: Index fill: Value type must match input tensor dtype. Got {name_of(dtype)} input dtype with {kind} value type",
    )
    return launch(
        "IndexFillDeviceOperation",
        engine.fill_slices,
        [values, index],
        like(values, memory_config=memory_config),
        attributes={"dim": dim % rank, "value": value},
    )  # type: ignore[no-any-return]


@operation("ttnn.index_fill", golden=lambda input, dim, index, value, **_: input.index_fill(dim, index.to(torch.int64), value))
def index_fill(input: Tensor, dim: int, index: Tensor, value: float, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """One value in the slices that an index names."""
    return _index_fill("index_fill", input, dim, index, value, memory_config)


@operation("ttnn.index_fill_new", golden=lambda input, dim, index, value, **_: input.index_fill(dim, index.to(torch.int64), value))
def index_fill_new(input: Tensor, dim: int, index: Tensor, value: float, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """One value in the slices that an index names."""
    return _index_fill("index_fill_new", input, dim, index, value, memory_config)


@operation("ttnn.indexed_fill", golden=lambda batch_id, a, b, dim=0, **_: a.index_copy(dim, batch_id.reshape(-1).to(torch.int64), b))
def indexed_fill(
    batch_id: Tensor, input_tensor_a: Tensor, input_tensor_b: Tensor, *, memory_config: MemoryConfig | None = None, dim: int = 0
) -> Tensor:
    """Slices of b in place of those of a that batch_id names."""
    require_device("indexed_fill", batch_id, input_tensor_a, input_tensor_b)
    rank = len(input_tensor_a.spec.dims)
    along = _dim("indexed_fill", dim, rank)
    count = batch_id.spec.dims[-1]
    require(
        input_tensor_b.spec.dims[along] == count,
        f"indexed_fill: input_tensor_b must have {count} slices along dim={dim}, one for each entry of batch_id; got {input_tensor_b.spec.shape}",
    )
    out = like(input_tensor_a, memory_config=memory_config)
    return launch(
        "IndexedFillDeviceOperation", engine.replace_slices, [batch_id, input_tensor_a, input_tensor_b], out, attributes={"dim": along}
    )  # type: ignore[no-any-return]


@operation("ttnn.nonzero", golden=lambda input_tensor, **_: input_tensor.reshape(-1).nonzero())
def nonzero(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> list[Tensor]:
    """[how many elements are not zero, where they are]: the count stands first in a row of eight; places are element offsets."""
    require_device("nonzero", input_tensor)
    spec = input_tensor.spec
    require(len(spec.dims) == 4, f"nonzero: non_zero_indices: input must be rank-4, got rank {len(spec.dims)}")
    require(spec.layout == Layout.ROW_MAJOR, f"nonzero: input must be in ROW_MAJOR layout, got {spec.layout}")
    config = memory_config if memory_config is not None else spec.memory_config
    room = spec.volume * 4
    outs = [TensorSpec.of(Shape.of((1, 1, 1, n)), DataType.UINT32, Layout.ROW_MAJOR, config) for n in (8, room)]
    return launch("NonZeroIndicesDeviceOperation", engine.nonzero, [input_tensor], outs, attributes={"places": room})  # type: ignore[no-any-return]
