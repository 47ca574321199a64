"""A matrix as the tiles of block floats that it is stored as: 1.06 or 0.56 bytes an element instead of two.

`launch` hands these to engine functions that can take them (`EngineFunction.images`); a native form works on the tiles in place, and the torch
form gets the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor


class Packed:
    """The image of one part: 32x32 tiles in row-major order, each 64 exponents and then the codes. `bits` of magnitude beside the sign."""

    __slots__ = ("_values", "bits", "columns", "image", "rows")

    def __init__(self, image: Tensor, rows: int, columns: int, bits: int, values: Callable[[], Tensor]) -> None:
        self.image, self.rows, self.columns, self.bits = image, rows, columns, bits
        self._values = values

    def values(self) -> Tensor:
        """The values face, in the tensor's own shape."""
        return self._values()


def unpacked(operand: Any) -> Any:
    return operand.values() if isinstance(operand, Packed) else operand
