"""Softmax: along any dimension, in place, and of scaled and masked scores."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import norm as engine
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require, require_device

#: What the normalisation kernels read.
FLOATS = (DataType.FLOAT32, DataType.BFLOAT16, DataType.BFLOAT8_B)


def require_float(what: str, tensor: Tensor) -> None:
    require(tensor.buffer.device is not None, f"{what}: Device Operations expect device tensors as inputs, got one on the host")
    require(tensor.buffer.allocated, f"{what}: Tensor is not allocated; it was deallocated")
    require(tensor.spec.dtype in FLOATS, f"{what}: Input tensor must be FLOAT32, BFLOAT16, or BFLOAT8_B, got: {name_of(tensor.spec.dtype)}")


def wrapped_dim(what: str, dim: int, rank: int) -> int:
    """A dimension as torch counts it; a scalar has one to speak of."""
    low, high = -max(rank, 1), max(rank, 1) - 1
    require(low <= dim <= high, f"{what}: Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})")
    return dim % max(rank, 1)


def _golden(input_tensor: torch.Tensor, dim: int = -1, **_: Any) -> torch.Tensor:
    return torch.softmax(input_tensor, dim)


@operation("ttnn.softmax", golden=_golden)
def softmax(
    input_tensor: Tensor,
    dim: int = -1,
    *,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    numeric_stable: bool = True,
) -> Tensor:
    """exp(x) over its sum, along one dimension."""
    spec = input_tensor.spec
    along = wrapped_dim("softmax", dim, len(spec.dims))
    narrow = spec.dtype == DataType.FP8_E4M3
    if narrow:  # tilizing widens it for the kernel of the last dimension only
        require(along == len(spec.dims) - 1, "softmax: Only ROW_MAJOR layout is supported for FP8_E4M3 dtype! dim must be the last for it")
    else:
        require_float("softmax", input_tensor)
    rows = spec.layout == Layout.ROW_MAJOR
    return launch(  # type: ignore[no-any-return]
        "SoftmaxDeviceOperation",
        engine.softmax,
        [input_tensor],
        like(input_tensor, memory_config=memory_config, dtype=DataType.FLOAT32 if narrow else None, layout=Layout.TILE if rows else None),
        attributes={"dim": along},
        programs=(1 + rows) if spec.dims else 0,
    )


# -- in place and with masks


def _require_inner(what: str, along: int, rank: int) -> None:
    require(rank <= 4, f"{what}: Tensor rank is greater than 4, got {rank}")
    require(rank == 0 or along == 3, f"{what}: Invalid dimension: {along}. softmax in place supports the last of four dimensions (dim -1)")


@operation("ttnn.softmax_in_place", golden=_golden)
def softmax_in_place(
    input_tensor: Tensor,
    dim: int = -1,
    *,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    numeric_stable: bool = True,
) -> Tensor:
    """Softmax along the last of four dimensions, written where the input stands."""
    rank = len(input_tensor.spec.dims)
    require_device("softmax_in_place", input_tensor)
    along = wrapped_dim("softmax_in_place", dim, rank)
    _require_inner("softmax_in_place", along, rank)
    require(input_tensor.spec.layout == Layout.TILE, "softmax_in_place: Inputs to softmax must be tilized")
    require_float("softmax_in_place", input_tensor)
    return launch(  # type: ignore[no-any-return]
        "SoftmaxDeviceOperation", engine.softmax, [input_tensor], input_tensor.spec, attributes={"dim": along}, into=input_tensor
    )


def _check_masked(what: str, x: Tensor, scale: float | None, mask: Tensor | None, causal: bool) -> None:
    require_device(what, x, mask)
    require_float(what, x)
    require(mask is not None or scale is None, f"{what}: Scale value must not be set when mask is not present; scale={scale}")
    require(mask is not None or not causal, f"{what}: Causal-mask softmax requires an attention mask (is_causal_mask=true with no mask)")
    if mask is not None:
        require(
            mask.spec.dims[0] == x.spec.dims[0] if mask.spec.dims and x.spec.dims else False,
            f"{what}: Input and mask batch sizes must match, got {x.spec.shape} for input and {mask.spec.shape} for mask",
        )


def _masked(
    what: str, x: Tensor, scale: float | None, mask: Tensor | None, causal: bool, memory_config: MemoryConfig | None, in_place: bool
) -> Tensor:
    height = x.spec.tile.tile_shape[0]
    rows = [t for t in (x, mask) if t is not None and t.spec.layout == Layout.ROW_MAJOR]
    if in_place:
        require(x.spec.layout == Layout.TILE, f"{what}: Inputs to softmax must be tilized")
        if mask is not None and mask in rows:
            sticks = (x.spec.dims[0], 1, x.spec.padded_dims[-1] // 32, 32)
            require(
                mask.spec.dims == sticks,
                f"{what}: Non-sharded mask shape must match expected shape {sticks} in ROW_MAJOR, got {mask.spec.shape}",
            )
    _check_masked(what, x, scale, mask, causal)
    if mask is not None and not in_place:
        require(
            mask.spec.dims[-2] in (1, height),
            f"{what}: Mask height must be 1 or input tensor tile height ({height}), got: {mask.spec.dims[-2]}. "
            "A full mask is taken by scale_mask_softmax_in_place",
        )
    out = x.spec if in_place else like(x, memory_config=memory_config, layout=Layout.TILE)
    return launch(  # type: ignore[no-any-return]
        "SoftmaxDeviceOperation",
        engine.attention_softmax,
        [x] if mask is None else [x, mask],
        out,
        attributes={"scale": scale, "causal": causal},
        into=x if in_place else None,
        programs=1 if in_place else 1 + len(rows),
    )


def _golden_masked(input_tensor: torch.Tensor, scale: float | None = None, mask: torch.Tensor | None = None, **_: Any) -> torch.Tensor:
    x = input_tensor if scale is None else input_tensor * scale
    return torch.softmax(x if mask is None else x + mask, -1)


@operation("ttnn.scale_mask_softmax", golden=_golden_masked)
def scale_mask_softmax(
    input_tensor: Tensor,
    scale: float | None = None,
    mask: Tensor | None = None,
    *,
    memory_config: MemoryConfig | None = None,
    is_causal_mask: bool = False,
    compute_kernel_config: Any = None,
    numeric_stable: bool = True,
) -> Tensor:
    """softmax(x * scale + mask) along the last dimension; the mask is one row, or a tile of them, for each batch."""
    return _masked("scale_mask_softmax", input_tensor, scale, mask, is_causal_mask, memory_config, False)


@operation("ttnn.scale_mask_softmax_in_place", golden=_golden_masked)
def scale_mask_softmax_in_place(
    input_tensor: Tensor,
    scale: float | None = None,
    mask: Tensor | None = None,
    *,
    program_config: Any = None,
    is_causal_mask: bool = False,
    compute_kernel_config: Any = None,
    numeric_stable: bool = False,
) -> Tensor:
    """softmax(x * scale + mask), written where the input stands."""
    return _masked("scale_mask_softmax_in_place", input_tensor, scale, mask, is_causal_mask, None, True)


@operation("ttnn.scale_causal_mask_hw_dims_softmax_in_place", golden=_golden_masked)
def scale_causal_mask_hw_dims_softmax_in_place(
    input_tensor: Tensor,
    scale: float | None = None,
    mask: Tensor | None = None,
    *,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    numeric_stable: bool = False,
) -> Tensor:
    """softmax(x * scale + causal mask) of a sharded input, written where it stands."""
    what = "scale_causal_mask_hw_dims_softmax_in_place"
    require(input_tensor.spec.layout == Layout.TILE, f"{what}: Inputs to softmax must be tilized")
    require(mask is not None or scale is None, f"{what}: Scale value must not be set when mask is not present")
    require(
        type(program_config).__name__ == "SoftmaxShardedMultiCoreProgramConfig",
        f"{what}: Scale causal mask HW dims softmax not supported in default program config; give a SoftmaxShardedMultiCoreProgramConfig",
    )
    require(input_tensor.spec.is_sharded, f"{what}: the input must be sharded")
    return _masked(what, input_tensor, scale, mask, True, None, True)
