"""Enumerations that look and behave as official TT-NN's do.

Official enums come from C++ through nanobind: `repr` and `str` are both `Kind.MEMBER`, a member is equal only to
itself (never to its number), and two members may share a number without being aliases of each other. Python's `Enum`
differs in the first and the last point; this module closes the gap. Members hash by identity, which makes them the
cheapest possible dictionary keys: every operation is looked up under a key that holds several.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any


class OfficialEnum(enum.Enum):
    """Base of all TT-NN enums."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self._name_}"

    __str__ = __repr__
    __hash__ = object.__hash__

    @property
    def cpp(self) -> str:
        """The member as C++ prints it: `DataType::BFLOAT16`."""
        return f"{type(self).__name__}::{self._name_}"


def official_enum(name: str, members: Mapping[str, int], module: str = __name__) -> Any:
    """An enum class made from a table of names and numbers; equal numbers stay distinct members."""
    first: dict[int, str] = {}
    for member, number in members.items():
        first.setdefault(number, member)
    make: Any = OfficialEnum
    cls: Any = make(name, {m: n for n, m in first.items()}, module=module)
    for member, number in members.items():
        if first[number] != member:
            twin = object.__new__(cls)
            twin._name_, twin._value_, twin.__objclass__ = member, number, cls
            type.__setattr__(cls, member, twin)
            cls._member_map_[member] = twin
            cls._member_names_.append(member)
    if len(first) != len(members):
        cls._member_map_ = {m: cls._member_map_[m] for m in members}
        cls._member_names_ = list(members)
    return cls
