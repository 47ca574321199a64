"""The pieces that comparison is made of, as programs find them in `ttnn.decorators`: tensors in values, numbers of tensors, golden arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any

import torch

import ttnn
from tessera.runtime.device import Device
from tessera.runtime.tensor import Tensor, _ids
from ttnn.comparison_mode import compare, current, leaves
from ttnn.decorators import OUTPUT_TENSORS


def _inside(value: Any) -> Iterator[Any]:
    """A value and everything in it."""
    yield value
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple, set)):
        return
    for v in value:
        yield from _inside(v)


def get_tensors(object_value: Any, tensor_type: Any) -> list[Any]:
    return [v for v in _inside(object_value) if isinstance(v, tensor_type)]


def get_ttnn_tensors(object_value: Any) -> list[Tensor]:
    return get_tensors(object_value, Tensor)


def get_all_tensors(object_value: Any) -> list[Any]:
    return get_tensors(object_value, (Tensor, torch.Tensor))


def get_devices(object_value: Any) -> set[Device]:
    """The devices in a value: those given as such, and those that its tensors are on."""
    given = {v for v in _inside(object_value) if isinstance(v, Device)}
    return given | {t.buffer.device for t in get_ttnn_tensors(object_value) if t.buffer.device is not None}


# -- numbers of tensors


def set_tensor_id(tensor: Any, force: bool = False) -> None:
    """Give a tensor a number: a torch tensor that has none, any tensor when forced."""
    if force or not hasattr(tensor, "tensor_id"):
        tensor.tensor_id = next(_ids)


def get_output_tensor_ids(output: Any) -> list[int]:
    return [t.tensor_id for t in get_all_tensors(output) if hasattr(t, "tensor_id")]


def set_output_tensor_id_decorator(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose results have numbers."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        output = function(*args, **kwargs)
        for tensor in get_all_tensors(output):
            set_tensor_id(tensor)
        return output

    return call


def get_inplace_output_tensors(function_kwargs: dict[str, Any], output_tensor_kwarg_names: Sequence[str] = OUTPUT_TENSORS) -> list[Tensor]:
    """The tensors that a call was told to write into."""
    return [t for name in output_tensor_kwarg_names for t in get_ttnn_tensors(function_kwargs.get(name))]


def get_tensor_report_record(tensor: Any) -> dict[str, Any]:
    """What a report says of a tensor."""
    on_device = isinstance(tensor, Tensor) and tensor.buffer.device is not None
    spec = tensor.spec if isinstance(tensor, Tensor) else None
    return {
        "tensor_id": getattr(tensor, "tensor_id", None),
        "shape": str(spec.shape) if spec is not None else str(tuple(tensor.shape)),
        "dtype": str(spec.dtype) if spec is not None else str(tensor.dtype),
        "layout": str(spec.layout) if spec is not None else str(tensor.layout),
        "memory_config": repr(spec.memory_config) if spec is not None and on_device else None,
        "device_id": tensor.buffer.device.mesh_id if on_device else None,
        "address": getattr(tensor.buffer.allocation, "address", None) if on_device else None,
        "buffer_type": spec.memory_config.buffer_type.value if spec is not None and on_device else None,
    }


# -- golden arguments and results


def to_torch_for_comparison(tensor: Any, golden_tensor: Any = None, *, preserve_fp8_bytes: bool = False) -> Any:
    """A result as torch, in the shape of its golden one where they differ in dimensions of one only."""
    if isinstance(tensor, Tensor):
        if preserve_fp8_bytes and tensor.spec.dtype is ttnn.DataType.FP8_E4M3:
            return tensor.values.to(torch.float8_e4m3fn).view(torch.uint8)
        tensor = ttnn.to_torch(tensor)
    if isinstance(golden_tensor, torch.Tensor) and isinstance(tensor, torch.Tensor) and golden_tensor.shape != tensor.shape:
        if [d for d in golden_tensor.shape if d != 1] == [d for d in tensor.shape if d != 1]:
            return tensor.reshape(golden_tensor.shape)
    return tensor


def _as_torch(value: Any) -> Any:
    if isinstance(value, Tensor):
        return ttnn.to_torch(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_as_torch(v) for v in value)
    return {k: _as_torch(v) for k, v in value.items()} if isinstance(value, dict) else value


def default_preprocess_golden_function_inputs(function_args: Any, function_kwargs: Any) -> tuple[Any, Any]:
    """A call's arguments with torch tensors for TT-NN's."""
    return _as_torch(tuple(function_args)), _as_torch(dict(function_kwargs))


def default_postprocess_golden_function_outputs(output: Any, function_args: Any, function_kwargs: Any) -> Any:
    return output


def preprocess_global_golden_function_inputs(
    function_args: Any, function_kwargs: Any, *, mesh_tensors_as_shards: bool = False
) -> tuple[Any, Any]:
    """A call's arguments with the golden results of the calls before it, where they are known."""
    mode = current()
    return mode.golden_arguments(tuple(function_args)), mode.golden_arguments(dict(function_kwargs))


def postprocess_global_golden_function_outputs(outputs: Any, golden_outputs: Any) -> None:
    """Remember golden results as those of a call's outputs."""
    for output, golden in _pairs(golden_outputs, outputs):
        if isinstance(output, Tensor) and isinstance(golden, torch.Tensor):
            current().keep_golden(output, golden)


def refresh_or_invalidate_global_goldens(inplace_tensors: Sequence[Tensor], global_golden_output: Any) -> None:
    """A tensor that was written into has this golden result now, or none."""
    for tensor in inplace_tensors:
        if isinstance(global_golden_output, torch.Tensor):
            current().keep_golden(tensor, global_golden_output)
        else:
            current().drop_golden(tensor)


# -- comparing


def _pairs(golden_outputs: Any, outputs: Any) -> list[tuple[Any, Any]]:
    golden = dict(leaves(golden_outputs))
    return [(output, golden[place]) for place, output in leaves(outputs) if place in golden]


def should_compare_tensor_outputs(golden_outputs: Any, outputs: Any) -> bool:
    return any(isinstance(o, (Tensor, torch.Tensor)) and isinstance(g, torch.Tensor) for o, g in _pairs(golden_outputs, outputs))


def should_compare_scalar_outputs(golden_outputs: Any, outputs: Any) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (golden_outputs, outputs))


def compare_tensors_using_pcc(
    python_fully_qualified_name: str,
    golden_outputs: Any,
    outputs: Any,
    desired_pcc: float,
    level: str,
    fail_on_bad_comparison: bool,
    output_path: tuple[Any, ...] = (),
) -> list[dict[str, Any]]:
    """A record for every tensor that came out; one that correlates too little is logged, or raised."""
    records = []
    golden = dict(leaves(golden_outputs))
    for place, output in leaves(outputs):
        if place not in golden or not isinstance(output, (Tensor, torch.Tensor)):
            continue
        label = ".".join(map(str, (*output_path, *place)))
        record = compare(python_fully_qualified_name, golden[place], output, level, label, desired=desired_pcc, fail=fail_on_bad_comparison)
        ids = {"tensor_id": getattr(output, "tensor_id", -1), "golden_tensor_id": getattr(golden[place], "tensor_id", -1)}
        records.append(ids | record)
    return records


def compare_scalar_outputs(
    python_fully_qualified_name: str, golden_output: float, output: float, desired_pcc: float, level: str, fail_on_bad_comparison: bool
) -> bool:
    """Whether two numbers agree; they are too few to correlate, so they must be close."""
    record = compare(python_fully_qualified_name, golden_output, output, level, desired=desired_pcc, fail=fail_on_bad_comparison)
    return bool(record["matches"])
