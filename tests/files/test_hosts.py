"""Several processes, one tensor: started by torchrun on this machine, 2 and 4 of them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import samples
import torch

import ttnn
from tessera.files import tensors
from tessera.runtime import hosts

DATA = torch.arange(256.0).reshape(16, 16)


def torchrun(tasks: str, ranks: int, folder: Path, timeout: int = 60) -> subprocess.CompletedProcess[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        f"--nproc-per-node={ranks}",
        "--master-addr=127.0.0.1",
        f"--master-port={port}",
    ]
    environment = os.environ | {"TESSERA_BOARD": "t3000", "TESSERA_DISTRIBUTED_TIMEOUT": str(timeout), "OMP_NUM_THREADS": "1"}
    command += [str(Path(__file__).with_name("ranks.py")), tasks, str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)


@pytest.mark.parametrize("ranks", [2, 4])
def test_files_of_tensors_over_several_processes(ranks: int, tmp_path: Path) -> None:
    ran = torchrun("exchange,gathered_file,local_files,replicated_file,cache,bad_file", ranks, tmp_path)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert len(list(tmp_path.glob("done_*"))) == ranks

    gathered = tensors.read(tmp_path / "gathered.tensorbin")
    assert [tuple(c) for c in gathered.topology.coords] == [(row, column) for row in range(2) for column in range(4)]
    assert torch.equal(torch.cat(ttnn.load_tensor(tmp_path / "gathered.tensorbin").parts).float(), DATA)
    # The number of processes leaves no trace: one process writes the same bytes.
    official = (samples.FOLDER / "official" / "mesh_2x4_line_shard0.tensorbin").read_bytes()
    assert (tmp_path / "gathered.tensorbin").read_bytes() == official
    assert (tmp_path / "from_host.tensorbin").read_bytes() == official
    assert len(samples.header(tmp_path / "replicated.tensorbin")) + 8 + 512 == (tmp_path / "replicated.tensorbin").stat().st_size
    assert torch.equal(ttnn.to_torch(ttnn.load_tensor(tmp_path / "host.tensorbin")).float(), DATA)
    local = tensors.read(tmp_path / "local_1.tensorbin")
    assert len(local.images) == 8 // ranks
    assert tuple(local.mesh) == (2, 4)
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["w_dtype_BFLOAT16_layout_ROW_MAJOR.tensorbin"]


@pytest.mark.parametrize("ranks", [2, 4])
def test_operations_and_collectives_across_processes(ranks: int, tmp_path: Path) -> None:
    ran = torchrun("compute", ranks, tmp_path)
    assert ran.returncode == 0, ran.stderr[-4000:]


@pytest.mark.parametrize("ranks", [2, 4])
def test_when_a_rank_dies_the_others_say_so_in_time(ranks: int, tmp_path: Path) -> None:
    torchrun("dying", ranks, tmp_path, timeout=20)
    assert not (tmp_path / "dying.tensorbin").exists()
    assert list(tmp_path.glob(".*")) == []
    noticed = [p.read_text() for p in tmp_path.glob("noticed_*")]
    for text in noticed:
        seconds, said = text.split(" ", 1)
        assert float(seconds) < 25
        assert "lost contact with another rank" in said
    assert noticed or not list(tmp_path.glob("done_*"))


def test_alone_everything_is_a_no_op(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_context", None)
    monkeypatch.delenv("RANK", raising=False)
    assert not ttnn.distributed_context_is_initialized()
    for question in (
        ttnn.distributed_context_get_rank,
        ttnn.distributed_context_get_size,
        ttnn.distributed_context_barrier,
        lambda: ttnn.distributed_context_allgather_int(1),
    ):
        with pytest.raises(RuntimeError, match="has not been initialized"):
            question()
    ttnn.init_distributed_context()
    ttnn.init_distributed_context()
    assert (int(ttnn.distributed_context_get_rank()), int(ttnn.distributed_context_get_size())) == (0, 1)
    assert ttnn.distributed_context_allgather_int(7) == [7]
    ttnn.distributed_context_barrier()
    assert ttnn.distributed_context_subcontext_count() == 1
    assert ttnn.distributed_context_subcontext_id() == 0
    assert int(ttnn.distributed_context_local_to_world_rank(0, 0)) == 0
    with pytest.raises(RuntimeError, match="dest=0 is not another rank"):
        ttnn.distributed_context_send_bytes(b"", 0)
