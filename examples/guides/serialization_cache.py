"""Convert a tensor once and keep it: `ttnn.as_tensor`, its hits and its misses (guide "Tensor Serialization", sections 2.3, 5, 6 and 7.2)."""

import os
import tempfile

import torch

import ttnn

with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    device = ttnn.open_device(device_id=0)

    # The first call generates and caches the tensor; the second takes the file, and its input is ignored.
    arguments = {
        "dtype": ttnn.bfloat16,
        "layout": ttnn.TILE_LAYOUT,
        "cache_file_name": "activations",
        "device": device,
        "memory_config": ttnn.L1_MEMORY_CONFIG,
    }
    first = ttnn.as_tensor(torch.randn(1024, 1024), **arguments)
    second = ttnn.as_tensor(torch.randn(1024, 1024), **arguments)
    assert torch.equal(ttnn.to_torch(first), ttnn.to_torch(second))
    assert second.memory_config() == ttnn.L1_MEMORY_CONFIG
    print("after two calls:", os.listdir())
    assert os.listdir() == ["activations_dtype_BFLOAT16_layout_TILE.tensorbin"]

    # Another dtype or layout is another file.
    data = torch.randn(64, 64)
    ttnn.as_tensor(data, cache_file_name="weights", dtype=ttnn.bfloat16)
    ttnn.as_tensor(data, cache_file_name="weights", dtype=ttnn.float32)
    assert os.path.exists("weights_dtype_BFLOAT16_layout_ROW_MAJOR.tensorbin")
    assert os.path.exists("weights_dtype_FLOAT32_layout_ROW_MAJOR.tensorbin")

    # Another shape under the same name is a miss: the entry is generated again, with a warning.
    larger = ttnn.as_tensor(torch.ones(128, 128), cache_file_name="weights", dtype=ttnn.bfloat16)
    assert list(larger.shape) == [128, 128]

    # So is a file that is broken.
    with open("weights_dtype_BFLOAT16_layout_ROW_MAJOR.tensorbin", "r+b") as file:
        file.truncate(1000)
    again = ttnn.as_tensor(torch.ones(128, 128), cache_file_name="weights", dtype=ttnn.bfloat16)
    assert torch.equal(ttnn.to_torch(again), torch.ones(128, 128).bfloat16())

    # A placeholder never becomes an entry, and `cache_only` demands that one is there.
    try:
        ttnn.as_tensor(torch.empty(8, 8, device="meta"), cache_file_name="placeholder", dtype=ttnn.bfloat16)
    except RuntimeError as error:
        print("refused:", error)
    kept = ttnn.as_tensor(None, cache_file_name="weights", dtype=ttnn.float32, cache_only=True)
    assert torch.equal(ttnn.to_torch(kept), data)

    # Random weights: seed them, and let the name say with what.
    seed = 42
    torch.manual_seed(seed)
    tensor = ttnn.from_torch(torch.randn(1024, 1024), dtype=ttnn.bfloat16)
    ttnn.dump_tensor(f"random_weights_seed_{seed}.tensorbin", tensor)
    torch.manual_seed(seed)
    assert torch.equal(ttnn.to_torch(ttnn.load_tensor("random_weights_seed_42.tensorbin")), torch.randn(1024, 1024).bfloat16())

    ttnn.close_device(device)
    os.chdir("/")
