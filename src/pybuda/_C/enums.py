"""What every enum of the API can do besides being one: travel through JSON by its name."""

from __future__ import annotations

import enum
from typing import Self


class JsonEnum(enum.Enum):
    def to_json(self) -> str:
        return self.name

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Accepts the plain name and the dotted form ("BackendDevice.Grayskull")."""
        name = text.rsplit(".", 1)[-1]
        for member in cls:
            if member.name.lower() == name.lower():
                return member
        raise ValueError(f"{text!r} is no {cls.__name__}; it is one of {', '.join(m.name for m in cls)}")

    def to_string(self) -> str:
        return self.name.lower()

    @classmethod
    def from_string(cls, text: str) -> Self:
        return cls.from_json(text)
