"""PyBuda's tensors: a value that is there (from torch), or one that a graph under construction will produce."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np
import torch
from loguru import logger

from tessera.graph.formats import FORMATS, OF_DTYPE, DataFormat, is_float, quantize

_REFUSED = {torch.uint8, torch.int16, torch.float64}
SomeTensor = Union["Tensor", torch.Tensor, np.ndarray]


def pytorch_dtype_to_buda_dataformat(dtype: torch.dtype, fp32_fallback: DataFormat | None = None) -> DataFormat:
    """The chip's format for a torch dtype. int64 becomes Int32: token ids and positions fit, and none is cut to eight bits."""
    if dtype in _REFUSED:
        raise RuntimeError(f"{dtype} has no format on the chip; convert the tensor to float32, bfloat16, int32 or int8 first")
    if dtype is torch.bool:
        return DataFormat.Bfp2_b
    if dtype is torch.float32 and fp32_fallback is not None:
        return fp32_fallback
    if dtype not in OF_DTYPE:
        raise RuntimeError(f"{dtype} has no format on the chip")
    return OF_DTYPE[dtype]


def buda_dataformat_to_pytorch_dtype(data_format: DataFormat) -> torch.dtype:
    if data_format not in FORMATS:
        raise RuntimeError(f"{data_format} has no torch dtype")
    return FORMATS[data_format].values


class TensorShape:
    """The last four dimensions by their names: columns, rows, z and w."""

    def __init__(self, *dims: int) -> None:
        self.dims = tuple(dims)

    def _at(self, place: int) -> int:
        return self.dims[-place] if len(self.dims) >= place else 1

    @property
    def c(self) -> int:
        return self._at(1)

    @property
    def r(self) -> int:
        return self._at(2)

    @property
    def z(self) -> int:
        return self._at(3)

    @property
    def w(self) -> int:
        return self._at(4)

    @property
    def ct(self) -> int:
        return -(-self.c // 32)

    @property
    def rt(self) -> int:
        return -(-self.r // 32)

    def get_pytorch_shape(self) -> tuple[int, ...]:
        return self.dims

    def __len__(self) -> int:
        return len(self.dims)

    def __getitem__(self, item: Any) -> Any:
        return self.dims[item]

    def __iter__(self) -> Any:
        return iter(self.dims)

    def __eq__(self, other: object) -> bool:
        return self.dims == (other.dims if isinstance(other, TensorShape) else tuple(other) if isinstance(other, (tuple, list)) else None)

    def __hash__(self) -> int:
        return hash(self.dims)

    def __repr__(self) -> str:
        return f"TensorShape{list(self.dims)}"


class TensorBase:
    """What a Tensor and a Parameter share: arithmetic that writes operations into the graph."""

    def _operation(self, op: str, other: Any, swap: bool = False) -> Tensor:
        import pybuda.op

        if isinstance(other, (int, float)):
            other = pybuda.op.Constant("", constant=float(other))
        pair = (other, self) if swap else (self, other)
        result: Tensor = getattr(pybuda.op, op)("", *pair)
        return result

    def __add__(self, other: Any) -> Tensor:
        return self._operation("Add", other)

    def __radd__(self, other: Any) -> Tensor:
        return self._operation("Add", other, swap=True)

    def __sub__(self, other: Any) -> Tensor:
        return self._operation("Subtract", other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._operation("Subtract", other, swap=True)

    def __mul__(self, other: Any) -> Tensor:
        return self._operation("Multiply", other)

    def __rmul__(self, other: Any) -> Tensor:
        return self._operation("Multiply", other, swap=True)


class Tensor(TensorBase):
    def __init__(
        self, shape: Sequence[int], dtype: torch.dtype, data_format: DataFormat, value: torch.Tensor | None = None, constant: bool = False
    ) -> None:
        self.shape = TensorShape(*shape)
        self.dtype = dtype
        self._data_format = data_format
        self._value = value
        self.constant = constant
        self.src_op: Any = None
        self._requires_grad = bool(value.requires_grad) if value is not None else False

    # making -----------------------------------------------------------------------------------------------------------

    @classmethod
    def create_from_torch(
        cls, torch_tensor: torch.Tensor, dev_data_format: DataFormat | None = None, constant: bool = False
    ) -> TensorFromPytorch:
        return TensorFromPytorch(torch_tensor, dev_data_format, constant)

    @classmethod
    def create_from_trace(cls, src_op: Any, shape: Sequence[int], data_format: DataFormat) -> TensorFromTrace:
        return TensorFromTrace(src_op, shape, data_format)

    @classmethod
    def create_from_tensor_descriptor(cls, descriptor: Any) -> TensorFromDescriptor:
        return TensorFromDescriptor(descriptor)

    # asking -----------------------------------------------------------------------------------------------------------

    @property
    def data_format(self) -> DataFormat:
        return self._data_format

    @property
    def pt_data_format(self) -> torch.dtype:
        return self.dtype

    @property
    def requires_grad(self) -> bool:
        return self._requires_grad

    def set_requires_grad(self, requires_grad: bool) -> None:
        self._requires_grad = requires_grad
        if self._value is not None and self._value.is_floating_point() and self._value.is_leaf:
            self._value.requires_grad_(requires_grad)

    def has_value(self) -> bool:
        return self._value is not None

    def value(self) -> torch.Tensor:
        if self._value is None:
            raise RuntimeError(
                "this tensor is part of a graph under construction and has no value yet; run the graph, or give the module inputs with values"
            )
        return self._value

    def to_format(self, data_format: DataFormat) -> Tensor:
        """The same tensor in another format, its values rounded to it."""
        if self._value is None:
            twin = Tensor(self.shape.dims, self.dtype, data_format)
            twin.src_op = self.src_op
            return twin
        value = quantize(self._value, data_format) if is_float(data_format) else self._value.to(FORMATS[data_format].values)
        return TensorFromPytorch(value, data_format, self.constant)

    def clone(self) -> Tensor:
        if self._value is None:
            return self.to_format(self._data_format)
        return TensorFromPytorch(self._value.clone(), self._data_format, self.constant)

    def detach(self) -> Tensor:
        return self if self._value is None else TensorFromPytorch(self._value.detach(), self._data_format, self.constant)

    # leaving ----------------------------------------------------------------------------------------------------------

    def to_pytorch(self) -> torch.Tensor:
        return self.value()

    def to_tensorflow(self) -> Any:
        try:
            import tensorflow as tf  # type: ignore[import-untyped, import-not-found, unused-ignore]
        except ImportError as error:
            raise RuntimeError("to_tensorflow needs TensorFlow; install the `tf` extra, or use to_pytorch()") from error
        value = self.value().detach()
        return (
            tf.cast(tf.convert_to_tensor(value.float().numpy()), tf.bfloat16)
            if value.dtype is torch.bfloat16
            else tf.convert_to_tensor(value.numpy())
        )

    def to_jax(self) -> Any:
        try:
            import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise RuntimeError("to_jax needs JAX; install the `jax` extra, or use to_pytorch()") from error
        value = self.value().detach()
        return jnp.asarray(value.float().numpy(), dtype=jnp.bfloat16) if value.dtype is torch.bfloat16 else jnp.asarray(value.numpy())

    def to_framework(self, framework: str) -> Any:
        ways = {"pytorch": self.to_pytorch, "tensorflow": self.to_tensorflow, "jax": self.to_jax}
        if framework not in ways:
            raise RuntimeError(f"framework={framework!r} is unknown; it is one of {', '.join(ways)}")
        return ways[framework]()

    def __repr__(self) -> str:
        what = f"{self._value}" if self._value is not None else "no value yet"
        return f"PyBuda Tensor: {what}, shape {list(self.shape)}, DataFormat.{self._data_format.name}"


class TensorFromPytorch(Tensor):
    def __init__(self, torch_tensor: torch.Tensor, dev_data_format: DataFormat | None = None, constant: bool = False) -> None:
        data_format = dev_data_format if dev_data_format is not None else pytorch_dtype_to_buda_dataformat(torch_tensor.dtype)
        super().__init__(torch_tensor.shape, torch_tensor.dtype, data_format, torch_tensor, constant)


class TensorFromTrace(Tensor):
    def __init__(self, src_op: Any, shape: Sequence[int], data_format: DataFormat, dtype: torch.dtype | None = None) -> None:
        super().__init__(tuple(shape), dtype or buda_dataformat_to_pytorch_dtype(data_format), data_format)
        self.src_op = src_op


class TensorFromDescriptor(Tensor):
    """A tensor known by shape and format only."""

    def __init__(self, descriptor: Any) -> None:
        super().__init__(tuple(descriptor.shape), buda_dataformat_to_pytorch_dtype(descriptor.format), descriptor.format)
        self.descriptor = descriptor


def to_pt_tensor(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, Tensor):
        return value.value()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if hasattr(value, "numpy"):
        return torch.from_numpy(np.asarray(value.numpy()))
    if isinstance(value, (int, float, bool)):
        return torch.tensor(value)
    raise RuntimeError(f"a {type(value).__name__} cannot go into a device; push torch tensors, pybuda tensors or numpy arrays")


def to_pt_tensors(values: Any) -> tuple[Any, ...]:
    """Nested lists, tuples and dicts of tensors, flattened; None stays None."""
    if isinstance(values, Mapping):
        values = list(values.values())
    if not isinstance(values, (list, tuple)):
        values = [values]
    out: list[Any] = []
    for value in values:
        if value is None:
            out.append(None)
        elif isinstance(value, (list, tuple, Mapping)):
            out.extend(to_pt_tensors(value))
        else:
            if type(value).__module__.startswith("transformers") and "Cache" in type(value).__name__:
                raise RuntimeError(
                    f"{type(value).__name__} is a cache object, not a tensor; pass its tensors (legacy tuples) or switch the cache off"
                )
            out.append(to_pt_tensor(value))
    return tuple(out)


def to_buda_tensors(values: Any) -> tuple[Tensor, ...]:
    return tuple(v if isinstance(v, Tensor) else TensorFromPytorch(v) for v in to_pt_tensors(values) if v is not None)


SAID: set[str] = set()  # what `warn_once` has said in this process


def warn_once(message: str) -> None:
    if message not in SAID:
        SAID.add(message)
        logger.warning(message)
