"""What the accuracy page says of transformers: products with weights in block floats, attention, rotary embeddings, scores, against fp64.

Errors are in units of the last place of bfloat16 of the magnitudes that were summed: products of absolute values, and absolute values weighed as attention weighs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

import ttnn

TOKENS, WIDTH, HEADS, SHARED = 160, 64, 8, 2
Figure = tuple[str, torch.Tensor, torch.Tensor, torch.Tensor]


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


def weighed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention in fp64, and the same of absolute values."""
    q, k, v = q.double(), *(t.double().repeat_interleave(HEADS // SHARED, dim=1) for t in (k, v))
    shares = torch.softmax((q @ k.transpose(-1, -2) * WIDTH**-0.5).masked_fill(hidden, -torch.inf), dim=-1)
    return shares @ v, shares @ v.abs()


def products(device: Any) -> Iterator[Figure]:
    a, b, bias = random(160, 1024), random(1024, 96, seed=2), random(96, seed=3)
    for dtype in (ttnn.bfloat16, ttnn.bfloat8_b, ttnn.bfloat4_b):
        weights = ttnn.from_torch(b, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)
        x, z = (ttnn.from_torch(t, layout=ttnn.TILE_LAYOUT, device=device) for t in (a, bias))
        held = ttnn.to_torch(weights).double()
        found = ttnn.to_torch(ttnn.linear(x, weights, bias=z))
        yield f"linear, weights in {dtype.name.lower()}", found, a.double() @ held + bias.double(), a.double().abs() @ held.abs()


def attention(device: Any) -> Iterator[Figure]:
    def put(values: torch.Tensor) -> Any:
        return ttnn.from_torch(values, layout=ttnn.TILE_LAYOUT, device=device)

    q, k, v = random(2, HEADS, TOKENS, WIDTH), random(2, SHARED, TOKENS, WIDTH, seed=2), random(2, SHARED, TOKENS, WIDTH, seed=3)
    later = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    sdpa = ttnn.transformer.scaled_dot_product_attention
    yield "scaled_dot_product_attention", ttnn.to_torch(sdpa(put(q), put(k), put(v))), *weighed(q, k, v, later)
    far = later | torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril(-32)
    yield (
        "scaled_dot_product_attention, window of 32",
        ttnn.to_torch(sdpa(put(q), put(k), put(v), sliding_window_size=32)),
        *weighed(q, k, v, far),
    )
    step = q[:, :, :1].permute(2, 0, 1, 3)
    places = torch.tensor([40, 150])
    found = ttnn.to_torch(ttnn.transformer.scaled_dot_product_attention_decode(put(step), put(k), put(v), cur_pos=places.tolist()))
    unseen = torch.arange(TOKENS) > places[:, None, None, None]
    yield "scaled_dot_product_attention_decode", found[0].unsqueeze(2), *weighed(q[:, :, :1], k, v, unseen)
    angles = torch.outer(torch.arange(TOKENS).float(), 10000.0 ** -(torch.arange(0, WIDTH, 2).float() / WIDTH)).repeat(1, 2)[None, None]
    cos, sin = angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)
    low, high = q.double().chunk(2, dim=-1)
    terms = q.double() * cos.double(), torch.cat([-high, low], dim=-1) * sin.double()
    found = ttnn.to_torch(ttnn.experimental.rotary_embedding(put(q), put(cos), put(sin)))
    yield "rotary_embedding", found, terms[0] + terms[1], terms[0].abs() + terms[1].abs()
    scores, mask = random(2, HEADS, TOKENS, TOKENS, seed=4), random(2, 1, 1, TOKENS, seed=5)
    exact = torch.softmax(scores.double() / 8 + mask.double(), dim=-1)
    yield (
        "attention_softmax",
        ttnn.to_torch(ttnn.transformer.attention_softmax(put(scores), head_size=64, attention_mask=put(mask))),
        exact,
        exact,
    )


def figures(device: Any) -> Iterator[tuple[str, float]]:
    """(operation, largest error)."""
    for name, found, exact, magnitude in (*products(device), *attention(device)):
        error = (found.double() - exact).abs() / torch.maximum(magnitude, exact.abs()).clamp(min=2.0**-120)
        yield name, float(error.max()) * 2.0**7
