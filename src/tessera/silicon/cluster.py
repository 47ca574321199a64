"""How the chips of a board are joined: which chip lies where in the mesh, and the Ethernet links between neighbours.

A cluster is only arithmetic on `Board.mesh_shape`: chips are numbered row by row, and a torus also joins the ends of each row and column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tessera.silicon.board import Board

__all__ = ["Cluster", "Link"]


@dataclass(frozen=True)
class Link:
    """A bundle of equal Ethernet lanes between two chips."""

    first: int
    second: int
    lanes: int
    bytes_per_second: float
    """Per direction, all lanes together."""


@dataclass(frozen=True)
class Cluster:
    board: Board

    @property
    def shape(self) -> tuple[int, int]:
        return self.board.mesh_shape

    def __len__(self) -> int:
        return self.board.num_chips

    def coordinate(self, chip: int) -> tuple[int, int]:
        """(row, column) of a chip in the mesh."""
        if not 0 <= chip < len(self):
            raise ValueError(f"chip={chip}: {self.board.name} has chips 0 to {len(self) - 1}")
        return divmod(chip, self.shape[1])

    def chip(self, row: int, column: int) -> int:
        rows, columns = self.shape
        if not (0 <= row < rows and 0 <= column < columns):
            raise ValueError(f"mesh coordinate ({row}, {column}) is outside the {rows}x{columns} mesh of {self.board.name}")
        return row * columns + column

    def _joined(self) -> Iterator[tuple[int, int]]:
        rows, columns = self.shape
        for chip in range(len(self)):
            row, column = self.coordinate(chip)
            for r, c in ((row, column + 1), (row + 1, column)):
                if r < rows and c < columns:
                    yield chip, self.chip(r, c)
            if self.board.torus and columns > 2 and column == columns - 1:
                yield self.chip(row, 0), chip
            if self.board.torus and rows > 2 and row == rows - 1:
                yield self.chip(0, column), chip

    @cached_property
    def links(self) -> tuple[Link, ...]:
        lanes = self.board.links_between_neighbours
        rate = lanes * self.board.chip.ethernet.bytes_per_second
        return tuple(Link(a, b, lanes, rate) for a, b in self._joined())

    def neighbours(self, chip: int) -> tuple[int, ...]:
        self.coordinate(chip)
        return tuple(
            sorted({link.second if link.first == chip else link.first for link in self.links if chip in (link.first, link.second)})
        )

    @property
    def mmio_chips(self) -> tuple[int, ...]:
        """Chips with a PCIe lane of their own; the others are reached through them."""
        per_card = max(1, len(self) // self.board.pcie_devices)
        return tuple(range(0, len(self), per_card))
