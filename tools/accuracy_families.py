"""What the accuracy page says of families beyond single operations: gradients, operations of three operands, block floats, typecasts, and rows
(reductions, norms, products), whose results are compared with fp64 in units of the last place of the magnitudes that went into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tests.engine.elementwise_references import BINARY, UNARY, ulp_errors

import ttnn
from ttnn.decorators import NotBuilt

ROOT = Path(__file__).resolve().parents[1]
STEEP = {"ceil", "floor", "round", "sign", "trunc", "gelu", "multigammaln", "identity", "logical_not"}
INSIDE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **dict.fromkeys(("acos", "asin", "atanh", "erfinv"), torch.tanh),
    **{name: lambda x: 0.1 + x.abs() for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "digamma", "lgamma")},
    "logit": torch.sigmoid,
    "acosh": lambda x: 1.5 + x.abs(),
}
TERNARY: dict[str, Callable[..., torch.Tensor]] = {
    "addcmul": torch.addcmul,
    "addcdiv": torch.addcdiv,
    "lerp": torch.lerp,
    "mac": lambda a, b, c: a * b + c,
}
PAIR_GRADIENTS = {
    "mul": "multiply",
    "div": "divide",
    "atan2": "atan2",
    "hypot": "hypot",
    "logaddexp": "logaddexp",
    "max": "maximum",
    "xlogy": "xlogy",
}


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def put(values: torch.Tensor, dtype: Any, device: Any) -> Any:
    return ttnn.from_torch(values, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)


def _autograd(forward: Callable[..., torch.Tensor], grad: torch.Tensor, *operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
    leaves = [o.double().requires_grad_() for o in operands]
    return torch.autograd.grad(forward(*leaves), leaves, grad.double())


def gradients(device: Any) -> Iterator[tuple[str, float]]:
    """(operation, largest error in ULP of bfloat16) of its gradients."""
    grad = random(160, 160, seed=1).bfloat16()
    for name in sorted(n for n in UNARY if hasattr(ttnn, f"{n}_bw") and n not in STEEP):
        values = INSIDE.get(name, lambda x: x)(random(160, 160)).bfloat16()
        (found,) = getattr(ttnn, f"{name}_bw")(put(grad, ttnn.bfloat16, device), put(values, ttnn.bfloat16, device))
        yield f"{name}_bw", float(ulp_errors(ttnn.to_torch(found), _autograd(UNARY[name], grad, values)[0]).max())
    a, b = random(160, 160).bfloat16(), (random(160, 160, seed=2).abs() + 0.5).bfloat16()
    for name, forward in PAIR_GRADIENTS.items():
        found = getattr(ttnn, f"{name}_bw")(*(put(v, ttnn.bfloat16, device) for v in (grad, a, b)))
        exact = _autograd(BINARY[forward], grad, a, b)
        yield f"{name}_bw", max(float(ulp_errors(ttnn.to_torch(f), e).max()) for f, e in zip(found, exact))


def three_operands(device: Any) -> Iterator[tuple[str, float]]:
    values = [random(160, 160, seed=s).bfloat16() for s in range(3)]
    for name, reference in TERNARY.items():
        found = ttnn.to_torch(getattr(ttnn, name)(*(put(v, ttnn.bfloat16, device) for v in values)))
        yield name, float(ulp_errors(found, reference(*(v.double() for v in values))).max())


def block_floats(device: Any) -> tuple[int, int]:
    """How many unary operations give exactly the rounded exact result in bfloat8_b and bfloat4_b, and how many there are."""
    good, count = 0, 0
    for dtype in (ttnn.bfloat8_b, ttnn.bfloat4_b):
        stored = put(random(64, 64), dtype, device)
        values = ttnn.to_torch(stored).double()
        for name in sorted(UNARY):
            exact = UNARY[name](values)
            if not exact.isfinite().all():
                continue
            wanted = ttnn.to_torch(ttnn.from_torch(exact.float(), dtype=dtype, layout=ttnn.TILE_LAYOUT))
            good += torch.equal(ttnn.to_torch(getattr(ttnn, name)(stored)), wanted)
            count += 1
    return good, count


def typecasts(device: Any) -> tuple[int, int]:
    """How many recorded typecasts of a simulated chip are met bit for bit, and how many there are."""
    names = ["bfloat16", "float32", "bfloat8_b", "bfloat4_b", "int32", "uint32", "uint16"]
    good, cases = 0, sorted((ROOT / "tests" / "data" / "device").glob("typecast_*.npz"))
    for case in cases:
        rest = case.stem.removeprefix("typecast_")
        source, target = next((s, t) for s in names for t in names if rest == f"{s}_{t}")
        data = np.load(case)
        given = torch.from_numpy(data["a"].astype(np.int64 if source == "uint32" else data["a"].dtype)).reshape(64, 64)
        found = ttnn.to_torch(ttnn.typecast(put(given, getattr(ttnn, source), device), getattr(ttnn, target))).reshape(-1)
        seen = found.view(torch.int16).numpy().view(np.uint16) if target == "bfloat16" else found.double().numpy()
        good += np.array_equal(seen, data["y"].reshape(-1).astype(seen.dtype))
    return good, len(cases)


Row = tuple[
    str,
    Callable[[Any, Any], Any],
    Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
]
#: (operation, call, fp64 reference, the magnitude that a rounding error is to be measured by)
ROWS: tuple[Row, ...] = (
    ("sum", lambda a, b: ttnn.sum(a, -1), lambda a, b: a.sum(-1), lambda a, b: a.abs().sum(-1)),
    ("mean", lambda a, b: ttnn.mean(a, -1), lambda a, b: a.mean(-1), lambda a, b: a.abs().mean(-1)),
    ("max", lambda a, b: ttnn.max(a, -1), lambda a, b: a.amax(-1), lambda a, b: a.abs().amax(-1)),
    ("min", lambda a, b: ttnn.min(a, -1), lambda a, b: a.amin(-1), lambda a, b: a.abs().amax(-1)),
    ("std", lambda a, b: ttnn.std(a, -1), lambda a, b: a.std(-1), lambda a, b: a.std(-1)),
    ("var", lambda a, b: ttnn.var(a, -1), lambda a, b: a.var(-1), lambda a, b: a.var(-1)),
    ("cumsum", lambda a, b: ttnn.cumsum(a, -1), lambda a, b: a.cumsum(-1), lambda a, b: a.abs().cumsum(-1)),
    ("softmax", lambda a, b: ttnn.softmax(a, -1), lambda a, b: a.softmax(-1), lambda a, b: a.softmax(-1)),
    ("layer_norm", lambda a, b: ttnn.layer_norm(a), lambda a, b: F.layer_norm(a, a.shape[-1:], eps=1e-12), lambda a, b: torch.ones_like(a)),
    (
        "rms_norm",
        lambda a, b: ttnn.rms_norm(a, epsilon=1e-6),
        lambda a, b: F.rms_norm(a, a.shape[-1:], eps=1e-6),
        lambda a, b: F.rms_norm(a, a.shape[-1:], eps=1e-6).abs(),
    ),
    ("matmul", lambda a, b: ttnn.matmul(a, b), lambda a, b: a @ b, lambda a, b: a.abs() @ b.abs()),
)


def rows(device: Any) -> Iterator[tuple[str, float, float]]:
    """(operation, errors in bfloat16 and float32): in units of the last place of the magnitudes that were summed."""
    for name, call, reference, magnitude in ROWS:
        if isinstance(getattr(ttnn, name), NotBuilt):
            continue
        figures = []
        for dtype, torch_dtype, fraction in ((ttnn.bfloat16, torch.bfloat16, 7), (ttnn.float32, torch.float32, 23)):
            a, b = random(160, 1024).to(torch_dtype), random(1024, 160, seed=3).to(torch_dtype)
            found = ttnn.to_torch(call(put(a, dtype, device), put(b, dtype, device))).double()
            exact, scale = reference(a.double(), b.double()), magnitude(a.double(), b.double())
            error = (found.reshape(exact.shape) - exact).abs() / torch.maximum(scale, exact.abs()).clamp(min=2.0**-120)
            figures.append(float(error.max()) * 2.0**fraction)
        yield name, figures[0], figures[1]
