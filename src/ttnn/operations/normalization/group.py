"""Group norm and batch norm: over channels of one picture, and over one channel of all pictures.

Group norm takes [N, 1, H*W, C]. Its weights come in rows of 32, each core's channels padded to whole rows; its mask says which columns of a
tile belong to a group and follows from the shape, so that it is checked and not needed for computing.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tessera.engine import norm as engine
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.group_norm import tile_span, virtual_columns
from ttnn.operations.rules import like, name_of, require, require_device


def _golden_group_norm(
    input_tensor: torch.Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-12,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    **_: Any,
) -> torch.Tensor:
    flat = [None if v is None else v.reshape(-1)[: input_tensor.shape[-1]] for v in (weight, bias)]
    channels_first = input_tensor.movedim(-1, 1)
    return torch.nn.functional.group_norm(channels_first, num_groups, flat[0], flat[1], epsilon).movedim(1, -1)


@operation("ttnn.group_norm", golden=_golden_group_norm)
def group_norm(
    input_tensor: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-12,
    input_mask: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    reciprocals: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    core_grid: Any = None,
    inplace: bool | None = True,
    output_layout: Layout | None = None,
    num_out_blocks: int | None = None,
    compute_kernel_config: Any = None,
    negative_mask: Tensor | None = None,
    use_welford: bool = False,
) -> Tensor:
    """Each group of channels less its mean, over its deviation, times weight, plus bias."""
    x, what = input_tensor, "group_norm"
    spec = x.spec
    require_device(what, x, weight, bias)
    require(len(spec.dims) == 4, f"{what}: the input must have shape [N, 1, H*W, C], got {spec.shape}")
    channels = spec.dims[-1]
    _check_layouts(x, inplace, output_layout)
    require(
        spec.dtype in (DataType.BFLOAT16, DataType.FLOAT32), f"{what}: Input tensor must be BFLOAT16 or FLOAT32, got: {name_of(spec.dtype)}"
    )
    require(
        num_groups > 0 and channels % num_groups == 0,
        f"{what}: Invalid channel configuration: Number of channels ({channels}) must be divisible by the number of groups ({num_groups}).",
    )
    require(spec.dims[1] == 1, f"{what}: input tensor shape[1] must be 1! got {spec.shape}")
    require(channels % 32 == 0, f"{what}: channels must be a multiple of 32, got {channels}")
    if not spec.is_sharded:
        require(not inplace, f"{what}: inplace groupnorm not supported for unsharded tensors")
        if core_grid is not None:
            _check_grid(x, num_groups, core_grid)
    if input_mask is not None:
        dims = input_mask.spec.dims
        require(len(dims) == 4, f"{what}: Input mask must have four dimensions, got {input_mask.spec.shape}")
        require(dims[1] == num_groups, f"{what}: Input mask dim1 must be {num_groups} (num_groups={num_groups}), got: {dims[1]}")
        wide = 32 * tile_span(channels, channels // num_groups)
        require(dims[3] == wide, f"{what}: input mask width ({dims[3]}) must have the same width as block_wt * tile_width ({wide})")
    width = channels
    if spec.is_sharded and spec.memory_config.shard_spec is not None:
        width = spec.memory_config.shard_spec.shape[1]
    roles, inputs = [], [x]
    for role, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None:
            padded = math.ceil(width / 32) * 32
            if math.prod(tensor.spec.dims) != channels:
                require(
                    math.prod(tensor.spec.dims) == padded * math.ceil(channels / width),
                    f"{what}: {role} must hold {channels} channels in rows of 32, each core's padded to whole rows, got {tensor.spec.shape}",
                )
            roles.append(role)
            inputs.append(tensor)
    out = like(x, dtype=dtype, layout=output_layout, memory_config=memory_config)
    return launch(  # type: ignore[no-any-return]
        "GroupNormDeviceOperation",
        engine.group_norm,
        inputs,
        out,
        attributes={"groups": num_groups, "epsilon": epsilon, "roles": tuple(roles), "width": width},
        into=x if inplace else None,
        programs=1 + (spec.layout == Layout.ROW_MAJOR and not spec.is_sharded and channels <= 256),
    )


def _check_layouts(x: Tensor, inplace: bool | None, output_layout: Layout | None) -> None:
    spec, device = x.spec, x.buffer.device
    require(
        spec.is_sharded or spec.layout == Layout.TILE or (device is not None and device.board.arch != "blackhole"),
        "group_norm: interleaved (non-sharded) input must be in TILE layout, got ROW_MAJOR; rows are taken when sharded, or on Wormhole",
    )
    if inplace:
        require(
            spec.layout != Layout.TILE,
            "group_norm: In-place operation not supported: Tile layout requires non-inplace tensors. (inplace=true)",
        )
        require(
            output_layout in (None, spec.layout),
            f"group_norm: In-place operation not allowed: Input and output tensor layouts differ. ({spec.layout}, {output_layout})",
        )


def _check_grid(x: Tensor, num_groups: int, grid: Any) -> None:
    """The grid deals rows of tiles and whole groups: each core gets the same of both."""
    batches, _, height, channels = x.spec.dims
    rows = batches * math.ceil(height / 32)
    columns = virtual_columns(channels, num_groups, grid.x)
    virtual = grid.x // columns * grid.y if columns else 0
    require(
        0 < virtual <= rows and rows % virtual == 0 and (virtual % batches == 0 or batches % virtual == 0),
        f"group_norm: Requested core_grid (x={grid.x}, y={grid.y}) is invalid for the input dimensions (Ht={rows}, W={channels}, "
        f"num_groups={num_groups}, num_batches={batches}): {virtual} rows of cores must divide the rows of tiles",
    )


# -- batch norm


def _golden_batch_norm(
    input: torch.Tensor,
    *,
    running_mean: torch.Tensor | None = None,
    running_var: torch.Tensor | None = None,
    training: bool = False,
    eps: float = 1e-5,
    momentum: float = 0.1,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    **_: Any,
) -> torch.Tensor:
    flat = [None if v is None else v.reshape(-1) for v in (running_mean, running_var, weight, bias)]
    return torch.nn.functional.batch_norm(input, flat[0], flat[1], flat[2], flat[3], training, momentum, eps)


@operation("ttnn.batch_norm", golden=_golden_batch_norm)
def batch_norm(
    input: Tensor,
    *,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    training: bool = False,
    eps: float = 1e-5,
    momentum: float = 0.1,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    output: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """Each channel less its mean over its deviation: the batch's own in training, which also moves the running ones."""
    x, what, rank = input, "batch_norm", len(input.spec.dims)
    require_device(what, x, running_mean, running_var, weight, bias, output)
    require(rank >= 4, f"{what}: batch_norm not supported for tensors with rank < 4. (rank={rank})")
    require(rank == 4, f"{what}: batch_norm supports tensors of rank 4, got {rank}")
    require(
        x.spec.dtype in (DataType.BFLOAT16, DataType.FLOAT32),
        f"{what}: batch_norm only supports bfloat16, float32. Got: {name_of(x.spec.dtype)}",
    )
    require(x.spec.layout == Layout.TILE, f"{what}: the input must be in TILE layout, got {x.spec.layout}")
    require(
        training or (running_mean is not None and running_var is not None),
        f"{what}: running_mean and running_var must be defined in evaluation mode",
    )
    channels = x.spec.dims[1]
    named = [("mean", running_mean), ("var", running_var), ("weight", weight), ("bias", bias)]
    for name, tensor in named:
        if tensor is not None:
            require(
                tensor.spec.dims == (1, channels, 1, 1),
                f"{what}: {name} must have shape [1, {channels}, 1, 1], as the input's channel size; got {tensor.spec.shape}",
            )
    if output is not None:
        require(output.spec.dims == x.spec.dims, f"{what}: batch_norm supports tensors of rank 4; output must have shape {x.spec.shape}")
    moments = [(n, t) for n, t in named if t is not None and not (training and n in ("mean", "var"))]
    out = like(x, memory_config=memory_config) if output is None else output.spec
    result = launch(
        "BatchNormOperation",
        engine.batch_norm,
        [x, *[t for _, t in moments]],
        out,
        attributes={"epsilon": eps, "roles": tuple(n for n, _ in moments)},
        into=output,
        programs=10 if training else 1,
    )
    if training:
        for name, tensor in named[:2]:
            if tensor is not None:
                attributes = {"momentum": momentum, "of": name}
                launch("RunningStatistics", engine.moved_statistic, [tensor, x], tensor.spec, attributes=attributes, into=tensor)
    return result  # type: ignore[no-any-return]
