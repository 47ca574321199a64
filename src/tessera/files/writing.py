"""Records into a FlatBuffer, byte for byte as official TT-NN writes them.

A FlatBuffer is written back to front and the same content has many encodings; official files come from the C++ builder with
generated code. Three of its habits decide the bytes: content is laid down in a fixed order (`order` in the schema, otherwise
that of declaration), the fields of a table are placed by falling size and from last to first, and values equal to their
default are left out. The `flatbuffers` builder does the rest (alignment, and one vtable for equal ones) as C++ does.
"""

from __future__ import annotations

from typing import Any

import flatbuffers
from flatbuffers import number_types as N

from tessera.files.schema import SCALARS, SCHEMA, Field, Kind, Struct, Table


def write(record: Any) -> bytes:
    """The FlatBuffer whose root is `record`; as long as it is, without padding behind it."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(_table(builder, SCHEMA.tables[type(record).__name__], record))
    return bytes(builder.Output())


def _table(builder: flatbuffers.Builder, table: Table, record: Any) -> int:
    content = {f.name: _content(builder, f, getattr(record, f.name)) for f in table.written if f.kind is not Kind.SCALAR}
    # (width in bytes, slot, flags, value), in the order of the slots
    entries: list[tuple[int, int, Any, int]] = []
    for field in table.fields:
        value = getattr(record, field.name)
        if field.kind is Kind.SCALAR:
            if value != 0:
                entries.append((field.scalar.bytewidth, field.slot, field.scalar, int(value)))
        elif value is not None:
            if field.kind is Kind.UNION:
                entries.append((1, field.slot, N.Uint8Flags, _member(field, value)))
            slot = field.slot + (field.kind is Kind.UNION)
            entries.append((4, slot, None, content[field.name]))
    builder.StartObject(table.slots)
    for _, slot, flags, value in sorted(entries, key=lambda e: (e[0], e[1]), reverse=True):
        if flags is None:
            builder.PrependUOffsetTRelative(value)
        else:
            builder.Prepend(flags, value)
        builder.Slot(slot)
    return int(builder.EndObject())


def _member(field: Field, value: Any) -> int:
    return next(number for number, name in SCHEMA.unions[field.of].items() if name == type(value).__name__)


def _content(builder: flatbuffers.Builder, field: Field, value: Any) -> int:
    """Lay down what a field points to; its place, or 0 where there is nothing."""
    if value is None:
        return 0
    match field.kind:
        case Kind.STRING:
            return int(builder.CreateString(value))
        case Kind.VECTOR:
            width = SCALARS[field.of].bytewidth
            builder.StartVector(width, len(value), width)
            for item in reversed(value):
                builder.Prepend(field.scalar, item)
            return int(builder.EndVector())
        case Kind.TABLES:
            places = [_table(builder, SCHEMA.tables[field.of], item) for item in value]
            builder.StartVector(4, len(places), 4)
            for place in reversed(places):
                builder.PrependUOffsetTRelative(place)
            return int(builder.EndVector())
        case Kind.UNION if type(value).__name__ in SCHEMA.structs:
            return _struct(builder, SCHEMA.structs[type(value).__name__], value)
        case _:
            return _table(builder, SCHEMA.tables[type(value).__name__], value)


def _struct(builder: flatbuffers.Builder, struct: Struct, value: Any) -> int:
    builder.Prep(max(int(SCALARS[of].bytewidth) for _, of in struct.fields), struct.size)
    for name, of in reversed(struct.fields):
        builder.Prepend(SCALARS[of], getattr(value, name))
    return int(builder.Offset())
