"""Rows to tiles and back under their own names; `ttnn.to_layout` chooses among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tessera.formats.dtype import DataType, Layout
from tessera.formats.tile import Tile
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.host_methods import with_padding
from ttnn.operations.memory import same
from ttnn.operations.rules import like, name_of, require, require_device

_WHOLE_TILES = (DataType.BFLOAT16, DataType.FLOAT32, DataType.UINT32, DataType.INT32, DataType.UINT16, DataType.UINT8, DataType.FP8_E4M3)
_PADDED = (DataType.BFLOAT16, DataType.FLOAT32, DataType.UINT32, DataType.INT32, DataType.UINT16, DataType.FP8_E4M3)


def _golden(input_tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return input_tensor


def _tiled(
    what: str,
    tensor: Tensor,
    dtype: DataType | None,
    memory_config: MemoryConfig | None,
    tile: Tile | None = None,
    padded: Sequence[int] | None = None,
) -> Tensor:
    natural = DataType.FLOAT32 if tensor.spec.dtype == DataType.FP8_E4M3 else tensor.spec.dtype
    out = like(tensor, layout=Layout.TILE, dtype=natural if dtype is None else dtype, memory_config=memory_config)
    if tile is not None:
        out = out.replace(tile=tile)
    if padded is not None and tuple(padded) != out.padded_dims:
        least = out.padded_dims
        require(
            len(padded) == len(least)
            and all(p >= d for p, d in zip(padded, least))
            and all(p % t == 0 for p, t in zip(padded[-2:], out.tile.tile_shape)),
            f"tilize_with_val_padding: output_tensor_shape={list(padded)} must be whole tiles that hold {list(least)}",
        )
        out = out.padded_to(tuple(padded))
    return launch(what, same, [tensor], out)  # type: ignore[no-any-return]


@operation("ttnn.tilize", golden=_golden)
def tilize(
    input_tensor: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    use_multicore: bool = True,
    use_low_perf: bool = False,
    tile: Tile | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """Rows to tiles, of a tensor that is whole tiles."""
    require_device("tilize", input_tensor)
    spec = input_tensor.spec
    require(spec.layout == Layout.ROW_MAJOR, f"tilize: Can only tilize row major data, got {spec.layout}")
    h, w = (tile or spec.tile).tile_shape
    width = spec.dims[-1] if spec.dims else 1
    height = spec.physical_shape[0]
    require(width % w == 0, f"tilize: Input tensor width ({width}) must be divisible by tile width ({w})")
    require(height % h == 0, f"tilize: Input tensor height ({height}) must be divisible by tile height ({h})")
    require(
        spec.dtype in _WHOLE_TILES,
        f"tilize: data type must be bfloat16, float32, uint32, int32, uint16, uint8, or fp8_e4m3, got {name_of(spec.dtype)}",
    )
    return _tiled("TilizeDeviceOperation", input_tensor, dtype, memory_config, tile)


def _with_padding(
    what: str, tensor: Tensor, dtype: DataType | None, memory_config: MemoryConfig | None, padded: Sequence[int] | None = None
) -> Tensor:
    require_device(what, tensor)
    spec = tensor.spec
    if spec.layout == Layout.TILE:
        return tensor
    require(
        spec.dtype in _PADDED,
        f"{what}: Can only tilize bfloat16/float32 or int32/uint32/uint16 or fp8_e4m3 tensors, got {name_of(spec.dtype)}",
    )
    require(
        spec.dtype != DataType.FP8_E4M3 or spec.dims[-1:] > (32,),
        f"{what}: FP8_E4M3 tilize_with_val_padding requires more than one tile per row",
    )
    return _tiled("TilizeWithValPaddingDeviceOperation", tensor, dtype, memory_config, padded=padded)


@operation("ttnn.tilize_with_val_padding", golden=_golden)
def tilize_with_val_padding(
    input_tensor: Tensor,
    output_tensor_shape: Sequence[int],
    pad_value: float,
    *,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    use_multicore: bool = True,
    sub_core_grids: Any = None,
) -> Tensor:
    """Rows to tiles, edges filled with a value up to a padded shape."""
    padded = tuple(int(extent) for extent in output_tensor_shape)
    tiled = _with_padding("tilize_with_val_padding", input_tensor, dtype, memory_config, padded)
    return tiled if tiled is input_tensor else with_padding(tiled, pad_value)


@operation("ttnn.tilize_with_zero_padding", golden=_golden)
def tilize_with_zero_padding(
    input_tensor: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    output_dtype: DataType | None = None,
    use_multicore: bool = True,
    sub_core_grids: Any = None,
) -> Tensor:
    """Rows to tiles, edges filled with zeros."""
    return _with_padding("tilize_with_zero_padding", input_tensor, output_dtype, memory_config)


@operation("ttnn.untilize", golden=_golden)
def untilize(
    input_tensor: Tensor, *, memory_config: MemoryConfig | None = None, use_multicore: bool = True, sub_core_grids: Any = None
) -> Tensor:
    """Tiles to rows. Blocks of 8 bits come out as bfloat16."""
    require_device("untilize", input_tensor)
    spec = input_tensor.spec
    require(spec.layout == Layout.TILE, f"untilize: Can only untilize tile major data, got {spec.layout}")
    natural = DataType.BFLOAT16 if spec.dtype == DataType.BFLOAT8_B else spec.dtype
    return launch(
        "UntilizeDeviceOperation",
        same,
        [input_tensor],
        like(input_tensor, layout=Layout.ROW_MAJOR, dtype=natural, memory_config=memory_config),
    )  # type: ignore[no-any-return]


@operation("ttnn.untilize_with_unpadding", golden=_golden)
def untilize_with_unpadding(
    input_tensor: Tensor,
    output_tensor_end: Sequence[int],
    *,
    memory_config: MemoryConfig | None = None,
    use_multicore: bool = True,
    sub_core_grids: Any = None,
) -> Tensor:
    """Tiles to rows, keeping what lies up to and with the given last places."""
    from tessera.engine.movement import cut

    require_device("untilize_with_unpadding", input_tensor)
    spec = input_tensor.spec
    require(spec.layout == Layout.TILE, f"untilize_with_unpadding: Can only untilize tile major data, got {spec.layout}")
    ends = [int(e) + 1 for e in output_tensor_end]
    require(
        len(ends) == len(spec.dims), f"untilize_with_unpadding: output_tensor_end={list(output_tensor_end)} needs {len(spec.dims)} entries"
    )
    for end, padded in zip(ends, spec.padded_shape):
        require(end <= padded, f"untilize_with_unpadding: output_tensor_end {end - 1} lies outside a padded dimension of size {padded}")
    natural = DataType.BFLOAT16 if spec.dtype == DataType.BFLOAT8_B else spec.dtype
    dims = [min(e, d) for e, d in zip(ends, spec.dims)]
    out = like(input_tensor, shape=dims, layout=Layout.ROW_MAJOR, dtype=natural, memory_config=memory_config)
    attributes = {"starts": (0,) * len(dims), "ends": tuple(dims), "steps": (1,) * len(dims)}
    return launch("UntilizeWithUnpaddingDeviceOperation", cut, [input_tensor], out, attributes=attributes)  # type: ignore[no-any-return]
