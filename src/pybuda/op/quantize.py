"""Between floats and eight-bit integers."""

from __future__ import annotations

import torch

from pybuda.op.common import make
from pybuda.tensor import Tensor


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
