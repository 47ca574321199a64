"""The norms that models use: rms_norm, layer_norm, softmax."""

import torch

import ttnn

torch.manual_seed(0)
x, gamma, beta = torch.randn(4, 64, 128), torch.rand(128) + 0.5, torch.randn(128)
F = torch.nn.functional


def agree(name: str, got: ttnn.Tensor, want: torch.Tensor) -> None:
    pcc = ttnn.pearson_correlation_coefficient(want, ttnn.to_torch(got).float())
    print(f"{name:12s} PCC {pcc:.6f}")
    assert pcc > 0.9999, name


with ttnn.manage_device(device_id=0) as device:
    t, g, b = (ttnn.from_torch(v, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device) for v in (x, gamma, beta))
    agree("rms_norm", ttnn.rms_norm(t, weight=g, epsilon=1e-5), F.rms_norm(x, (128,), gamma, 1e-5))
    agree("rms_norm", ttnn.rms_norm(t, epsilon=1e-6, weight=g), F.rms_norm(x, (128,), gamma, 1e-6))
    agree("layer_norm", ttnn.layer_norm(t, weight=g, bias=b, epsilon=1e-5), F.layer_norm(x, (128,), gamma, beta, 1e-5))
    agree("softmax", ttnn.softmax(t, dim=-1), torch.softmax(x, dim=-1))
