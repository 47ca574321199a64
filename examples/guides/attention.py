"""Attention from its parts: projections, heads, scores, softmax, context. Then the same in one fused operation."""

import math

import torch

import ttnn

BATCH, TOKENS, HEADS, HEAD = 1, 64, 4, 32
WIDTH = HEADS * HEAD
torch.manual_seed(0)
x = torch.randn(BATCH, TOKENS, WIDTH)
weights = {name: torch.randn(WIDTH, WIDTH) / math.sqrt(WIDTH) for name in ("query", "key", "value")}
biases = {name: torch.randn(WIDTH) / 10 for name in weights}
mask = torch.triu(torch.full((TOKENS, TOKENS), -1e9), diagonal=1).reshape(1, 1, TOKENS, TOKENS)


def split(t: torch.Tensor) -> torch.Tensor:
    return t.reshape(BATCH, TOKENS, HEADS, HEAD).transpose(1, 2)


q, k, v = (split(x @ weights[name] + biases[name]) for name in ("query", "key", "value"))
expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def agree(name: str, got: ttnn.Tensor) -> None:
    pcc = ttnn.pearson_correlation_coefficient(expected, ttnn.to_torch(got).float())
    print(f"{name:10s} PCC {pcc:.6f}")
    assert pcc > 0.999, name


with ttnn.manage_device(device_id=0) as device:

    def tiles(tensor: torch.Tensor) -> ttnn.Tensor:
        return ttnn.from_torch(tensor, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)

    def project(name: str) -> ttnn.Tensor:
        states = tiles(x) @ tiles(weights[name])
        states = states + tiles(biases[name].reshape(1, -1))
        # A head is a quarter of a row, not whole tiles: split it in row-major order, then compute in tiles again.
        states = ttnn.to_layout(states, layout=ttnn.ROW_MAJOR_LAYOUT)
        states = ttnn.reshape(states, (BATCH, TOKENS, HEADS, HEAD))
        return ttnn.to_layout(states, layout=ttnn.TILE_LAYOUT)

    query = ttnn.permute(project("query"), (0, 2, 1, 3))
    key = ttnn.permute(project("key"), (0, 2, 3, 1))  # the last two swapped, ready to be multiplied by
    value = ttnn.permute(project("value"), (0, 2, 1, 3))

    scores = query @ key
    scores = scores * (1 / (HEAD**0.5))
    scores = scores + tiles(mask)
    probabilities = ttnn.softmax(scores, dim=-1)
    agree("by hand", probabilities @ value)

    fused = ttnn.transformer.scaled_dot_product_attention(query, ttnn.permute(key, (0, 1, 3, 2)), value, is_causal=True)
    agree("fused", fused)
