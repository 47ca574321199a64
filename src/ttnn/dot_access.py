"""Dictionaries whose entries are attributes too: `parameters.encoder.layer.weight`."""

from __future__ import annotations

from typing import Any

__all__ = ["DotAccessDict", "make_dot_access_dict"]


class DotAccessDict(dict[Any, Any]):
    """A dictionary; `d.name` is `d["name"]`, for reading, setting and deleting."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(map(str, self)) or "nothing"
            raise AttributeError(f"there is no {name!r} here; there is {known}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r} here") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(k for k in self if isinstance(k, str))]


def make_dot_access_dict(dictionary: dict[Any, Any], ignore_types: type | tuple[type, ...] = ()) -> Any:
    """The same dictionary, and those inside it, with dot access; values of `ignore_types` stay as they are."""
    if isinstance(dictionary, ignore_types):
        return dictionary
    return DotAccessDict({k: _made(v, ignore_types) for k, v in dictionary.items()})


def _made(value: Any, ignore_types: type | tuple[type, ...]) -> Any:
    if isinstance(value, ignore_types):
        return value
    if isinstance(value, dict):
        return make_dot_access_dict(value, ignore_types)
    if type(value) in (list, tuple):
        return type(value)(_made(v, ignore_types) for v in value)
    return value
