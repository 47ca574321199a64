"""A tensor into a `.tensorbin` and out of it.

Writing lays down the bytes face of every distinct part; reading maps the file and gives each part its slice of the map as
its bytes face. No value is computed by either.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from tessera.files import describe, records
from tessera.files.container import Mapped, check_name, layout, open_file, save
from tessera.formats.dtype import FORMATS
from tessera.memory.mesh import SINGLE, MeshCoordinateRange, MeshShape, PlacementShard, TensorTopology
from tessera.memory.spec import TensorSpec
from tessera.runtime.buffer import Buffer
from tessera.runtime.device import Device
from tessera.runtime.tensor import Tensor

EXTENSION = ".tensorbin"


@dataclass(frozen=True)
class Stored:
    """What a file holds of a tensor: `images[i]` are the bytes of the part at `topology.coords[i]`; equal parts are one object."""

    spec: TensorSpec
    mesh: MeshShape
    topology: TensorTopology
    images: tuple[torch.Tensor, ...]


# -- writing


def distinct(images: Sequence[torch.Tensor], topology: TensorTopology) -> list[int]:
    """For each part the index of the first part with the same content, as far as that is known: one object, or parts that the topology
    calls replicas and that are equal."""
    count = len(images)
    keys: list[tuple[int, ...]] = [(i,) for i in range(count)]
    if topology.shape.mesh_size() == count:
        sharded = [isinstance(p, PlacementShard) for p in topology.placed]
        places = list(MeshCoordinateRange(topology.shape))
        keys = [tuple(c for c, is_sharded in zip(place, sharded) if is_sharded) for place in places]
    first_object: dict[int, int] = {}
    first_key: dict[tuple[int, ...], int] = {}
    found = []
    for i, image in enumerate(images):
        first = first_object.setdefault(id(image), i)
        if first == i:
            twin = first_key.setdefault(keys[i], i)
            if twin != i and torch.equal(images[twin], image):
                first = first_object[id(image)] = twin
        found.append(first)
    return found


def stored(tensor: Tensor) -> Stored:
    """What this process holds of a tensor: all of it, or its own parts when the mesh spans processes."""
    buffer, device = tensor.buffer, tensor.buffer.device
    if not buffer.allocated:
        raise RuntimeError("Tensor is not allocated. A deallocated tensor cannot be written to a file")
    count = len(buffer.values)
    topology = tensor.topology
    if count == 1:
        topology = SINGLE if topology is None or len(topology.coords) != 1 else topology
    elif topology is None or len(topology.coords) != count:
        mesh = device.mesh_shape if device is not None and device.mesh_shape.mesh_size() == count else MeshShape(1, count)
        topology = describe.replicated(tuple(MeshCoordinateRange(mesh)))
    if device is not None:
        mesh = device.mesh_shape
    else:
        mesh = MeshShape([max(axis) + 1 for axis in zip(*(tuple(c) for c in topology.coords))])
    mine = range(count)
    if device is not None and device.mine is not None and count > 1:
        mine = sorted(device.mine)  # type: ignore[assignment]
        topology = TensorTopology(topology.shape, topology.placed, tuple(topology.coords[i] for i in mine))
    return Stored(tensor.spec, mesh, topology, _images(tensor, mine))


def _images(tensor: Tensor, mine: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """The bytes of parts under the tensor's own spec; parts that are one object give one object."""
    buffer = tensor.buffer
    if tensor.spec is not buffer.spec and tensor.spec.dims != buffer.spec.dims:  # a view of other shape: its bytes are its own
        buffer = Tensor.on_host(tensor.spec, [tensor.part(i) for i in mine]).buffer
        mine = range(len(mine))
    made: dict[int, torch.Tensor] = {}
    images = []
    for i in mine:
        face = buffer.images[i] if buffer.images is not None else None
        key = id(face) if face is not None else id(buffer.part(i))
        if key not in made:
            made[key] = buffer.image(i)
        images.append(made[key])
    return tuple(images)


def tensor_record(found: Stored) -> tuple[records.Tensor, list[memoryview]]:
    """The header's record of a tensor, and the buffers of the data region."""
    first = distinct(found.images, found.topology)
    kept = [i for i in range(len(first)) if first[i] == i]
    buffers = [found.images[i].contiguous().numpy().data for i in kept]
    if any(b.nbytes == 0 for b in buffers):
        raise RuntimeError(f"Unexpected empty buffer during tensor serialization: shape {list(found.spec.dims)} has no elements")
    places = dict(zip(kept, layout([b.nbytes for b in buffers])))
    shards = tuple(
        records.TensorShard(records.InlineFileStorage(places[first[i]], found.images[i].numel()), describe.coordinate_record(place))
        for i, place in enumerate(found.topology.coords)
    )
    mesh = records.MeshShape(tuple(found.mesh))
    return records.Tensor(describe.spec_record(found.spec), mesh, shards, describe.topology_record(found.topology)), buffers


def dump(path: Path, found: Stored) -> None:
    record, buffers = tensor_record(found)
    save(path, record, buffers)


# -- reading


def _corrupt(file: Mapped, what: str) -> RuntimeError:
    return RuntimeError(
        f'Tensor file "{file.path}" is corrupt: {what}. Cannot validate tensor data; this most likely indicates data corruption.'
    )


def contents(file: Mapped, record: records.Tensor) -> Stored:
    """The tensor that a header describes, once every word of it agrees with the bytes that are there."""
    try:
        spec = describe.spec_of(record.tensor_spec, file.data.numel())
        mesh = describe.mesh_shape_of(record.mesh_shape)
        shards = record.shards or ()
        places = tuple(describe.place_of(s.mesh_coordinate, mesh) for s in shards)
        topology = describe.topology_of(record.tensor_topology, mesh, places, len(spec.dims))
    except RuntimeError as error:
        raise RuntimeError(f'Tensor file "{file.path}": {error}') from error
    if not shards:
        raise _corrupt(file, "it has no shards")
    if len(set(places)) != len(places):
        raise _corrupt(file, "two shards lie at one mesh coordinate")
    return Stored(spec, mesh, topology, _buffers(file, spec, shards))


def _buffers(file: Mapped, spec: TensorSpec, shards: Sequence[records.TensorShard]) -> tuple[torch.Tensor, ...]:
    made: dict[int, torch.Tensor] = {}
    expected = spec.image_size
    element = math.gcd(FORMATS[spec.dtype].element_size if not FORMATS[spec.dtype].is_block else 1, 8)
    images = []
    for i, shard in enumerate(shards):
        if shard.buffer is None:
            raise _corrupt(file, f"shard {i} has no buffer")
        offset, size = shard.buffer.offset, shard.buffer.size
        if size != expected:
            raise _corrupt(file, f"shard {i} has {size} bytes; shape {list(spec.dims)}, {spec.dtype}, {spec.layout} takes {expected}")
        if offset + size > file.data.numel():
            raise _corrupt(
                file, f"shard {i} lies at bytes {offset} to {offset + size} of a data region of {file.data.numel()}: the file is truncated"
            )
        if offset % element:
            raise _corrupt(file, f"shard {i} lies at byte {offset}, which is not a multiple of its elements' {element} bytes")
        if offset not in made:
            made[offset] = file.at(offset, size)
        images.append(made[offset])
    starts = sorted(made)
    for a, b in itertools.pairwise(starts):
        if a + expected > b:
            raise _corrupt(file, f"buffers overlap: one is at bytes {a} to {a + expected}, the next starts at {b}")
    return tuple(images)


def read(path: Path) -> Stored:
    """Map a `.tensorbin`."""
    check_name(path, EXTENSION)
    file = open_file(path)
    return contents(file, file.root)


def host_tensor(found: Stored) -> Tensor:
    topology = None if found.topology == SINGLE else found.topology
    return Tensor.of(found.spec, Buffer(found.spec, [None] * len(found.images), images=list(found.images)), topology)


def to_device(found: Stored, device: Device, path: Path) -> Tensor:
    """Put what a file holds on a device, in the file's memory config.

    One stored content goes to every chip. Several go to a mesh of the shape they were written for, each to its place; or, when they were dealt
    out along one line, to any mesh of as many chips, in row-major order.
    """
    device.require_open("load_tensor")
    images, topology = found.images, found.topology
    mesh, places = device.mesh_shape, tuple(device.coordinates())
    if tuple(mesh) == tuple(found.mesh) and len(images) == len(places):
        by_place = dict(zip(topology.coords, images))
        images = tuple(by_place[place] for place in places)
        topology = TensorTopology(topology.shape, topology.placed, places)
    elif len({id(image) for image in images}) == 1:
        images = (images[0],) * len(places)
        topology = describe.replicated(places) if len(places) > 1 else SINGLE
    elif len(images) == len(places) and sum(d > 1 for d in topology.shape) <= 1:
        topology = TensorTopology(topology.shape, topology.placed, places)
    else:
        raise RuntimeError(
            f"{path} holds {len(images)} shards for a mesh of shape {list(found.mesh)}, distributed over {list(topology.shape)}; they do not fit the "
            f"device's mesh of shape {list(mesh)}. Open a mesh of the file's shape, or load to the host and distribute again"
        )
    buffer = device.new_buffer(found.spec)
    buffer.images = [image if device.drives(i) else None for i, image in enumerate(images)]
    return Tensor.of(found.spec, buffer, None if topology == SINGLE else topology)


def load(path: Path, device: Device | None = None) -> Tensor:
    found = read(path)
    return host_tensor(found) if device is None else to_device(found, device, path)
