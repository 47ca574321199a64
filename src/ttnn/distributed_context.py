"""The distributed context: `ttnn.init_distributed_context` and its `distributed_context_*` functions.

The work is done by `tessera.runtime.hosts`; here are the official names. There is one context, so its only subcontext is itself.
"""

from __future__ import annotations

from tessera.runtime import hosts
from ttnn.descriptors import Rank, Size

__all__ = [
    "distributed_context_allgather_int",
    "distributed_context_barrier",
    "distributed_context_get_rank",
    "distributed_context_get_size",
    "distributed_context_is_initialized",
    "distributed_context_local_to_world_rank",
    "distributed_context_recv_bytes",
    "distributed_context_send_bytes",
    "distributed_context_subcontext_count",
    "distributed_context_subcontext_id",
    "distributed_context_subcontext_size",
    "distributed_context_subcontext_sizes",
    "distributed_context_world_rank",
    "distributed_context_world_size",
    "init_distributed_context",
]


def init_distributed_context() -> None:
    """Join the processes that torchrun started; alone, become rank 0 of 1."""
    hosts.init()


def distributed_context_is_initialized() -> bool:
    """Whether `init_distributed_context` was called."""
    return hosts.is_initialized()


def distributed_context_get_rank() -> Rank:
    """The number of this process, from 0."""
    return Rank(hosts.context().rank)


def distributed_context_get_size() -> Size:
    """How many processes there are."""
    return Size(hosts.context().size)


def distributed_context_barrier() -> None:
    """Wait until all processes are here."""
    hosts.context()
    hosts.barrier("distributed_context_barrier")


def distributed_context_allgather_int(value: int) -> list[int]:
    """One integer from every process, in order of rank."""
    hosts.context()
    return hosts.gather_ints(int(value), "distributed_context_allgather_int")


def distributed_context_send_bytes(data: bytes, dest: int, tag: int = 0) -> None:
    """Send bytes to rank `dest`, which receives them with the same tag."""
    hosts.send_bytes(data, int(dest), tag)


def distributed_context_recv_bytes(size: int, source: int, tag: int = 0) -> bytes:
    """Receive the `size` bytes that rank `source` sends with this tag."""
    return hosts.recv_bytes(size, int(source), tag)


def distributed_context_world_rank() -> Rank:
    """The number of this process among all of them."""
    return distributed_context_get_rank()


def distributed_context_world_size() -> Size:
    """How many processes there are in all."""
    return distributed_context_get_size()


def distributed_context_local_to_world_rank(subcontext_id: int, local_rank: int) -> Rank:
    """The world rank of a rank of a subcontext: the same number, as there is one."""
    distributed_context_subcontext_size(subcontext_id)
    if not 0 <= int(local_rank) < hosts.context().size:
        raise RuntimeError(f"local_rank={int(local_rank)} is not a rank of a context of {hosts.context().size}")
    return Rank(int(local_rank))


def distributed_context_subcontext_count() -> int:
    """How many subcontexts there are."""
    hosts.context()
    return 1


def distributed_context_subcontext_id() -> int | None:
    """Which subcontext this process belongs to."""
    hosts.context()
    return 0


def distributed_context_subcontext_size(subcontext_id: int) -> Size:
    """How many processes a subcontext has."""
    if subcontext_id != 0:
        raise RuntimeError(f"subcontext_id={subcontext_id}: there is only subcontext 0")
    return distributed_context_get_size()


def distributed_context_subcontext_sizes() -> list[int]:
    """How many processes each subcontext has."""
    return [hosts.context().size]
