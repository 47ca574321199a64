"""Constants, resizing, embedding, queues in DRAM and quantisation."""

from __future__ import annotations

import torch

from pybuda.op.common import make
from pybuda.parameter import Parameter
from pybuda.tensor import Tensor, TensorFromPytorch


def Constant(name: str, *, constant: float) -> Tensor:
    """One number, broadcast to whatever it meets."""
    made = TensorFromPytorch(torch.tensor(float(constant)), constant=True)
    made.constant_name = name  # type: ignore[attr-defined]
    return made


def Resize2d(
    name: str,
    operandA: Tensor,
    sizes: list[int],
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    extrapolation_value: int = 0,
    channel_last: bool = False,
) -> Tensor:
    if len(sizes) != 2:
        raise ValueError(f"Resize2d: sizes={sizes} must be [height, width]")
    return make("resize2d", name, operandA, sizes=list(sizes), method=method, align_corners=align_corners, channel_last=channel_last)


def Resize3d(
    name: str,
    operandA: Tensor,
    sizes: list[int],
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    extrapolation_value: int = 0,
    channel_last: bool = False,
) -> Tensor:
    if len(sizes) != 3:
        raise ValueError(f"Resize3d: sizes={sizes} must be [depth, height, width]")
    return make("resize3d", name, operandA, sizes=list(sizes), method=method, align_corners=align_corners, channel_last=channel_last)


def Embedding(name: str, embedding_table: Tensor | Parameter, indices: Tensor) -> Tensor:
    return make("embedding", name, embedding_table, indices)


def DRAMQueue(name: str, operandA: Tensor, *, num_entries: int) -> Tensor:
    return make("dram_queue", name, operandA, num_entries=num_entries)


def Quantize(name: str, operandA: Tensor, operandB: Tensor, zero_point: int, axis: int, out_dtype: torch.dtype) -> Tensor:
    return make("quantize", name, operandA, operandB, zero_point=zero_point, axis=axis, out_dtype=out_dtype)


def Dequantize(
    name: str, operandA: Tensor, operandB: Tensor, zero_point: int, axis: int = -1, out_dtype: torch.dtype = torch.float32
) -> Tensor:
    return make("dequantize", name, operandA, operandB, zero_point=zero_point, axis=axis, out_dtype=out_dtype)


def Requantize(
    name: str,
    operandA: Tensor,
    operand_inp_scale: Tensor,
    operand_out_scale: Tensor,
    input_zero_point: float,
    output_zero_point: float,
    out_dtype: torch.dtype,
    axis: int = -1,
    rounding: str = "None",
) -> Tensor:
    return make(
        "requantize",
        name,
        operandA,
        operand_inp_scale,
        operand_out_scale,
        input_zero_point=input_zero_point,
        output_zero_point=output_zero_point,
        out_dtype=out_dtype,
        axis=axis,
    )


def BudaRequantize(
    name: str, operandA: Tensor, scale: Tensor, zero_point: float, out_dtype: torch.dtype, axis: int = -1, rounding: str = "None"
) -> Tensor:
    return make("buda_requantize", name, operandA, scale, zero_point=zero_point, out_dtype=out_dtype, axis=axis)
