"""Layer and RMS norm over rows that several chips hold together: sums before a gather, normalising after it.

A chip answers its sums in the first columns of tiles (the sum of squares; for layer norm the sum in the next tile). Gathered, they are one such
block for each chip.
"""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import norm as engine
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import Operation, operation
from ttnn.operations.normalization.layer import check_vector
from ttnn.operations.rules import like, require, require_device

_READ = (DataType.FLOAT32, DataType.BFLOAT16, DataType.BFLOAT8_B)


def _check(what: str, x: Tensor, config: Any, *others: Tensor) -> None:
    require_device(what, x, *others)
    require(x.spec.layout == Layout.TILE, f"{what}: Only tilized inputs supported, got {x.spec.layout}")
    require(x.spec.dtype in _READ, f"{what}: Input data format not supported: {x.spec.dtype}")
    require(len(x.spec.dims) == 4, f"{what}: the input must have four dimensions, got {x.spec.shape}")
    require(
        getattr(config, "fp32_dest_acc_en", False) or all(t.spec.dtype != DataType.FLOAT32 for t in (x, *others)),
        f"{what}: FLOAT32 input/stats require fp32_dest_acc_en=true in the compute kernel config",
    )


def _declare(kind: str, centered: bool) -> tuple[Operation, Operation]:
    width = 64 if centered else 32

    def before(
        input_tensor: Tensor,
        *,
        dtype: DataType = DataType.BFLOAT16,
        residual_input_tensor: Tensor | None = None,
        compute_kernel_config: Any = None,
        program_config: Any = None,
        memory_config: MemoryConfig | None = None,
        recip_tensor: Tensor | None = None,
        use_2d_core_grid: bool | None = None,
        fast_and_approximate_mode: bool = False,
    ) -> Tensor:
        what, x = f"{kind}_pre_all_gather", input_tensor
        _check(what, x, compute_kernel_config)
        inputs = [x]
        if residual_input_tensor is not None:
            require(residual_input_tensor.spec.dims == x.spec.dims, f"{what}: residual must have the input's shape {x.spec.shape}")
            inputs.append(residual_input_tensor)
        ragged = any(d % 32 for d in x.spec.dims[-2:])
        out = like(x, shape=(*x.spec.dims[:-1], width), dtype=dtype, memory_config=memory_config)
        return launch(  # type: ignore[no-any-return]
            "LayerNormPreAllGatherDeviceOperation", engine.row_sums, inputs, out, attributes={"centered": centered}, programs=1 + ragged
        )

    def after(
        input_tensor: Tensor,
        stats: Tensor,
        *,
        epsilon: float = 1e-12,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        memory_config: MemoryConfig | None = None,
        compute_kernel_config: Any = None,
        program_config: Any = None,
        dtype: DataType | None = None,
        use_2d_core_grid: bool | None = None,
    ) -> Tensor:
        what, x = f"{kind}_post_all_gather", input_tensor
        _check(what, x, compute_kernel_config, stats)
        require(stats.spec.layout == Layout.TILE, f"{what}: stats must be in TILE layout")
        require(
            stats.spec.dims[:-1] == x.spec.dims[:-1],
            f"{what}: stats must have the rows of the input, got {stats.spec.shape} for {x.spec.shape}",
        )
        tiles = stats.spec.padded_dims[-1] // 32
        require(
            tiles * 32 >= width,
            f"{what}: Number of devices must be greater than 0; stats of width {stats.spec.dims[-1]} hold less than {width}",
        )
        require(tiles * 32 % width == 0, f"{what}: Number of devices must divide number of stats tiles ({tiles})")
        roles, inputs = [], [x, stats]
        for role, name, tensor in (("weight", "gamma", weight), ("bias", "beta", bias)):
            if tensor is not None:
                check_vector(what, name, tensor, x)
                roles.append(role)
                inputs.append(tensor)
        return launch(  # type: ignore[no-any-return]
            "LayerNormPostAllGatherDeviceOperation",
            engine.norm_by_sums,
            inputs,
            like(x, dtype=dtype, memory_config=memory_config),
            attributes={"epsilon": epsilon, "centered": centered, "roles": tuple(roles)},
        )

    def golden_before(input_tensor: torch.Tensor, *, residual_input_tensor: torch.Tensor | None = None, **_: Any) -> torch.Tensor:
        further = [] if residual_input_tensor is None else [residual_input_tensor]
        return engine.row_sums(input_tensor, *further, centered=centered).to(input_tensor.dtype)  # type: ignore[no-any-return]

    def golden_after(
        input_tensor: torch.Tensor,
        stats: torch.Tensor,
        *,
        epsilon: float = 1e-12,
        weight: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        **_: Any,
    ) -> torch.Tensor:
        given = {role: t for role, t in (("weight", weight), ("bias", bias)) if t is not None}
        found = engine.norm_by_sums(input_tensor, stats, *given.values(), epsilon=epsilon, centered=centered, roles=tuple(given))
        return found.to(input_tensor.dtype)  # type: ignore[no-any-return]

    before.__doc__ = "The sums of one chip's part of each row."
    after.__doc__ = "One chip's part of each row, normalised by the sums of all."
    first = operation(f"ttnn.{kind}_pre_all_gather", golden=golden_before)(before)
    second = operation(f"ttnn.{kind}_post_all_gather", golden=golden_after)(after)
    return first, second


for _kind, _centered in (("layer_norm", True), ("rms_norm", False)):
    _declare(_kind, _centered)
