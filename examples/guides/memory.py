"""Where a tensor lives: DRAM by default, L1 for what is used next, shards when each core should hold its own part."""

import torch

import ttnn

with ttnn.manage_device(device_id=0) as device:
    source = torch.randn(1, 1, 256, 256)
    large = ttnn.from_torch(source, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.DRAM_MEMORY_CONFIG)
    near = ttnn.to_memory_config(large, ttnn.L1_MEMORY_CONFIG)
    print("DRAM address", large.buffer_address(), "L1 address", near.buffer_address())

    # Eight cores, 32 rows each.
    sharded_config = ttnn.create_sharded_memory_config(
        (1, 1, 256, 256), core_grid=ttnn.CoreGrid(y=1, x=8), strategy=ttnn.ShardStrategy.HEIGHT
    )
    sharded = ttnn.to_memory_config(near, sharded_config)
    assert sharded.is_sharded()
    assert list(sharded.memory_config().shard_spec.shape) == [32, 256]
    assert torch.equal(ttnn.to_torch(sharded), source.to(torch.bfloat16))

    # L1 is small: give back what is done with, and move what is left so that the holes close.
    address = near.buffer_address()
    ttnn.deallocate(near)
    assert not near.is_allocated()
    moved = ttnn.reallocate(sharded)
    print("reallocated to", moved.buffer_address(), "where the first copy was at", address)
    assert torch.equal(ttnn.to_torch(moved), source.to(torch.bfloat16))

    # A host tensor has no device memory; storage_type tells the two apart.
    on_host = ttnn.from_device(moved)
    assert on_host.storage_type() == ttnn.StorageType.HOST
    assert moved.storage_type() == ttnn.StorageType.DEVICE
