"""Tensors come from torch, from numpy, or are made on the device. There is no from_numpy: `ttnn.Tensor` takes the array."""

import numpy as np
import torch

import ttnn

assert not hasattr(ttnn, "from_numpy")

with ttnn.manage_device(device_id=0) as device:
    source = torch.randn(32, 32)
    from_torch = ttnn.from_torch(source, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.DRAM_MEMORY_CONFIG)
    assert torch.equal(ttnn.to_torch(from_torch), source.to(torch.bfloat16))

    array = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    from_numpy = ttnn.Tensor(array, device=device, layout=ttnn.TILE_LAYOUT)
    assert np.array_equal(ttnn.to_torch(from_numpy).float().numpy(), array)
    through_torch = ttnn.from_torch(torch.from_numpy(array), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    print("from numpy:", from_numpy.dtype, "through torch:", through_torch.dtype)

    full = ttnn.full(shape=(32, 32), fill_value=1.0, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)
    zeros = ttnn.zeros(shape=(32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    ones = ttnn.ones(shape=(32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    assert torch.equal(ttnn.to_torch(full), torch.ones(32, 32))
    assert torch.equal(ttnn.to_torch(zeros) + 1, ttnn.to_torch(ones))

    noise = ttnn.rand((1024, 1024), dtype=ttnn.bfloat16, device=device, layout=ttnn.TILE_LAYOUT)
    in_l1 = ttnn.rand((1024, 1024), dtype=ttnn.bfloat16, device=device, layout=ttnn.TILE_LAYOUT, memory_config=ttnn.L1_MEMORY_CONFIG)
    for name, tensor in (("in DRAM", noise), ("in L1", in_l1)):
        values = ttnn.to_torch(tensor).float()
        print(f"rand {name}: mean {values.mean():.3f}, from {values.min():.3f} to {values.max():.3f}")
        assert 0.49 < values.mean() < 0.51
        assert values.min() >= 0
        assert values.max() <= 1

    counting = ttnn.arange(0, 32, 1, dtype=ttnn.int32, device=device)
    assert ttnn.to_torch(counting).flatten().tolist() == list(range(32))
