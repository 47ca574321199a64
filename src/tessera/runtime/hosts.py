"""Several processes at one piece of work: who we are among them, and how bytes travel.

Rank and size come from torchrun's environment and the traffic is torch.distributed's (Gloo); there is no protocol of our own.
A process that nobody started with torchrun is rank 0 of 1, for which every exchange is a no-op. When a rank dies, the others get
a RuntimeError that names what they were doing, at the latest after `TESSERA_DISTRIBUTED_TIMEOUT` seconds.
"""

from __future__ import annotations

import atexit
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from tessera.formats.dtype import FORMATS

if TYPE_CHECKING:
    from tessera.runtime.tensor import Tensor

DEFAULT_TIMEOUT = 300.0


@dataclass(frozen=True)
class _Context:
    rank: int
    size: int


_context: _Context | None = None


def is_initialized() -> bool:
    return _context is not None


def init(timeout: float | None = None) -> None:
    """Join the others, if torchrun started us. A second call does nothing."""
    global _context
    if _context is not None:
        return
    if dist.is_initialized():  # the program made its own process group: use it
        _context = _Context(dist.get_rank(), dist.get_world_size())
        return
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        _context = _Context(0, 1)
        return
    seconds = timeout if timeout is not None else float(os.environ.get("TESSERA_DISTRIBUTED_TIMEOUT", DEFAULT_TIMEOUT))
    if os.environ.get("MASTER_ADDR") in ("localhost", "127.0.0.1", "::1"):  # all on this machine: no name of it needs to resolve
        loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), None)
        if loopback:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    with _during("init_distributed_context"):
        dist.init_process_group("gloo", timeout=timedelta(seconds=seconds))
    atexit.register(_leave)
    _context = _Context(dist.get_rank(), dist.get_world_size())


def _leave() -> None:
    """Take leave of the others before the interpreter takes the threads of Gloo away."""
    if dist.is_initialized():
        dist.destroy_process_group()


def context() -> _Context:
    if _context is None:
        raise RuntimeError("the distributed context has not been initialized: call ttnn.init_distributed_context() first")
    return _context


def rank() -> int:
    """Our number; 0 where no context was made."""
    return _context.rank if _context else 0


def size() -> int:
    return _context.size if _context else 1


@contextmanager
def _during(what: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        where = f"rank {_context.rank} of {_context.size}" if _context else "this process"
        reason = str(error).splitlines()[0]
        raise RuntimeError(f"{what}: {where} lost contact with another rank (it died, or never came here): {reason}") from error


def barrier(what: str = "barrier") -> None:
    """Wait for all ranks."""
    if size() > 1:
        with _during(what):
            # An exchange rather than dist.barrier: that one waits out its whole timeout when a rank has died.
            gather_ints(0, what)


def gather_ints(value: int, what: str = "allgather") -> list[int]:
    """One number from every rank, by rank."""
    if size() == 1:
        return [value]
    out = [torch.zeros(1, dtype=torch.int64) for _ in range(size())]
    with _during(what):
        dist.all_gather(out, torch.tensor([value], dtype=torch.int64))
    return [int(t) for t in out]


def agree(error: BaseException | None, what: str) -> None:
    """All ranks learn whether any of them failed: the one with `error` raises it, the others raise that a rank failed."""
    failed = [r for r, bad in enumerate(gather_ints(int(error is not None), what)) if bad]
    if error is not None:
        raise error
    if failed:
        raise RuntimeError(f"{what}: rank {failed[0]} of {size()} failed; see its own error")


def gather_tensors(mine: Sequence[torch.Tensor], to: int | None, what: str) -> list[list[torch.Tensor]]:
    """Every rank's list of one-dimensional uint8 tensors, by rank. With `to`, only that rank receives; the others get empty lists."""
    if size() == 1:
        return [list(mine)]
    counts = gather_ints(len(mine), what)
    sizes = torch.zeros(max(counts) or 1, dtype=torch.int64)
    for i, tensor in enumerate(mine):
        sizes[i] = tensor.numel()
    all_sizes = [torch.zeros_like(sizes) for _ in range(size())]
    found: list[list[torch.Tensor]] = [[] for _ in range(size())]
    with _during(what):
        dist.all_gather(all_sizes, sizes)
        for source in range(size()):
            for i in range(counts[source]):
                found[source] += _travel(source, to, mine[i] if source == rank() else None, int(all_sizes[source][i]))
    return found


def _travel(source: int, to: int | None, mine: torch.Tensor | None, length: int) -> list[torch.Tensor]:
    """One tensor from `source` to rank `to` or to all; a list of what arrived here."""
    if to is None:
        data = mine.contiguous() if mine is not None else torch.empty(length, dtype=torch.uint8)
        dist.broadcast(data, source)
        return [data]
    if mine is not None:
        if source == to:
            return [mine]
        dist.send(mine.contiguous(), to)
        return []
    if rank() == to:
        data = torch.empty(length, dtype=torch.uint8)
        dist.recv(data, source)
        return [data]
    return []


def send_bytes(data: bytes, dest: int, tag: int = 0) -> None:
    """Send bytes to one rank, which must call `recv_bytes` for as many."""
    _other(dest, "dest")
    with _during("send_bytes"):
        dist.send(torch.frombuffer(bytearray(data or b"\0"), dtype=torch.uint8)[: len(data)], dest, tag=tag)


def recv_bytes(size: int, source: int, tag: int = 0) -> bytes:
    """Receive the `size` bytes that rank `source` sends with the same tag."""
    _other(source, "source")
    data = torch.empty(size, dtype=torch.uint8)
    with _during("recv_bytes"):
        dist.recv(data, source, tag=tag)
    return bytes(data.numpy())


def _other(number: int, argument: str) -> None:
    now = context()
    if not 0 <= number < now.size or number == now.rank:
        raise RuntimeError(f"{argument}={number} is not another rank: this is rank {now.rank} of {now.size}")


def share(places: int) -> frozenset[int] | None:
    """Which of a mesh's places are this process's: an equal run of them, in row-major order. None means all: alone, for a mesh that
    cannot be dealt out equally, and with `TESSERA_MESHES=apart` (every process then has a mesh of its own)."""
    if size() == 1 or places % size() or os.environ.get("TESSERA_MESHES") == "apart":
        return None
    each = places // size()
    return frozenset(range(rank() * each, (rank() + 1) * each))


def parts_of(tensor: Tensor) -> list[torch.Tensor]:
    """The values of every part of a tensor on a mesh that spans processes, on each of them."""
    device = tensor.buffer.device
    assert device is not None
    mine = [tensor.part(i) for i in sorted(device.mine or ())]
    flat = [part.contiguous().reshape(-1).view(torch.uint8) for part in mine]
    values = FORMATS[tensor.spec.dtype].values
    # Ranks hold places in order, so their parts one after another are all parts in order.
    return [
        part.view(values).reshape(tensor.spec.dims) for found in gather_tensors(flat, None, "gathering a mesh tensor") for part in found
    ]
