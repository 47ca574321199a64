"""Attribute bags: classes that are nothing but named, typed, assignable values.

Official TT-NN has dozens of them (program configs, compute-kernel configs, program descriptors). Here each is one line,
written as its constructor; the line says the fields, their types and their defaults, and the class follows from it.
A wrong type is a `TypeError`, at construction and at assignment alike. Bags compare by identity, as the official ones
do; `key` is what makes two of them mean the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

from tessera.formats.arguments import UINT64, refuse, uint
from tessera.formats.enums import OfficialEnum
from tessera.memory.geometry import CoreRangeSet

Convert = Callable[[str, str, Any], Any]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    convert: Convert
    empty: Any
    default: Any
    required: bool
    keyword_only: bool


class Bag:
    """Base of all bags: `FIELDS` says what an instance holds, `STYLE` how it prints."""

    FIELDS: ClassVar[dict[str, Field]] = {}
    POSITIONAL: ClassVar[tuple[str, ...]] = ()
    MAY_BE_EMPTY: ClassVar[bool] = False
    STYLE: ClassVar[Style | None] = None
    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = self.FIELDS
        if len(args) > len(self.POSITIONAL):
            refuse("__init__", "arguments", args, f"{type(self).__name__} takes at most {len(self.POSITIONAL)} positional arguments")
        given = dict(zip(self.POSITIONAL, args))
        for name, value in kwargs.items():
            if name not in fields or name in given:
                refuse("__init__", name, value, f"{type(self).__name__} has the fields {', '.join(fields)}, each given once")
            given[name] = value
        empty = self.MAY_BE_EMPTY and not given
        for name, field in fields.items():
            if name in given:
                value = field.convert("__init__", name, given[name])
            elif field.required and empty:
                value = field.empty
            elif field.required:
                refuse("__init__", name, None, f"{type(self).__name__} needs it")
            else:
                value = copy(field.default) if isinstance(field.default, (list, dict, Bag)) else field.default
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        field = self.FIELDS.get(name)
        if field is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        object.__setattr__(self, name, field.convert(name, "value", value))

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two bags mean the same, hashable."""
        return (type(self).__name__, *(key_of(getattr(self, name)) for name in self.FIELDS))

    def __repr__(self) -> str:
        return object.__repr__(self) if self.STYLE is None else self.STYLE.show(self)

    def __copy__(self) -> Bag:
        twin = object.__new__(type(self))
        for name in self.FIELDS:
            object.__setattr__(twin, name, getattr(self, name))
        return twin

    def __deepcopy__(self, memo: object) -> Bag:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), {name: getattr(self, name) for name in self.FIELDS})


def _restore(cls: type[Bag], values: dict[str, Any]) -> Bag:
    bag = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(bag, name, value)
    return bag


def key_of(value: Any) -> Any:
    """A hashable form of a field's value."""
    if isinstance(value, (list, tuple)):
        return tuple(key_of(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, key_of(v)) for k, v in value.items())
    key = getattr(value, "key", None)
    return value if key is None else key


@dataclass(frozen=True, slots=True)
class Style:
    """How a bag prints: official classes differ in their separator, in how they write what is not set or a boolean, and in what they leave out."""

    separator: str = ","
    words: bool = False
    python: bool = False
    without: tuple[str, ...] = ()

    def show(self, bag: Bag) -> str:
        shown = [f"{name}={self.value(getattr(bag, name))}" for name in bag.FIELDS if name not in self.without]
        return f"{type(bag).__name__}({self.separator.join(shown)})"

    def value(self, value: Any) -> str:
        if self.python:
            return repr(value)
        if value is None:
            return "std::nullopt"
        if isinstance(value, bool):
            return str(value).lower() if self.words else str(int(value))
        if isinstance(value, OfficialEnum):
            return CPP_NAMES.get(value, value.cpp)
        if isinstance(value, float):
            return f"{value:g}"
        if isinstance(value, (list, tuple)):
            return "{" + ", ".join(map(self.value, value)) + "}"
        return repr(value)


CPP_NAMES: dict[OfficialEnum, str] = {}
"""Members whose C++ name is not their Python name."""

# -- types of fields


def _bool(call: str, argument: str, value: Any) -> bool:
    return value if isinstance(value, bool) else refuse(call, argument, value, "must be a bool")


def _uint(call: str, argument: str, value: Any) -> int:
    return uint(call, argument, value, UINT64)


def _sint(call: str, argument: str, value: Any) -> int:
    if isinstance(value, float) or not hasattr(value, "__index__"):
        refuse(call, argument, value, "must be an integer")
    return int(value)


def _float(call: str, argument: str, value: Any) -> float:
    if not hasattr(value, "__float__") or isinstance(value, str):
        refuse(call, argument, value, "must be a number")
    return float(value)


def _str(call: str, argument: str, value: Any) -> str:
    return value if isinstance(value, str) else refuse(call, argument, value, "must be a string")


def _any(call: str, argument: str, value: Any) -> Any:
    return value


PLAIN: dict[str, Convert] = {"bool": _bool, "int": _uint, "sint": _sint, "float": _float, "str": _str, "object": _any}


EMPTY: dict[str, Any] = {"bool": False, "int": 0, "sint": 0, "float": 0.0, "str": "", "CoreRangeSet": CoreRangeSet([])}
"""What a required field holds in a bag that is made without arguments."""


def _optional(convert: Convert) -> Convert:
    return lambda call, argument, value: None if value is None else convert(call, argument, value)


def _sequence(convert: Convert) -> Convert:
    def check(call: str, argument: str, value: Any) -> list[Any]:
        if isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or not hasattr(value, "__iter__"):
            refuse(call, argument, value, "must be a sequence")
        return [convert(call, argument, v) for v in value]

    return check


def _instance(names: list[str], scope: Mapping[str, Any]) -> Convert:
    kinds = tuple(scope[n] for n in names)

    def check(call: str, argument: str, value: Any) -> Any:
        if not isinstance(value, kinds):
            refuse(call, argument, value, f"must be a {' or a '.join(names)}")
        return value

    return check


def converter(kind: str, scope: Mapping[str, Any], conversions: Mapping[str, Convert]) -> Convert:
    """The check for one type expression: `int`, `bool | None`, `Sequence[Name]`, `Name | Other`."""
    choices = [c.strip() for c in kind.split(" | ")]
    if "None" in choices:
        return _optional(converter(" | ".join(c for c in choices if c != "None"), scope, conversions))
    inner = re.fullmatch(r"Sequence\[(.*)\]", kind)
    if inner:
        return _sequence(converter(inner[1], scope, conversions))
    if kind in conversions:
        return conversions[kind]
    return PLAIN[kind] if kind in PLAIN else _instance(choices, scope)


def bags(
    text: str,
    scope: Mapping[str, Any],
    *,
    module: str,
    bases: Mapping[str, type[Bag]] | None = None,
    styles: Mapping[str, Style] | None = None,
    conversions: Mapping[str, Convert] | None = None,
) -> dict[str, type[Bag]]:
    """Classes from lines like `Name(*, count: int, ratio: float = 1.0)`.

    `Name?(...)` may also be made with no argument at all. Classes named in earlier lines may be types in later ones.
    """
    made: dict[str, type[Bag]] = {}
    known = dict(scope)
    for line in filter(None, (line.strip() for line in text.splitlines())):
        head, _, rest = line.partition("(")
        name = head.rstrip("?")
        function = ast.parse(f"def _({rest}: ...").body[0]
        assert isinstance(function, ast.FunctionDef)
        a = function.args
        positional = [*zip(a.args, [None] * (len(a.args) - len(a.defaults)) + list(a.defaults)), *zip(a.kwonlyargs, a.kw_defaults)]
        fields = {}
        for argument, default in positional:
            assert argument.annotation is not None
            value = None if default is None else eval(compile(ast.Expression(default), line, "eval"), {"__builtins__": {}}, known)
            convert = converter(ast.unparse(argument.annotation), known, conversions or {})
            empty = EMPTY.get(ast.unparse(argument.annotation))
            fields[argument.arg] = Field(argument.arg, convert, empty, value, default is None, argument in a.kwonlyargs)
        body = {
            "__slots__": tuple(fields),
            "__module__": module,
            "__doc__": line,
            "FIELDS": fields,
            "POSITIONAL": tuple(arg.arg for arg in a.args),
            "MAY_BE_EMPTY": head.endswith("?"),
            "STYLE": (styles or {}).get(name),
        }
        made[name] = known[name] = type(name, ((bases or {}).get(name, Bag),), body)
    return made
