"""Trainable values of a PyBuda module."""

from __future__ import annotations

from typing import Any

import torch

from pybuda.tensor import Tensor, TensorBase, TensorShape, pytorch_dtype_to_buda_dataformat, to_pt_tensor
from tessera.graph.formats import DataFormat


class Parameter(TensorBase):
    """Made from a tensor, or from dimensions alone, to be filled with `set_value` before the module is compiled."""

    def __init__(self, *args: Any, requires_grad: bool = True, name: str | None = None, dev_data_format: DataFormat | None = None) -> None:
        self._value: torch.Tensor | None = None
        if len(args) == 1 and isinstance(args[0], (torch.Tensor, Tensor)):
            self._value = to_pt_tensor(args[0]).detach()
            dims: tuple[int, ...] = tuple(self._value.shape)
        elif len(args) == 1 and isinstance(args[0], (tuple, list, torch.Size)):
            dims = tuple(int(d) for d in args[0])
        elif all(isinstance(a, int) for a in args) and args:
            dims = tuple(args)
        else:
            raise RuntimeError("Parameter takes a tensor, or its dimensions as integers")
        self.shape = TensorShape(*dims)
        self.requires_grad = requires_grad
        self.name = name or ""
        self._format = dev_data_format
        self._given_format = dev_data_format is not None

    @classmethod
    def create_from_torch(cls, value: torch.Tensor) -> Parameter:
        return cls(value, requires_grad=value.requires_grad)

    @property
    def data_format(self) -> DataFormat:
        if self._format is not None:
            return self._format
        return pytorch_dtype_to_buda_dataformat(self.dtype)

    @property
    def dtype(self) -> torch.dtype:
        return self._value.dtype if self._value is not None else torch.float32

    @property
    def pt_data_format(self) -> torch.dtype:
        return self.dtype

    def has_value(self) -> bool:
        return self._value is not None

    def value(self) -> torch.Tensor:
        if self._value is None:
            raise RuntimeError(
                f"parameter {self.name or '(unnamed)'} of shape {list(self.shape)} has no value; call set_value on it, or set_parameter on its module"
            )
        return self._value

    def set_value(self, value: Any) -> None:
        tensor = to_pt_tensor(value).detach()
        if tuple(tensor.shape) != self.shape.dims:
            raise RuntimeError(f"parameter {self.name or '(unnamed)'} has shape {list(self.shape)}, the new value has {list(tensor.shape)}")
        self._value = tensor

    def get_name(self) -> str:
        return self.name

    def _set_auto_name(self, name: str) -> None:
        if not self.name:
            self.name = name

    def set_data_format(self, data_format: DataFormat) -> None:
        self._format = data_format
        self._given_format = True

    def set_requires_grad(self, requires_grad: bool) -> None:
        self.requires_grad = requires_grad

    def to_pytorch(self) -> torch.Tensor:
        return self.value()

    def __repr__(self) -> str:
        return f"Parameter {self.name or '(unnamed)'}: shape {list(self.shape)}, DataFormat.{self.data_format.name}" + (
            "" if self.has_value() else ", no value yet"
        )
