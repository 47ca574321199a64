"""Tensor files as TT-NN's users know them: `dump_tensor`, `load_tensor`, `as_tensor` and its cache.

The format lives in `tessera.files`; here are the official names and the rules of the cache (guide, sections 2.3, 5.2 and 6).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from loguru import logger

from tessera.files import cache, overlapped, sharing, tensors
from tessera.files.container import check_name
from tessera.files.overlapped import OverlappedTensor
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import MemoryConfig
from tessera.memory.mesh import PlacementReplicate
from tessera.runtime import hosts
from tessera.runtime.device import Device
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.conversion import from_torch, to_device
from ttnn.operations.rules import require
from ttnn.tensor import require_readable
from ttnn.types import DumpTensorMode


def _is_local(mode: DumpTensorMode) -> bool:
    return mode is DumpTensorMode.LOCAL


@operation("ttnn.dump_tensor", planned=False)
def dump_tensor(file_name: str | Path, tensor: Tensor, *, mode: DumpTensorMode = DumpTensorMode.DISTRIBUTED_GATHER) -> None:
    """Write a tensor to a `.tensorbin`. Among several processes the parts are gathered and rank 0 writes them; with
    `DumpTensorMode.LOCAL` each process writes its own parts to a file of its own."""
    path = Path(file_name)
    check_name(path, tensors.EXTENSION)
    require_readable(tensor, "dump_tensor")
    if _is_local(mode) or hosts.size() == 1:
        tensors.dump(path, tensors.stored(tensor))
    else:
        sharing.dump(path, tensor)


def _golden_load(file_name: str | Path, **_: Any) -> torch.Tensor:
    from ttnn.operations.conversion import to_torch

    return to_torch.function(tensors.load(Path(file_name)))  # type: ignore[no-any-return]


@operation("ttnn.load_tensor", golden=_golden_load, planned=False)
def load_tensor(file_name: str | Path, *, device: Device | None = None) -> Tensor:
    """Map a `.tensorbin`: a host tensor, or one on `device` with the memory config that the file records."""
    if device is not None:
        device.require_open("load_tensor")
        require(device.trace is None, "Writes are not supported during trace capture. load_tensor was given a device that captures one")
    return tensors.load(Path(file_name), device)


def dump_tensor_flatbuffer(filename: str | Path, tensor: Tensor, mode: DumpTensorMode = DumpTensorMode.DISTRIBUTED_GATHER) -> None:
    """`dump_tensor` as official TT-NN's compiled module names it (`ttnn._ttnn.tensor`)."""
    dump_tensor(filename, tensor, mode=mode)


def load_tensor_flatbuffer(file_name: str | Path, device: Device | None = None) -> Tensor:
    """`load_tensor` as official TT-NN's compiled module names it (`ttnn._ttnn.tensor`)."""
    return load_tensor(file_name, device=device)


def _golden_as_tensor(tensor: torch.Tensor, dtype: DataType | None = None, *, preprocess: Any = None, **_: Any) -> torch.Tensor:
    return preprocess(tensor) if preprocess is not None else tensor


@operation("ttnn.as_tensor", golden=_golden_as_tensor, planned=False)
def as_tensor(
    tensor: torch.Tensor | None,
    dtype: DataType | None = None,
    *,
    layout: Layout | None = Layout.ROW_MAJOR,
    device: Device | None = None,
    memory_config: MemoryConfig | None = None,
    cache_file_name: str | Path | None = None,
    preprocess: Any = None,
    mesh_mapper: Any = None,
    cache_dump_mode: DumpTensorMode = DumpTensorMode.DISTRIBUTED_GATHER,
    cache_only: bool = False,
) -> Tensor:
    """A TT-NN tensor of a torch tensor, kept in a file when `cache_file_name` is given.

    A later call with the same name, dtype and layout takes the file and does not look at the input's values. `cache_only` demands that the
    file is there, so that the input may be None.
    """
    require(
        device is None or memory_config is not None,
        "memory_config must be specified when device is specified: as_tensor got device without it",
    )
    require(not cache_only or cache_file_name is not None, "cache_only=True needs cache_file_name: it demands a file that is there already")
    # A tensor that every chip holds whole is kept once and spread when it is loaded.
    everywhere = mesh_mapper is not None and all(isinstance(p, PlacementReplicate) for p in mesh_mapper.placements)
    mapper = None if everywhere else mesh_mapper

    def convert() -> Tensor:
        assert tensor is not None
        given = preprocess(tensor) if preprocess is not None else tensor
        return from_torch.function(given, dtype=dtype, layout=layout, mesh_mapper=mapper, memory_config=memory_config)  # type: ignore[no-any-return]

    def place(host: Tensor) -> Tensor:
        return host if device is None else to_device.function(host, device, memory_config=memory_config)  # type: ignore[no-any-return]

    if cache_file_name is None:
        _require_content(tensor, "as_tensor")
        return place(convert())

    entry = cache.Entry(
        str(cache_file_name),
        dtype,
        layout,
        memory_config,
        shape=_shape_of_parts(tensor, mapper) if preprocess is None else None,
        topology=None if mapper is None else mapper.topology(),
    )
    local = _is_local(cache_dump_mode)
    found = entry.find()
    if not local and hosts.size() > 1:
        found = sharing.all_or_none(found)
    if found is not None:
        logger.debug(f"Loaded cache for {entry.path} of shape {found.spec.shape}")
        return tensors.to_device(found, device, entry.path) if device is not None else tensors.host_tensor(found)
    if cache_only:
        raise RuntimeError(f"cache_only=True and there is no usable cache file {entry.path}: {entry.miss}")
    _require_content(tensor, f"as_tensor: cache file {entry.path} cannot be written ({entry.miss})")
    with entry.writing(shared=not local and hosts.size() > 1) as made_meanwhile:
        if made_meanwhile is not None:
            return tensors.to_device(made_meanwhile, device, entry.path) if device is not None else tensors.host_tensor(made_meanwhile)
        logger.debug(f"Generating cache for {entry.path}: {entry.miss}")
        host = convert()
        dump_tensor.function(entry.path, host, mode=cache_dump_mode)
    return place(host)


def dump_overlapped_tensors(file_name: str | Path, views: dict[str, OverlappedTensor]) -> None:
    """Write named views of one fused tensor, with the fused tensor, to an `.overlappedtensorbin`."""
    overlapped.dump(Path(file_name), views)


def load_overlapped_tensors(file_name: str | Path, device: Device | None = None) -> dict[str, OverlappedTensor]:
    """The named views of an `.overlappedtensorbin`; their fused tensor is mapped, or put on `device`."""
    return overlapped.load(Path(file_name), device)


def _require_content(tensor: torch.Tensor | None, what: str) -> None:
    """Refuse a placeholder: a tensor whose values do not exist."""
    require(tensor is not None, f"{what}: tensor=None has no content")
    assert tensor is not None
    kind = type(tensor).__name__
    require(not torch.nn.parameter.is_lazy(tensor), f"{what}: tensor is a {kind}, which is uninitialized; a placeholder has no content")
    require(
        tensor.device.type != "meta" and kind != "FakeTensor",
        f"{what}: tensor is a {kind} on {tensor.device}; a placeholder has no content",
    )
    if tensor.layout is torch.strided and tensor.numel():
        size = tensor.untyped_storage().size()
        require(size > 0, f"{what}: the storage of tensor was freed; a placeholder has no content")


def _shape_of_parts(tensor: torch.Tensor | None, mapper: Any) -> tuple[int, ...] | None:
    """The shape that each part will have, found without the tensor's values; None when there is nothing to compare with."""
    if tensor is None or torch.nn.parameter.is_lazy(tensor):
        return None
    if mapper is None:
        return tuple(tensor.shape)
    return tuple(mapper.cut(torch.empty(tensor.shape, dtype=torch.int8, device="meta"))[0].shape)
