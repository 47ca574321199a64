"""Matrices: matmul by name and by operator, where the result goes, and a linear layer made from torch's weights."""

import torch

import ttnn

torch.manual_seed(0)
x, w = torch.randn(128, 256), torch.randn(256, 512)
layer = torch.nn.Linear(256, 512)


def agree(name: str, got: ttnn.Tensor, want: torch.Tensor) -> None:
    pcc = ttnn.pearson_correlation_coefficient(want.detach(), ttnn.to_torch(got).float())
    print(f"{name:28s} PCC {pcc:.6f}")
    assert pcc > 0.999, name


with ttnn.manage_device(device_id=0) as device:

    def tiles(tensor: torch.Tensor, dtype: ttnn.DataType = ttnn.bfloat16) -> ttnn.Tensor:
        return ttnn.from_torch(tensor.detach(), dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)

    a, b = tiles(x), tiles(w)
    agree("matmul", ttnn.matmul(a, b), x @ w)
    agree("a @ b", a @ b, x @ w)
    near = ttnn.matmul(a, b, memory_config=ttnn.L1_MEMORY_CONFIG)
    assert near.memory_config() == ttnn.L1_MEMORY_CONFIG
    agree("matmul into L1", near, x @ w)
    agree("matmul on 8 x 8 cores", ttnn.matmul(a, b, memory_config=ttnn.L1_MEMORY_CONFIG, core_grid=ttnn.CoreGrid(y=8, x=8)), x @ w)
    agree("matmul, bfloat8_b weights", ttnn.matmul(a, tiles(w, ttnn.bfloat8_b)), x @ w)

    # torch keeps weights as (out, in); the chip multiplies by (in, out), so transpose once, before the loop.
    weight = ttnn.transpose(tiles(layer.weight), -2, -1)
    bias = ttnn.reshape(tiles(layer.bias), [1, -1])
    agree("linear", ttnn.linear(a, weight, bias=bias), layer(x))
