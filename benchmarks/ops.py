"""Operations of `ttnn` against torch eager in bfloat16 on the same CPU: what a user would pick instead.

    python benchmarks/ops.py [--quick] [--threads 1 2] [--only softmax] [--json FILE]

Every figure is a ratio of times measured in turns in one run; benchmarks/README.md says how to read the table.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from peers import Timing, compare, cpu_name, human

import ttnn
from tessera import native

BF16 = torch.bfloat16


@dataclass(frozen=True)
class Row:
    """One line of the table: what is done, on what, by whom, and the ratio that is asked."""

    group: str
    name: str
    shape: str
    ours: Callable[[], object]
    peer: Callable[[], object]
    asked: float


class Bench:
    """Builds rows: makes a tensor in torch and puts the same on the device."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.generator = torch.Generator().manual_seed(0)

    def torch(self, *shape: int, positive: bool = False, dtype: torch.dtype = BF16) -> torch.Tensor:
        x = torch.randn(shape, generator=self.generator)
        return (x.abs() + 0.1 if positive else x).to(dtype)

    def put(self, x: torch.Tensor, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT) -> Any:
        return ttnn.from_torch(x, dtype=dtype, layout=layout, device=self.device)

    def pair(self, *shape: int, positive: bool = False) -> tuple[torch.Tensor, Any]:
        x = self.torch(*shape, positive=positive)
        return x, self.put(x)


MODEL = (8, 512, 1024)
UNARY = {
    "exp": torch.exp,
    "log": torch.log,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "silu": F.silu,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "erf": torch.erf,
    "relu": torch.relu,
    "neg": torch.neg,
    "abs": torch.abs,
    "reciprocal": torch.reciprocal,
    "square": torch.square,
}
POSITIVE = {"log", "sqrt", "rsqrt", "reciprocal"}
BINARY = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "maximum": torch.maximum,
    "eq": torch.eq,
    "gt": torch.gt,
}


def matmul_rows(b: Bench) -> Iterator[Row]:
    for size in (32, 64, 128):
        x, dx = b.pair(size, size)
        y, dy = b.pair(size, size)
        yield Row("matmul", "matmul", f"{size}^3", lambda dx=dx, dy=dy: ttnn.matmul(dx, dy), lambda x=x, y=y: torch.mm(x, y), 0.5)
    x, dx = b.pair(2048, 2048)
    y, dy = b.pair(2048, 2048)
    packed = b.put(y, ttnn.bfloat8_b)
    asked = 1.1 if native.name() == "amx" else 1.0
    yield Row("matmul", "matmul", "2048^3", lambda: ttnn.matmul(dx, dy), lambda: torch.mm(x, y), 1.0)
    yield Row(
        "matmul", "matmul, weights bfloat8_b", "2048^3", lambda: ttnn.matmul(dx, packed, dtype=ttnn.bfloat16), lambda: torch.mm(x, y), asked
    )
    one, done = b.pair(1, 2048)
    weights = y.t().contiguous()
    for dtype, name, asked in ((ttnn.bfloat8_b, "bfloat8_b", 0.5), (ttnn.bfloat4_b, "bfloat4_b", 0.4)):
        tiles = b.put(y, dtype)
        yield Row(
            "matmul",
            f"one row, weights {name}",
            "1x2048 x 2048^2",
            lambda tiles=tiles: ttnn.linear(done, tiles, dtype=ttnn.bfloat16),
            lambda: F.linear(one, weights),
            asked,
        )


def launch_rows(b: Bench) -> Iterator[Row]:
    x, dx = b.pair(32, 32)
    y, dy = b.pair(32, 32)
    yield Row("launch", "add", "32x32", lambda: ttnn.add(dx, dy), lambda: torch.add(x, y), math.inf)


def elementwise_rows(b: Bench) -> Iterator[Row]:
    shape = "x".join(map(str, MODEL))
    x, dx = b.pair(*MODEL)
    p, dp = b.pair(*MODEL, positive=True)
    for name, peer in UNARY.items():
        t, d = (p, dp) if name in POSITIVE else (x, dx)
        yield Row("elementwise", name, shape, lambda op=getattr(ttnn, name), d=d: op(d), lambda op=peer, t=t: op(t), 1.1)
    for name, peer in BINARY.items():
        yield Row("elementwise", name, shape, lambda op=getattr(ttnn, name): op(dx, dp), lambda op=peer: op(x, p), 1.1)
    row, drow = b.pair(1, 1, MODEL[2])
    column, dcolumn = b.pair(MODEL[0], MODEL[1], 1)
    yield Row("elementwise", "add, a row", shape, lambda: ttnn.add(dx, drow), lambda: torch.add(x, row), 1.1)
    yield Row("elementwise", "multiply, a column", shape, lambda: ttnn.multiply(dx, dcolumn), lambda: torch.mul(x, column), 1.1)
    yield Row("elementwise", "multiply, a number", shape, lambda: ttnn.multiply(dx, 0.5), lambda: torch.mul(x, 0.5), 1.1)
    c, dc = (x > 0).to(BF16), b.put((x > 0).to(BF16))
    chosen = x > 0
    yield Row("elementwise", "where", shape, lambda: ttnn.where(dc, dx, dp), lambda: torch.where(chosen, x, p), 1.1)
    del c


def row_rows(b: Bench) -> Iterator[Row]:
    shape, width = "x".join(map(str, MODEL)), MODEL[2]
    x, dx = b.pair(*MODEL)
    weight, dweight = b.pair(width)
    bias, dbias = b.pair(width)
    dweight, dbias = b.put(weight.reshape(1, width)), b.put(bias.reshape(1, width))
    yield Row("rows", "softmax", shape, lambda: ttnn.softmax(dx, dim=-1), lambda: torch.softmax(x, -1), 1.1)
    yield Row(
        "rows",
        "layer_norm",
        shape,
        lambda: ttnn.layer_norm(dx, weight=dweight, bias=dbias),
        lambda: F.layer_norm(x, (width,), weight, bias),
        1.1,
    )
    yield Row("rows", "rms_norm", shape, lambda: ttnn.rms_norm(dx, weight=dweight), lambda: F.rms_norm(x, (width,), weight, 1e-6), 1.1)
    yield Row("rows", "sum", shape, lambda: ttnn.sum(dx, dim=-1), lambda: torch.sum(x, -1), 1.1)
    yield Row("rows", "mean", shape, lambda: ttnn.mean(dx, dim=-1), lambda: torch.mean(x, -1), 1.1)
    yield Row("rows", "max", shape, lambda: ttnn.max(dx, dim=-1), lambda: torch.max(x, -1), 1.1)
    yield Row("rows", "sum over rows", shape, lambda: ttnn.sum(dx, dim=-2), lambda: torch.sum(x, -2), 1.1)
    rm = b.put(x, layout=ttnn.ROW_MAJOR_LAYOUT)
    yield Row("rows", "argmax", shape, lambda: ttnn.argmax(rm, dim=-1), lambda: torch.argmax(x, -1), 1.1)
    four, dfour = x.reshape(1, *MODEL), b.put(x.reshape(1, *MODEL))
    yield Row("rows", "topk, 32", shape, lambda: ttnn.topk(dfour, 32, -1, True, True), lambda: torch.topk(four, 32, -1), 1.1)
    yield Row("rows", "cumsum", shape, lambda: ttnn.cumsum(dx, -1), lambda: torch.cumsum(x, -1), 1.1)
    yield Row("rows", "sort", shape, lambda: ttnn.sort(dx, -1), lambda: torch.sort(x, -1), 1.1)


def movement_rows(b: Bench) -> Iterator[Row]:
    shape = "x".join(map(str, MODEL))
    x, dx = b.pair(*MODEL)
    heads, dheads = b.pair(8, 512, 16, 64)
    yield Row("movement", "permute (0, 2, 1)", shape, lambda: ttnn.permute(dx, (0, 2, 1)), lambda: x.permute(0, 2, 1).contiguous(), 1.1)
    yield Row(
        "movement",
        "permute (0, 2, 1, 3)",
        "8x512x16x64",
        lambda: ttnn.permute(dheads, (0, 2, 1, 3)),
        lambda: heads.permute(0, 2, 1, 3).contiguous(),
        1.1,
    )
    yield Row("movement", "transpose", shape, lambda: ttnn.transpose(dx, 1, 2), lambda: x.transpose(1, 2).contiguous(), 1.1)
    yield Row("movement", "concat", shape, lambda: ttnn.concat([dx, dx], dim=-1), lambda: torch.cat([x, x], -1), 1.1)
    yield Row("movement", "slice", shape, lambda: ttnn.slice(dx, [0, 0, 0], [8, 256, 512]), lambda: x[:, :256, :512].contiguous(), 1.1)
    table, places = b.torch(32000, 1024), torch.randint(0, 32000, (8, 512), generator=b.generator)
    dtable, dplaces = b.put(table, layout=ttnn.ROW_MAJOR_LAYOUT), b.put(places.int(), ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT)
    yield Row(
        "movement", "embedding", "8x512 of 32000x1024", lambda: ttnn.embedding(dplaces, dtable), lambda: F.embedding(places, table), 1.1
    )


def layer_rows(b: Bench) -> Iterator[Row]:
    q, dq = b.pair(1, 16, 512, 64)
    yield Row(
        "layers",
        "sdpa",
        "1x16x512x64",
        lambda: ttnn.transformer.scaled_dot_product_attention(dq, dq, dq, is_causal=True),
        lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True),
        1.1,
    )
    image, kernel = b.torch(1, 64, 56, 56), b.torch(64, 64, 3, 3)
    dimage = b.put(image.permute(0, 2, 3, 1).reshape(1, 1, 56 * 56, 64).contiguous(), layout=ttnn.ROW_MAJOR_LAYOUT)
    dkernel = ttnn.from_torch(kernel, dtype=ttnn.bfloat16)
    words = {"batch_size": 1, "input_height": 56, "input_width": 56}
    yield Row(
        "layers",
        "conv2d 3x3",
        "1x64x56x56",
        lambda: ttnn.conv2d(
            input_tensor=dimage,
            weight_tensor=dkernel,
            in_channels=64,
            out_channels=64,
            device=b.device,
            kernel_size=(3, 3),
            stride=(1, 1),
            padding=(1, 1),
            **words,
        ),
        lambda: F.conv2d(image, kernel, padding=1),
        1.1,
    )
    yield Row(
        "layers",
        "max_pool2d 2x2",
        "1x64x56x56",
        lambda: ttnn.max_pool2d(
            dimage, channels=64, kernel_size=[2, 2], stride=[2, 2], padding=[0, 0], dilation=[1, 1], input_h=56, input_w=56, batch_size=1
        ),
        lambda: F.max_pool2d(image, 2),
        1.1,
    )


def chain_rows(b: Bench) -> Iterator[Row]:
    x, dx = b.pair(*MODEL)
    y, dy = b.pair(*MODEL)

    def ours(a: Any, c: Any) -> Any:
        return ttnn.tanh(ttnn.add(ttnn.multiply(ttnn.sigmoid(ttnn.add(ttnn.multiply(a, c), c)), a), c))

    def peer() -> Any:
        return torch.tanh(torch.add(torch.mul(torch.sigmoid(torch.add(torch.mul(x, y), y)), x), y))

    ours(dx, dy)
    trace = ttnn.begin_trace_capture(b.device, cq_id=0)
    kept = ours(dx, dy)
    ttnn.end_trace_capture(b.device, trace, cq_id=0)
    ttnn.execute_trace(b.device, trace, cq_id=0, blocking=True)
    if not torch.equal(ttnn.to_torch(kept), ttnn.to_torch(ours(dx, dy))):
        raise RuntimeError("the replayed chain is not bit-equal to its operations one by one")
    yield Row(
        "trace", "chain of six", "x".join(map(str, MODEL)), lambda: ttnn.execute_trace(b.device, trace, cq_id=0, blocking=True), peer, 0.4
    )


def block_rows(b: Bench) -> Iterator[Row]:
    hidden, heads, tokens = 1024, 16, 256
    x, dx = b.pair(1, tokens, hidden)
    shapes = {"qkv": (hidden, 3 * hidden), "proj": (hidden, hidden), "up": (hidden, 4 * hidden), "down": (4 * hidden, hidden)}
    weights = {name: (b.torch(*shape).float() * 0.03).to(BF16) for name, shape in shapes.items()}
    biases = {name: b.torch(shape[1]) for name, shape in shapes.items()}
    gain, shift = b.torch(hidden), b.torch(hidden)
    dgain, dshift = b.put(gain.reshape(1, hidden)), b.put(shift.reshape(1, hidden))
    dbiases = {name: b.put(bias.reshape(1, -1)) for name, bias in biases.items()}

    def peer() -> torch.Tensor:
        h = F.layer_norm(x, (hidden,), gain, shift)
        q, k, v = (torch.matmul(h, weights["qkv"]) + biases["qkv"]).reshape(1, tokens, 3, heads, 64).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).permute(0, 2, 1, 3).reshape(1, tokens, hidden)
        y = x + (torch.matmul(a, weights["proj"]) + biases["proj"])
        h = F.layer_norm(y, (hidden,), gain, shift)
        return y + (torch.matmul(F.gelu(torch.matmul(h, weights["up"]) + biases["up"]), weights["down"]) + biases["down"])

    def block(w: dict[str, Any]) -> Any:
        h = ttnn.layer_norm(dx, weight=dgain, bias=dshift)
        qkv = ttnn.linear(h, w["qkv"], bias=dbiases["qkv"], dtype=ttnn.bfloat16)
        q, k, v = ttnn.transformer.split_query_key_value_and_split_heads(qkv, num_heads=heads, transpose_key=False)
        a = ttnn.transformer.scaled_dot_product_attention(q, k, v, is_causal=False)
        y = ttnn.add(dx, ttnn.linear(ttnn.transformer.concatenate_heads(a), w["proj"], bias=dbiases["proj"], dtype=ttnn.bfloat16))
        h = ttnn.layer_norm(y, weight=dgain, bias=dshift)
        h = ttnn.linear(h, w["up"], bias=dbiases["up"], activation="gelu", dtype=ttnn.bfloat16)
        return ttnn.add(y, ttnn.linear(h, w["down"], bias=dbiases["down"], dtype=ttnn.bfloat16))

    for dtype, name in ((ttnn.bfloat16, "bfloat16"), (ttnn.bfloat8_b, "bfloat8_b weights")):
        device_weights = {key: b.put(w, dtype) for key, w in weights.items()}
        yield Row("block", f"transformer block, {name}", "256 tokens, 1024 wide", lambda w=device_weights: block(w), peer, 1.0)


GROUPS = (launch_rows, matmul_rows, elementwise_rows, row_rows, movement_rows, layer_rows, chain_rows, block_rows)


def rows(bench: Bench, only: str) -> Iterator[Row | str]:
    """Every row that can be built; the reason for one that cannot."""
    for group in GROUPS:
        made = group(bench)
        while True:
            try:
                row = next(made)
            except StopIteration:
                break
            except Exception as error:
                yield f"{group.__name__}: {type(error).__name__}: {str(error).splitlines()[0]}"
                break
            if only in row.name or only in row.group:
                yield row


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: about a third of the time, noisier")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="", help="rows or groups whose name contains this")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    device = ttnn.open_device(device_id=0, trace_region_size=1 << 20)
    print(f"CPU: {cpu_name()}; native path: {native.name()}; torch {torch.__version__}; threads: {args.threads}\n")
    print("| group | operation | shape | threads | torch | ours | ratio | asked |")
    print("|---|---|---|---|---|---|---|---|")
    ratios: dict[int, list[float]] = {t: [] for t in args.threads}
    found, failed = [], []
    for row in rows(Bench(device), args.only):
        if isinstance(row, str):
            failed.append(row)
            continue
        for threads in args.threads:
            torch.set_num_threads(threads)
            try:
                timing: Timing = compare(
                    row.ours, row.peer, rounds=5 if args.quick else 15, seconds=0.005 if args.quick else 0.02, threads=threads
                )
            except Exception as error:
                failed.append(f"{row.name}: {type(error).__name__}: {str(error).splitlines()[0]}")
                break
            asked = "1 us more" if math.isinf(row.asked) else f"{row.asked:.2f}"
            mark = " !" if timing.ratio > row.asked or (math.isinf(row.asked) and timing.ours - timing.peer > 1e-6) else ""
            print(
                f"| {row.group} | {row.name} | {row.shape} | {threads} | {human(timing.peer)} | {human(timing.ours)} | {timing.ratio:.2f}{mark} | {asked} |",
                flush=True,
            )
            if row.group in ("elementwise", "rows", "movement", "layers"):
                ratios[threads].append(timing.ratio)
            found.append(
                {"group": row.group, "name": row.name, "shape": row.shape, "threads": threads, "ours": timing.ours, "torch": timing.peer}
            )
    for threads, all_of_them in ratios.items():
        if all_of_them:
            print(
                f"\nModel sizes, {threads} thread(s): geometric mean of {len(all_of_them)} rows {mean(all_of_them):.2f}, worst {max(all_of_them):.2f}"
            )
    for reason in failed:
        print(f"\nNot measured: {reason}")
    if args.json:
        args.json.write_text(json.dumps({"cpu": cpu_name(), "native": native.name(), "rows": found}, indent=1))
    ttnn.close_device(device)


if __name__ == "__main__":
    main()
