"""Norms over rows that lie on several chips, as diffusion transformers take them: the halves before and after the statistics are gathered, the second with
heads split and turned; and weights quantized by the host."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import heads, rotary
from tessera.formats.dtype import DataType
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import REGISTERED_OPERATIONS, operation
from ttnn.operations.rules import like, require, require_device, require_tile


def _norm(name: str, *tensors: Tensor, **words: Any) -> Tensor:
    return REGISTERED_OPERATIONS[f"ttnn.{name}"](*tensors, **words)  # type: ignore[no-any-return]


@operation("ttnn.experimental.dit_layernorm_pre_allgather")
def dit_layernorm_pre_allgather(
    input_tensor: Tensor,
    recip_tensor: Tensor,
    *,
    dtype: DataType = DataType.BFLOAT16,
    compute_kernel_config: Any = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """The statistics of a chip's part of each row. `recip_tensor`, reciprocals of counts for the chip's running mean, does not change them."""
    require_device("dit_layernorm_pre_allgather", input_tensor, recip_tensor)
    return _norm("layer_norm_pre_all_gather", input_tensor, dtype=dtype, memory_config=memory_config)


@operation("ttnn.experimental.dit_layernorm_post_allgather")
def dit_layernorm_post_allgather(
    input_tensor: Tensor,
    stats: Tensor,
    *,
    epsilon: float = 1e-5,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    dtype: DataType | None = None,
) -> Tensor:
    """Layer norm of a chip's part by the gathered statistics."""
    words = {"epsilon": epsilon, "weight": weight, "bias": bias, "memory_config": memory_config, "dtype": dtype}
    return _norm("layer_norm_post_all_gather", input_tensor, stats, **words)


@operation("ttnn.experimental.wan_fused_rmsnorm_pre_allgather")
def wan_fused_rmsnorm_pre_allgather(
    input_tensor: Tensor,
    *,
    dtype: DataType = DataType.BFLOAT16,
    compute_kernel_config: Any = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """The sum of squares of a chip's part of each row."""
    return _norm("rms_norm_pre_all_gather", input_tensor, dtype=dtype, memory_config=memory_config)


def _split_and_turn(values: torch.Tensor, *tables: torch.Tensor, heads_count: int, width: int) -> torch.Tensor:
    (parts,) = heads.split(values, (heads_count,), width)
    result: torch.Tensor = rotary.rotary_by_matrix(parts, *tables) if tables else parts
    return result


@operation("ttnn.experimental.wan_fused_rmsnorm_post_allgather")
def wan_fused_rmsnorm_post_allgather(
    input_tensor: Tensor,
    stats: Tensor,
    *,
    epsilon: float = 1e-5,
    num_heads_per_device: int = 1,
    weight: Tensor | None = None,
    transformation_mat: Tensor | None = None,
    rope_cos: Tensor | None = None,
    rope_sin: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    dtype: DataType | None = None,
) -> Tensor:
    """RMS norm by the gathered statistics, then heads, then their rotary embedding where tables are given: one program on the chip."""
    what = "wan_fused_rmsnorm_post_allgather"
    tables = [t for t in (rope_cos, rope_sin, transformation_mat) if t is not None]
    require(len(tables) in (0, 3), f"{what}: rope_cos, rope_sin and transformation_mat must be given together")
    require_device(what, input_tensor, stats, *tables)
    require_tile(what, input_tensor, stats, *tables)
    normed = _norm(
        "rms_norm_post_all_gather", input_tensor, stats, epsilon=epsilon, weight=weight, memory_config=memory_config, dtype=dtype
    )
    batch, _, rows, total = (1,) * (4 - len(normed.spec.dims)) + normed.spec.dims
    require(total % num_heads_per_device == 0, f"{what}: num_heads_per_device={num_heads_per_device} must divide the width {total}")
    if num_heads_per_device == 1 and not tables:
        return normed
    width = total // num_heads_per_device
    out = like(normed, shape=(batch, num_heads_per_device, rows, width))
    attributes = {"heads_count": num_heads_per_device, "width": width}
    return launch("WanFusedRmsnormPostAllgatherDeviceOperation", _split_and_turn, [normed, *tables], out, attributes=attributes, programs=0)  # type: ignore[no-any-return]


@operation("ttnn.experimental.quantize_weights_via_host", golden=lambda device_tensor, **_: device_tensor, planned=False)
def quantize_weights_via_host(device_tensor: Tensor, *, dtype: DataType, memory_config: MemoryConfig | None) -> Tensor:
    """The tensor in another format, converted by the host's rule rather than the packer's: read, converted, written."""
    what = "quantize_weights_via_host"
    require_device(what, device_tensor)
    device = device_tensor.buffer.device
    host = REGISTERED_OPERATIONS["ttnn.to_dtype"](REGISTERED_OPERATIONS["ttnn.from_device"](device_tensor), dtype)
    config = device_tensor.spec.memory_config if memory_config is None else memory_config
    return REGISTERED_OPERATIONS["ttnn.to_device"](host, device, memory_config=config)  # type: ignore[no-any-return]
