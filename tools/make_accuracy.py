#!/usr/bin/env python3
"""Measure how far operations are from the exact result, and write docs/accuracy.md.

    python tools/make_accuracy.py [--check]

Unary operations are compared with fp64 on all 65,536 bfloat16 values and on random fp32 values, operations of two operands on wide random and on all pairs of
edge values. The references are torch's own functions in fp64 (tests/engine/elementwise_references.py), not the engine's. `--check` writes nothing and fails
when a figure exceeds one unit in the last place.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import tools.accuracy_attention as attention  # noqa: E402
import tools.accuracy_families as families  # noqa: E402
from tests.engine.elementwise_references import BINARY, PARAMETERS, UNARY, WHOLE, every_bfloat16, ulp_errors  # noqa: E402

import ttnn  # noqa: E402

PAGE = ROOT / "docs" / "accuracy.md"
GROUPS = {
    "signs, rounding and questions": "abs ceil eqz floor frac gez gtz identity isfinite isinf isnan isneginf isposinf lez logical_not ltz neg nez round sign signbit trunc",
    "exponentials and logarithms": "exp exp2 expm1 log log10 log1p log2 log_sigmoid logit sigmoid sigmoid_accurate softplus",
    "roots and powers": "cbrt reciprocal rsqrt sqrt square",
    "circular and hyperbolic": "acos acosh asin asinh atan atanh cos cosh deg2rad rad2deg sin sinh tan tanh",
    "special functions": "digamma erf erfc erfinv i0 i1 lgamma multigammaln",
    "activations": "celu elu gelu hardshrink hardsigmoid hardswish hardtanh mish relu relu6 selu silu softshrink softsign swish",
}
EDGES = torch.tensor([0.0, -0.0, 1, -1, 0.5, 3.4e38, -3.4e38, 1.2e-38, math.inf, -math.inf, math.nan, 7, -7, 100, 1e-3, 256])


class Bench:
    """An open device and what is put on it."""

    def __init__(self) -> None:
        self.device = ttnn.open_device(device_id=0)

    def error(self, name: str, exact: torch.Tensor, operands: list[torch.Tensor], dtype: ttnn.DataType, *params: float) -> float:
        placed = [ttnn.from_torch(o, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=self.device) for o in operands]
        result = ttnn.to_torch(getattr(ttnn, name)(*placed, *params))
        return float(ulp_errors(result, exact, 7 if dtype == ttnn.bfloat16 else 23).max())


def samples(count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    parts = [torch.randn(count // 6, generator=generator) * s for s in (1e-3, 0.1, 1, 10, 60)]
    return torch.cat([*parts, torch.rand(count // 6, generator=generator)])[: count // 1024 * 1024 - 1024].reshape(-1, 32)


def unary_figures(bench: Bench, count: int) -> Iterator[tuple[str, str, float, float]]:
    narrow, single = every_bfloat16().reshape(256, 256), samples(count)
    for group, names in GROUPS.items():
        for name in names.split():
            reference = UNARY[name]
            yield (
                group,
                name,
                bench.error(name, reference(narrow.double()), [narrow], ttnn.bfloat16),
                bench.error(name, reference(single.double()), [single], ttnn.float32),
            )
    for name, (params, parametrized) in PARAMETERS.items():
        yield (
            "with parameters",
            f"{name}({', '.join(map(str, params))})",
            bench.error(name, parametrized(narrow.double(), *params), [narrow], ttnn.bfloat16, *params),
            bench.error(name, parametrized(single.double(), *params), [single], ttnn.float32, *params),
        )


def pairs(dtype: torch.dtype, count: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    a = torch.cat([torch.randn(count, generator=generator) * 3, EDGES.repeat(len(EDGES))])
    b = torch.cat([torch.randn(count, generator=generator) * 3, EDGES.repeat_interleave(len(EDGES))])
    return [v.reshape(-1, 32).to(dtype) for v in (a, b)]


def binary_figures(bench: Bench, count: int) -> Iterator[tuple[str, str, float, float]]:
    for name, reference in BINARY.items():
        figures = []
        for dtype, torch_dtype in ((ttnn.bfloat16, torch.bfloat16), (ttnn.float32, torch.float32)):
            a, b = pairs(torch_dtype, count)
            figures.append(bench.error(name, reference(a.double(), b.double()), [a, b], dtype))
        yield "two operands", name, figures[0], figures[1]


def exact_names(bench: Bench) -> list[str]:
    generator = torch.Generator().manual_seed(3)
    good = []
    for name, reference in WHOLE.items():
        bound = 30000 if name == "lcm" else 2**31 - 1
        a, b = (torch.randint(-bound, bound, (64, 64), generator=generator, dtype=torch.int32) for _ in range(2))
        placed = [ttnn.from_torch(v, dtype=ttnn.int32, layout=ttnn.TILE_LAYOUT, device=bench.device) for v in (a, b)]
        if torch.equal(ttnn.to_torch(getattr(ttnn, name)(*placed)), reference(a, b)):
            good.append(name)
    return good


def page(figures: list[tuple[str, str, float, float]], exact: list[str], further: list[str]) -> str:
    lines = [
        "# Accuracy",
        "",
        "Written by `python tools/make_accuracy.py`; do not edit. Figures are the largest distance from the exact result in units of the last place (ULP)",
        "of the output format: bfloat16 over all 65,536 values, float32 over random values of magnitudes 1e-3 to 200; operations of two",
        "operands over random pairs and all pairs of 16 edge values (zeros, infinities, NaN, the largest and the smallest normal numbers). 0.5 is a correctly",
        "rounded result. Results below the smallest normal number are zero, with their sign, as the chip packs them.",
        "",
        f"Whole numbers are exact: {', '.join(exact)} of INT32 operands are equal to integer arithmetic on random 32-bit values.",
        "",
    ]
    group = ""
    for section, name, narrow, single in figures:
        if section != group:
            lines += [
                "",
                f"## {section[0].upper()}{section[1:]}",
                "",
                "| operation | bfloat16 | float32 |",
                "|---|---|---|",
            ]
            group = section
        lines.append(f"| {name} | {narrow:.2f} | {single:.2f} |")
    lines += further
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def family_lines(device: ttnn.MeshDevice) -> tuple[list[str], float]:
    """The sections on families, and their largest error in ULP."""
    three, grads = list(families.three_operands(device)), list(families.gradients(device))
    good, count = families.block_floats(device)
    met, cases = families.typecasts(device)
    lines = ["", "## Three operands", "", "| operation | bfloat16 |", "|---|---|", *(f"| {name} | {error:.2f} |" for name, error in three)]
    lines += ["", "## Gradients", "", "Against torch's autograd in fp64 of an independent forward function.", ""]
    lines += ["| operation | bfloat16 |", "|---|---|", *(f"| {name} | {error:.2f} |" for name, error in grads)]
    lines += [
        "",
        "## Formats",
        "",
        f"Block floats: {good} of {count} unary results in bfloat8_b and bfloat4_b are the rounded exact result, bit for bit.",
        "",
    ]
    lines += [f"Typecasts: {met} of {cases} recorded on a simulated chip (4,096 values each) are met bit for bit.", ""]
    lines += [
        "## Rows and products",
        "",
        "160 rows of 1,024 normally distributed values. Errors in units of the last place (2^-7, 2^-23) of the magnitudes that were summed:",
    ]
    lines += [
        "of the sum of absolute products for a matmul, of one standard deviation for layer_norm, of the result itself where nothing cancels.",
        "",
    ]
    lines += [
        "| operation | bfloat16 | float32 |",
        "|---|---|---|",
        *(f"| {name} | {a:.2f} | {b:.2f} |" for name, a, b in families.rows(device)),
    ]
    lines += [
        "",
        "## Transformers",
        "",
        "In units of the last place (2^-7) of the magnitudes that were summed: absolute products, absolute values weighed as attention weighs them. Weights in",
        "block floats are compared with the products of what they hold.",
        "",
        "| operation | bfloat16 |",
        "|---|---|",
        *(f"| {name} | {error:.2f} |" for name, error in attention.figures(device)),
    ]
    return lines, max(error for _, error in three + grads)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a figure exceeds 1 ULP")
    parser.add_argument("--count", type=int, default=600_000, help="random fp32 values")
    options = parser.parse_args()
    bench = Bench()
    figures = [*unary_figures(bench, options.count), *binary_figures(bench, options.count // 10 // 32 * 32)]
    exact = exact_names(bench)
    further, largest = family_lines(bench.device)
    measure: Callable[[tuple[str, str, float, float]], float] = lambda f: max(f[2], f[3])  # noqa: E731
    worst = max(figures, key=measure)
    print(
        f"{len(figures)} operations, largest error {measure(worst):.2f} ULP ({worst[1]}); exact on whole numbers: {len(exact)} of {len(WHOLE)}"
    )
    print(f"gradients and operations of three operands: largest error {largest:.2f} ULP")
    if not options.check:
        PAGE.write_text(page(figures, exact, further))
    return int(options.check and (max(measure(worst), largest) > 1.0 or len(exact) < len(WHOLE)))


if __name__ == "__main__":
    sys.exit(main())
