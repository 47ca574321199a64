"""How rows are registered and how the shape of a result is found: by running the row on tensors without storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Compute = Callable[..., Any]
Adapter = Callable[[list[Any], dict[str, Any]], tuple[list[Any], dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Op:
    """One row. `family` drives the passes; `buda` is the operation's name in a netlist (its own name when empty)."""

    name: str
    fn: Compute
    family: str
    buda: str = ""
    many: bool = False  # several results, taken apart by `getitem`
    random: bool = False  # two calls differ: never folded, never merged

    @property
    def netlist_type(self) -> str:
        return self.buda or self.name


OPS: dict[str, Op] = {}
ATEN: dict[str, str] = {}  # "aten.add.Tensor" -> "add"
_ADAPTERS: dict[str, Adapter] = {}


def row(
    name: str,
    fn: Compute,
    family: str,
    *aten: str,
    buda: str = "",
    many: bool = False,
    random: bool = False,
    adapt: Adapter | None = None,
) -> None:
    """Add a row. `aten` are overloads without the `aten.` in front; one without a dot means `.default`."""
    OPS[name] = Op(name, fn, family, buda, many, random)
    register_aten(name, aten, adapt)


def register_aten(name: str, aten: Iterable[str], adapt: Adapter | None = None) -> None:
    for overload in aten:
        key = f"aten.{overload}" if "." in overload else f"aten.{overload}.default"
        ATEN[key] = name
        if adapt is not None:
            _ADAPTERS[key] = adapt


def adapter_of(overload: str) -> Adapter | None:
    """What turns the arguments of an overload into inputs and attributes, where the plain rule does not."""
    return _ADAPTERS.get(overload)


def infer(name: str, inputs: Iterable[tuple[tuple[int, ...], torch.dtype]], attrs: dict[str, Any]) -> Any:
    """The result of a row on tensors without storage: right shape and dtype, no values."""
    metas = [torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in inputs]
    made = OPS[name].fn(*metas, **{k: v.to("meta") if isinstance(v, Tensor) else v for k, v in attrs.items()})
    return made
