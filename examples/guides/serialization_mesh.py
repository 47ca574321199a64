"""Files of tensors on a mesh of chips: shards with their places, replicas once (guide "Tensor Serialization", section 4).

The same program runs as several processes that share the mesh:

    torchrun --nproc-per-node 2 examples/guides/serialization_mesh.py
"""

import os
import tempfile
from pathlib import Path

import torch

import ttnn

os.environ.setdefault("TESSERA_BOARD", "n300")
ttnn.init_distributed_context()
rank, size = int(ttnn.distributed_context_get_rank()), int(ttnn.distributed_context_get_size())
folder = Path(tempfile.gettempdir()) / f"tessera_mesh_{os.environ.get('MASTER_PORT', os.getpid())}"
folder.mkdir(exist_ok=True)

mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2))
source = torch.arange(64 * 64, dtype=torch.float32).reshape(64, 64) % 256
sharded = ttnn.from_torch(source, dtype=ttnn.bfloat16, device=mesh, mesh_mapper=ttnn.ShardTensorToMesh(mesh, dim=0))
replicated = ttnn.from_torch(source, dtype=ttnn.bfloat16, device=mesh, mesh_mapper=ttnn.ReplicateTensorToMesh(mesh))

# However many processes hold the parts, one of them writes one file of the whole.
ttnn.dump_tensor(folder / "sharded.tensorbin", sharded)
ttnn.dump_tensor(folder / "replicated.tensorbin", replicated)
sizes = {path.name: path.stat().st_size for path in sorted(folder.glob("*.tensorbin"))}
assert abs(sizes["sharded.tensorbin"] - sizes["replicated.tensorbin"]) < 128, "two halves, or one whole: a replica is stored once"

# Each process loads the parts of its own chips; together they are the tensor.
loaded = ttnn.load_tensor(folder / "sharded.tensorbin", device=mesh)
assert len(ttnn.get_device_tensors(loaded)) == 2 // size
back = ttnn.to_torch(loaded, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0))
assert torch.equal(back, source.bfloat16())
print(f"rank {rank} of {size}: {sizes}")

ttnn.close_mesh_device(mesh)
ttnn.distributed_context_barrier()
if rank == 0:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
