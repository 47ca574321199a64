"""Files of tensors whose parts lie in several processes.

Each process describes its parts as if it wrote them alone. Rank 0 takes all descriptions, checks that they speak of one tensor, receives
the bytes and writes one file. Nothing is written before everything has arrived, so a rank that dies leaves no file behind, and
all ranks learn whether the writing went well.
"""

from __future__ import annotations

from pathlib import Path

import torch

from tessera.files import describe, tensors
from tessera.files.reading import read
from tessera.files.tensors import Stored
from tessera.files.writing import write
from tessera.memory.mesh import MeshCoordinate, MeshShape, TensorTopology
from tessera.runtime import hosts
from tessera.runtime.tensor import Tensor

_WHAT = "dump_tensor"


def _bytes(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def dump(path: Path, tensor: Tensor) -> None:
    """Write one file of a tensor that all ranks hold together. Every rank calls this, and returns when the file is there."""
    error: BaseException | None = None
    try:
        whole = gather(tensors.stored(tensor), 0)
        if whole is not None:
            tensors.dump(path, whole)
    except RuntimeError as caught:
        if "lost contact" in str(caught):
            raise
        error = caught
    hosts.agree(error, _WHAT)


def gather(mine: Stored, to: int | None) -> Stored | None:
    """All parts of a tensor, on rank `to` (on every rank without it); None on the others."""
    record, _ = tensors.tensor_record(mine)
    headers = [read(bytes(found[0].numpy())) for found in hosts.gather_tensors([_bytes(write(record))], None, _WHAT)]
    for rank, header in enumerate(headers):
        if header.tensor_spec != headers[0].tensor_spec:
            raise RuntimeError(
                f"{_WHAT}: rank {rank} holds another tensor than rank 0: {header.tensor_spec} is not {headers[0].tensor_spec}"
            )
    places = [tuple(s.mesh_coordinate.values for s in header.shards) for header in headers]
    if all(p == places[0] for p in places):  # every rank holds everything
        return mine if to is None or hosts.rank() == to else None
    if len({c for p in places for c in p}) != sum(map(len, places)):
        raise RuntimeError(f"{_WHAT}: ranks hold overlapping parts of the tensor: {places}")
    images = hosts.gather_tensors(mine.images, to, _WHAT)
    if to is not None and hosts.rank() != to:
        return None
    by_place = {place: image for p, found in zip(places, images) for place, image in zip(p, found)}
    ordered = sorted(by_place)
    mesh = MeshShape([max(h.mesh_shape.dimensions[axis] for h in headers) for axis in range(mine.mesh.dims())])
    coords = tuple(MeshCoordinate(list(place)) for place in ordered)
    topology = TensorTopology(mine.topology.shape, mine.topology.placed, coords)
    if topology.shape.mesh_size() != len(coords):
        topology = describe.replicated(coords) if _same(list(by_place.values())) else topology
    return Stored(mine.spec, mesh, topology, tuple(by_place[place] for place in ordered))


def _same(images: list[torch.Tensor]) -> bool:
    return all(torch.equal(images[0], image) for image in images[1:])


def all_or_none(found: Stored | None) -> Stored | None:
    """What was found, if every rank found something: ranks must take the same way."""
    return found if all(hosts.gather_ints(int(found is not None), "as_tensor")) else None
