"""Between floats and quantized whole numbers: q = round(x / scale) + zero_point.

Scale and zero point are numbers, tensors of one element, or a vector along one axis. Quantized values saturate in their dtype.
"""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine.quantization import dequantize as compute_dequantize
from tessera.engine.quantization import quantize as compute_quantize
from tessera.engine.quantization import requantize as compute_requantize
from tessera.formats.dtype import FORMATS, DataType
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.activations import fp32
from ttnn.operations.binary_rules import FLOATS, PRECISE
from ttnn.operations.rules import name_of, normalized_dim, require, require_device
from ttnn.operations.unary_rules import check_ready, output_spec

QUANTIZED = frozenset({DataType.INT32, DataType.INT8, DataType.UINT8})
Parameter = Tensor | float | int


def _parameters(
    what: str, tensor: Tensor, parameters: tuple[Parameter, ...], axis: int | None
) -> tuple[list[Tensor], tuple[float | None, ...], int | None]:
    """The tensors among the parameters, the numbers in their places, and the axis counted from the front."""
    place = None if axis is None else normalized_dim(axis, len(tensor.spec.dims), what)
    tensors = []
    for parameter in parameters:
        if not isinstance(parameter, Tensor):
            continue
        volume = parameter.spec.volume
        if place is None:
            require(
                volume == 1,
                f"Per-tensor quantization only takes scalar-tensor scales and zero points; {what} got one of {parameter.spec.shape} and no axis",
            )
        else:
            length = tensor.spec.dims[place]
            require(
                volume == length,
                f"{what}: per-channel parameters must have one element for each of the {length} along axis={axis}, got {volume}",
            )
        tensors.append(parameter)
    return tensors, tuple(None if isinstance(p, Tensor) else fp32(p) for p in parameters), place


def _run(
    what: str,
    compute: Any,
    tensor: Tensor,
    parameters: tuple[Parameter, ...],
    axis: int | None,
    dtype: DataType,
    memory_config: MemoryConfig | None,
    output_tensor: Tensor | None,
    programs: int,
) -> Tensor:
    tensors, numbers, place = _parameters(what, tensor, parameters, axis)
    require_device(what, tensor, *tensors)
    require(
        tensor.spec.dtype != DataType.FP8_E4M3,
        f"Input tensor A dtype DataType::FP8_E4M3 is not supported for binary operation BinaryOpType::QUANT; {what} takes bfloat16",
    )
    check_ready(tensor, output_tensor)
    attributes: dict[str, Any] = {"numbers": numbers, "axis": place}
    if dtype in QUANTIZED:
        attributes |= {"low": FORMATS[dtype].low, "high": FORMATS[dtype].high}
    spec = output_tensor.spec if output_tensor is not None else output_spec(tensor, memory_config, dtype)
    made: Any = launch(
        "BinaryNgDeviceOperation", compute, [tensor, *tensors], spec, attributes=attributes, into=output_tensor, programs=programs
    )
    return made  # type: ignore[no-any-return]


def _chosen(dtype: DataType | None, output_tensor: Tensor | None, otherwise: DataType) -> DataType:
    return dtype or (output_tensor.spec.dtype if output_tensor is not None else otherwise)


def _golden_quantize(input_tensor: torch.Tensor, scale: Any, zero_point: Any, *, axis: int | None = None, **_: Any) -> torch.Tensor:
    if axis is not None and isinstance(scale, torch.Tensor) and scale.numel() > 1:
        return torch.quantize_per_channel(input_tensor.float(), scale.flatten(), zero_point.flatten(), axis, torch.qint32).int_repr()
    return torch.quantize_per_tensor(input_tensor.float(), float(scale), int(zero_point), torch.qint32).int_repr()


@operation("ttnn.quantize", golden=_golden_quantize)
def quantize(
    input_tensor: Tensor,
    scale: Parameter,
    zero_point: Parameter,
    *,
    axis: int | None = None,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """round(x / scale) + zero_point, saturated."""
    given = input_tensor.spec.dtype
    require(given in FLOATS or given == DataType.FP8_E4M3, f"Quantize only takes floating-point number inputs, got {name_of(given)}")
    wanted = _chosen(dtype, output_tensor, DataType.INT32)
    require(wanted in QUANTIZED, f"Quantize only supports int32, int8 or uint8 outputs for now, got {name_of(wanted)}")
    tensors = isinstance(scale, Tensor) or isinstance(zero_point, Tensor)
    programs = (1 if given in PRECISE else 2) if not tensors else 4 if axis is None else 6
    return _run("quantize", compute_quantize, input_tensor, (scale, zero_point), axis, wanted, memory_config, output_tensor, programs)


def _golden_dequantize(input_tensor: torch.Tensor, scale: Any, zero_point: Any, *, axis: int | None = None, **_: Any) -> torch.Tensor:
    if axis is not None and isinstance(scale, torch.Tensor) and scale.numel() > 1:
        view = [1] * input_tensor.dim()
        view[axis] = -1
        scale, zero_point = scale.reshape(view), zero_point.reshape(view)
    return (input_tensor.float() - zero_point) * scale


@operation("ttnn.dequantize", golden=_golden_dequantize)
def dequantize(
    input_tensor: Tensor,
    scale: Parameter,
    zero_point: Parameter,
    *,
    axis: int | None = None,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """(q - zero_point) * scale."""
    given = input_tensor.spec.dtype
    require(given in QUANTIZED, f"Dequantize only supports int32, int8 or uint8 inputs for now, got {name_of(given)}")
    wanted = _chosen(dtype, output_tensor, DataType.BFLOAT16)
    require(wanted in PRECISE, f"Dequantize only supports bf16/f32 outputs for now, got {name_of(wanted)}")
    tensors = isinstance(scale, Tensor) or isinstance(zero_point, Tensor)
    programs = 1 if not tensors else 3 if axis is None else 5
    return _run("dequantize", compute_dequantize, input_tensor, (scale, zero_point), axis, wanted, memory_config, output_tensor, programs)


def _golden_requantize(
    input_tensor: torch.Tensor, in_scale: Any, in_zero_point: Any, out_scale: Any, out_zero_point: Any, *, axis: int | None = None, **_: Any
) -> torch.Tensor:
    return _golden_quantize(_golden_dequantize(input_tensor, in_scale, in_zero_point, axis=axis), out_scale, out_zero_point, axis=axis)


@operation("ttnn.requantize", golden=_golden_requantize)
def requantize(
    input_tensor: Tensor,
    in_scale: Parameter,
    in_zero_point: Parameter,
    out_scale: Parameter,
    out_zero_point: Parameter,
    *,
    axis: int | None = None,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """From one scale and zero point to another."""
    given = input_tensor.spec.dtype
    require(given in QUANTIZED, f"Requantize only supports int32, int8 or uint8 inputs for now, got {name_of(given)}")
    wanted = _chosen(dtype, output_tensor, DataType.INT32)
    require(wanted in QUANTIZED, f"Requantize only supports int32, int8 or uint8 outputs for now, got {name_of(wanted)}")
    parameters = (in_scale, in_zero_point, out_scale, out_zero_point)
    tensors = any(isinstance(p, Tensor) for p in parameters)
    programs = 1 if not tensors else 7 if axis is None else 9
    return _run("requantize", compute_requantize, input_tensor, parameters, axis, wanted, memory_config, output_tensor, programs)
