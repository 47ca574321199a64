"""Changing shape: reshape, transpose, permute, and going through row-major where values must keep their order."""

import torch

import ttnn

torch.manual_seed(0)
x = torch.randn(2, 64, 96).bfloat16()

with ttnn.manage_device(device_id=0) as device:
    t = ttnn.from_torch(x, layout=ttnn.TILE_LAYOUT, device=device)
    assert torch.equal(ttnn.to_torch(ttnn.reshape(t, (1, 128, 96))), x.reshape(1, 128, 96))
    assert torch.equal(ttnn.to_torch(ttnn.transpose(t, -2, -1)), x.transpose(-2, -1))
    four = ttnn.reshape(t, (2, 64, 3, 32))
    assert torch.equal(ttnn.to_torch(ttnn.permute(four, (0, 2, 1, 3))), x.reshape(2, 64, 3, 32).permute(0, 2, 1, 3))

    rows = ttnn.to_layout(t, ttnn.ROW_MAJOR_LAYOUT)
    again = ttnn.to_layout(ttnn.reshape(rows, (2, 64, 4, 24)), ttnn.TILE_LAYOUT)
    assert torch.equal(ttnn.to_torch(again), x.reshape(2, 64, 4, 24))
    print("reshape, transpose and permute move bits and change none")
