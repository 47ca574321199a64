"""What may stand where a value type expects a number or another value type.

The official classes are bound from C++: an argument of the wrong type, a negative number where an unsigned one is
meant, or a number that does not fit is a `TypeError` before anything else happens. Each value type says so with the
same few words, kept here.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

UINT32 = 2**32 - 1
UINT64 = 2**64 - 1


def refuse(call: str, argument: str, value: object, rule: str) -> NoReturn:
    """The `TypeError` of a call whose arguments fit no overload."""
    raise TypeError(f"{call}(): incompatible function arguments. {argument}={value!r} ({type(value).__name__}): {rule}")


def uint(call: str, argument: str, value: Any, largest: int = UINT32) -> int:
    """`value` as an unsigned integer; floats and negative numbers are refused."""
    try:
        number = operator.index(value)
    except TypeError:
        refuse(call, argument, value, "must be an integer")
    if not 0 <= number <= largest:
        refuse(call, argument, value, f"must be in [0, {largest}]")
    return number


def uints(call: str, argument: str, value: Any, length: int | None = None) -> tuple[int, ...]:
    """`value` as a tuple of unsigned integers; any sequence does, a generator or a string does not."""
    if isinstance(value, (str, bytes, Mapping)) or not (
        isinstance(value, Sequence) or (hasattr(value, "__getitem__") and hasattr(value, "__len__"))
    ):
        refuse(call, argument, value, "must be a sequence of integers")
    numbers = tuple(uint(call, argument, v) for v in value)
    if length is not None and len(numbers) != length:
        refuse(call, argument, value, f"must have exactly {length} entries")
    return numbers


def expect(call: str, argument: str, value: Any, kind: type | tuple[type, ...]) -> None:
    """Refuse `value` unless it is an instance of `kind`."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        refuse(call, argument, value, "must be a " + " or a ".join(k.__name__ for k in kinds))
