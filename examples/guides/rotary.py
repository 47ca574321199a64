"""Rotary position embedding, by its name in `ttnn.transformer`."""

import torch

import ttnn

HEADS, TOKENS, HEAD = 4, 32, 64
torch.manual_seed(0)
x = torch.randn(1, HEADS, TOKENS, HEAD)
angles = torch.outer(torch.arange(TOKENS).float(), 10000 ** -(torch.arange(0, HEAD, 2).float() / HEAD))
cos, sin = (f(torch.cat([angles, angles], dim=-1)).reshape(1, 1, TOKENS, HEAD) for f in (torch.cos, torch.sin))
low, high = x.chunk(2, dim=-1)
expected = x * cos + torch.cat([-high, low], dim=-1) * sin

with ttnn.manage_device(device_id=0) as device:
    t, c, s = (ttnn.from_torch(v, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device) for v in (x, cos, sin))
    got = ttnn.to_torch(ttnn.transformer.rotary_embedding(t, c, s)).float()
    pcc = ttnn.pearson_correlation_coefficient(expected, got)
    print(f"rotary_embedding PCC {pcc:.6f}")
    assert pcc > 0.9999
