"""Where things are: the largest element, the k largest, the order of all, and a draw among the likeliest.

The chip sorts along the last dimension in a power of two of columns (64 at least): other dimensions are transposed there, other widths padded.
"""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import reduction as engine
from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import alias, launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require, require_device


def _golden_argmax(input_tensor: torch.Tensor, dim: int | None = None, keepdim: bool = False, **_: Any) -> torch.Tensor:
    return torch.argmax(input_tensor, dim, keepdim)


@operation("ttnn.argmax", golden=_golden_argmax)
def argmax(
    input_tensor: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    sub_core_grids: Any = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    enable_secondary_dm: bool | None = None,
) -> Tensor:
    """Where the largest element is: an index as UINT32 in rows."""
    spec = input_tensor.spec
    rank = len(spec.dims)
    require(input_tensor.buffer.device is not None, "argmax: Device Operations expect device tensors as inputs, got one on the host")
    require(input_tensor.buffer.allocated, "argmax: Tensor is not allocated; it was deallocated")
    tiled = spec.layout == Layout.TILE
    floats = (DataType.BFLOAT16, DataType.FLOAT32)
    taken = floats if tiled else (*floats, DataType.INT32, DataType.UINT32, DataType.UINT16)
    require(
        spec.dtype in taken,
        f"argmax: Only {', '.join(d.name for d in taken)} are supported for inputs with {spec.layout.name} layout, got {name_of(spec.dtype)}",
    )
    along = None
    if dim is not None:
        low, high = -max(rank, 1), max(rank, 1) - 1
        require(low <= dim <= high, f"argmax: Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})")
        along = dim % max(rank, 1) if rank else None
    else:
        require(not tiled or rank == 0, "argmax: For inputs with TILE layout, dim parameter must be specified!")
    if along is None:
        shape: tuple[int, ...] = (1,) * rank if keepdim else ()
    else:
        shape = tuple(1 if k == along else d for k, d in enumerate(spec.dims) if keepdim or k != along)
    reduced = spec.volume if along is None else spec.dims[along]
    require(rank == 0 or reduced > 0, f"argmax: Expected reduction dim {dim} to have non-zero size; the shape is {spec.shape}")
    config = memory_config if memory_config is not None else MemoryConfig(buffer_type=spec.memory_config.buffer_type)
    out = TensorSpec.of(Shape.of(shape), DataType.UINT32, Layout.ROW_MAJOR if rank else spec.layout, config)
    if output_tensor is not None:
        require(
            output_tensor.spec.dtype == DataType.UINT32,
            f"argmax: Only UINT32 is supported for outputs, got {name_of(output_tensor.spec.dtype)}",
        )
        require(
            output_tensor.spec.volume == out.volume,
            f"argmax: output_tensor must have the elements of {out.shape}, got {output_tensor.spec.shape}",
        )
        out = output_tensor.spec
    # Rows are reduced along the last dimension, tiles along the last two; what lies further out is brought there.
    programs = 0
    if rank and spec.volume:
        axis = -1 if along is None else along - rank
        programs = 1 + (axis < -2) + (axis < -1 and not tiled)
    return launch(  # type: ignore[no-any-return]
        "ArgMaxDeviceOperation",
        engine.argmax,
        [input_tensor],
        out,
        attributes={"dim": along, "keepdim": keepdim},
        into=output_tensor,
        programs=programs,
    )


# -- the k largest, and the order of all


def _index_dtype(dtype: DataType, extent: int, wide: tuple[DataType, ...]) -> DataType:
    return DataType.UINT32 if dtype in wide or extent > 65536 else DataType.UINT16


def _power_of_two(extent: int) -> bool:
    return extent >= 64 and extent & (extent - 1) == 0


def _golden_topk(input_tensor: torch.Tensor, k: int = 32, dim: int = -1, largest: bool = True, sorted: bool = True, **_: Any) -> Any:
    return torch.topk(input_tensor, k, dim, largest, sorted)


@operation("ttnn.topk", golden=_golden_topk)
def topk(
    input_tensor: Tensor,
    k: int = 32,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    memory_config: MemoryConfig | None = None,
    sub_core_grids: Any = None,
    indices_tensor: Tensor | None = None,
    output_tensor: tuple[Tensor, Tensor] | None = None,
    stable: bool = False,
) -> list[Tensor]:
    """The k largest (or smallest) along a dimension, in order, and where they are."""
    spec, rank = input_tensor.spec, len(input_tensor.spec.dims)
    if k < 0:  # counted without a sign over there, so that this is a matter of types
        raise TypeError(f"topk: k={k} must not be negative")
    require(input_tensor.buffer.device is not None, "topk: Input tensor must be on device, got one on the host")
    require_device("topk", input_tensor)
    require(rank > 0 and -rank <= dim < rank, f"topk: dim={dim} is out of range for a tensor of rank {rank}")
    along = dim % rank
    extent = spec.dims[along]
    require(0 <= k <= extent, f"topk: K cannot be larger than the dimension size! K={k}, dimension size={extent}")
    shape = tuple(k if i == along else d for i, d in enumerate(spec.dims))
    if k == 0:
        nothing = spec.replace(shape=Shape.of(shape))
        return [alias(input_tensor, nothing), alias(input_tensor, nothing)]
    require(spec.layout == Layout.TILE, "topk: The input must be in tiled format")
    require(not spec.is_sharded or memory_config is not None, "topk: Sharded implementation not supported yet")
    require(
        spec.dtype in (DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.FLOAT32),
        f"topk: Input tensor must be BFLOAT16, BFLOAT8_B, or FLOAT32, got: {name_of(spec.dtype)}",
    )
    values = like(input_tensor, shape=shape, memory_config=memory_config)
    indices = values.replace(dtype=_index_dtype(spec.dtype, extent, (DataType.FLOAT32,)))
    if output_tensor is not None:
        for name, ready in zip(("values", "indices"), output_tensor):
            require(
                ready.spec.dims == shape,
                f"topk: Preallocated {name} tensor has incorrect shape! Got : {ready.spec.shape}, expected: {shape}",
            )
        require(output_tensor[0].spec.dtype == spec.dtype, "topk: Preallocated values tensor must have the input's dtype")
        require(
            output_tensor[1].spec.dtype in (DataType.UINT16, DataType.UINT32),
            f"topk: Preallocated indices tensor must be UINT16 or UINT32, got {name_of(output_tensor[1].spec.dtype)}",
        )
        values, indices = output_tensor[0].spec, output_tensor[1].spec
    ragged = rank < 2 or any(d % 32 for d in spec.dims[-2:])
    flat, turned = rank != 4, along != rank - 1
    programs = 1 + ragged + 2 * bool(flat and k % 32) + 3 * turned + (flat and turned)
    inputs = [input_tensor] if indices_tensor is None else [input_tensor, indices_tensor]
    return launch(  # type: ignore[no-any-return]
        "TopKDeviceOperation",
        engine.topk,
        inputs,
        [values, indices],
        attributes={"k": k, "dim": along, "largest": largest},
        into=None if output_tensor is None else list(output_tensor),
        programs=programs,
    )


def _golden_sort(input_tensor: torch.Tensor, dim: int = -1, descending: bool = False, stable: bool = False, **_: Any) -> Any:
    return torch.sort(input_tensor, dim=dim, descending=descending, stable=stable)


@operation("ttnn.sort", golden=_golden_sort)
def sort(
    input_tensor: Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool = False,
    *,
    memory_config: MemoryConfig | None = None,
    out: tuple[Tensor, Tensor] | None = None,
) -> list[Tensor]:
    """The elements in order along a dimension, and where they stood."""
    spec, rank = input_tensor.spec, len(input_tensor.spec.dims)
    require_device("sort", input_tensor)
    require(-max(rank, 1) <= dim < max(rank, 1), f"sort: Sort dim {dim} is out of range for rank-{rank} tensor")
    along = dim % max(rank, 1)
    extent = spec.dims[along] if rank else 1
    values = like(input_tensor, memory_config=memory_config)
    indices = values.replace(dtype=_index_dtype(spec.dtype, extent, (DataType.FLOAT32, DataType.UINT16)))
    if out is not None:
        require(all(t.spec.dims == spec.dims for t in out), f"sort: Preallocated tensors must have the input's shape {spec.shape}")
        require(
            out[1].spec.dtype in (DataType.UINT16, DataType.UINT32),
            f"sort: Preallocated sort indices tensor dtype must be UINT16 or UINT32, got {name_of(out[1].spec.dtype)}",
        )
        require(
            out[0].spec.dtype == spec.dtype, f"sort: Preallocated values must be {name_of(spec.dtype)}, got {name_of(out[0].spec.dtype)}"
        )
        values, indices = out[0].spec, out[1].spec
    programs = 1
    if extent > 1:
        require(
            spec.dtype in (DataType.BFLOAT16, DataType.UINT16, DataType.FLOAT32),
            f"sort: Input tensor data type must be BFLOAT16, UINT16, or FLOAT32, got {name_of(spec.dtype)}",
        )
        require(not spec.is_sharded, "sort: Sharded implementation not supported yet")
        order = [*spec.dims[:along], *spec.dims[along + 1 :], extent]
        ragged = rank < 2 or any(d % 32 for d in order[-2:])
        width = -(-extent // 32) * 32
        programs = 1 + ragged + 3 * (along != rank - 1) + 3 * (not _power_of_two(width))
    return launch(  # type: ignore[no-any-return]
        "SortDeviceOperation",
        engine.sort,
        [input_tensor],
        [values, indices],
        attributes={"dim": along, "descending": descending},
        into=None if out is None else list(out),
        programs=programs,
    )


def _golden_sampling(
    input_values_tensor: torch.Tensor,
    input_indices_tensor: torch.Tensor,
    k: torch.Tensor,
    p: torch.Tensor,
    temp: torch.Tensor,
    *,
    seed: int | None = None,
    **_: Any,
) -> torch.Tensor:
    return engine.sample(input_values_tensor, input_indices_tensor, k, p, temp, seed=seed or 0)  # type: ignore[no-any-return]


@operation("ttnn.sampling", golden=_golden_sampling, planned=False)
def sampling(
    input_values_tensor: Tensor,
    input_indices_tensor: Tensor,
    k: Tensor,
    p: Tensor,
    temp: Tensor,
    *,
    seed: int | None = None,
    sub_core_grids: Any = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """For each user (a row): one index drawn among the k largest values whose probabilities reach p, at a temperature."""
    spec = input_values_tensor.spec
    require_device("sampling", input_values_tensor, input_indices_tensor, k, p, temp)
    require(spec.dtype == DataType.BFLOAT16, f"sampling: Only BFLOAT16 is supported for inputs, got {name_of(spec.dtype)}")
    require(spec.layout == Layout.TILE, f"sampling: Only TILE layout is supported for inputs, got {spec.layout}")
    require(
        input_indices_tensor.spec.dtype in (DataType.UINT32, DataType.INT32),
        f"sampling: Only UINT32 & INT32 dtypes are supported for input indices, got {name_of(input_indices_tensor.spec.dtype)}",
    )
    require(input_indices_tensor.spec.layout == Layout.ROW_MAJOR, "sampling: Only ROW_MAJOR layout is supported for input indices")
    require(input_indices_tensor.spec.dims == spec.dims, "sampling: values and indices must have one shape")
    require(len(spec.dims) == 4 and spec.dims[:2] == (1, 1), f"sampling: values must have shape [1, 1, users, n], got {spec.shape}")
    users = spec.dims[2]
    for name, tensor in (("k", k), ("p", p), ("temp", temp)):
        require(tensor.spec.dims == (users,), f"sampling: {name} must have shape [{users}] (one per user)! got {tensor.spec.shape}")
    require(users == 32, f"sampling: there must be 32 users, got {users}")
    out = TensorSpec.of(Shape.of((1, 1, 1, users)), DataType.UINT32, Layout.ROW_MAJOR) if output_tensor is None else output_tensor.spec
    return launch(  # type: ignore[no-any-return]
        "SamplingDeviceOperation",
        engine.sample,
        [input_values_tensor, input_indices_tensor, k, p, temp],
        out,
        attributes={"seed": seed or 0},
        runtime=("seed",),
        into=output_tensor,
    )


def _golden_moe(
    input_tensor: torch.Tensor, expert_mask_tensor: torch.Tensor, topk_mask_tensor: torch.Tensor, k: int = 32, **_: Any
) -> torch.Tensor:
    return engine.expert_share(input_tensor, expert_mask_tensor, topk_mask_tensor, k=k).to(input_tensor.dtype)  # type: ignore[no-any-return]


@operation("ttnn.moe", golden=_golden_moe)
def moe(
    input_tensor: Tensor,
    expert_mask_tensor: Tensor,
    topk_mask_tensor: Tensor,
    k: int = 32,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """The share of the first expert: softmax over the k largest masked logits, where expert 0 is among them (masks are added)."""
    what, spec = "moe", input_tensor.spec
    require_device(what, input_tensor, expert_mask_tensor, topk_mask_tensor)
    require(k == 32, f"{what}: K must be equal to 32, pad with -infinity if necessary to get 32, got {k}")
    require(
        spec.dtype in (DataType.BFLOAT16, DataType.BFLOAT8_B), f"{what}: the input must be BFLOAT16 or BFLOAT8_B, got {name_of(spec.dtype)}"
    )
    require(
        spec.layout == Layout.TILE and len(spec.dims) == 4,
        f"{what}: the input must be four-dimensional and in TILE layout, got {spec.shape}",
    )
    width = spec.dims[-1]
    require(width >= 64, f"{what}: the input must be at least 64 wide, got {width}")
    require(expert_mask_tensor.spec.dims[-1] == width, f"{what}: expert_mask_tensor must be as wide as the input, {width}")
    require(topk_mask_tensor.spec.dims[-1] == k, f"{what}: topk_mask_tensor must be k={k} wide, got {topk_mask_tensor.spec.shape}")
    out = like(input_tensor, shape=(*spec.dims[:-1], 1), memory_config=memory_config) if output_tensor is None else output_tensor.spec
    inputs = [input_tensor, expert_mask_tensor, topk_mask_tensor]
    return launch("MoeDeviceOperation", engine.expert_share, inputs, out, attributes={"k": k}, into=output_tensor)  # type: ignore[no-any-return]
