"""Which calls an operation accepts: the overloads of the official interface, as predicates on arguments.

Official TT-NN's operations are C++ functions; a call that fits none of their overloads is a `TypeError` before anything else happens.
`interface.json` holds those overloads (names, types, which arguments have defaults); this module turns each into predicates when its operation is
first called with new argument types, and remembers the combinations of types that fit.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from tessera.runtime.tensor import Tensor

Predicate = Callable[[Any], bool]


@functools.cache
def interface() -> dict[str, dict[str, Any]]:
    """Every public name of official TT-NN: kind, signatures, members."""
    found: dict[str, dict[str, Any]] = json.loads(resources.files("ttnn").joinpath("interface.json").read_text())
    return found


def split(text: str, mark: str) -> list[str]:
    """Split at top-level marks, outside brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for i, ch in enumerate(text):
        if quote:
            quote = "" if ch == quote else quote
        elif ch in "'\"":
            quote = ch
        elif ch in "([{<":
            depth += 1
        elif ch in ")]}>":
            depth -= text[i - 1 : i + 1] != "->"
        elif ch == mark and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


# -- predicates, by the name of a type


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer))


def _is_float(value: Any) -> bool:
    return isinstance(value, (float, int, np.floating, np.integer))


def _is_bool(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


def _is_sequence(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, (str, bytes, dict, Tensor))


def _public(name: str) -> type | None:
    import ttnn

    for place in (ttnn, ttnn.types, getattr(ttnn, "_ttnn", None)):
        found = getattr(place, name, None)
        if isinstance(found, type):
            return found
    return None


def _instance_of(name: str, *also: type) -> Predicate:
    def check(value: Any) -> bool:
        kind = _public(name)
        return kind is None or isinstance(value, (kind, *also))

    return check


def _shape(value: Any) -> bool:
    return type(value).__name__ == "Shape" or (_is_sequence(value) and all(_is_int(v) for v in value))


def _pair(kind: str) -> Predicate:
    instance = _instance_of(kind)
    return lambda value: instance(value) or (isinstance(value, (tuple, list)) and len(value) == 2 and all(_is_int(v) for v in value))


def _kernel_config(value: Any) -> bool:
    return type(value).__name__.endswith("ComputeKernelConfig")


def _unary_with_param(value: Any) -> bool:
    return type(value).__name__ in ("UnaryWithParam", "EltwiseUnaryWithParam", "UnaryOpType")


PREDICATES: dict[str, Predicate] = {
    "int": _is_int,
    "float": _is_float,
    "bool": _is_bool,
    "str": lambda v: isinstance(v, str),
    "None": lambda v: v is None,
    "object": lambda v: True,
    "Tensor": lambda v: isinstance(v, Tensor),
    "Shape": _shape,
    "CoreCoord": _pair("CoreCoord"),
    "QueueId": lambda v: _is_int(v) or type(v).__name__ == "QueueId",
    "EltwiseUnaryWithParam": _unary_with_param,
    "UnaryWithParam": _unary_with_param,
    "WormholeComputeKernelConfig": _kernel_config,
    "SparsityConfig": lambda v: True,
    "Callable": callable,
}


def predicate(kind: str) -> Predicate:
    """The test for one type expression of the interface."""
    choices = split(kind, "|")
    if len(choices) > 1:
        tests = [predicate(c) for c in dict.fromkeys(choices)]
        return lambda v: any(t(v) for t in tests)
    kind = choices[0] if choices else "object"
    generic = re.fullmatch(r"(?:\w+\.)*(\w+)\[(.*)\]", kind)
    if generic:
        outer, inner = generic[1], split(generic[2], ",")
        if outer in ("Sequence", "list", "Iterable", "set", "Set"):
            each = predicate(inner[0]) if inner else PREDICATES["object"]
            return lambda v: (_is_sequence(v) or isinstance(v, (set, frozenset))) and all(each(x) for x in v)
        if outer == "tuple":
            tests = [predicate(i) for i in inner]
            return lambda v: isinstance(v, (tuple, list)) and len(v) == len(tests) and all(t(x) for t, x in zip(tests, v))
        if outer == "Optional":
            each = predicate(inner[0])
            return lambda v: v is None or each(v)
        return PREDICATES["object"]
    name = re.split(r"\.|::", kind)[-1]
    return PREDICATES.get(name) or _instance_of(name)


# -- overloads


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    test: Predicate
    required: bool
    keyword_only: bool
    positional_only: bool


class Overload:
    """One accepted form of a call."""

    __slots__ = ("by_name", "positional", "required", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        inner = text[text.index("(") + 1 : text.rindex(")", 0, len(text) if " -> " not in text else text.rindex(" -> ") + 1)]
        parameters, keyword_only = [], False
        for piece in split(inner, ","):
            if piece == "*":
                keyword_only = True
            elif piece == "/":
                parameters = [Parameter(p.name, p.test, p.required, False, True) for p in parameters]
            elif piece != "self":
                declared, has_default, _ = piece.partition(" = ")
                name, _, kind = declared.partition(":")
                parameters.append(Parameter(name.strip(), predicate(kind.strip() or "object"), not has_default, keyword_only, False))
        self.positional = [p for p in parameters if not p.keyword_only]
        self.by_name = {p.name: p for p in parameters if not p.positional_only}
        self.required = [p.name for p in parameters if p.required]

    def fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if len(args) > len(self.positional):
            return False
        given = set(kwargs)
        for value, parameter in zip(args, self.positional):
            if parameter.name in given or not parameter.test(value):
                return False
        for name, value in kwargs.items():
            parameter = self.by_name.get(name)  # type: ignore[assignment]
            if parameter is None or not parameter.test(value):
                return False
        given.update(p.name for p in self.positional[: len(args)])
        return all(name in given for name in self.required)


class Binding:
    """All accepted forms of one operation."""

    def __init__(self, name: str, signatures: Iterable[str]) -> None:
        self.name = name
        self.signatures = list(signatures)

    @functools.cached_property
    def overloads(self) -> list[Overload]:
        return [Overload(s) for s in self.signatures]

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise `TypeError` unless some overload fits."""
        if any(o.fits(args, kwargs) for o in self.overloads):
            return
        short = self.name.rsplit(".", 1)[-1]
        called = ", ".join([kind_of(a) for a in args] + [f"{k}={kind_of(v)}" for k, v in kwargs.items()])
        accepted = "\n".join(f"  {short}{s}" for s in self.signatures)
        raise TypeError(
            f"\n{self.name}(): incompatible function arguments.\n\nCalled with:\n  {short}({called})\n\nAvailable signatures:\n{accepted}\n"
        )


def kind_of(value: Any) -> str:
    return "ttnn.Tensor" if isinstance(value, Tensor) else type(value).__name__


def signature_of(function: Callable[..., Any]) -> str:
    return str(inspect.signature(function))
