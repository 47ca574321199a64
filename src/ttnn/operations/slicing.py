"""Parts of a tensor: slice, and the square brackets that Python users write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import movement as engine
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn import host_methods
from ttnn.decorators import operation
from ttnn.operations.rules import like, require, require_device


def _golden_slice(
    input_tensor: torch.Tensor, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int] | None = None, **_: Any
) -> torch.Tensor:
    steps = steps or [1] * len(tuple(starts))
    return input_tensor[tuple(slice(a, b, s) for a, b, s in zip(starts, ends, steps))]


@operation("ttnn.slice", golden=_golden_slice, renames={"slice_start": "starts", "slice_end": "ends", "slice_step": "steps"})
def slice_(
    input_tensor: Tensor,
    starts: Any,
    ends: Any,
    steps: Sequence[int] | None = None,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    pad_value: float | None = None,
    slice_dim: int | None = None,
    num_devices: int | None = None,
    sub_core_grids: Any = None,
) -> Tensor:
    """The box from `starts` up to `ends`, every `steps`-th element."""
    require(input_tensor.buffer.device is not None, "slice: Device Operations expect device tensors as inputs, got one on the host")
    require_device("slice", input_tensor)
    spec = input_tensor.spec
    rank = len(spec.dims)
    if isinstance(starts, Tensor):
        require(
            slice_dim is not None and num_devices is not None,
            "slice: slice_dim and num_devices must be provided for device-only tensor args slice",
        )
        starts, ends = starts.values.tolist(), ends.values.tolist()
    begin, end = [int(v) for v in starts], [int(v) for v in ends]
    step = [1] * rank if steps is None else [int(v) for v in steps]
    require(len(begin) == rank, f"slice: Input rank {rank} and begins {len(begin)} must have the same size")
    require(
        len(end) == rank and len(step) == rank,
        f"slice: begins, ends and steps must have the same size, got {len(begin)}, {len(end)} and {len(step)}",
    )
    begin = [b + d if b < 0 else b for b, d in zip(begin, spec.dims)]
    end = [e + d if e < 0 else e for e, d in zip(end, spec.dims)]
    require(all(step), f"slice: steps={step} must not be zero")
    for b, e, d in zip(begin, end, spec.dims):
        require(e <= d, f"slice: Ends {e} must be less than or equal to the shape of the tensor {d}")
        require(0 <= b <= d, f"slice: start {b} lies outside a dimension of size {d}")
    if any(s < 0 for s in step):  # nothing lies ahead in that direction
        end = [b if s < 0 else e for b, e, s in zip(begin, end, step)]
        step = [abs(s) for s in step]
        backward = True
    else:
        backward = False
    strided = any(s != 1 for s in step)
    require(not strided or not FORMATS[spec.dtype].is_block, f"slice: Strided slice is not supported for BFLOAT8 tensors, got steps={step}")
    if math.prod(spec.dims) and not (backward and spec.layout == Layout.ROW_MAJOR):
        for b, e in zip(begin, end):
            require(e >= b, f"slice: End {e} must be greater than or equal to start {b}")
    dims = [max(0, -(-(e - b) // s)) for b, e, s in zip(begin, end, step)]
    place = memory_config
    if place is None and output_tensor is None and tuple(dims) == spec.dims and not strided:
        return input_tensor
    if output_tensor is not None:
        require(
            output_tensor.spec.padded_shape == like(input_tensor, shape=dims).padded_shape,
            f"slice: The preallocated output tensor needs a padded shape for {dims}, however it is {output_tensor.spec.padded_shape}",
        )
    out = output_tensor.spec if output_tensor is not None else like(input_tensor, shape=dims, memory_config=place)
    # Starts inside a tile and strides cannot be cut from tiles: untilize, cut, tilize.
    programs = 1
    if spec.layout == Layout.TILE:
        h, w = spec.tile.tile_shape
        rough = (rank < 2) or bool(begin[-1] % w or begin[-2] % h) or strided
        programs = 3 if rough else 1
        if rough and output_tensor is None and FORMATS[spec.dtype].is_block:
            out = out.replace(dtype=DataType.BFLOAT16)  # blocks do not survive being untilized
    if not math.prod(dims) and not backward:
        programs = 0
    attributes = {"starts": tuple(begin), "ends": tuple(end), "steps": tuple(step)}
    return launch("SliceDeviceOperation", engine.cut, [input_tensor], out, attributes=attributes, into=output_tensor, programs=programs)  # type: ignore[no-any-return]


def getitem(tensor: Tensor, index: Any) -> Any:
    """`tensor[...]`: a slice, then the dimensions that whole numbers chose are dropped."""
    import ttnn

    given = list(index) if isinstance(index, tuple) else [index]
    rank = len(tensor.spec.dims)
    if sum(1 for i in given if i is Ellipsis) > 1:
        raise IndexError("only one ellipsis ('...') may stand in an index")
    if Ellipsis not in [i for i in given if not isinstance(i, Tensor)]:
        given.append(Ellipsis)
    place = next(k for k, i in enumerate(given) if i is Ellipsis)
    missing = rank - (len(given) - 1)
    if missing < 0:
        raise IndexError(f"Too many indices for tensor of dimension {rank}")
    given[place : place + 1] = [slice(None)] * missing
    starts, ends, steps, dropped = [], [], [], []
    for dim, (i, size) in enumerate(zip(given, tensor.spec.dims)):
        if isinstance(i, slice):
            a, b, s = i.indices(size)
            if s < 0:
                raise ValueError(f"slice step must be positive, got {s} for dimension {dim}")
            starts.append(a)
            ends.append(max(a, b))
            steps.append(s)
        elif isinstance(i, int):
            found = i + size if i < 0 else i
            if not 0 <= found < size:
                raise IndexError(f"Index {i} (converted to {found}) is out of bounds for dimension {dim} of size {size}")
            starts.append(found)
            ends.append(found + 1)
            steps.append(1)
            dropped.append(dim)
        else:
            raise TypeError(f"a tensor is indexed with whole numbers, slices and ..., got {type(i).__name__}")
    if tensor.buffer.device is None and rank:
        return host_methods.cut(tensor, starts, ends, steps, dropped)
    plain = all(s == 1 for s in steps)
    cut = ttnn.slice(tensor, starts, ends) if plain else ttnn.slice(tensor, starts, ends, steps)
    if not dropped:
        return cut
    return ttnn.reshape(cut, [d for k, d in enumerate(cut.spec.dims) if k not in dropped])


# -- joining


def _golden_concat(tensors: Sequence[torch.Tensor], dim: int = 0, **_: Any) -> torch.Tensor:
    return torch.cat(list(tensors), dim)


@operation("ttnn.concat", golden=_golden_concat)
def concat(
    tensors: Sequence[Tensor],
    dim: int = 0,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    groups: int = 1,
    sub_core_grids: Any = None,
) -> Tensor:
    """Tensors one behind the other along a dimension."""
    if isinstance(tensors, Tensor):
        raise RuntimeError("concat: Device Operations expect device tensors as inputs; give a list of tensors")
    require(len(tensors) > 0, "ttnn.concat: expected a non-empty list of Tensors!")
    require_device("concat", *tensors[:8])
    require(output_tensor is None, "concat: optional output tensor currently unsupported! output_tensor must be None")
    first = tensors[0].spec
    rank = len(first.dims)
    require(-rank <= dim < rank, f"concat: Index is out of bounds for the rank, should be between 0 and {rank - 1} however dim is {dim}")
    along = dim % rank
    for t in tensors:
        require(
            len(t.spec.dims) == rank and all(a == b for k, (a, b) in enumerate(zip(first.dims, t.spec.dims)) if k != along),
            "concat: All dimensions must be the same size except for the dimension along which the contenation is taking place."
            f" Got {[tuple(t.spec.dims) for t in tensors]} along dim={dim}",
        )
        require(t.spec.dtype == first.dtype, f"concat: all tensors must have the same dtype, got {first.dtype} and {t.spec.dtype}")
        require(t.spec.layout == first.layout, f"concat: all tensors must have the same layout, got {first.layout} and {t.spec.layout}")
        require(t.spec.is_sharded == first.is_sharded, "concat: All tensors must be sharded or all must be interleaved")
    config = memory_config if memory_config is not None else MemoryConfig()
    if len(tensors) == 1:
        return (
            tensors[0]
            if config == first.memory_config
            else launch(
                "CopyDeviceOperation", engine.concat, list(tensors), like(tensors[0], memory_config=config), attributes={"dim": along}
            )
        )  # type: ignore[no-any-return]
    dims = list(first.dims)
    dims[along] = sum(t.spec.dims[along] for t in tensors)
    programs = 1
    if first.layout == Layout.TILE and along >= rank - 2 and first.dtype != DataType.FP8_E4M3:
        edge = first.tile.tile_shape[1 if along == rank - 1 else 0]
        if any(t.spec.dims[along] % edge for t in tensors[:-1]):
            programs = 2 + len(tensors)  # untilize each, join, tilize
    return launch(
        "ConcatDeviceOperation",
        engine.concat,
        list(tensors),
        like(tensors[0], shape=dims, memory_config=config),
        attributes={"dim": along},
        programs=programs,
    )  # type: ignore[no-any-return]
