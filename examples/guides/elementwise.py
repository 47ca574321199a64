"""Element by element: arithmetic by name and by operator, broadcasting, activations."""

import torch

import ttnn

UNARY = {
    "relu": torch.relu, "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu, "exp": torch.exp,
    "tanh": torch.tanh, "sigmoid": torch.sigmoid,
}  # fmt: skip
POSITIVE = {"log": torch.log, "reciprocal": torch.reciprocal}
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}

torch.manual_seed(0)
x, y = torch.randn(2, 64, 96).bfloat16(), torch.rand(2, 64, 96).bfloat16() + 0.5
row = torch.randn(1, 1, 96).bfloat16()


def agree(name: str, got: ttnn.Tensor, want: torch.Tensor) -> None:
    pcc = ttnn.pearson_correlation_coefficient(want, ttnn.to_torch(got).float())
    print(f"{name:12s} PCC {pcc:.6f}")
    assert pcc > 0.9999, name


with ttnn.manage_device(device_id=0) as device:
    a, b, c = (ttnn.from_torch(t, layout=ttnn.TILE_LAYOUT, device=device) for t in (x, y, row))
    for name, function in UNARY.items():
        agree(name, getattr(ttnn, name)(a), function(x.float()))
    for name, function in POSITIVE.items():
        agree(name, getattr(ttnn, name)(b), function(y.float()))
    for name, function in BINARY.items():
        agree(name, getattr(ttnn, name)(a, b), function(x.float(), y.float()))
    agree("a + b", a + b, x.float() + y.float())
    agree("a * b", a * b, x.float() * y.float())
    agree("a + row", a + c, x.float() + row.float())
    agree("a * 0.5", a * 0.5, x.float() * 0.5)
