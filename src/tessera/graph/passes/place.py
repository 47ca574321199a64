"""Where each operation runs on the chip's grid and where each queue lies in memory, within L1 and DRAM limits.

An operation gets a rectangle of cores that divides its tiles; what does not fit into the L1 of its cores is streamed over more, smaller
blocks. Rectangles are packed left to right, top to bottom; a full grid closes an epoch. Values that cross epochs go through DRAM.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tessera.graph.formats import TILE, DataFormat, tile_bytes
from tessera.graph.ir import Epoch, Graph, GraphError, Kind, Node
from tessera.graph.passes.lower import edge_shape


@dataclass(frozen=True)
class Chip:
    """What placement has to know about a chip."""

    arch: str = "wormhole_b0"
    rows: int = 10
    columns: int = 8
    l1: int = 1_499_136
    l1_reserved: int = 204_800  # firmware, kernels and stream buffers
    channels: int = 6
    channel_bytes: int = 2 * 2**30
    dram_base: int = 0x30000000
    alignment: int = 32


CHIPS: dict[str, Chip] = {
    "grayskull": Chip("grayskull", 10, 12, 1_048_576, channels=8, channel_bytes=2**30),
    "wormhole_b0": Chip(),
    "blackhole": Chip("blackhole", 10, 14, channels=8, channel_bytes=4 * 2**30, alignment=64),
}


@dataclass(frozen=True)
class Block:
    """How a tensor's tiles lie: t blocks, each a grid of cores with mblock x ublock tiles."""

    grid: tuple[int, int]
    t: int
    mblock: tuple[int, int]
    ublock: tuple[int, int]

    @property
    def tiles(self) -> int:
        """Tiles of one core."""
        return self.t * self.mblock[0] * self.mblock[1] * self.ublock[0] * self.ublock[1]


@dataclass
class Placed:
    node: Node
    block: Block
    at: tuple[int, int]
    epoch: int
    l1: int
    buffers: int = 2
    k: tuple[int, int] = (1, 1)  # matmuls: m_k and u_kt


@dataclass
class Queue:
    name: str
    source: str
    group: str  # input, output, parameter, constant, epoch_to_epoch, accumulator
    block: Block
    format: DataFormat
    entries: int
    location: str  # "dram" or "host"
    addresses: list[tuple[int, int]] = field(default_factory=list)  # (channel, address) of each core's part
    bytes: int = 0  # of each part
    kind: str = "queue"


@dataclass
class Placement:
    chip: Chip
    ops: dict[str, Placed]
    queues: dict[str, Queue]
    epoch_kinds: list[Epoch]
    used: list[int]
    accumulators: dict[str, str] = field(default_factory=dict)  # a parameter's gradient -> the queue that gathers it

    @property
    def epoch_count(self) -> int:
        return len(self.epoch_kinds)

    def table(self) -> list[dict[str, Any]]:
        return [
            {
                "op": p.node.name,
                "type": p.node.op,
                "epoch": p.epoch,
                "grid_loc": list(p.at),
                "grid_size": list(p.block.grid),
                "l1_bytes": p.l1,
            }
            for p in self.ops.values()
        ]

    def memory(self) -> dict[str, Any]:
        return {
            "dram": dict(enumerate(self.used)),
            "dram_capacity": self.chip.channel_bytes - self.chip.dram_base,
            "l1_peak": max((p.l1 for p in self.ops.values()), default=0),
            "l1_capacity": self.chip.l1 - self.chip.l1_reserved,
        }


def tiles(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(t, rows, columns) of a shape in tiles."""
    padded = (1, 1, *shape)[-max(2, len(shape)) :] if len(shape) < 2 else shape
    return math.prod(padded[:-2]), -(-padded[-2] // TILE), -(-padded[-1] // TILE)


def divisor(n: int, limit: int) -> int:
    return next(d for d in range(max(1, min(n, limit)), 0, -1) if n % d == 0)


def blocked(shape: tuple[int, ...], grid: tuple[int, int] = (1, 1), stream: tuple[int, int] = (1, 1)) -> Block:
    t, r, c = tiles(shape)
    rows, columns = r // grid[0] // stream[0], c // grid[1] // stream[1]
    ur = divisor(rows, 4)
    uc = divisor(columns, max(1, 8 // ur))
    return Block(grid, t * stream[0] * stream[1], (rows // ur, columns // uc), (ur, uc))


def cost(node: Node) -> int:
    """Tile operations: a matmul multiplies its inner dimension, everything else touches its result once."""
    t, r, c = tiles(node.shape)
    if node.op == "matmul":
        return t * r * c * max(1, -(-_inner(node) // TILE))
    return t * r * c


def _inner(node: Node) -> int:
    shape = edge_shape(node, 0)
    return shape[-1] if shape else 1


def l1_need(node: Node, block: Block) -> tuple[int, tuple[int, int]]:
    """Bytes that one core needs: double-buffered output, a block of intermediates, and double-buffered pieces of each input."""
    core = block.mblock[0] * block.mblock[1] * block.ublock[0] * block.ublock[1]
    total = 2 * core * tile_bytes(node.format)
    k = (1, 1)
    if node.op == "matmul":
        inner = max(1, -(-_inner(node) // TILE))
        u_kt = divisor(inner, 4)
        k = (inner // u_kt, u_kt)
        rows, columns = block.mblock[0] * block.ublock[0], block.mblock[1] * block.ublock[1]
        total += core * tile_bytes(node.intermediate or node.format)
        sizes = [rows * u_kt, columns * u_kt, columns]
    else:
        piece = block.ublock[0] * block.ublock[1]
        sizes = [piece] * len(node.inputs)
    for source, size in zip(node.inputs, [*sizes, *([sizes[-1]] * len(node.inputs) if sizes else [])]):
        total += 2 * size * tile_bytes(source.format)
    return total, k


def choose(node: Node, chip: Chip, wanted: int, size: tuple[int, int] | None) -> Placed:
    """The block of one operation: about `wanted` cores, streamed until it fits into L1."""
    _, r, c = tiles(node.shape)
    if size is not None:
        if size[0] > chip.rows or size[1] > chip.columns or r % size[0] or c % size[1]:
            raise GraphError(
                f"override_op_size({node.name!r}, {size}): {r} x {c} tiles must divide over it, and the grid has {chip.rows} x {chip.columns} cores"
            )
        grid = size
    else:
        options = [(a, b) for a in range(1, min(r, chip.rows) + 1) if r % a == 0 for b in range(1, min(c, chip.columns) + 1) if c % b == 0]
        fitting = [g for g in options if g[0] * g[1] <= wanted] or [(1, 1)]
        grid = max(fitting, key=lambda g: (g[0] * g[1], -abs(g[0] - g[1]), g[0]))
    room = chip.l1 - chip.l1_reserved
    rows, columns = r // grid[0], c // grid[1]
    for rs, cs in [(a, b) for b in _divisors(columns) for a in _divisors(rows)]:
        block = blocked(node.shape, grid, (rs, cs))
        need, k = l1_need(node, block)
        if need <= room:
            return Placed(node, block, (0, 0), 0, need, k=k)
    raise GraphError(
        f"{node.name} ({node.op}, {list(node.shape)}) needs {need} bytes of L1 in its smallest block, a core has {room}; use a narrower format"
    )


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


class Shelf:
    """Rectangles left to right; a new row of them starts below the highest of the row before."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.top = self.left = self.height = 0

    def put(self, grid: tuple[int, int]) -> tuple[int, int] | None:
        if self.left + grid[1] > self.columns:
            self.top, self.left, self.height = self.top + self.height, 0, 0
        if self.top + grid[0] > self.rows or grid[1] > self.columns:
            return None
        at = (self.top, self.left)
        self.left += grid[1]
        self.height = max(self.height, grid[0])
        return at


def place(
    graph: Graph,
    chip: Chip,
    *,
    epoch_breaks: frozenset[str] = frozenset(),
    op_sizes: Mapping[str, tuple[int, int]] | None = None,
    inputs_on_host: bool = True,
    outputs_on_host: bool = True,
    microbatch: int = 1,
) -> Placement:
    ops = [n for n in graph.ops() if not n.parts or n.op != "getitem"]
    total = sum(cost(n) for n in ops) or 1
    share = chip.rows * chip.columns * max(1, len(ops) // 12) / total
    placed: dict[str, Placed] = {}
    kinds: list[Epoch] = []
    shelf: Shelf | None = None
    for phase in Epoch:
        shelf = None
        for node in ops:
            if node.epoch is not phase:
                continue
            one = choose(node, chip, max(1, min(chip.rows * chip.columns, round(cost(node) * share))), (op_sizes or {}).get(node.name))
            at = shelf.put(one.block.grid) if shelf is not None and node.name not in epoch_breaks else None
            if at is None:
                shelf = Shelf(chip.rows, chip.columns)
                kinds.append(phase)
                at = shelf.put(one.block.grid)
            assert at is not None
            one.at, one.epoch = at, len(kinds) - 1
            placed[node.name] = one
    queues, used = _queues(graph, chip, placed, inputs_on_host, outputs_on_host, microbatch)
    accumulators = {g.name: f"grad_acc_{name}" for name, g in graph.gradients.items() if graph[name].kind is Kind.PARAMETER}
    return Placement(chip, placed, queues, kinds, used, accumulators)


_GROUPS = {
    Kind.INPUT: "input",
    Kind.TARGET: "input",
    Kind.GRADIENT: "input",
    Kind.PARAMETER: "parameter",
    Kind.OPTIMIZER: "parameter",
    Kind.CONSTANT: "constant",
}


def _queues(
    graph: Graph, chip: Chip, placed: dict[str, Placed], inputs_on_host: bool, outputs_on_host: bool, microbatch: int
) -> tuple[dict[str, Queue], list[int]]:
    queues: dict[str, Queue] = {}
    used = [0] * chip.channels
    turn = 0

    def allocate(queue: Queue) -> None:
        nonlocal turn
        queue.bytes = _aligned(queue.block.tiles * tile_bytes(queue.format) * queue.entries + chip.alignment, chip.alignment)
        for _ in range(queue.block.grid[0] * queue.block.grid[1]):
            if queue.location == "host":
                queue.addresses.append((0, 0))
                continue
            channel = next(
                (
                    c % chip.channels
                    for c in range(turn, turn + chip.channels)
                    if chip.dram_base + used[c % chip.channels] + queue.bytes <= chip.channel_bytes
                ),
                None,
            )
            if channel is None:
                raise GraphError(
                    f"queue {queue.name} needs {queue.bytes} bytes and no DRAM channel of {chip.arch} has that left"
                    f" (used by channel: {used}); use a narrower format, a smaller batch, or more chips"
                )
            queue.addresses.append((channel, chip.dram_base + used[channel]))
            used[channel] += queue.bytes
            turn = channel + 1
        queues[queue.name] = queue

    users = graph.users()
    accumulators = {g.name for name, g in graph.gradients.items() if graph[name].kind is Kind.PARAMETER}
    for node in graph.nodes:
        if not node.kind.is_source or not users[node]:
            continue
        group = _GROUPS[node.kind]
        static = group in ("parameter", "constant")
        location = "host" if group == "input" and inputs_on_host and chip.arch != "grayskull" else "dram"
        reader = placed.get(users[node][0].name)
        shape = stored_shape(node, users[node][0]) if static else node.shape
        block = blocked(shape, _spread(shape, reader) if static else (1, 1))
        allocate(
            Queue(
                node.name,
                graph.optimized[node.name].name if node.name in graph.optimized else "HOST",
                group,
                block,
                node.format,
                1 if static else 2 * microbatch,
                location,
                kind="ram" if static else "queue",
            )
        )
    for node in graph.ops():
        own = placed[node.name]
        if node.name in accumulators:
            continue  # an optimizer reads it from its accumulator
        later = sorted({placed[u.name].epoch for u in users[node] if u.name in placed and placed[u.name].epoch != own.epoch})
        if later:
            allocate(Queue(f"e2e_{node.name}_0", node.name, "epoch_to_epoch", own.block, node.format, 2 * microbatch, "dram"))
    for output in graph.outputs:
        own_op = placed.get(output.inputs[0].name)
        block = own_op.block if own_op is not None else blocked(output.shape)
        allocate(
            Queue(output.name, output.inputs[0].name, "output", block, output.format, 2 * microbatch, "host" if outputs_on_host else "dram")
        )
    for name, gradient in graph.gradients.items():
        own_op = placed.get(gradient.name)
        if own_op is not None:
            allocate(Queue(f"grad_acc_{name}", gradient.name, "accumulator", own_op.block, gradient.format, 1, "dram", kind="ram"))
    return queues, used


def stored_shape(node: Node, reader: Node) -> tuple[int, ...]:
    """A weight is laid out by the host as its reader wants it: a convolution's as a matrix, not as many small kernels."""
    shape = node.shape
    for tm in reader.tms.get(reader.inputs.index(node), ()) if node in reader.inputs else ():
        if tm.op != "reshape":
            break
        shape = dict(tm.attrs)["shape"]
    if len(shape) == 4 and shape[-1] * shape[-2] < TILE:
        return (shape[0], math.prod(shape[1:]))
    return shape


def _spread(shape: tuple[int, ...], reader: Placed | None) -> tuple[int, int]:
    """A weight lies on as many parts as its reader has cores, as far as its tiles divide."""
    if reader is None:
        return (1, 1)
    _, r, c = tiles(shape)
    return divisor(r, reader.block.grid[0]), divisor(c, reader.block.grid[1])


def _aligned(size: int, to: int) -> int:
    return (size + to - 1) // to * to
