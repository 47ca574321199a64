"""Which bytes of a bank are free: one list for all banks of a kind, since they are filled in lockstep.

The chip's allocator takes the first free block, counted from the end it fills from, that is large enough. That choice decides every
address and all fragmentation, so it is kept exactly. To find that block among thousands without walking over them, free blocks are also filed
by size, in classes each twice as large as the one before: of every class above the wanted size only the first block can win, and only the
class of the wanted size itself must be searched. Neighbours are found by their ends, so freeing never searches.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tessera.native import MODULE

__all__ = ["FreeList", "PlainFreeList"]


class PlainFreeList:
    """The free and the live blocks of the address range [base, base + size)."""

    __slots__ = ("_classes", "_ends", "_starts", "_used", "allocated", "base", "live", "owners", "peak", "size")

    def __init__(self, base: int, size: int) -> None:
        self.base = base
        self.size = size
        self.allocated = 0
        self.peak = 0
        self.live: dict[int, int] = {}  # address -> size
        self.owners: dict[int, Any] = {}  # address -> what the caller filed there; forgotten when the block is freed
        self._starts: dict[int, int] = {}  # address of a free block -> its end
        self._ends: dict[int, int] = {}  # end of a free block -> its address
        self._classes: list[list[int]] = [[] for _ in range(size.bit_length() + 1)]  # addresses in order, by bit length of the size
        self._used = 0  # bit i: class i is not empty
        if size > 0:
            self._insert(base, base + size)

    def take(self, size: int, *, top_down: bool) -> int | None:
        """The address of a new block, or None when no free block is large enough."""
        starts, classes = self._starts, self._classes
        length = size.bit_length()
        found = -1
        larger = self._used >> (length + 1)
        index = length
        while larger:
            skip = (larger & -larger).bit_length()
            larger >>= skip
            index += skip
            start = classes[index][-1 if top_down else 0]
            if found < 0 or (start > found if top_down else start < found):
                found = start
        if self._used >> length & 1:
            for start in reversed(classes[length]) if top_down else classes[length]:
                if found >= 0 and (start < found if top_down else start > found):
                    break
                if starts[start] - start >= size:
                    found = start
                    break
        if found < 0:
            return None
        end = starts[found]
        self._remove(found, end)
        if top_down:
            address = end - size
            if found < address:
                self._insert(found, address)
        else:
            address = found
            if address + size < end:
                self._insert(address + size, end)
        self.live[address] = size
        self.allocated += size
        if self.allocated > self.peak:
            self.peak = self.allocated
        return address

    def give(self, address: int) -> int:
        """Frees the block at `address` and returns its size; KeyError if no block lives there."""
        size = self.live.pop(address)
        self.owners.pop(address, None)
        self.allocated -= size
        start, end = address, address + size
        before = self._ends.get(start)
        if before is not None:
            self._remove(before, start)
            start = before
        after = self._starts.get(end)
        if after is not None:
            self._remove(end, after)
            end = after
        self._insert(start, end)
        return size

    def file(self, address: int, owner: Any) -> None:
        """Keeps an object with a live block until it is freed."""
        self.owners[address] = owner

    def owner_of(self, address: int) -> Any:
        """What was filed with the block at an address, or None."""
        return self.owners.get(address)

    def shrink_to(self, base: int) -> bool:
        """Moves the lower end of the range to `base`, up or down; False, and nothing changes, if a live block is in the way."""
        if self.live and min(self.live) < base:
            return False
        top = self.base + self.size
        lowest = min(self.live, default=top)
        hole = self._ends.get(lowest)
        if hole is not None:
            self._remove(hole, lowest)
        self.base, self.size = base, top - base
        while len(self._classes) <= self.size.bit_length():
            self._classes.append([])
        if base < lowest:
            self._insert(base, lowest)
        return True

    @property
    def count(self) -> int:
        """How many blocks live."""
        return len(self.live)

    @property
    def free(self) -> int:
        return self.size - self.allocated

    def largest_free(self) -> int:
        """Size of the largest free block: the last class that is not empty holds it."""
        if not self._used:
            return 0
        starts = self._starts
        return max(starts[start] - start for start in self._classes[self._used.bit_length() - 1])

    def free_blocks(self) -> Iterator[tuple[int, int]]:
        """(address, size) of each free block, in order of address."""
        for start in sorted(self._starts):
            yield start, self._starts[start] - start

    def blocks(self) -> list[tuple[int, int, bool]]:
        """(address, size, allocated) of every block, in order of address: the whole range without a gap."""
        table = [(address, size, True) for address, size in self.live.items()]
        table += [(start, end - start, False) for start, end in self._starts.items()]
        return sorted(table)

    def _insert(self, start: int, end: int) -> None:
        index = (end - start).bit_length()
        insort(self._classes[index], start)
        self._used |= 1 << index
        self._starts[start] = end
        self._ends[end] = start

    def _remove(self, start: int, end: int) -> None:
        index = (end - start).bit_length()
        blocks = self._classes[index]
        del blocks[bisect_left(blocks, start)]
        if not blocks:
            self._used &= ~(1 << index)
        del self._starts[start]
        del self._ends[end]


if TYPE_CHECKING:
    FreeList = PlainFreeList
else:
    #: The same list in C++ (native/engine/free_list.hpp), where that was built: it gives the same addresses.
    FreeList = PlainFreeList if MODULE is None else MODULE.FreeList
