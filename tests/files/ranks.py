"""What each process of the multi-host tests does; `test_hosts.py` starts this file with torchrun."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch

import ttnn

FOLDER = Path(sys.argv[2])
DATA = torch.arange(256.0).reshape(16, 16)


def mesh(columns: int = 8) -> ttnn.MeshDevice:
    ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)  # collectives travel over it
    return ttnn.open_mesh_device(ttnn.MeshShape(8 // columns, columns))


def sharded(device: ttnn.MeshDevice, data: torch.Tensor = DATA, dim: int = 0) -> ttnn.Tensor:
    return ttnn.from_torch(data, dtype=ttnn.bfloat16, device=device, mesh_mapper=ttnn.ShardTensorToMesh(device, dim))


def exchange(rank: int, size: int) -> None:
    """The context's own functions."""
    assert ttnn.distributed_context_is_initialized()
    assert ttnn.distributed_context_allgather_int(rank * 10) == [r * 10 for r in range(size)]
    ttnn.distributed_context_barrier()
    if rank == 0:
        ttnn.distributed_context_send_bytes(b"hello", 1, tag=3)
    if rank == 1:
        assert ttnn.distributed_context_recv_bytes(5, 0, tag=3) == b"hello"
    assert int(ttnn.distributed_context_world_size()) == size
    assert ttnn.distributed_context_subcontext_sizes() == [size]


def gathered_file(rank: int, size: int) -> None:
    """One file of a tensor that lies over all processes, and each process's parts of it again."""
    device = mesh(4)
    tensor = sharded(device)
    assert len(ttnn.get_device_tensors(tensor)) == 8 // size
    path = FOLDER / "gathered.tensorbin"
    ttnn.dump_tensor(path, tensor)
    assert path.exists(), "everybody returns when the file is there"
    loaded = ttnn.load_tensor(path, device=device)
    held = [i for i, image in enumerate(loaded.buffer.images) if image is not None]
    assert held == list(range(rank * 8 // size, (rank + 1) * 8 // size))
    assert all(torch.equal(loaded.part(i).float(), DATA[2 * i : 2 * i + 2]) for i in held)
    assert torch.equal(torch.cat(loaded.parts).float(), DATA), "all processes asked, so all parts travelled"
    host = ttnn.from_device(loaded)
    assert len(host.buffer.values) == len(held)
    ttnn.dump_tensor(FOLDER / "from_host.tensorbin", host)
    back = ttnn.to_device(host, device)
    assert all(torch.equal(back.part(i), loaded.part(i)) for i in held)
    try:
        loaded.part((held[-1] + 1) % 8)
    except RuntimeError as error:
        assert "on a chip of another process" in str(error)
    else:
        raise AssertionError("a part of another process was answered")


def local_files(rank: int, size: int) -> None:
    """Each process writes its own parts."""
    path = FOLDER / f"local_{rank}.tensorbin"
    ttnn.dump_tensor(path, sharded(mesh(4)), mode=ttnn.DumpTensorMode.LOCAL)
    found = ttnn.load_tensor(path)
    assert torch.equal(torch.cat(found.parts).float(), DATA.chunk(size)[rank])


def replicated_file(rank: int, size: int) -> None:
    device = mesh(8)
    tensor = ttnn.from_torch(DATA, dtype=ttnn.bfloat16, device=device, mesh_mapper=ttnn.ReplicateTensorToMesh(device))
    ttnn.dump_tensor(FOLDER / "replicated.tensorbin", tensor)
    ttnn.dump_tensor(FOLDER / "host.tensorbin", ttnn.from_torch(DATA, dtype=ttnn.bfloat16))


def cache(rank: int, size: int) -> None:
    device = mesh(8)

    def cached(data: torch.Tensor) -> ttnn.Tensor:
        return ttnn.as_tensor(
            data,
            dtype=ttnn.bfloat16,
            device=device,
            memory_config=ttnn.DRAM_MEMORY_CONFIG,
            cache_file_name=FOLDER / "cache" / "w",
            mesh_mapper=ttnn.ShardTensorToMesh(device, 0),
        )

    for tensor in (cached(DATA), cached(DATA * 0)):
        assert torch.equal(torch.cat(tensor.parts).float(), DATA)
    own = ttnn.as_tensor(
        DATA + rank, dtype=ttnn.bfloat16, cache_file_name=FOLDER / f"own_{rank}", cache_dump_mode=ttnn.DumpTensorMode.LOCAL
    )
    assert torch.equal(ttnn.to_torch(own), (DATA + rank).bfloat16())


def bad_file(rank: int, size: int) -> None:
    """A failure of the one that writes is everybody's."""
    try:
        ttnn.dump_tensor(FOLDER / "nowhere" / "a.tensorbin", sharded(mesh(8)))
    except RuntimeError as error:
        assert ("does not exist" if rank == 0 else "rank 0 of") in str(error), error
    else:
        raise AssertionError("no error")


def compute(rank: int, size: int) -> None:
    """Operations run where the chips are; collectives travel."""
    device = mesh(8)
    tensor = sharded(device)
    doubled = ttnn.add(tensor, tensor)
    assert torch.equal(torch.cat(doubled.parts).float(), DATA * 2)
    everywhere = ttnn.all_gather(ttnn.to_layout(tensor, ttnn.TILE_LAYOUT), dim=0)
    mine = sorted(device.mine)
    assert all(torch.equal(everywhere.part(i).float(), DATA) for i in mine)
    ones = ttnn.from_torch(torch.ones(32, 256), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    assert all(float(ttnn.all_reduce(ones).part(i)[0, 0]) == 8 for i in mine)
    scattered = ttnn.reduce_scatter(ones, dim=1)
    assert all(scattered.part(i).shape == (32, 32) and float(scattered.part(i)[0, 0]) == 8 for i in mine)
    try:
        ttnn.get_device_tensors(everywhere)[len(mine)]
    except IndexError:
        pass
    else:
        raise AssertionError("a chip of another process was answered")


def dying(rank: int, size: int) -> None:
    """The last rank dies; the others notice in time and leave no file."""
    tensor = sharded(mesh(8))
    ttnn.distributed_context_barrier()
    if rank == size - 1:
        os._exit(3)
    started = time.monotonic()
    try:
        ttnn.dump_tensor(FOLDER / "dying.tensorbin", tensor)
    except RuntimeError as error:
        seconds = time.monotonic() - started
        (FOLDER / f"noticed_{rank}").write_text(f"{seconds} {error}")
        os._exit(0)
    raise AssertionError("no error")


if __name__ == "__main__":
    ttnn.init_distributed_context()
    me, all_of_us = int(ttnn.distributed_context_get_rank()), int(ttnn.distributed_context_get_size())
    for task in sys.argv[1].split(","):
        globals()[task](me, all_of_us)
        ttnn.distributed_context_barrier()
    (FOLDER / f"done_{me}").touch()
