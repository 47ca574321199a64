"""A BitNet-style linear layer: weights of -1, 0 and 1 from numpy, by either of the two ways in."""

import numpy as np
import torch

import ttnn

rng = np.random.default_rng(0)
ternary = rng.integers(-1, 2, (128, 256)).astype(np.float32)
x = torch.randn(32, 128)
scale = 127 / x.abs().amax(dim=-1, keepdim=True)
quantized = (x * scale).round().clamp(-128, 127)
expected = quantized @ torch.from_numpy(ternary) / scale

with ttnn.manage_device(device_id=0) as device:
    by_torch = ttnn.from_torch(torch.from_numpy(ternary), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    by_tensor = ttnn.Tensor(ternary, device=device, layout=ttnn.TILE_LAYOUT)
    assert torch.equal(ttnn.to_torch(by_torch).float(), ttnn.to_torch(by_tensor).float())

    activations = ttnn.from_torch(quantized, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    back = ttnn.from_torch(1 / scale, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    for dtype in (ttnn.bfloat16, ttnn.bfloat8_b, ttnn.bfloat4_b):
        # -1, 0 and 1 fit in every format exactly: the narrowest costs nothing but the rounding of the result.
        got = ttnn.mul(ttnn.matmul(activations, ttnn.typecast(by_torch, dtype)), back)
        pcc = ttnn.pearson_correlation_coefficient(expected, ttnn.to_torch(got).float())
        print(f"weights in {dtype}: PCC {pcc:.6f}")
        assert pcc > 0.999
