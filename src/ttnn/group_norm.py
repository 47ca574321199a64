"""What programs call to prepare group norm and layer norm: grids, shard configs, masks, weights in rows, reciprocals.

The grids follow from three wishes: each core has whole rows of tiles, whole groups, and as many cores as that allows work.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import BufferType, MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from tessera.memory.geometry import CoreCoord, CoreGrid, CoreRange, CoreRangeSet
from tessera.runtime.tensor import Tensor


def tile_span(channels: int, group: int, tile: int = 32) -> int:
    """The most tiles that one group's columns touch."""
    return max((start + group - 1) // tile - start // tile + 1 for start in range(0, channels, group))


def virtual_columns(channels: int, num_groups: int, most: int) -> int:
    """Into how many equal parts of whole tiles and whole groups the channels go, at most `most`; 0 if into none."""
    return next(
        (n for n in range(min(most, num_groups), 0, -1) if num_groups % n == 0 and channels % n == 0 and channels // n % 32 == 0), 0
    )


def _largest_divisor(of: int, most: int) -> int:
    return next(n for n in range(min(most, of), 0, -1) if of % n == 0)


def get_group_norm_cores_across_channel(memory_layout: Any, core_grid: Any, shard_orientation: Any = None) -> int:
    """Over how many cores the channels of one picture are dealt."""
    if memory_layout == TensorMemoryLayout.HEIGHT_SHARDED:
        return 1
    if memory_layout == TensorMemoryLayout.BLOCK_SHARDED:
        return int(core_grid.x if shard_orientation == ShardOrientation.ROW_MAJOR else core_grid.y)
    return int(core_grid.x * core_grid.y)


def create_group_norm_weight_bias_rm(input_tensor: torch.Tensor, num_channels: int, num_cores_x: int) -> torch.Tensor:
    """A weight or bias as group norm reads it: each core's channels in rows of 32, filled up with zeros."""
    chunks = input_tensor.reshape(num_cores_x, num_channels // num_cores_x)
    fill = -chunks.shape[1] % 32
    return torch.nn.functional.pad(chunks, (0, fill)).reshape(1, 1, -1, 32)


def _mask(num_channel: int, num_groups: int, cores: int, tile_height: int, tile_width: int, inside: float, outside: float) -> torch.Tensor:
    group = num_channel // num_groups
    per_core = max(1, num_groups // cores)
    mask = torch.full((1, num_groups, tile_height, tile_width * tile_span(num_channel, group, tile_width)), outside)
    for index in range(num_groups):
        start = index % per_core * group % tile_width
        mask[:, index, :, start : start + group] = inside
    return mask


def _host_tile(values: torch.Tensor, dtype: DataType, tile_height: int, tile_width: int) -> Tensor:
    from tessera.formats.tile import Tile
    from ttnn.operations.conversion import from_torch

    tile = None if (tile_height, tile_width) == (32, 32) else Tile((tile_height, tile_width))
    return from_torch(values.to(torch.bfloat16), dtype, layout=Layout.TILE, tile=tile)  # type: ignore[no-any-return]


def create_group_norm_input_mask(
    num_channel: int,
    num_groups: int,
    num_cores_across_channel: int,
    data_type: DataType = DataType.BFLOAT16,
    tile_height: int = 32,
    tile_width: int = 32,
    rows_in_last_tile: int = 0,
) -> Tensor:
    """For each group: ones in the columns that are its own, counted from the first tile it touches. With `rows_in_last_tile` a second set of groups
    follows whose lower rows are zero."""
    mask = _mask(num_channel, num_groups, num_cores_across_channel, tile_height, tile_width, 1.0, 0.0)
    if rows_in_last_tile:
        last = mask.clone()
        last[:, :, rows_in_last_tile:, :] = 0.0
        mask = torch.cat([mask, last], 1)
    return _host_tile(mask, data_type, tile_height, tile_width)


def create_group_norm_input_negative_mask(
    num_channel: int,
    num_groups: int,
    num_cores_across_channel: int,
    data_type: DataType = DataType.BFLOAT16,
    tile_height: int = 32,
    tile_width: int = 32,
) -> Tensor:
    """For each group: zeros in the columns that are its own, ones in the others."""
    return _host_tile(
        _mask(num_channel, num_groups, num_cores_across_channel, tile_height, tile_width, 0.0, 1.0), data_type, tile_height, tile_width
    )


def determine_expected_group_norm_sharded_config_and_grid_size(
    *, device: Any, num_channels: int, num_groups: int, input_nhw: int, is_height_sharded: bool, is_row_major: bool = False
) -> tuple[MemoryConfig, CoreGrid]:
    """Shards for group norm in L1, and the grid they are on."""
    if num_channels % num_groups:
        raise ValueError(f"num_channels={num_channels} must be divisible by num_groups={num_groups}")
    if num_channels % 32:
        raise ValueError(f"num_channels={num_channels} must be a multiple of 32")
    size = device.compute_with_storage_grid_size()
    rows = math.ceil(input_nhw / 32)
    down = _largest_divisor(rows, size.x * size.y if is_height_sharded else size.x)
    across = 1
    if not is_height_sharded:
        units, group = num_channels // (8 if is_row_major else 32), num_channels // num_groups
        across = next(n for n in range(size.y, 0, -1) if units % n == 0 and num_channels // n % group == 0)
    shard = [rows * 32 // down, num_channels // across]
    if is_height_sharded:
        x, y = min(down, size.x), math.ceil(down / size.x)
        grid = _cores(down, size.x)
        layout, orientation = TensorMemoryLayout.HEIGHT_SHARDED, ShardOrientation.ROW_MAJOR
    else:
        x, y = down, across
        grid = CoreRangeSet({CoreRange(CoreCoord(0, 0), CoreCoord(x - 1, y - 1))})
        layout, orientation = TensorMemoryLayout.BLOCK_SHARDED, ShardOrientation.COL_MAJOR
    return MemoryConfig(layout, BufferType.L1, ShardSpec(grid, shard, orientation)), CoreGrid(y=y, x=x)


def _cores(count: int, width: int) -> CoreRangeSet:
    """The first cores of a grid, row by row."""
    full, rest = divmod(count, width)
    ranges = set()
    if full:
        ranges.add(CoreRange(CoreCoord(0, 0), CoreCoord(width - 1, full - 1)))
    if rest:
        ranges.add(CoreRange(CoreCoord(0, full), CoreCoord(rest - 1, full)))
    return CoreRangeSet(ranges)


def determine_expected_group_norm_dram_grid_size(
    *, device: Any, num_channels: int, num_groups: int, input_nhw: int, num_batches: int = 1
) -> CoreGrid:
    """The largest grid that group norm takes for a tensor in DRAM: its virtual rows of cores divide the rows of tiles."""
    size, rows = device.compute_with_storage_grid_size(), math.ceil(input_nhw / 32)
    best: tuple[int, int, int] | None = None
    for x in range(size.x, 0, -1):
        columns = virtual_columns(num_channels, num_groups, x)
        if not columns:
            continue
        for y in range(size.y, 0, -1):
            virtual = x // columns * y
            fits = virtual <= rows and rows % virtual == 0 and (virtual % num_batches == 0 or num_batches % virtual == 0)
            if fits and (best is None or x * y > best[0]):
                best = (x * y, y, x)
    if best is None:
        raise ValueError(
            f"no grid fits num_channels={num_channels}, num_groups={num_groups}, input_nhw={input_nhw}, num_batches={num_batches}"
        )
    return CoreGrid(y=best[1], x=best[2])


def dram_group_norm_params_from_torch(
    torch_params: Any,
    channels_per_device: int,
    groups_per_device: int,
    device: Any,
    mesh_axis: int | None = None,
    core_grid: Any = None,
    return_mask: bool = True,
    dtype: DataType = DataType.BFLOAT16,
) -> Any:
    """Weights and biases for group norm in DRAM, on the device, and the mask that goes with them."""
    from ttnn.distributed import ShardTensor2dMesh
    from ttnn.operations.conversion import from_torch, to_device

    grid = core_grid if core_grid is not None else device.compute_with_storage_grid_size()
    columns = max(1, virtual_columns(channels_per_device, groups_per_device, grid.x))
    single = isinstance(torch_params, torch.Tensor)
    made = []
    for values in [torch_params] if single else torch_params:
        parts = [create_group_norm_weight_bias_rm(v, channels_per_device, columns) for v in values.reshape(-1).split(channels_per_device)]
        mapper = None
        if mesh_axis is not None:
            dims = (0, None) if mesh_axis == 0 else (None, 0)
            mapper = ShardTensor2dMesh(device, dims=dims, mesh_shape=tuple(device.shape))
        made.append(from_torch(torch.cat(parts, 0), dtype, layout=Layout.ROW_MAJOR, device=device, mesh_mapper=mapper))
    params = made[0] if single else made
    if not return_mask:
        return params
    mask = to_device(create_group_norm_input_mask(channels_per_device, groups_per_device, columns, DataType.BFLOAT8_B), device)
    return [params, mask] if single else [*made, mask]


def create_layer_norm_reciprocals(device: Any, core_range_set: CoreRangeSet, width: int) -> Tensor:
    """1/1, 1/2, ... 1/width in FLOAT32, a copy for each core: what Welford's running mean divides by."""
    from ttnn.operations.conversion import from_torch

    cores = core_range_set.num_cores()
    rows = (1.0 / torch.arange(1, width + 1, dtype=torch.float64)).float().repeat(cores, 1)
    shard = ShardSpec(core_range_set, [1, width], ShardOrientation.ROW_MAJOR)
    config = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1, shard)
    return from_torch(rows, DataType.FLOAT32, layout=Layout.ROW_MAJOR, device=device, memory_config=config)  # type: ignore[no-any-return]


__all__ = [
    "create_group_norm_input_mask",
    "create_group_norm_input_negative_mask",
    "create_group_norm_weight_bias_rm",
    "create_layer_norm_reciprocals",
    "determine_expected_group_norm_dram_grid_size",
    "determine_expected_group_norm_sharded_config_and_grid_size",
    "dram_group_norm_params_from_torch",
    "get_group_norm_cores_across_channel",
]
