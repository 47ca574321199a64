"""The memory of a chip: who lives where in its banks.

A chip's banks of one kind (the DRAM channels, the L1 of its compute cores) are filled in lockstep: a buffer has the same address in all of
them and takes as much of each as the fullest one needs. So each kind of memory is one free list. DRAM fills from its low end, L1 from its
high end. Two regions are set aside when a device opens: L1_SMALL at the top of L1 and TRACE at the top of DRAM. The chips of a mesh are in
lockstep too: one `DeviceMemory` stands for all of them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType

from tessera.memory.config import BufferType
from tessera.memory.free_list import FreeList
from tessera.memory.layout import BankPlan, bank_plan
from tessera.memory.sharding import round_up

if TYPE_CHECKING:
    from tessera.memory.spec import TensorSpec
    from tessera.silicon.board import Board

__all__ = ["Allocation", "DeviceMemory", "MemoryView"]

#: The trace region is handed out in pieces of this size, one bank after the other.
TRACE_PIECE = 8192
#: Specs whose page arithmetic is remembered; beyond, all are forgotten at once.
MOST_PLANS = 16384
#: How TT-NN's block table says that there is no neighbour.
NO_BLOCK = str(2**64 - 1)
_TOP_DOWN = {BufferType.DRAM: False, BufferType.TRACE: False, BufferType.L1: True, BufferType.L1_SMALL: True}


class Allocation:
    """Room for one buffer: the same `address` in each of `num_banks` banks. A tensor without elements has address 0 and no room."""

    __slots__ = ("_region", "address", "live", "owner", "plan")

    def __init__(self, plan: BankPlan, region: FreeList, address: int) -> None:
        self.plan = plan
        self._region = region
        self.address = address
        self.live = True
        #: Whoever keeps content here, as a weak reference, so that reports can say more of a block than its size.
        self.owner: ReferenceType[Any] | None = None

    @property
    def buffer_type(self) -> BufferType:
        return self.plan.buffer_type

    @property
    def size(self) -> int:
        """Bytes taken from each bank."""
        return self.plan.size_per_bank

    @property
    def page_size(self) -> int:
        return self.plan.page_size

    @property
    def aligned_page_size(self) -> int:
        return self.plan.aligned_page_size

    @property
    def num_pages(self) -> int:
        return self.plan.num_pages

    @property
    def num_banks(self) -> int:
        return self.plan.num_banks

    def __repr__(self) -> str:
        state = "" if self.live else ", freed"
        return f"Allocation({self.buffer_type.name} at {self.address}, {self.size} B in each of {self.num_banks} banks{state})"


@dataclass(frozen=True)
class MemoryView:
    """One kind of memory at one moment, per bank. Field names are those of TT-NN's memory view; addresses in the block table count from the
    start of the region, as there."""

    num_banks: int
    total_bytes_per_bank: int
    total_bytes_allocated_per_bank: int
    total_bytes_free_per_bank: int
    largest_contiguous_bytes_free_per_bank: int
    block_table: list[dict[str, str]]


@dataclass(frozen=True)
class MemoryUse:
    """A few numbers about one kind of memory, cheap enough to be asked often."""

    num_banks: int
    bytes_per_bank: int
    allocated_per_bank: int
    peak_per_bank: int
    buffers: int


class DeviceMemory:
    """Allocators of one chip (or of a mesh of chips in lockstep)."""

    def __init__(self, board: Board, l1_small_size: int = 0, trace_region_size: int = 0, worker_l1_size: int = 0) -> None:
        self.board = board
        self.l1_small_size = l1_small_size
        self.trace_region_size = trace_region_size
        l1, dram = board.l1, board.dram
        for name, value in (("l1_small_size", l1_small_size), ("trace_region_size", trace_region_size), ("worker_l1_size", worker_l1_size)):
            if value < 0:
                raise ValueError(f"{name}={value}: must not be negative")
        if worker_l1_size > l1.max_unreserved:
            raise RuntimeError(
                f"worker_l1_size={worker_l1_size}: a worker of {board.name} has at most {l1.max_unreserved} B of L1 for tensors and kernels"
            )
        step = dram.alignment
        self.l1_base = round_up(l1.size - worker_l1_size, step) if worker_l1_size else l1.base
        l1_end = self.l1_end = l1.size - round_up(l1_small_size, step)
        if l1_end < self.l1_base:
            raise RuntimeError(
                f"l1_small_size={l1_small_size}: larger than the {l1.size - self.l1_base} B of L1 that a core of {board.name} has for tensors"
            )
        trace = ceil(trace_region_size / TRACE_PIECE / dram.banks) * TRACE_PIECE
        if trace > dram.bytes_per_bank:
            raise RuntimeError(
                f"trace_region_size={trace_region_size}: larger than the {dram.bytes_per_bank * dram.banks} B of DRAM of {board.name}"
            )
        dram_end = dram.base + dram.bytes_per_bank - trace
        #: (first byte, bytes) of each region in its bank.
        self._extents = {
            BufferType.DRAM: (dram.base, dram_end - dram.base),
            BufferType.L1: (self.l1_base, l1_end - self.l1_base),
            BufferType.L1_SMALL: (l1_end, l1.size - l1_end),
            BufferType.TRACE: (dram_end, trace),
        }
        self._lock = Lock()
        self._late: deque[Allocation] = deque()
        self._regions: dict[BufferType, FreeList] = {}
        self._plans: dict[TensorSpec, tuple[BankPlan, FreeList, bool]] = {}
        self.clear()

    # -- giving and taking

    def allocate(self, spec: TensorSpec) -> Allocation:
        """Room for one tensor; RuntimeError when its shard grid does not fit the board or a bank has no block large enough."""
        known = self._plans.get(spec)
        plan, region, top_down = known if known is not None else self._plan(spec)
        size = plan.size_per_bank
        if not size:
            return Allocation(plan, region, 0)
        if self._late:
            self._settle()
        with self._lock:
            address = region.take(size, top_down=top_down)
        if address is None:
            raise RuntimeError(self._out_of_memory(plan, region))
        made = Allocation(plan, region, address)
        region.file(address, made)
        return made

    def pretend(self, spec: TensorSpec) -> Allocation:
        """What `allocate` would answer on a device without end: address 0, no room taken. A shard grid that does not fit is refused all the same."""
        known = self._plans.get(spec)
        plan, region, _ = known if known is not None else self._plan(spec)
        made = Allocation(plan, region, 0)
        made.live = False
        return made

    def allocate_bytes(self, buffer_type: BufferType, size_per_bank: int) -> Allocation:
        """Raw room in every bank of a kind, for what is not a tensor (trace buffers, semaphores, circular buffers)."""
        step = self.board.dram.alignment
        size = round_up(size_per_bank, step)
        plan = BankPlan(buffer_type, size, size, self.num_banks(buffer_type), self.num_banks(buffer_type), size)
        region = self._regions[buffer_type]
        if self._late:
            self._settle()
        with self._lock:
            address = region.take(size, top_down=_TOP_DOWN[buffer_type]) if size else 0
        if address is None:
            raise RuntimeError(self._out_of_memory(plan, region))
        made = Allocation(plan, region, address)
        if size:
            region.file(address, made)
        return made

    def free(self, allocation: Allocation) -> None:
        """Gives the room back. Safe from a finalizer that runs in the middle of another call: that one is settled a little later."""
        if not allocation.live:
            raise RuntimeError(f"{allocation}: freed twice")
        allocation.live = False
        if not allocation.plan.size_per_bank:
            return
        if self._lock.acquire(blocking=False):
            try:
                allocation._region.give(allocation.address)
            finally:
                self._lock.release()
        else:
            self._late.append(allocation)

    def clear(self) -> None:
        """Forgets every buffer. Allocations made before may still be freed; that changes nothing any more."""
        with self._lock:
            self._regions = {kind: FreeList(base, size) for kind, (base, size) in self._extents.items()}
            self._plans.clear()
            self._late.clear()

    def _settle(self) -> None:
        while True:
            try:
                late = self._late.popleft()
            except IndexError:
                return
            with self._lock:
                late._region.give(late.address)

    def _plan(self, spec: TensorSpec) -> tuple[BankPlan, FreeList, bool]:
        plan = bank_plan(spec, self.board)
        if plan.buffer_type not in self._regions:
            raise RuntimeError(f"buffer_type={plan.buffer_type.name}: a device has no such memory")
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        found = self._plans[spec] = (plan, self._regions[plan.buffer_type], _TOP_DOWN[plan.buffer_type])
        return found

    def _out_of_memory(self, plan: BankPlan, region: FreeList) -> str:
        kind = plan.buffer_type.name
        text = (
            f"Out of Memory: Not enough space to allocate {plan.total_size} B {kind} buffer across {plan.num_banks} banks: "
            f"each bank must hold {plan.size_per_bank} B, and a bank of {region.size} B "
            f"has {region.free} B free (allocated: {region.allocated} B, largest free block: {region.largest_free()} B)"
        )
        if kind in ("L1_SMALL", "TRACE") and not region.size:
            option = "l1_small_size" if kind == "L1_SMALL" else "trace_region_size"
            text += f". The {kind} region is set aside when a device opens: open it with {option} large enough"
        return text

    # -- looking

    def allocations(self, buffer_type: BufferType) -> list[Allocation]:
        """Everything that lives in a kind of memory, in order of address."""
        owners = self.region(buffer_type).owners.copy()
        return [owners[address] for address in sorted(owners)]

    def at(self, buffer_type: BufferType, address: int) -> Allocation | None:
        """What lives at an address, if anything starts there."""
        return self.region(buffer_type).owner_of(address)  # type: ignore[no-any-return]

    def num_banks(self, buffer_type: BufferType) -> int:
        return self.board.dram.banks if buffer_type in (BufferType.DRAM, BufferType.TRACE) else self.board.compute_cores

    def region(self, buffer_type: BufferType) -> FreeList:
        """The free list of a kind of memory, with all frees settled."""
        if buffer_type not in self._regions:
            raise RuntimeError(f"buffer_type={buffer_type.name}: a device has no such memory")
        if self._late:
            self._settle()
        return self._regions[buffer_type]

    def base_address(self, buffer_type: BufferType) -> int:
        """The first byte of a region in its banks."""
        return self._extents[buffer_type][0]

    def move_l1_base(self, base: int) -> bool:
        """Leave L1 below `base` to somebody else, or take it back; False, and nothing changes, if a buffer lives there."""
        region = self.region(BufferType.L1)
        with self._lock:
            if not region.shrink_to(base):
                return False
        self._extents[BufferType.L1] = (base, self.l1_end - base)
        return True

    def lowest_occupied(self, buffer_type: BufferType) -> int | None:
        """The lowest address in use, where circular buffers growing from below would meet tensors."""
        return min(self.region(buffer_type).live, default=None)

    def view(self, buffer_type: BufferType) -> MemoryView:
        region = self.region(buffer_type)
        with self._lock:
            blocks = region.blocks() or [(region.base, 0, False)]
            allocated, largest = region.allocated, region.largest_free()
        last = len(blocks) - 1
        top_down = _TOP_DOWN[buffer_type]  # blocks are numbered from the end that fills first
        number = [str(last - i if top_down else i) for i in range(len(blocks))]
        table = [
            {
                "blockID": number[i],
                "address": str(address - region.base),
                "size": str(size),
                "prevID": number[i - 1] if i else NO_BLOCK,
                "nextID": number[i + 1] if i < last else NO_BLOCK,
                "allocated": "yes" if taken else "no",
            }
            for i, (address, size, taken) in enumerate(blocks)
        ]
        if top_down:
            table.reverse()
        banks = 0 if buffer_type is BufferType.L1_SMALL and not region.size else self.num_banks(buffer_type)
        return MemoryView(banks, region.size, allocated, region.size - allocated, largest, table)

    def use(self, buffer_type: BufferType) -> MemoryUse:
        region = self.region(buffer_type)
        return MemoryUse(self.num_banks(buffer_type), region.size, region.allocated, region.peak, region.count)

    def reset_peaks(self) -> None:
        """Peaks count from now on."""
        for region in self._regions.values():
            region.peak = region.allocated
