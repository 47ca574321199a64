"""Images at other resolutions: upsample, grid_sample, fold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import pooling as engine
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import BufferType, MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from tessera.memory.geometry import CoreRangeSet, rectangle
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, require, require_device


@operation("ttnn.upsample", golden=lambda input_tensor, scale_factor, *, mode="nearest", **_: engine.upsample.torch(input_tensor, scale=_pair(scale_factor), bilinear=mode == "bilinear"))  # fmt: skip
def upsample(
    input_tensor: Tensor,
    scale_factor: Any,
    *,
    mode: str = "nearest",
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """NHWC images larger by a factor, or by one down and one across."""
    if not isinstance(scale_factor, (int, float)) and len(scale_factor) != 2:
        raise TypeError(f"ttnn.upsample(): incompatible function arguments. scale_factor={list(scale_factor)} must be one number or two")
    require(
        input_tensor.buffer.device is not None and input_tensor.buffer.allocated,
        "upsample: upsample expects an allocated device tensor as input",
    )
    spec = input_tensor.spec
    require(len(spec.dims) == 4, f"upsample: input_tensor must be [N, H, W, C], got {spec.shape}")
    scale = _pair(scale_factor)
    require(mode in ("nearest", "bilinear"), f"upsample: mode must be 'nearest' or 'bilinear', got {mode!r}")
    require(scale[0] > 0, f"upsample: scale_factor_h must be positive, got {scale[0]}")
    require(scale[1] > 0, f"upsample: scale_factor_w must be positive, got {scale[1]}")
    whole = all(float(s).is_integer() for s in scale)
    bilinear = mode == "bilinear"
    require(not bilinear or whole, f"upsample: bilinear mode requires integer scale factors, got {scale}")
    require(
        spec.layout == Layout.ROW_MAJOR or spec.shape == spec.padded_shape,
        "upsample: Tiled input must be tile-aligned (no padding difference)",
    )
    require(not bilinear or spec.dims[-1] % 32 == 0, f"upsample: input channels should be divisible by 32, got {spec.dims[-1]}")
    batch, height, width, channels = spec.dims
    dims = (batch, int(height * scale[0]), int(width * scale[1]), channels)
    if memory_config is None:
        memory_config = spec.memory_config
        if bilinear and not memory_config.is_sharded():
            memory_config = _over_all_cores(input_tensor, dims[0] * dims[1] * dims[2], channels)
    out = like(input_tensor, shape=dims, layout=Layout.ROW_MAJOR if bilinear else spec.layout, memory_config=memory_config)
    attributes = {"scale": scale, "bilinear": bilinear}
    return launch("UpsampleOperation", engine.upsample, [input_tensor], out, attributes=attributes, programs=3 if bilinear else 1)  # type: ignore[no-any-return]


def _over_all_cores(tensor: Tensor, rows: int, channels: int) -> MemoryConfig:
    """Rows dealt over every core of the grid, also where the last cores are left with none."""
    assert tensor.buffer.device is not None
    grid = tensor.buffer.device.grid
    cores = CoreRangeSet([rectangle(0, 0, grid.x - 1, grid.y - 1)])
    shard = ShardSpec(cores, [-(-rows // (grid.x * grid.y)), channels], ShardOrientation.ROW_MAJOR)
    return MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1, shard)


def _pair(scale: float | Sequence[float]) -> tuple[float, float]:
    return (scale, scale) if isinstance(scale, (int, float)) else (scale[0], scale[1])


@operation("ttnn.grid_sample", golden=lambda input_tensor, grid, *, mode="bilinear", align_corners=False, **_: engine.grid_sample.torch(input_tensor, grid, bilinear=mode == "bilinear", align_corners=align_corners))  # fmt: skip
def grid_sample(
    input_tensor: Tensor,
    grid: Tensor,
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
    use_precomputed_grid: bool = False,
    batch_output_channels: bool = False,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """NHWC images sampled at the places that a grid names."""
    require_device("grid_sample", input_tensor, grid)
    spec, places = input_tensor.spec, grid.spec
    require(
        len(spec.dims) == 4 and len(places.dims) == 4,
        f"grid_sample: input and grid must have four dimensions, got {spec.shape} and {places.shape}",
    )
    require(
        spec.dims[0] == places.dims[0],
        f"grid_sample: Batch size mismatch: input tensor shape {spec.shape} has batch size {spec.dims[0]}, but grid tensor shape {places.shape} has {places.dims[0]}",
    )
    require(mode in ("bilinear", "nearest"), f"grid_sample: mode must be 'bilinear' or 'nearest', got {mode!r}")
    require(padding_mode == "zeros", f"grid_sample: Only zeros padding mode is currently supported, got {padding_mode!r}")
    require(
        use_precomputed_grid or mode != "nearest",
        "grid_sample: use_precomputed_grid = false is not supported with mode = 'nearest'. Please use precomputed grid with nearest mode.",
    )
    if use_precomputed_grid:
        raise NotImplementedError("ttnn.grid_sample: use_precomputed_grid is not built in Tessera; give the grid of places itself")
    require(
        places.dims[-1] % 2 == 0 and places.dims[-1] > 0,
        f"grid_sample: Standard grid tensor last dimension must be a multiple of 2 (for x, y coordinates), but got {places.dims[-1]} in shape {places.shape}",
    )
    require(spec.layout == Layout.ROW_MAJOR, f"grid_sample: Input tensor must be ROW_MAJOR layout, got {spec.layout}")
    require(places.layout == Layout.ROW_MAJOR, f"grid_sample: Grid tensor must be ROW_MAJOR layout, got {places.layout}")
    require(
        spec.padded_shape[-1] % 32 == 0,
        f"grid_sample: Input tensor last dimension must be divisible by TILE_WIDTH (32), but got {spec.dims[-1]} in padded shape {spec.padded_shape}",
    )
    require(spec.dtype in (DataType.BFLOAT16, DataType.FLOAT32), f"grid_sample: input must be BFLOAT16 or FLOAT32, got {spec.dtype}")
    n, rows, columns, width = places.dims
    group = width // 2
    dims = (n, rows, columns, spec.dims[-1] * group) if batch_output_channels else (n, rows, columns * group, spec.dims[-1])
    out = like(input_tensor, shape=dims, memory_config=memory_config)
    attributes = {"bilinear": mode == "bilinear", "align_corners": align_corners}
    return launch("GridSampleOperation", engine.grid_sample, [input_tensor, grid], out, attributes=attributes)  # type: ignore[no-any-return]


def edges_of(padding: Sequence[int]) -> tuple[int, int, int, int]:
    """(top, bottom, left, right) of [h, w], [top, bottom, left, right] or six numbers whose last two pad channels."""
    given = list(padding)
    if len(given) == 2:
        return given[0], given[0], given[1], given[1]
    require(
        len(given) in (4, 6) and (len(given) == 4 or given[4:] == [0, 0]),
        f"fold: padding={given} must be [h, w] or [top, bottom, left, right]",
    )
    return given[0], given[1], given[2], given[3]


def _fold_turned(input: Tensor, stride: tuple[int, int], output_shape: Any, memory_config: MemoryConfig | None) -> Tensor:
    """Folding by transposes of tiles reads images as [N, C, H, W] and leaves the result in L1."""
    spec = input.spec
    require(
        stride == (1, 1) or spec.dtype == DataType.BFLOAT16,
        f"fold: Input tensor dtype must be BFLOAT16 for this reshape operation but got {spec.dtype}",
    )
    batch, channels, height, width = spec.dims
    dims = (batch, -(-height // 32) * 32 // stride[0], -(-width // 32) * 32 // stride[1], channels * stride[0] * stride[1])
    if output_shape is not None:
        for wanted, have in zip(tuple(output_shape), dims):
            require(wanted <= have, f"fold: Ends {wanted} must be less than or equal to the shape of the tensor {have}")
        dims = tuple(output_shape)
    out = like(input, shape=dims, memory_config=memory_config or MemoryConfig(buffer_type=BufferType.L1))
    attributes = {"stride": stride, "size": dims}
    programs = 4 + (stride != (1, 1)) + (output_shape is not None)
    return launch("Fold", _folded, [input], out, attributes=attributes, programs=programs)  # type: ignore[no-any-return]


def _folded(images: torch.Tensor, *, stride: Sequence[int], size: Sequence[int]) -> torch.Tensor:
    return engine.fold_turned(images, stride=stride)[tuple(slice(0, n) for n in size)]


@operation("ttnn.fold", golden=lambda input, stride_h, stride_w, *_, padding=(0, 0), **__: engine.fold.torch(input, stride=(stride_h, stride_w), padding=edges_of(padding)))  # fmt: skip
def fold(
    input: Tensor,
    stride_h: int,
    stride_w: int,
    use_transpose_as_fold: bool = False,
    output_shape: Any = None,
    padding: Sequence[int] = (0, 0),
    grid_size: Any = None,
    override_memory_config: MemoryConfig | None = None,
    **_: Any,
) -> Tensor:
    """Patches of pixels as channels of one pixel."""
    require(input.buffer.device is not None, "fold: Device Operations expect device tensors as inputs, got one on the host")
    require_device("fold", input)
    spec = input.spec
    require(len(spec.dims) == 4, f"fold: input must be [N, H, W, C], got {spec.shape}")
    if use_transpose_as_fold:
        return _fold_turned(input, (stride_h, stride_w), output_shape, override_memory_config)
    top, bottom, left, right = edges_of(padding)
    batch, height, width, channels = spec.dims[0], spec.dims[1] + top + bottom, spec.dims[2] + left + right, spec.dims[3]
    require(height % stride_h == 0, f"fold: Fold: logical H ({height}) must be divisible by stride_h ({stride_h}).")
    require(width % stride_w == 0, f"fold: Fold: logical W ({width}) must be divisible by stride_w ({stride_w}).")
    dims = (batch, height // stride_h, width // stride_w, channels * stride_h * stride_w)
    if output_shape is not None:
        for wanted, have in zip(tuple(output_shape), dims):
            require(wanted <= have, f"fold: Ends {wanted} must be less than or equal to the shape of the tensor {have}")
    out = like(input, shape=dims, memory_config=override_memory_config)
    attributes = {"stride": (stride_h, stride_w), "padding": (top, bottom, left, right)}
    return launch("Fold", engine.fold, [input], out, attributes=attributes, programs=2 if any((top, bottom, left, right)) else 1)  # type: ignore[no-any-return]
