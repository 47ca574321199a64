"""Arguments of a call, taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["pop_argument"]


def pop_argument(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Take an argument out of a call, by its name if it was given so, else the first positional one. Answers it and what is left."""
    if name in kwargs:
        rest = dict(kwargs)
        return rest.pop(name), tuple(args), rest
    if not args:
        raise TypeError(f"argument {name!r} was given neither by name nor by position")
    return args[0], tuple(args[1:]), dict(kwargs)
