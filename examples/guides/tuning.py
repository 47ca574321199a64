"""What makes programs fast on the card, and how to see it here: the program cache, L1, fewer bits, less traffic with the host."""

import torch

import ttnn

torch.manual_seed(0)
x, w = torch.randn(64, 256), torch.randn(256, 256) / 16

with ttnn.manage_device(device_id=0) as device:
    weight = ttnn.from_torch(w, dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, device=device)  # once, not in the loop
    state = ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    for step in range(4):
        wide = ttnn.matmul(state, weight, memory_config=ttnn.L1_MEMORY_CONFIG, core_grid=ttnn.CoreGrid(y=8, x=8))
        state = ttnn.relu(wide, memory_config=ttnn.L1_MEMORY_CONFIG)
        ttnn.deallocate(wide)
        print(f"after step {step}: {device.num_program_cache_entries()} programs")
    ttnn.synchronize_device(device)  # operations are queued; this, or reading a result, waits for them

    # The first step's activations came from DRAM, the others' from L1: two kinds of call of each operation.
    before = device.num_program_cache_entries()
    again = ttnn.relu(ttnn.matmul(state, weight, memory_config=ttnn.L1_MEMORY_CONFIG, core_grid=ttnn.CoreGrid(y=8, x=8)))
    assert device.num_program_cache_entries() <= before + 1
    expected = x
    for _ in range(5):
        expected = torch.relu(expected @ w)
    pcc = ttnn.pearson_correlation_coefficient(expected, ttnn.to_torch(again).float())
    print(f"five layers, bfloat8_b weights: PCC {pcc:.5f}")
    assert pcc > 0.99
