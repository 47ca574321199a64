"""What a tensor holds and where: one part for each chip, each part with two faces of the same content.

*Values* is a row-major torch tensor of the logical shape; *image* is the physical bytes as the chip and a `.tensorbin` hold
them. Either face is made from the other when first asked for, and kept. Values are never changed in place by anyone but
`writable()`, so two buffers may share one values tensor until one of them writes.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

import torch

from tessera.formats.dtype import FORMATS
from tessera.formats.packing import pack, unpack

if TYPE_CHECKING:
    from tessera.memory.allocator import Allocation
    from tessera.memory.spec import TensorSpec
    from tessera.runtime.device import Device
    from tessera.runtime.launcher import PlainOwner as Owner
else:
    from tessera.runtime.launcher import Owner

_ids = itertools.count(1)


def require_whole(image: torch.Tensor) -> None:
    """Ask where an image is mapped from, if it is, whether all of it is still there."""
    source = getattr(image, "source", None)
    if source is not None:
        source.require_whole()


class Buffer(Owner):
    """The content of one or more tensors. `values[i]` and `images[i]` are the faces of part i; None until made."""

    __slots__ = ("__weakref__", "allocated", "allocation", "borrowed", "device", "images", "spec", "unique_id", "values")

    def __init__(
        self,
        spec: TensorSpec,
        values: list[torch.Tensor | None],
        *,
        device: Device | None = None,
        allocation: Allocation | None = None,
        images: list[torch.Tensor | None] | None = None,
        borrowed: bool = False,
    ) -> None:
        self.spec = spec
        self.values = values
        self.images = images
        self.device = device
        self.allocation = allocation
        self.allocated = True
        self.borrowed = borrowed  # the values are the user's own memory: copy before they go to a device
        self.unique_id = next(_ids)

    def part(self, index: int = 0) -> torch.Tensor:
        """The values face of one part, shaped as this buffer's own spec."""
        if not self.allocated:
            raise RuntimeError("Tensor is not allocated. Its buffer was deallocated; a deallocated tensor cannot be used")
        found = self.values[index]
        if found is None:
            image = self.images[index] if self.images is not None else None
            if image is None and self.device is not None and not self.device.drives(index):
                raise RuntimeError(
                    f"part {index} of this mesh tensor is on a chip of another process; this process drives {sorted(self.device.mine or ())}"
                )
            if image is None:  # allocated and never written: the software device answers zeros
                found = torch.zeros(self.spec.dims, dtype=FORMATS[self.spec.dtype].values)
            else:
                require_whole(image)
                found = unpack(image, self.spec)
            self.values[index] = found
        return found

    def lone_image(self, index: int = 0) -> torch.Tensor | None:
        """The bytes face of one part where it is the only face so far, for whoever can do without values."""
        if self.images is None or self.values[index] is not None or not self.allocated:
            return None
        image = self.images[index]
        if image is not None:
            require_whole(image)
        return image

    def image(self, index: int = 0) -> torch.Tensor:
        """The bytes face of one part."""
        if self.images is None:
            self.images = [None] * len(self.values)
        found = self.images[index]
        if found is None:
            found = self.images[index] = pack(self.part(index), self.spec)
        elif not self.allocated:
            raise RuntimeError("Tensor is not allocated. Its buffer was deallocated; a deallocated tensor cannot be used")
        return found

    @property
    def host_bytes(self) -> int:
        """What both faces of all parts take of the host's memory; parts that are one object count once."""
        faces = {id(face): face for face in (*self.values, *(self.images or ())) if face is not None}
        return sum(face.numel() * face.element_size() for face in faces.values())

    def copied_from_image(self, index: int, dtype: torch.dtype) -> torch.Tensor | None:
        """The values of one part in memory of the caller's own, in `dtype` or that of values, straight from the image where it is the only face;
        the values face is not made. What lies in a file as it is asked for is another private map of it, not a copy."""
        image = self.lone_image(index)
        if image is None:
            return None
        values = unpack(image, self.spec, dtype)
        if values.untyped_storage().data_ptr() != image.untyped_storage().data_ptr():
            return values
        source = getattr(image, "source", None)
        again = source.again() if source is not None else None
        return values.clone() if again is None else unpack(again, self.spec, dtype)

    def replace(self, index: int, values: torch.Tensor) -> None:
        """Give a part new content; other tensors on this buffer see it."""
        if not self.allocated:
            raise RuntimeError("Tensor is not allocated. Its buffer was deallocated; it cannot be written")
        self.values[index] = values
        if self.images is not None:
            self.images[index] = None

    def writable(self, index: int = 0) -> torch.Tensor:
        """The values of a part for writing in place: copied first if anyone else can see the same memory."""
        values = self.part(index)
        count = torch._C._storage_Use_Count(values.untyped_storage()._cdata)
        own = sum(other is values for other in self.values)  # chips that hold the same share one object
        # Of the storage, one reference is ours and one is `values`' own; of the object, one is the name here and one the count's argument.
        if self.borrowed or count > 2 or sys.getrefcount(values) > own + 2:
            values = values.clone()
            self.borrowed = False
        self.replace(index, values)
        return values

    def free(self) -> None:
        """Give the memory back; a second call does nothing."""
        if not self.allocated:
            return
        self.allocated = False
        self.values = [None] * len(self.values)
        self.images = None
        allocation, self.allocation = self.allocation, None
        if allocation is not None and self.device is not None:
            self.device.release(self, allocation)


class PartBuffer(Buffer):
    """One part of another buffer, as a buffer: what is written to either is seen in both, and they are freed together."""

    __slots__ = ("index", "whole")

    def __init__(self, whole: Buffer, index: int) -> None:
        # The base's own fields for room stay empty: the room is the whole's, which gives it back.
        self.spec, self.device, self.borrowed, self.unique_id = whole.spec, whole.device, whole.borrowed, whole.unique_id
        self.whole, self.index = whole, index

    @property
    def allocated(self) -> bool:  # type: ignore[override]
        return self.whole.allocated

    @property
    def allocation(self) -> Allocation | None:  # type: ignore[override]
        return self.whole.allocation

    @property
    def values(self) -> list[torch.Tensor | None]:  # type: ignore[override]
        return [self.whole.values[self.index]]

    @property
    def images(self) -> list[torch.Tensor | None] | None:  # type: ignore[override]
        images = self.whole.images
        return None if images is None else [images[self.index]]

    def part(self, index: int = 0) -> torch.Tensor:
        return self.whole.part(self.index)

    def image(self, index: int = 0) -> torch.Tensor:
        return self.whole.image(self.index)

    def lone_image(self, index: int = 0) -> torch.Tensor | None:
        return self.whole.lone_image(self.index)

    def copied_from_image(self, index: int, dtype: torch.dtype) -> torch.Tensor | None:
        return self.whole.copied_from_image(self.index, dtype)

    def replace(self, index: int, values: torch.Tensor) -> None:
        self.whole.replace(self.index, values)

    def writable(self, index: int = 0) -> torch.Tensor:
        # The chips of a replicated tensor share one object until one of them is written.
        whole, values = self.whole, self.whole.part(self.index)
        if sum(other is values for other in whole.values) > 1:
            values = values.clone()
            whole.replace(self.index, values)
            return values
        return whole.writable(self.index)

    def free(self) -> None:
        self.whole.free()
