"""Changing what the bits mean: typecast between any two dtypes, bitcast; and dropout, whose bits are chance's."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import bits as engine
from tessera.engine.typecast import typecast as compute_typecast
from tessera.formats.dtype import FORMATS, DataType
from tessera.formats.rounding import host_convert
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.activations import check_float8
from ttnn.operations.rules import name_of, require, require_device
from ttnn.operations.unary_rules import check_ready, output_spec
from ttnn.tensor import require_allocated


def _converted(tensor: Tensor, spec: TensorSpec) -> Tensor:
    """A host tensor in another dtype, converted as the host library does it."""
    return Tensor.on_host(spec, [host_convert(part, spec.dtype, spec.tile) for part in tensor.parts], tensor.topology)


def _golden_typecast(input_tensor: torch.Tensor, *dtypes: Any, **words: Any) -> torch.Tensor:
    wanted = words.get("dtype", words.get("output_dtype", dtypes[-1] if dtypes else None))
    return input_tensor if wanted is None else input_tensor.to(FORMATS[wanted].values)


def _typecast(
    name: str, tensor: Tensor, source: DataType | None, dtype: DataType, memory_config: MemoryConfig | None, output_tensor: Tensor | None
) -> Tensor:
    require_allocated(tensor, name)
    given = tensor.spec.dtype
    if source is not None and source != given:
        raise RuntimeError(f"{name}: input_dtype={name_of(source)} is not the tensor's dtype {name_of(given)}")
    if tensor.buffer.device is None:
        spec = tensor.spec.replace(dtype=dtype)
        require(
            DataType.FP8_E4M3 not in (given, dtype) or {given, dtype} <= {DataType.FP8_E4M3, DataType.FLOAT32},
            f"to_dtype: FP8_E4M3 cross-type conversion is only supported to/from FLOAT32, got {name_of(given)} to {name_of(dtype)}",
        )
        return _converted(tensor, spec)
    check_ready(tensor, output_tensor)
    if output_tensor is not None:
        require(
            output_tensor.spec.dtype == dtype,
            f"{name}: If both output dtype and output tensor provided dtype should match, got {name_of(dtype)} and {name_of(output_tensor.spec.dtype)}",
        )
    spec = output_tensor.spec if output_tensor is not None else output_spec(tensor, memory_config, dtype)
    given_layout, made_layout = tensor.spec.memory_config.memory_layout, spec.memory_config.memory_layout
    require(
        not tensor.spec.is_sharded or made_layout == given_layout,
        f"Typecast operation requires Input and Output memory layout to match. Input layout: {name_of(given_layout)}, Output layout: {name_of(made_layout)}",
    )
    made: Any = launch("TypecastDeviceOperation", compute_typecast, [tensor], spec, attributes={"target": dtype.name}, into=output_tensor)
    return made  # type: ignore[no-any-return]


@operation("ttnn.typecast", golden=_golden_typecast)
def typecast(
    input_tensor: Tensor,
    *dtypes: DataType,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    sub_core_grids: Any = None,
    **words: DataType,
) -> Tensor:
    """The values in another dtype: `typecast(tensor, dtype)` or `typecast(tensor, input_dtype, output_dtype)`."""
    if "output_dtype" in words or len(dtypes) == 2:
        source = dtypes[0] if dtypes else words["input_dtype"]
        return _typecast(
            "typecast", input_tensor, source, words["output_dtype"] if "output_dtype" in words else dtypes[1], memory_config, output_tensor
        )
    return _typecast("typecast", input_tensor, None, dtypes[0] if dtypes else words["dtype"], memory_config, output_tensor)


@operation("ttnn.experimental.typecast", golden=_golden_typecast)
def experimental_typecast(
    input_tensor: Tensor, dtype: DataType, memory_config: MemoryConfig | None = None, optional_output_tensor: Tensor | None = None
) -> Tensor:
    """The values in another dtype."""
    return _typecast("experimental.typecast", input_tensor, None, dtype, memory_config, optional_output_tensor)


def _golden_bitcast(input_tensor: torch.Tensor, dtype: DataType, **_: Any) -> torch.Tensor:
    return input_tensor.view(
        {DataType.FLOAT32: torch.float32, DataType.BFLOAT16: torch.bfloat16, DataType.INT32: torch.int32}.get(dtype, FORMATS[dtype].values)
    )


@operation("ttnn.bitcast", golden=_golden_bitcast)
def bitcast(
    input_tensor: Tensor,
    dtype: DataType,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """The same bits under another dtype."""
    require_device("bitcast", input_tensor)
    if dtype == input_tensor.spec.dtype:
        check_float8(dtype)
    check_ready(input_tensor, output_tensor)
    spec = output_tensor.spec if output_tensor is not None else output_spec(input_tensor, memory_config, dtype)
    attributes = {"source": input_tensor.spec.dtype.name, "target": spec.dtype.name}
    made: Any = launch("UnaryDeviceOperation", engine.bitcast, [input_tensor], spec, attributes=attributes, into=output_tensor)
    return made  # type: ignore[no-any-return]


@operation(
    "ttnn.experimental.dropout",
    golden=lambda input_tensor, probability, scale=None, **_: torch.nn.functional.dropout(input_tensor, probability),
)
def dropout(
    input_tensor: Tensor,
    probability: float,
    scale: float,
    seed: int,
    *,
    use_per_device_seed: bool = True,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """Zero with the given probability, else scaled. The seed decides which elements."""
    require_device("dropout", input_tensor)
    dtype = output_tensor.spec.dtype if output_tensor is not None else DataType.BFLOAT16
    require(
        input_tensor.spec.dtype == dtype,
        f"Dropout operation requires input and output data types to match. Input data type: {name_of(input_tensor.spec.dtype)}, Output data type: {name_of(dtype)}",
    )
    require(0.0 <= probability <= 1.0, f"dropout: probability={probability} must lie between 0 and 1")
    spec = output_tensor.spec if output_tensor is not None else output_spec(input_tensor, memory_config)
    attributes = {"probability": float(probability), "scale": float(scale), "seed": int(seed)}
    made: Any = launch(
        "DropoutDeviceOperation", engine.dropout, [input_tensor], spec, attributes=attributes, runtime=("seed",), into=output_tensor
    )
    return made  # type: ignore[no-any-return]
