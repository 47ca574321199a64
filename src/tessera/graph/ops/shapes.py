"""Tensor manipulations: nothing here computes; values are moved, repeated, cut and joined. PyBuda calls them TMs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tessera.graph.ops.table import Adapter, register_aten, row

# views ------------------------------------------------------------------------------------------------------------------


def reshape(self: Tensor, shape: Sequence[int]) -> Tensor:
    return torch.reshape(self, tuple(shape))


def expand(self: Tensor, size: Sequence[int]) -> Tensor:
    return self.expand(tuple(size))


def squeeze(self: Tensor, dim: Any = None) -> Tensor:
    return torch.squeeze(self) if dim is None else torch.squeeze(self, tuple(dim) if isinstance(dim, list) else dim)


def index(self: Tensor, dim: int = 0, start: int | None = None, stop: int | None = None, stride: int = 1) -> Tensor:
    """A slice of one dimension; PyBuda's `Index` and torch's `slice`."""
    where: list[slice] = [slice(None)] * self.dim()
    where[dim] = slice(start, stop, stride)
    return self[tuple(where)]


def _slice(inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    stop = attrs.get("end")
    return inputs, {
        "dim": attrs.get("dim", 0),
        "start": attrs.get("start") or 0,
        "stop": None if stop is None or stop >= 2**62 else stop,
        "stride": attrs.get("step", 1),
    }


def _size(inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return inputs[:1], {"shape": list(attrs["size"] if "size" in attrs else attrs["shape"])}


row("reshape", reshape, "tm", "view", "reshape", "_unsafe_view", adapt=_size)
row("transpose", torch.transpose, "tm", "transpose.int")
register_aten("transpose", ("t", "numpy_T"), lambda i, a: (i, {"dim0": 0, "dim1": 1}))
register_aten("transpose", ("mT", "adjoint"), lambda i, a: (i, {"dim0": -2, "dim1": -1}))
row("permute", torch.permute, "tm", "permute")
row("unsqueeze", torch.unsqueeze, "tm", "unsqueeze")
row("squeeze", squeeze, "tm", "squeeze", "squeeze.dim", "squeeze.dims")
row("expand", expand, "tm", "expand", "broadcast_to", adapt=lambda i, a: (i, {"size": list(a["size"])}), buda="broadcast")
row("index", index, "tm", "slice.Tensor", adapt=_slice)
row("narrow", torch.narrow, "tm", "narrow", buda="index")
row("select_int", torch.select, "tm", "select.int", buda="select")
row("flatten", torch.flatten, "tm", "flatten.using_ints", buda="reshape")
row("unflatten", torch.unflatten, "tm", "unflatten.int", buda="reshape")
row("diagonal", torch.diagonal, "tm", "diagonal")
row("movedim", torch.movedim, "tm", "movedim.intlist", "movedim.int", buda="transpose")
row("unfold_dim", lambda self, dimension, size, step: self.unfold(dimension, size, step), "tm", "unfold")

# cutting and joining -----------------------------------------------------------------------------------------------------


def concatenate(*operands: Tensor, dim: int = 0) -> Tensor:
    return torch.cat(operands, dim)


def stack(*operands: Tensor, dim: int = 0) -> Tensor:
    return torch.stack(operands, dim)


def interleave(*operands: Tensor, dim: int, stride: int = 1) -> Tensor:
    """`stride` slices of each operand in turn, along `dim`."""
    dim %= operands[0].dim()
    parts = [o.unflatten(dim, (-1, stride)) for o in operands]
    return torch.stack(parts, dim + 1).flatten(dim, dim + 2)


row("concatenate", concatenate, "join", "cat", "concat")
row("stack", stack, "join", "stack")
row("interleave", interleave, "join")
row("split", torch.split, "split", "split.Tensor", many=True)
row("split_sizes", lambda self, split_sizes, dim=0: torch.split(self, split_sizes, dim), "split", "split_with_sizes", many=True)
row("chunk", torch.chunk, "split", "chunk", many=True)
row("unbind", torch.unbind, "split", "unbind.int", many=True)


def hslice(self: Tensor, slices: int) -> Tensor:
    """Columns cut into `slices` parts, stacked along the third-last dimension."""
    *batch, rows, columns = self.shape if self.dim() > 2 else (1, *self.shape)
    cut = self.reshape(*batch, rows, slices, columns // slices).transpose(-2, -3)
    return cut.reshape(*batch[:-1], batch[-1] * slices, rows, columns // slices)


def hstack(self: Tensor, slices: int = -1) -> Tensor:
    *batch, rows, columns = self.shape
    count = batch[-1] if slices == -1 else slices
    joined = self.reshape(*batch[:-1], batch[-1] // count, count, rows, columns).transpose(-2, -3)
    return joined.reshape(*batch[:-1], batch[-1] // count, rows, count * columns)


def vslice(self: Tensor, slices: int) -> Tensor:
    *batch, rows, columns = self.shape if self.dim() > 2 else (1, *self.shape)
    return self.reshape(*batch[:-1], batch[-1] * slices, rows // slices, columns)


def vstack(self: Tensor, slices: int = -1) -> Tensor:
    *batch, rows, columns = self.shape
    count = batch[-1] if slices == -1 else slices
    return self.reshape(*batch[:-1], batch[-1] // count, rows * count, columns)


def select(self: Tensor, dim: int, index: tuple[int, int], stride: int = 0) -> Tensor:
    """`index[1]` elements from `index[0]` on, again every `stride` elements."""
    begin, length = index
    size = self.shape[dim]
    step = stride or size
    keep = [i for start in range(begin, size, step) for i in range(start, min(start + length, size))]
    return self.index_select(dim, torch.tensor(keep, device=self.device))


def pad(self: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None, channel_last: bool = False) -> Tensor:
    if channel_last:
        return F.pad(self.movedim(-1, -3), list(pad), mode, value).movedim(-3, -1)
    if mode == "constant" or self.dim() > len(pad) // 2 + 2 or self.dim() <= len(pad) // 2:
        if mode != "constant" and self.dim() <= len(pad) // 2:
            return F.pad(self[None], list(pad), mode, value)[0]
    return F.pad(self, list(pad), mode, value)


def pad_tile(self: Tensor, dim: int, original_length: int) -> Tensor:
    """Zeros up to the next multiple of 32 along `dim`."""
    short = -self.shape[dim] % 32
    amounts = [0, 0] * (-dim if dim < 0 else self.dim() - dim)
    amounts[-1] = short
    return F.pad(self, amounts)


def broadcast(self: Tensor, dim: int, shape: int) -> Tensor:
    size = list(self.shape)
    size[dim] = shape
    return self.expand(size)


def repeat(self: Tensor, repeats: Sequence[int]) -> Tensor:
    return self.repeat(*repeats)


def narrow_to(self: Tensor, dim: int, start: int, length: int, original_length: int) -> Tensor:
    return torch.narrow(self, dim, start, length)


def buda_pad(self: Tensor, paddings: tuple[int, int], value: float) -> Tensor:
    """`paddings` more tiles of rows and columns."""
    rows, columns = (-self.shape[-2] % 32 + paddings[0] * 32, -self.shape[-1] % 32 + paddings[1] * 32)
    return F.pad(self, [0, columns, 0, rows], value=value)


def buda_unpad(self: Tensor, original_length: Sequence[int], paddings: Sequence[int]) -> Tensor:
    return self[..., : original_length[0], : original_length[1]]


row("hslice", hslice, "tm")
row("hstack", hstack, "tm")
row("vslice", vslice, "tm")
row("vstack", vstack, "tm")
row("select", select, "tm")
row("pad", pad, "pad", "pad", "constant_pad_nd")
row("pad_tile", pad_tile, "pad")
row("broadcast", broadcast, "tm")
row("repeat", repeat, "tm", "repeat")
register_aten("repeat", ("tile",), lambda i, a: (i, {"repeats": a["dims"]}))
row("narrow_to", narrow_to, "tm", buda="index")
row("pixel_shuffle", torch.pixel_shuffle, "tm", "pixel_shuffle")
row("pixel_unshuffle", torch.pixel_unshuffle, "tm", "pixel_unshuffle")
row("buda_pad", buda_pad, "pad")
row("buda_unpad", buda_unpad, "tm")
row("repeat_interleave", torch.repeat_interleave, "tm", "repeat_interleave.self_int", buda="repeat")
row("flip", torch.flip, "tm", "flip")
row("roll", torch.roll, "tm", "roll")
row("tilize", lambda self: self, "nop", buda="tilizer")
row("tril", torch.tril, "mask", "tril")
row("triu", torch.triu, "mask", "triu")

# by index ----------------------------------------------------------------------------------------------------------------


def adv_index(self: Tensor, indices: Tensor, dim: int = 0) -> Tensor:
    picked = torch.index_select(self, dim, indices.reshape(-1).long())
    return picked if indices.dim() <= 1 else picked.unflatten(dim, indices.shape)


def index_tensors(self: Tensor, *indices: Tensor, places: Sequence[int]) -> Tensor:
    """torch's indexing by tensors; `places` says which dimension each one indexes, the others stay whole."""
    full: list[Any] = [slice(None)] * self.dim()
    for place, one in zip(places, indices):
        full[place] = one
    return self[tuple(full[: max(places) + 1])] if places else self


def index_copy(self: Tensor, index: Tensor, value: Tensor, dim: int) -> Tensor:
    return torch.index_copy(self, dim, index.reshape(-1).long(), value.to(self.dtype))


def embedding(table: Tensor, indices: Tensor, **_: Any) -> Tensor:
    return F.embedding(indices.long() if indices.is_floating_point() else indices, table)


def gather(self: Tensor, index: Tensor, dim: int) -> Tensor:
    return torch.gather(self, dim, index)


def scatter(self: Tensor, index: Tensor, *src: Tensor, dim: int, value: Any = None) -> Tensor:
    return torch.scatter(self, dim, index, src[0] if src else value)


def scatter_add(self: Tensor, index: Tensor, src: Tensor, dim: int) -> Tensor:
    return torch.scatter_add(self, dim, index, src)


def slice_scatter(self: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    return torch.slice_scatter(self, src, dim, start, end, step)


def index_put(self: Tensor, *rest: Tensor, places: Sequence[int], accumulate: bool = False) -> Tensor:
    *indices, values = rest
    full: list[Tensor | None] = [None] * (max(places) + 1)
    for place, one in zip(places, indices):
        full[place] = one
    return torch.ops.aten.index_put(self, full, values, accumulate)


def index_add(self: Tensor, index: Tensor, source: Tensor, dim: int) -> Tensor:
    return torch.index_add(self, dim, index, source)


def _no_extras(inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return inputs, {}


row("adv_index", adv_index, "gather", "index_select", adapt=lambda i, a: (i, {"dim": a["dim"]}))
row("index_tensors", index_tensors, "gather", "index.Tensor", buda="adv_index")
row("index_copy", index_copy, "gather", "index_copy", adapt=lambda i, a: (i, {"dim": a["dim"]}))
row("embedding", embedding, "gather", "embedding", adapt=_no_extras)
row("gather", gather, "gather", "gather", adapt=lambda i, a: (i, {"dim": a["dim"]}))
row("scatter", scatter, "gather", "scatter.src", "scatter.value")
row("scatter_add", scatter_add, "gather", "scatter_add")
row("slice_scatter", slice_scatter, "gather", "slice_scatter")
row("select_scatter", lambda self, src, dim, index: torch.select_scatter(self, src, dim, index), "gather", "select_scatter")
row("index_put", index_put, "gather", "index_put")
row("index_add", index_add, "gather", "index_add", adapt=lambda i, a: (i, {"dim": a["dim"]}))
row("one_hot", lambda self, num_classes: F.one_hot(self, num_classes), "gather", "one_hot")
row("copy", lambda self, src: src.to(self.dtype).expand(self.shape), "tm", "copy", buda="nop")

# made from nothing: folded into constants before anything runs -------------------------------------------------------------


def full(size: Sequence[int] = (), fill_value: Any = 0.0, dtype: torch.dtype | None = None) -> Tensor:
    return torch.full(tuple(size), fill_value, dtype=dtype)


def arange(end: float, start: float = 0, step: float = 1, dtype: torch.dtype | None = None) -> Tensor:
    return torch.arange(start, end, step, dtype=dtype)


def full_like(self: Tensor, fill_value: Any = 0.0, dtype: torch.dtype | None = None) -> Tensor:
    return torch.full_like(self, fill_value, dtype=dtype)


def new_full(self: Tensor, size: Sequence[int], fill_value: Any = 0.0, dtype: torch.dtype | None = None) -> Tensor:
    return torch.full(tuple(size), fill_value, dtype=dtype or self.dtype, device=self.device)


def _only(*names: str, **fixed: Any) -> Adapter:
    def adapt(inputs: list[Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        return inputs, {**{n: attrs[n] for n in names if attrs.get(n) is not None}, **fixed}

    return adapt


row("full", full, "make", "full", "empty.memory_format", adapt=_only("size", "fill_value", "dtype"))
register_aten("full", ("zeros",), _only("size", "dtype", fill_value=0.0))
register_aten("full", ("ones",), _only("size", "dtype", fill_value=1.0))
register_aten("full", ("scalar_tensor",), lambda i, a: (i, {"size": (), "fill_value": a["s"], "dtype": a.get("dtype")}))
row("arange", arange, "make", "arange", "arange.start", "arange.start_step", adapt=_only("end", "start", "step", "dtype"))
row("full_like", full_like, "make", "full_like", "empty_like", adapt=_only("fill_value", "dtype"))
register_aten("full_like", ("zeros_like",), _only("dtype", fill_value=0.0))
register_aten("full_like", ("ones_like",), _only("dtype", fill_value=1.0))
row("new_full", new_full, "make", "new_full", "new_empty", adapt=_only("size", "fill_value", "dtype"))
register_aten("new_full", ("new_zeros",), _only("size", "dtype", fill_value=0.0))
register_aten("new_full", ("new_ones",), _only("size", "dtype", fill_value=1.0))
row(
    "eye",
    lambda n, m=None, dtype=None: torch.eye(n, m if m is not None else n, dtype=dtype),
    "make",
    "eye",
    "eye.m",
    adapt=_only("n", "m", "dtype"),
)
row("linspace", torch.linspace, "make", "linspace", adapt=_only("start", "end", "steps", "dtype"))


def fill(self: Tensor, *number: Tensor, value: Any = None) -> Tensor:
    return number[0].to(self.dtype).expand(self.shape) if number else torch.full_like(self, value)


row("fill", fill, "gather", "fill.Scalar", "fill.Tensor", buda="nop")
