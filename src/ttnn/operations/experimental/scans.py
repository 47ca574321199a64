"""Scans and what state-space models are made of; fused forms of a norm and of a product."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import experimental as engine
from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.matmul.product import fused_program
from ttnn.operations.rules import like, name_of, require, require_device, require_tile

SCANNED = (DataType.BFLOAT16, DataType.BFLOAT8_B)


def _check(what: str, *tensors: Tensor) -> None:
    require_device(what, *tensors)
    for tensor in tensors:
        require(len(tensor.spec.dims) == 4, f"{what}: operands must have four dimensions, got {tensor.spec.shape}")
        require(tensor.spec.dtype in SCANNED, f"{what}: operands must be BFLOAT16 or BFLOAT8_B, got {name_of(tensor.spec.dtype)}")


@operation("ttnn.experimental.prefix_scan")
def prefix_scan(
    a: Tensor,
    bx: Tensor,
    h_prev: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    math_fidelity: Any = None,
) -> Tensor:
    """h[t] = a[t] h[t-1] + bx[t] along the rows, from h_prev on."""
    what = "prefix_scan"
    _check(what, a, bx, h_prev)
    require_tile(what, a, bx)
    require(a.spec.dims == bx.spec.dims, f"{what}: a and bx must have the same shape, got {a.spec.shape} and {bx.spec.shape}")
    require(h_prev.spec.dims[-1] == a.spec.dims[-1], f"{what}: h_prev must be {a.spec.dims[-1]} wide, got {h_prev.spec.shape}")
    out = like(a, dtype=dtype, memory_config=memory_config)
    return launch("PrefixScanDeviceOperation", engine.prefix_scan, [a, bx, h_prev], out)  # type: ignore[no-any-return]


@operation("ttnn.experimental.hc_sum_reduce", golden=lambda input, **_: input.unflatten(-1, (-1, 32)).sum(-1))
def hc_sum_reduce(
    input: Tensor, *, memory_config: MemoryConfig | None = None, dtype: DataType | None = None, math_fidelity: Any = None
) -> Tensor:
    """Sums of every 32 columns."""
    what = "hc_sum_reduce"
    _check(what, input)
    require_tile(what, input)
    width = input.spec.dims[-1]
    require(width % 1024 == 0, f"{what}: the input's width must be divisible by 32 * 32, got {width}")
    out = like(input, shape=(*input.spec.dims[:-1], width // 32), dtype=dtype, memory_config=memory_config)
    return launch("HCSumReduceDeviceOperation", engine.block_sum, [input], out, attributes={"block": 32})  # type: ignore[no-any-return]


@operation("ttnn.experimental.repeat_and_interleave_eltwise_mul")
def repeat_and_interleave_eltwise_mul(
    a: Tensor,
    b: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    math_fidelity: Any = None,
) -> Tensor:
    """a (32 wide, or as wide as the result) over and over, times every column of b 32 times (or b as it is)."""
    what = "repeat_and_interleave_eltwise_mul"
    _check(what, a, b)
    require_tile(what, a, b)
    require(a.spec.dims[:-1] == b.spec.dims[:-1], f"{what}: a and b must have the same rows, got {a.spec.shape} and {b.spec.shape}")
    short, wide = a.spec.dims[-1], b.spec.dims[-1]
    width = wide * 32 if short == 32 or short == wide * 32 else wide
    require(
        short in (32, width) and wide in (width // 32, width),
        f"{what}: a must be 32 wide or as wide as the result, b so or a 32nd of it; got {short} and {wide}",
    )
    out = like(a, shape=(*a.spec.dims[:-1], width), dtype=dtype, memory_config=memory_config)
    attributes = {"repeats": width // short, "each": width // wide}
    return launch("RepeatAndInterleaveEltwiseMulDeviceOperation", engine.repeat_and_interleave, [a, b], out, attributes=attributes)  # type: ignore[no-any-return]


def _golden_ema(input_tensor: torch.Tensor, alpha: float, **_: Any) -> torch.Tensor:
    result: torch.Tensor = engine.moving_average(input_tensor, alpha=alpha)
    return result


@operation("ttnn.ema", golden=_golden_ema, renames={"input": "input_tensor", "output": "out"})
def ema(
    input_tensor: Tensor,
    alpha: float,
    *,
    out: Tensor | None = None,
    core_grid: Any = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The exponential moving average along the last dimension: y[t] = alpha y[t-1] + (1 - alpha) x[t], from zero on."""
    what, spec = "ema", input_tensor.spec
    require_device(what, input_tensor)
    require(spec.dtype == DataType.BFLOAT16, f"{what}: Input tensor must be BFLOAT16, got: {name_of(spec.dtype)}")
    require(spec.layout == Layout.TILE, f"{what}: Input tensor must have TILE layout, got: {name_of(spec.layout)}")
    require(len(spec.dims) == 4, f"{what}: EMA input must be 4D [1, B, C, T], got rank {len(spec.dims)}")
    require(spec.dims[0] == 1, f"{what}: EMA input must be [1, B, C, T], got {spec.shape}")
    target = like(input_tensor, memory_config=memory_config) if out is None else out.spec
    require(target.dims == spec.dims, f"{what}: out has shape {target.shape}, not the input's {spec.shape}")
    attributes = {"alpha": float(alpha)}
    return launch("EmaDeviceOperation", engine.moving_average, [input_tensor], target, attributes=attributes, into=out)  # type: ignore[no-any-return]


@operation("ttnn.experimental.dit_minimal_matmul_addcmul_fused")
def dit_minimal_matmul_addcmul_fused(
    matmul_input_tensor: Tensor,
    matmul_weight_tensor: Tensor,
    scalar: float,
    addcmul_input_tensor1: Tensor,
    addcmul_input_tensor2: Tensor,
    bias_tensor: Tensor | None = None,
    *,
    config: Any = None,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """first + scalar * (input @ weight + bias) * second: a gated residual, in one program."""
    what = "dit_minimal_matmul_addcmul_fused"
    tensors = [matmul_input_tensor, matmul_weight_tensor, addcmul_input_tensor1, addcmul_input_tensor2]
    tensors += [bias_tensor] if bias_tensor is not None else []
    require_device(what, *tensors)
    require_tile(what, *tensors)
    a, b = matmul_input_tensor.spec, matmul_weight_tensor.spec
    require(a.dims[-1] == b.dims[-2], f"{what}: inner dimensions must match, got K={a.dims[-1]} and K_w={b.dims[-2]}")
    shape = (*a.dims[:-1], b.dims[-1])
    require(
        addcmul_input_tensor1.spec.dims[-2:] == shape[-2:], f"{what}: addcmul_input_tensor1 must have the product's shape {list(shape)}"
    )
    require(addcmul_input_tensor2.spec.dims[-1] == shape[-1], f"{what}: addcmul_input_tensor2 must be {shape[-1]} wide")
    out = TensorSpec.of(Shape.of(shape), dtype or a.dtype, Layout.TILE, memory_config or MemoryConfig(), a.tile)
    attributes = {"scalar": float(scalar)}
    return launch("MinimalMatmulDeviceOperation", engine.matmul_addcmul, tensors, out, attributes=attributes, key=config)  # type: ignore[no-any-return]


@operation("ttnn.experimental.dit_rms_norm_unary_fused")
def dit_rms_norm_unary_fused(
    input_tensor: Tensor,
    epsilon: float = 1e-5,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    residual_input_tensor: Tensor | None = None,
    *,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    activation: Any = None,
) -> Tensor:
    """RMS norm, then an activation, in one program."""
    what = "dit_rms_norm_unary_fused"
    named = {"weight": weight, "bias": bias, "residual": residual_input_tensor}
    given = {name: tensor for name, tensor in named.items() if tensor is not None}
    require_device(what, input_tensor, *given.values())
    require_tile(what, input_tensor)
    attributes = {"epsilon": float(epsilon), "roles": tuple(given), "activation": fused_program(what, activation)}
    out = like(input_tensor, memory_config=memory_config)
    return launch(  # type: ignore[no-any-return]
        "LayerNormDeviceOperation", engine.rms_norm_unary, [input_tensor, *given.values()], out, attributes=attributes, key=program_config
    )
