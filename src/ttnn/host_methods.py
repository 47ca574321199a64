"""Methods of host tensors that speak of padding: `pad`, `unpad`, their tile forms, and `reshape`.

Padding is part of the bytes face only, so what pads builds those bytes. `reshape` on the host is a new view of the same
bytes, as with official TT-NN: for a TILE tensor whose last two dimensions change, other elements come to light than a
torch user would expect (`ttnn.reshape` moves the elements instead).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tessera.formats.arguments import refuse, uints
from tessera.formats.dtype import FORMATS, TILE_SIZE, DataType, Layout
from tessera.formats.packing import pack, unpack
from tessera.formats.shape import Shape
from tessera.memory.sharding import round_up
from tessera.memory.spec import TensorSpec
from tessera.runtime.buffer import Buffer
from tessera.runtime.tensor import Tensor


def image_of(tensor: Tensor, index: int) -> torch.Tensor:
    """The bytes of one part, as this tensor's own spec lays them out."""
    same = tensor.buffer.spec is tensor.spec
    return tensor.buffer.image(index) if same else pack(tensor.part(index), tensor.spec)


def _whole(spec: TensorSpec) -> TensorSpec:
    """The same bytes with the padding counted as content."""
    return TensorSpec.of(spec.padded_shape, spec.dtype, spec.layout, None, spec.tile)


def padded_values(tensor: Tensor, index: int = 0) -> torch.Tensor:
    """The values of one part with the padding around them."""
    return unpack(image_of(tensor, index), _whole(tensor.spec))


def with_padding(tensor: Tensor, value: float) -> Tensor:
    """The same tensor with `value` in the room that fills up its tiles. Padding is bytes that no operation reads; it shows where the whole tiles are
    asked for. The answer is a new object on the same buffer, so that a call which made it is not remembered as its launch alone."""
    spec, buffer = tensor.spec, tensor.buffer
    if spec.layout is not Layout.TILE or spec.padded_dims == spec.dims or (not value and buffer.images is None):
        return tensor
    made = {id(part): pack(part, spec, value) for part in tensor.parts}
    buffer.images = [made[id(part)] for part in tensor.parts]
    if FORMATS[spec.dtype].is_block:  # what pads a block shares its exponent
        buffer.values = [None] * len(buffer.values)
    return Tensor.of(spec, buffer, tensor.topology)


def _of_images(tensor: Tensor, spec: TensorSpec, images: list[torch.Tensor | None]) -> Tensor:
    return Tensor.of(spec, Buffer(spec, [None] * len(images), images=images), tensor.topology)


def _each(tensor: Tensor, compute: Callable[[int], torch.Tensor]) -> list[torch.Tensor | None]:
    return [compute(i) for i in range(len(tensor.buffer.values))]


def _require_host(tensor: Tensor, what: str) -> None:
    if tensor.buffer.device is not None:
        raise RuntimeError(f"{what}: the tensor must be on the host, got storage type StorageType::DEVICE; call .cpu() first")
    if tensor.spec.dtype is DataType.FP8_E4M3:
        raise RuntimeError(f"{what}: FP8_E4M3 is not supported, convert the tensor to bfloat16 first")


def pad(tensor: Tensor, output_tensor_shape: Any, input_tensor_start: Any, pad_value: float) -> Tensor:
    """Room around the content: the logical shape stays, the padded shape becomes `output_tensor_shape`."""
    _require_host(tensor, "pad")
    spec = tensor.spec
    target, start = Shape(output_tensor_shape).dims, uints("pad", "input_tensor_start", input_tensor_start)
    if spec.layout is not Layout.ROW_MAJOR:
        return tensor  # a tiled tensor is padded as its tiles are
    source = (1,) * (len(target) - len(spec.padded_dims)) + spec.padded_dims
    if len(target) != len(source) or len(start) != len(source) or any(s + d > t for s, d, t in zip(start, source, target)):
        raise RuntimeError(f"pad: output_tensor_shape={list(target)} does not hold {list(source)} from input_tensor_start={list(start)} on")
    made = spec.padded_to(target)

    def one(index: int) -> torch.Tensor:
        content = padded_values(tensor, index)
        room = torch.full(target, pad_value, dtype=content.dtype)
        room[tuple(slice(s, s + d) for s, d in zip(start, source))] = content.reshape(source)
        return pack(room, _whole(made))

    return _of_images(tensor, made, _each(tensor, one))


def unpad(tensor: Tensor, output_tensor_start: Any, output_tensor_end: Any) -> Tensor:
    """The part of a padded tensor from `output_tensor_start` to before `output_tensor_end`."""
    _require_host(tensor, "unpad")
    spec = tensor.spec
    if spec.layout is not Layout.ROW_MAJOR:
        raise RuntimeError(f"unpad: Tensor layout must be ROW_MAJOR for unpadding, got {spec.layout.cpp}")
    start, end = uints("unpad", "output_tensor_start", output_tensor_start), uints("unpad", "output_tensor_end", output_tensor_end)
    source = spec.padded_dims
    if len(start) != len(source) or len(end) != len(source) or any(not a <= b <= d for a, b, d in zip(start, end, source)):
        raise RuntimeError(f"unpad: from output_tensor_start={list(start)} to output_tensor_end={list(end)} does not lie in {list(source)}")
    made = TensorSpec.of(Shape.of(tuple(b - a for a, b in zip(start, end))), spec.dtype, spec.layout, None, spec.tile)
    box = tuple(slice(a, b) for a, b in zip(start, end))
    parts = _each(tensor, lambda i: padded_values(tensor, i)[box].contiguous())
    return Tensor.of(made, Buffer(made, parts), tensor.topology)


def pad_to_tile(tensor: Tensor, pad_value: float) -> Tensor:
    """Room up to whole 32x32 tiles; a vector lies in the first row of its tiles."""
    dims = (1,) * (2 - len(tensor.spec.padded_dims)) + tensor.spec.padded_dims
    target = dims[:-2] + tuple(round_up(d, TILE_SIZE) for d in dims[-2:])
    return pad(tensor, target, (0,) * len(dims), pad_value)


def unpad_from_tile(tensor: Tensor, output_tensor_shape: Any) -> Tensor:
    """A tensor of `output_tensor_shape` out of one padded to whole tiles."""
    _require_host(tensor, "unpad_from_tile")
    target, source = Shape(output_tensor_shape).dims, tensor.spec.padded_dims
    target = (1,) * (len(source) - len(target)) + target
    if tensor.spec.layout is not Layout.ROW_MAJOR:
        raise RuntimeError(f"unpad_from_tile: Tensor layout must be ROW_MAJOR for unpadding, got {tensor.spec.layout.cpp}")
    if any(d % TILE_SIZE for d in source[-2:]):
        raise RuntimeError(f"unpad_from_tile: Last 2 dims of input shape must be multiples of {TILE_SIZE}, got {list(source)}")
    if (
        len(target) != len(source)
        or target[:-2] != source[:-2]
        or any(not s - TILE_SIZE < t <= s for t, s in zip(target[-2:], source[-2:]))
    ):
        raise RuntimeError(f"unpad_from_tile: output_tensor_shape={list(target)} does not end in the last tiles of {list(source)}")
    return unpad(tensor, (0,) * len(source), target)


def cut(tensor: Tensor, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int], dropped: Sequence[int]) -> Tensor:
    """The box from `starts` up to `ends`, without the dimensions in `dropped`: what square brackets mean on the host."""
    _require_host(tensor, "unpad")
    spec = tensor.spec
    if any(s != 1 for s in steps):
        raise RuntimeError(
            f"a tensor on the host is indexed without strides, got steps={list(steps)}; use ttnn.to_torch or move it to a device"
        )
    if FORMATS[spec.dtype].is_block:
        raise RuntimeError(
            f"Only TILE layout is supported for {spec.dtype.name} dtype! A tensor on the host is cut as ROW_MAJOR; use ttnn.to_torch"
        )
    box = tuple(slice(a, b) for a, b in zip(starts, ends))
    made = spec.replace(shape=tuple(b - a for k, (a, b) in enumerate(zip(starts, ends)) if k not in dropped))
    parts = _each(tensor, lambda i: tensor.part(i)[box].reshape(made.dims).contiguous())
    return Tensor.of(made, Buffer(made, parts), tensor.topology)


def to_torch_with_padded_shape(tensor: Tensor) -> torch.Tensor:
    """The content with its padding, as torch has it."""
    _require_host(tensor, "to_torch_with_padded_shape")
    from ttnn.core import ttnn_dtype_to_torch_dtype

    return padded_values(tensor).to(ttnn_dtype_to_torch_dtype(tensor.spec.dtype))


def reshape(tensor: Tensor, *shapes: Any) -> Tensor:
    """Another shape for the same bytes on the host; `ttnn.reshape` on a device."""
    if len(shapes) == 4 and all(isinstance(d, int) for d in shapes):
        shapes = (list(shapes),)
    if len(shapes) != 1 or not isinstance(shapes[0], (list, tuple, Shape)):
        refuse("reshape", "arguments", shapes, "must be one sequence of integers, or four integers")
    import ttnn
    from ttnn.operations.reshaping import resolved_shape

    spec = tensor.spec
    if tensor.buffer.device is not None:
        moved: Tensor = ttnn.reshape(tensor, list(shapes[0]))
        return moved
    made = spec.replace(shape=resolved_shape("reshape", spec.volume, tuple(shapes[0])))
    if spec.padded_dims == spec.dims == made.dims or (spec.layout is Layout.ROW_MAJOR and spec.padded_dims == (spec.dims or (1,))):
        return Tensor.of(made, Buffer(made, _each(tensor, lambda i: tensor.part(i).reshape(made.dims))), tensor.topology)
    return _of_images(tensor, made, _each(tensor, lambda i: image_of(tensor, i)))


METHODS: dict[str, Callable[..., Any]] = {
    "pad": pad,
    "pad_to_tile": pad_to_tile,
    "reshape": reshape,
    "to_torch_with_padded_shape": to_torch_with_padded_shape,
    "unpad": unpad,
    "unpad_from_tile": unpad_from_tile,
}
