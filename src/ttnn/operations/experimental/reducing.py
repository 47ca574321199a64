"""Sums over outer dimensions of tiles, whole or handed out in parts; places of the largest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import experimental as engine
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require, require_device, require_tile

SUMMED = (DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.FLOAT32)


def _check_outer(what: str, tensor: Tensor, dims: Sequence[int]) -> tuple[int, ...]:
    require_device(what, tensor)
    require(
        tensor.spec.dtype in SUMMED,
        f"{what}: FastReduceNC input only supports specific data types {[d.name for d in SUMMED]}, got {name_of(tensor.spec.dtype)}",
    )
    require_tile(what, tensor)
    rank = len(tensor.spec.dims)
    require(rank > 2, f"{what}: FastReduceNC input rank must be greater than 2, but has {rank}")
    found = tuple(sorted({d + rank if d < 0 else d for d in dims}))
    for dim in found:
        require(0 <= dim < rank - 2, f"{what}: FastReduceNC reduces only outer dims: dim must be between 0 and {rank - 3}, but has {dim}")
    return found


@operation("ttnn.experimental.fast_reduce_nc", golden=lambda input, *, dims, **_: torch.sum(input, list(dims), keepdim=True))
def fast_reduce_nc(
    input: Tensor,
    *,
    dims: Sequence[int] = (),
    output: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """The sum over outer dimensions, one program each. The result is whole tiles."""
    what = "fast_reduce_nc"
    require(len(dims) > 0, f"{what} dims should not be empty")
    found = _check_outer(what, input, dims)
    shape = tuple(1 if i in found else d for i, d in enumerate(input.spec.padded_dims))
    out = like(input, shape=shape, memory_config=memory_config or MemoryConfig()) if output is None else output.spec
    attributes = {"dims": found, "shape": shape}
    return launch(  # type: ignore[no-any-return]
        "FastReduceNCDeviceOperation", engine.total, [input], out, attributes=attributes, into=output, programs=len(found)
    )


def _in_parts(what: str, tensor: Tensor, dim: int, sizes: Sequence[int], memory_config: MemoryConfig | None) -> list[Tensor]:
    (found,) = _check_outer(what, tensor, [dim])
    width = tensor.spec.dims[-1]
    require(
        sum(sizes) == width and all(s > 0 and s % 32 == 0 for s in sizes), f"{what}: a width of {width} cannot be cut into {list(sizes)}"
    )
    shape = tuple(1 if i == found else d for i, d in enumerate(tensor.spec.dims))
    outs = [like(tensor, shape=(*shape[:-1], size), memory_config=memory_config or MemoryConfig()) for size in sizes]
    attributes = {"dim": found, "sizes": tuple(sizes)}
    return launch("FastReduceNCDeviceOperation", engine.total_in_parts, [tensor], outs, attributes=attributes)  # type: ignore[no-any-return]


@operation("ttnn.experimental.fast_reduce_nc_split")
def fast_reduce_nc_split(
    input: Tensor,
    *,
    dim: int,
    split_output_width: int,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> tuple[Tensor, Tensor]:
    """The sum over an outer dimension, cut in two along its width."""
    sizes = (split_output_width, input.spec.dims[-1] - split_output_width)
    first, second = _in_parts("fast_reduce_nc_split", input, dim, sizes, memory_config)
    return first, second


@operation("ttnn.experimental.deepseek_moe_fast_reduce_nc")
def deepseek_moe_fast_reduce_nc(
    input_tensor: Tensor, dim: int, *, split_size: int, output_memory_config: MemoryConfig | None = None, compute_kernel_config: Any = None
) -> list[Tensor]:
    """The sum over the experts, cut into parts of equal width."""
    what, width = "deepseek_moe_fast_reduce_nc", input_tensor.spec.dims[-1]
    require(split_size > 0 and width % split_size == 0, f"{what}: split_size={split_size} must divide the width {width}")
    return _in_parts(what, input_tensor, dim, [split_size] * (width // split_size), output_memory_config)


@operation("ttnn.experimental.topk_large_indices", golden=lambda input_tensor, *, k, **_: torch.topk(input_tensor, k).indices)
def topk_large_indices(
    input_tensor: Tensor,
    *,
    k: int,
    valid_length: int | None = None,
    valid_length_tensor: Tensor | None = None,
    valid_length_offset: int = 0,
    subdevice_id: Any = None,
    sub_core_grids: Any = None,
    valid_end_tensor: Tensor | None = None,
) -> Tensor:
    """Places of the k largest of long rows."""
    what = "topk_large_indices"
    require_device(what, input_tensor)
    device = input_tensor.buffer.device
    assert device is not None
    require(device.board.arch == "BLACKHOLE", f"{what} is only supported on Blackhole architecture, got {device.board.arch.lower()}")
    require(input_tensor.spec.layout == Layout.ROW_MAJOR, f"{what} input must be ROW_MAJOR, got {input_tensor.spec.layout}")
    require(input_tensor.spec.dtype == DataType.BFLOAT16, f"{what} input must be BFLOAT16, got {name_of(input_tensor.spec.dtype)}")
    if valid_length_tensor is not None or valid_end_tensor is not None:
        raise NotImplementedError(f"ttnn.experimental.{what}: lengths in tensors are not built in Tessera; give valid_length")
    length = input_tensor.spec.dims[-1]
    valid = length if valid_length is None else valid_length + valid_length_offset
    require(0 < k <= length and 0 < valid <= length, f"{what}: k={k} and valid_length={valid} must be at least 1 and at most {length}")
    out = like(input_tensor, shape=(*input_tensor.spec.dims[:-1], k), dtype=DataType.UINT32, memory_config=MemoryConfig())
    attributes = {"k": k, "valid": valid}
    return launch("TopkLargeIndicesDeviceOperation", engine.largest_places, [input_tensor], out, attributes=attributes)  # type: ignore[no-any-return]
