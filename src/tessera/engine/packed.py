"""An operand as the bytes that it is stored as, for computations that need no values: tiles of block floats as they are multiplied (1.06 or
0.56 bytes an element instead of two), or anything that came from a file and is only added up.

`launch` hands these to engine functions that can take them (`EngineFunction.images`); a native form works on the bytes in place, and the torch
form gets the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from tessera.formats.dtype import Format


class Packed:
    """One part of a tensor by its image. `bits` is 0, or the image is one matrix of block floats with that much magnitude beside the sign: 32x32
    tiles in row-major order, each 64 exponents and then the codes. `elements` are those of a tile, or 1 where there are none.
    """

    __slots__ = ("_image", "_values", "bits", "columns", "dims", "elements", "format", "lone", "rows")

    def __init__(
        self,
        dims: tuple[int, ...],
        format: Format,
        elements: int,
        bits: int,
        image: Callable[[], Tensor],
        values: Callable[[], Tensor],
        lone: Tensor | None = None,
    ) -> None:
        self.dims, self.format, self.elements, self.bits = dims, format, elements, bits
        self.rows, self.columns = dims[-2:] if len(dims) > 1 else (1, dims[0] if dims else 1)
        self._image, self._values = image, values
        self.lone = lone
        """The image where it is the only face that there is and nothing of it is padding."""

    @property
    def image(self) -> Tensor:
        return self._image()

    def values(self) -> Tensor:
        """The values face, in the tensor's own shape."""
        return self._values()


def unpacked(operand: Any) -> Any:
    return operand.values() if isinstance(operand, Packed) else operand
