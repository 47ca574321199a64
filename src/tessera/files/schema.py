"""`tensorbin.fbs` as data: what the reader checks against and the writer writes from.

The `flatbuffers` package reads and writes values but leaves the shape of a message to generated code. Generated code cannot
be checked against a hostile file (the Python runtime verifies nothing), so the schema is kept as text, read here into a few
frozen records, and interpreted. The grammar is the part of FlatBuffers' schema language that the file needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from importlib import resources
from typing import Any

from flatbuffers import number_types as N

#: Scalar types: name -> the flatbuffers package's description (its width, packer and bounds).
SCALARS: dict[str, Any] = {
    "bool": N.BoolFlags,
    "ubyte": N.Uint8Flags,
    "ushort": N.Uint16Flags,
    "int": N.Int32Flags,
    "uint": N.Uint32Flags,
    "ulong": N.Uint64Flags,
}


class Kind(Enum):
    SCALAR = "scalar"
    STRING = "string"
    TABLE = "table"
    UNION = "union"
    VECTOR = "vector"  # of scalars
    TABLES = "tables"  # a vector of tables


@dataclass(frozen=True)
class Field:
    """One field of a table. `slot` is its first place in the vtable; a union takes two (its type, then its value)."""

    name: str
    kind: Kind
    of: str
    slot: int
    order: int
    choices: frozenset[int] | None = None

    @property
    def scalar(self) -> Any:
        return SCALARS[self.of]


@dataclass(frozen=True)
class Table:
    name: str
    fields: tuple[Field, ...]

    @property
    def slots(self) -> int:
        return sum(2 if f.kind is Kind.UNION else 1 for f in self.fields)

    @property
    def written(self) -> list[Field]:
        """The fields in the order in which their content is laid down."""
        return sorted(self.fields, key=lambda f: f.order)


@dataclass(frozen=True)
class Struct:
    name: str
    fields: tuple[tuple[str, str], ...]

    @property
    def size(self) -> int:
        return sum(int(SCALARS[of].bytewidth) for _, of in self.fields)


@dataclass
class Schema:
    tables: dict[str, Table] = field(default_factory=dict)
    structs: dict[str, Struct] = field(default_factory=dict)
    enums: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict)
    unions: dict[str, dict[int, str]] = field(default_factory=dict)


_BLOCK = re.compile(r"(table|struct|enum|union)\s+(\w+)\s*(?::\s*(\w+)\s*)?\{([^}]*)\}")
_FIELD = re.compile(r"(\w+)\s*:\s*(\[?)(\w+)\]?\s*(?:\(order:\s*(\d+)\))?")


def _members(body: str) -> Iterator[tuple[str, int]]:
    for member in body.split(","):
        name, _, number = member.partition("=")
        yield name.strip(), int(number)


def parse(text: str) -> Schema:
    """The schema that a text describes."""
    schema = Schema()
    for what, name, base, body in _BLOCK.findall(re.sub(r"//[^\n]*", "", text)):
        match what:
            case "enum":
                schema.enums[name] = (base, dict(_members(body)))
            case "union":
                schema.unions[name] = {number: member for member, number in _members(body)}
            case "struct":
                schema.structs[name] = Struct(name, tuple((n, of) for n, _, of, _ in _FIELD.findall(body)))
            case "table":
                schema.tables[name] = Table(name, tuple(_fields(body, schema)))
    return schema


def _fields(body: str, schema: Schema) -> Iterator[Field]:
    slot = 0
    for place, (name, bracket, of, order) in enumerate(_FIELD.findall(body)):
        choices = None
        if of in schema.enums:
            of, members = schema.enums[of]
            choices = frozenset(members.values())
        if of in schema.unions:
            kind = Kind.UNION
        elif of == "string":
            kind = Kind.STRING
        elif of in SCALARS:
            kind = Kind.VECTOR if bracket else Kind.SCALAR
        else:
            kind = Kind.TABLES if bracket else Kind.TABLE
        yield Field(name, kind, of, slot, int(order) if order else place, choices)
        slot += 2 if kind is Kind.UNION else 1


SCHEMA = parse(resources.files(__package__).joinpath("tensorbin.fbs").read_text())
