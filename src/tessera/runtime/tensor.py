"""The tensor: a spec and a buffer.

`ttnn.Tensor` is this class. What TT-NN's users see of it (constructors, operators, printing) is hung on it by `ttnn.tensor`;
here is only what the machine needs.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch

from tessera.runtime import hosts
from tessera.runtime.buffer import Buffer

if TYPE_CHECKING:
    from tessera.memory.mesh import TensorTopology
    from tessera.memory.spec import TensorSpec

_ids = itertools.count(0)
_new = object.__new__


class Tensor:
    """A view of a buffer through a spec. Several tensors may share one buffer."""

    __slots__ = ("__weakref__", "buffer", "spec", "tensor_id", "topology")

    spec: TensorSpec
    buffer: Buffer
    topology: TensorTopology | None

    tensor_id: int

    @classmethod
    def of(cls, spec: TensorSpec, buffer: Buffer, topology: TensorTopology | None = None) -> Tensor:
        """A tensor of what the machine has; `Tensor(...)` itself is the public constructor that `ttnn.tensor` gives."""
        made = _new(cls)
        made.spec = spec
        made.buffer = buffer
        made.topology = topology
        made.tensor_id = next(_ids)
        return made

    def part(self, index: int = 0) -> torch.Tensor:
        """The values of one part in this tensor's shape. A one-part tensor answers its part for every chip."""
        buffer = self.buffer
        if index >= len(buffer.values):
            index = 0
        values = buffer.part(index)
        if self.spec is buffer.spec or values.shape == self.spec.dims:
            return values
        return values.reshape(self.spec.dims)

    @property
    def values(self) -> torch.Tensor:
        return self.part(0)

    @property
    def parts(self) -> list[torch.Tensor]:
        """The values of every part. On a mesh that spans processes they travel: all of them must ask."""
        device = self.buffer.device
        if device is not None and device.mine is not None:
            return hosts.parts_of(self)
        return [self.part(i) for i in range(len(self.buffer.values))]

    def put(self, index: int, values: torch.Tensor) -> None:
        """Replace one part; `values` are on the grid and of this tensor's shape."""
        if self.spec is not self.buffer.spec:
            values = values.reshape(self.buffer.spec.dims)
        self.buffer.replace(index, values)

    def writable(self, index: int = 0) -> torch.Tensor:
        """One part for writing in place, in this tensor's shape."""
        values = self.buffer.writable(index if index < len(self.buffer.values) else 0)
        return values if self.spec is self.buffer.spec else values.view(self.spec.dims)

    @property
    def is_on_device(self) -> bool:
        return self.buffer.device is not None

    @classmethod
    def on_host(
        cls, spec: TensorSpec, parts: list[torch.Tensor], topology: TensorTopology | None = None, *, borrowed: bool = False
    ) -> Tensor:
        """A host tensor of values that are already on the grid of the spec's dtype."""
        return cls.of(spec, Buffer(spec, list(parts), borrowed=borrowed), topology)
