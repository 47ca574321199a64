"""Looking at tensors: printing profiles, and comparing with a reference in torch."""

import torch

import ttnn

torch.manual_seed(0)
x = torch.randn(8, 8)

with ttnn.manage_device(device_id=0) as device:
    t = ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    for profile in ("empty", "short", "full"):
        ttnn.set_printoptions(profile=profile)
        print(t)
    ttnn.set_printoptions(profile="short")

    # Every operation brings the torch function that says what it should compute.
    golden = ttnn.get_golden_function(ttnn.softmax)
    want = golden(x.bfloat16(), dim=-1).float()
    pcc = ttnn.pearson_correlation_coefficient(want, ttnn.to_torch(ttnn.softmax(t, dim=-1)).float())
    print(f"softmax against its golden function: PCC {pcc:.6f}")
    assert pcc > 0.999
