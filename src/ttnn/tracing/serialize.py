"""Arguments and results as JSON data.

Everything becomes what JSON has: tensors become their description, configurations dictionaries, enums their names. Numbers that JSON does not have
(NaN and the infinities) become the strings "NaN", "Infinity" and "-Infinity", so that every file is valid JSON.

Two styles. "guide" is the format of the tracing guide; "tt-metal" writes the strings and keys of today's official library. Descriptions of tensors
are made once for each spec and reused, since a program meets few specs and many tensors. Values do not pass through Python objects: the data gets a
mark where values belong, and `text.pieces` puts the digits there as it writes.
"""

from __future__ import annotations

import json
import math
import uuid
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from tessera.formats.dtype import FORMATS
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.device import Device
from tessera.runtime.tensor import Tensor
from ttnn.config_serialization import compute_kernel_config_to_dict, memory_config_to_dict, program_config_to_dict

STYLES = ("guide", "tt-metal")
#: Stands in the text where the values of one tensor go.
MARK = f"values-{uuid.uuid4().hex}-"


#: Data as JSON on one line.
encode = json.JSONEncoder(allow_nan=False, default=str).encode


def number(value: float) -> float | str:
    """A float as JSON can say it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def numbers(values: Any) -> Any:
    """The same for nested lists."""
    if isinstance(values, list):
        return [numbers(v) for v in values]
    return number(values) if isinstance(values, float) else values


@lru_cache(maxsize=4096)
def _described(spec: TensorSpec, chips: tuple[int, ...] | None, mesh: tuple[int, ...], style: str) -> dict[str, Any]:
    """What is said of a tensor that is on one chip, replicated, or on the host, all but its values."""
    shape = list(spec.dims)
    there: dict[str, Any] = {"placements": ["PlacementReplicate"], "distribution_shape": [1]}
    if chips is not None:
        there |= {"shape": list(mesh), "device_ids": list(chips)}
    config = memory_config_to_dict(spec.memory_config)
    if style == "tt-metal":
        dtype = str(spec.dtype)
        return {
            "type": "ttnn.Tensor",
            "original_shape": shape,
            "original_dtype": dtype,
            "mesh_device": there,
            "shape": shape,
            "dtype": dtype,
            "layout": str(spec.layout),
            "storage_type": "StorageType.HOST" if chips is None else "StorageType.DEVICE",
            "memory_config": config,
        }
    dtype = spec.dtype.name.lower()
    return {
        "type": "ttnn.Tensor",
        "shape": shape,
        "dtype": dtype,
        "original_shape": shape,
        "original_dtype": dtype,
        "layout": spec.layout.name,
        "storage_type": "HOST_STORAGE" if chips is None else "DEVICE_STORAGE",
        "memory_config": config,
        "mesh_device": there,
    }


@lru_cache(maxsize=4096)
def _described_text(spec: TensorSpec, chips: tuple[int, ...] | None, mesh: tuple[int, ...], style: str) -> str:
    return encode(_described(spec, chips, mesh, style))


def describe_device(device: Device) -> dict[str, Any]:
    return {"type": "MeshDevice", "repr": str(device), "shape": list(device.mesh_shape), "device_ids": list(device.chips)}


def content(tensor: Tensor) -> torch.Tensor | None:
    """The values to write; None for a tensor that has none any more. A tensor with different parts on several chips answers them in a row,
    one chip after the other; of a mesh that spans processes, the chips of this one."""
    if not tensor.buffer.allocated:
        return None
    device = tensor.buffer.device
    parts = [tensor.part(i) for i in range(len(tensor.buffer.values)) if device is None or device.drives(i)]
    if not parts:
        return None
    if all(p is parts[0] or torch.equal(p, parts[0]) for p in parts[1:]):
        return parts[0]
    return torch.stack(parts)


def _plain(values: torch.Tensor) -> torch.Tensor:
    """Values on the CPU, of a kind that can be written."""
    values = values.detach().cpu()
    if values.is_complex():
        values = torch.view_as_real(values)
    if values.layout is not torch.strided:
        values = values.to_dense()
    if values.dtype in (torch.float16, torch.float8_e4m3fn, torch.float8_e5m2):
        values = values.float()
    return values.contiguous()


class Serializer:
    """Turns one operation's values into data, counting the tensors it meets and collecting those whose values are to be written."""

    def __init__(self, values: bool, style: str = "guide") -> None:
        if style not in STYLES:
            raise ValueError(f"operation_trace_style={style!r}: the styles are {', '.join(STYLES)}")
        self.values = values
        self.style = style
        self.tensors = 0
        #: In the order of their marks.
        self.contents: list[torch.Tensor] = []

    def data(self, value: Any) -> Any:
        kind = value.__class__
        if kind is Tensor:
            return self.tensor(value)
        if value is None or kind is str or kind is int or kind is bool:
            return value
        if kind is float:
            return number(value)
        if isinstance(value, (list, tuple)):
            return [self.data(v) for v in value]
        if isinstance(value, dict):
            return {str(k): self.data(v) for k, v in value.items()}
        if isinstance(value, Tensor):
            return self.tensor(value)
        if isinstance(value, torch.Tensor):
            return self.torch_tensor(value)
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, np.generic):
            return self.data(value.item())
        if isinstance(value, Enum):
            return {"type": kind.__name__, "repr": str(value)}
        return self.thing(value, kind.__name__)

    def text(self, value: Any) -> str:
        """The same as JSON on one line; tensors that differ in their values only are the same text."""
        if value.__class__ is Tensor and not self.values and value.topology is None:
            self.tensors += 1
            device = value.buffer.device
            if device is None:
                return _described_text(value.spec, None, (), self.style)
            return _described_text(value.spec, device.chips, tuple(device.mesh_shape), self.style)
        return encode(self.data(value))

    def thing(self, value: Any, name: str) -> Any:
        if isinstance(value, MemoryConfig):
            return memory_config_to_dict(value)
        if isinstance(value, Device):
            return describe_device(value)
        if name.endswith("ComputeKernelConfig"):
            return compute_kernel_config_to_dict(value)
        if name.endswith("ProgramConfig") and hasattr(value, "to_json"):
            return program_config_to_dict(value)
        own = type(value).__module__.split(".")[0] in ("ttnn", "tessera")
        return {"type": name, "repr" if hasattr(value, "__dict__") and not own else "value": str(value)}

    def tensor(self, tensor: Tensor) -> dict[str, Any]:
        self.tensors += 1
        device, topology = tensor.buffer.device, tensor.topology
        if device is None:
            data = _described(tensor.spec, None, (), self.style)
        else:
            data = _described(tensor.spec, device.chips, tuple(device.mesh_shape), self.style)
        if topology is not None:
            there = {
                **data["mesh_device"],
                "placements": [str(p).removesuffix("()") for p in topology.placements()],
                "distribution_shape": list(topology.distribution_shape()),
            }
            data = {**data, "mesh_device": there}
        if self.values:
            values = content(tensor)
            if values is not None:
                row = FORMATS[tensor.spec.dtype]
                return self._with_values(data, values, "float32" if row.is_float else tensor.spec.dtype.name.lower())
        return data

    def torch_tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        self.tensors += 1
        name = str(tensor.dtype)
        plain = name.removeprefix("torch.")
        data = {"type": "torch.Tensor", "shape": list(tensor.shape), "dtype": name if self.style == "tt-metal" else plain}
        return self._with_values(data, tensor, "float32" if plain == "bfloat16" else plain) if self.values else data

    def array(self, array: np.ndarray[Any, Any]) -> dict[str, Any]:
        data = {"type": "numpy.ndarray", "shape": list(array.shape), "dtype": array.dtype.name}
        if self.values and array.dtype.kind in "fiub":
            return self._with_values(data, torch.from_numpy(np.array(array)), array.dtype.name)
        return data

    def _with_values(self, data: dict[str, Any], values: torch.Tensor, dtype: str) -> dict[str, Any]:
        """The description with `values` after `dtype`; both now speak of what is written."""
        written = _plain(values)
        mark = f"{MARK}{len(self.contents)}-"
        self.contents.append(written)
        made: dict[str, Any] = {}
        for key, value in data.items():
            made[key] = value
            if key == "shape":
                made[key] = list(written.shape)
            elif key == "dtype":
                made[key] = dtype
                made["values"] = mark
        return made
