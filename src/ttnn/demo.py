"""A transformer block on a software n150, in bfloat16 and in bfloat8_b, against torch in fp32. `tessera demo` runs it.

The block is written as a TT-NN user writes one: weights once on the device, activations in tiles, attention through
`ttnn.transformer`. What it prints is what the software device is for: how far each number format is from fp32, which operations the
chip would run, and how much of its memories they take.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

import ttnn
from tessera.cli.summary import device_table, operation_table
from tessera.cli.terminal import Table, duration, show
from tessera.runtime import telemetry

BATCH, TOKENS, WIDTH, HEADS, HIDDEN = 1, 128, 512, 8, 2048
FORMATS = (ttnn.bfloat16, ttnn.bfloat8_b)
Weights = dict[str, torch.Tensor]


def make_weights(seed: int = 0) -> Weights:
    """Random weights of the size a trained block has, so that activations stay near one."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) / rows**0.5

    return {
        "attention_norm": torch.ones(WIDTH),
        "qkv": matrix(WIDTH, 3 * WIDTH),
        "attention_out": matrix(WIDTH, WIDTH),
        "feed_forward_norm": torch.ones(WIDTH),
        "up": matrix(WIDTH, HIDDEN),
        "down": matrix(HIDDEN, WIDTH),
    }


def torch_block(x: torch.Tensor, w: Weights) -> torch.Tensor:
    """The same block in fp32: what the numbers should be."""
    normed = torch.nn.functional.rms_norm(x, (WIDTH,), w["attention_norm"], 1e-5)
    query, key, value = (
        part.reshape(BATCH, TOKENS, HEADS, WIDTH // HEADS).transpose(1, 2) for part in (normed @ w["qkv"]).split(WIDTH, dim=-1)
    )
    heads = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    x = x + heads.transpose(1, 2).reshape(BATCH, TOKENS, WIDTH) @ w["attention_out"]
    normed = torch.nn.functional.rms_norm(x, (WIDTH,), w["feed_forward_norm"], 1e-5)
    return x + torch.nn.functional.silu(normed @ w["up"]) @ w["down"]


class Block:
    """The block on a device, with its matrices in `dtype`; norm weights are few and stay bfloat16."""

    def __init__(self, weights: Weights, dtype: Any, device: Any) -> None:
        self.weights = {
            name: ttnn.from_torch(w, dtype=dtype if w.dim() == 2 else ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
            for name, w in weights.items()
        }

    def __call__(self, x: Any) -> Any:
        w = self.weights
        normed = ttnn.rms_norm(x, weight=w["attention_norm"], epsilon=1e-5, memory_config=ttnn.L1_MEMORY_CONFIG)
        qkv = ttnn.linear(normed, w["qkv"], memory_config=ttnn.L1_MEMORY_CONFIG)
        query, key, value = ttnn.transformer.split_query_key_value_and_split_heads(qkv, num_heads=HEADS, transpose_key=False)
        heads = ttnn.transformer.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = ttnn.add(x, ttnn.linear(ttnn.transformer.concatenate_heads(heads), w["attention_out"]))
        normed = ttnn.rms_norm(x, weight=w["feed_forward_norm"], epsilon=1e-5, memory_config=ttnn.L1_MEMORY_CONFIG)
        up = ttnn.linear(normed, w["up"], activation="silu", memory_config=ttnn.L1_MEMORY_CONFIG)
        return ttnn.add(x, ttnn.linear(up, w["down"]))


def pearson(a: torch.Tensor, b: torch.Tensor) -> float:
    """Pearson's correlation, in fp64: the figure TT-NN's own tests judge by."""
    return float(torch.corrcoef(torch.stack([a.double().flatten(), b.double().flatten()]))[0, 1])


def ulps(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Distance in units of bfloat16's last place, each value's own place (never finer than that of 2^-6: near zero a place means nothing)."""
    _, exponent = torch.frexp(want.float().abs().clamp_min(2.0**-6))
    return (got.float() - want.float()).abs() / torch.exp2(exponent.float() - 8)


@dataclass(frozen=True)
class Outcome:
    dtype: str
    pcc: float
    max_ulp: float
    median_ulp: float
    first: float
    again: float
    weight_bytes: int


def measure(dtype: Any, device: Any, x: torch.Tensor, weights: Weights, want: torch.Tensor) -> Outcome:
    block = Block(weights, dtype, device)
    given = ttnn.from_torch(x, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)
    times = []
    for _ in range(4):
        started = perf_counter()
        result = block(given)
        ttnn.synchronize_device(device)
        times.append(perf_counter() - started)
    got = ttnn.to_torch(result).float()
    apart = ulps(got, want)
    size = sum(w.buffer_page_size() * w.buffer_num_pages() for w in block.weights.values())
    return Outcome(
        str(dtype).rsplit(".", 1)[-1], pearson(got, want), float(apart.max()), float(apart.median()), times[0], min(times[1:]), size
    )


def main() -> None:
    torch.manual_seed(0)
    weights, x = make_weights(), torch.randn(BATCH, TOKENS, WIDTH)
    started = perf_counter()
    want = torch_block(x, weights)
    torch_time = perf_counter() - started
    print(f"One transformer block ({WIDTH} wide, {TOKENS} tokens, {HEADS} heads) on a software device, against torch in fp32.\n")
    opened = perf_counter()
    with ttnn.manage_device(0) as device:
        opened = perf_counter() - opened
        outcomes = [measure(dtype, device, x, weights, want) for dtype in FORMATS]
        rows = [
            (
                o.dtype,
                f"{o.pcc:.6f}",
                f"{o.max_ulp:.1f}",
                f"{o.median_ulp:.2f}",
                f"{o.weight_bytes / 2**20:.2f} MiB",
                duration(o.first),
                duration(o.again),
            )
            for o in outcomes
        ]
        columns = ("format", "PCC", "max ULP", "median ULP", "weights", "first call", "next call")
        show(Table("against torch fp32 (ULP: units of bfloat16's last place)", columns, rows, frozenset(columns[1:])))
        seen = [telemetry.snapshot(device)]
        show(operation_table(seen))
        show(device_table(seen))
    print(f"opened in {duration(opened)}; torch fp32 took {duration(torch_time)} for the same block")


if __name__ == "__main__":
    main()
