"""Golden functions of elementwise operations answer to the official argument names of every overload, and agree with the device."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import ttnn
from ttnn.binding import interface, split
from ttnn.operations import backward, backward_binary, backward_ternary, binary, binary_gates, ternary, unary, unary_glu, unary_rules

HOMES = {m.__name__ for m in (backward, backward_binary, backward_ternary, binary, binary_gates, ternary, unary, unary_glu, unary_rules)}
NO_NUMBERS = {"concat_bw", "repeat_bw", "prod_bw", "unary_chain", "bcast", "clamp", "clip", "prelu"}


def mine() -> list[str]:
    found = []
    for name, row in interface().items():
        operation = getattr(ttnn, name.removeprefix("ttnn."), None) if name.count(".") == 1 else None
        if row.get("cpp") and getattr(getattr(operation, "function", None), "__module__", "") in HOMES and name[5:] not in NO_NUMBERS:
            found.append(name)
    return sorted(found)


def arguments(signature: str) -> dict[str, Any] | None:
    """Values for the required arguments of an overload; None if it takes something else than tensors and numbers."""
    chosen: dict[str, Any] = {}
    inner = signature[1 : signature.rindex(") ->")]
    for piece in split(inner, ","):
        declared, has_default, _ = piece.partition(" = ")
        name, _, kind = declared.partition(":")
        if has_default or piece in ("*", "/"):
            continue
        kind = kind.strip()
        if kind == "Tensor" or (kind.endswith("Tensor") and "|" in kind):
            chosen[name] = torch.rand(4, 4) + 0.5
        elif re.fullmatch(r"(int|float)( \| (int|float))*", kind):
            chosen[name] = 2 if kind == "int" else 0.5
        elif kind == "Sequence[float]":
            chosen[name] = [0.5, 2.0]
        elif kind == "str":
            chosen[name] = "none"
        else:
            return None
    return chosen


@pytest.mark.parametrize("name", mine())
def test_goldens_answer_to_official_names(name: str) -> None:
    golden = ttnn.get_golden_function(getattr(ttnn, name.removeprefix("ttnn.")))
    called = 0
    for signature in interface()[name]["signatures"]:
        words = arguments(signature)
        if words is None:
            continue
        whole = any(part in name for part in ("bitwise", "shift", "gcd", "lcm"))
        words = {k: v.mul(8).int() if whole and isinstance(v, torch.Tensor) else v for k, v in words.items()}
        by_place = golden(*[v.clone() if isinstance(v, torch.Tensor) else v for v in words.values()])
        by_name = golden(**{k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in words.items()})
        for one, other in zip(by_place if isinstance(by_place, list) else [by_place], by_name if isinstance(by_name, list) else [by_name]):
            assert torch.equal(torch.nan_to_num(one.double()), torch.nan_to_num(other.double()))
        called += 1
    assert called, f"no overload of {name} takes tensors and numbers only"
