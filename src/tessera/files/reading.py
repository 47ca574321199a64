"""A FlatBuffer read with suspicion.

The Python runtime of FlatBuffers follows whatever offsets it finds. Here every offset, length, vtable, vector bound, union
type and enum value is compared with the bytes that are there before it is used, so a damaged or hostile header ends in a
`RuntimeError` that says what is wrong and where. Two things bound the work: the schema does not recurse, and a header may not
contain more items than bytes (only offsets that share targets can make it).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NoReturn

from flatbuffers import encode, packer
from flatbuffers import number_types as N

from tessera.files import records
from tessera.files.schema import SCALARS, SCHEMA, Field, Kind, Struct, Table


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.budget = len(data)

    def fail(self, what: str) -> NoReturn:
        raise RuntimeError(f"the header is corrupt: {what}. Cannot validate tensor data; this most likely indicates data corruption.")

    def need(self, at: int, size: int, what: str, align: int = 1) -> None:
        if at < 0 or at + size > len(self.data):
            self.fail(f"{what} lies at bytes {at} to {at + size}, outside the header of {len(self.data)} bytes")
        if at % align:
            self.fail(f"{what} lies at byte {at}, which is not a multiple of {align}")

    def scalar(self, flags: Any, at: int, what: str) -> int:
        self.need(at, flags.bytewidth, what, flags.bytewidth if flags.bytewidth <= 4 else 4)
        return int(encode.Get(flags.packer_type, self.data, at))

    def target(self, at: int, what: str) -> int:
        offset = self.scalar(N.UOffsetTFlags, at, f"the offset of {what}")
        if offset == 0:
            self.fail(f"the offset of {what} is 0, so it points to itself")
        return at + offset

    def spend(self, items: int, what: str) -> None:
        self.budget -= items
        if self.budget < 0:
            self.fail(f"{what} makes more items than the header has bytes: its offsets are cyclic or shared")

    def vector(self, at: int, width: int, what: str) -> int:
        count = self.scalar(N.UOffsetTFlags, at, f"the length of {what}")
        if count * width > len(self.data) - at - 4:
            self.fail(f"{what} claims {count} elements, more than the header of {len(self.data)} bytes holds")
        self.spend(count, what)
        return count

    def table(self, table: Table, at: int, what: str) -> Any:
        self.spend(1, what)
        vtable = at - self.signed(at, what)
        self.need(vtable, 4, f"the vtable of {what}", 2)
        vtable_size = self.scalar(N.VOffsetTFlags, vtable, f"the vtable of {what}")
        table_size = self.scalar(N.VOffsetTFlags, vtable + 2, f"the vtable of {what}")
        if vtable_size < 4 or vtable_size % 2:
            self.fail(f"the vtable of {what} claims a size of {vtable_size} bytes")
        self.need(vtable, vtable_size, f"the vtable of {what}", 2)
        if table_size < 4:
            self.fail(f"{what} claims a size of {table_size} bytes")
        self.need(at, table_size, what, 4)

        def place(slot: int) -> int | None:
            entry = 4 + 2 * slot
            if entry >= vtable_size:
                return None
            offset = int(encode.Get(packer.voffset, self.data, vtable + entry))
            if offset == 0:
                return None
            if not 4 <= offset < table_size:
                self.fail(f"field {slot} of {what} lies at offset {offset} of a table of {table_size} bytes")
            return at + offset

        found = {f.name: self.field(f, place, f"{what}.{f.name}") for f in table.fields}
        return getattr(records, table.name)(**{name: value for name, value in found.items() if value is not None})

    def signed(self, at: int, what: str) -> int:
        self.need(at, 4, what, 4)
        return int(encode.Get(packer.soffset, self.data, at))

    def field(self, field: Field, place: Any, what: str) -> Any:
        at = place(field.slot)
        if field.kind is Kind.UNION:
            return self.union(field, at, place(field.slot + 1), what)
        if at is None:
            return None
        match field.kind:
            case Kind.SCALAR:
                value = self.scalar(field.scalar, at, what)
                if field.choices is not None and value not in field.choices:
                    self.fail(f"{what} is {value}, which is none of {sorted(field.choices)}")
                if field.of == "bool" and value not in (0, 1):
                    self.fail(f"{what} is {value}, neither 0 nor 1")
                return bool(value) if field.of == "bool" else value
            case Kind.STRING:
                return self.string(self.target(at, what), what)
            case Kind.TABLE:
                return self.table(SCHEMA.tables[field.of], self.target(at, what), what)
            case Kind.VECTOR:
                start, width = self.target(at, what), int(SCALARS[field.of].bytewidth)
                count = self.vector(start, width, what)
                return tuple(self.scalar(field.scalar, start + 4 + width * i, what) for i in range(count))
            case _:
                start, table = self.target(at, what), SCHEMA.tables[field.of]
                count = self.vector(start, 4, what)
                places = [self.target(start + 4 + 4 * i, f"{what}[{i}]") for i in range(count)]
                return tuple(self.table(table, place, f"{what}[{i}]") for i, place in enumerate(places))

    def union(self, field: Field, kind_at: int | None, value_at: int | None, what: str) -> Any:
        kind = 0 if kind_at is None else self.scalar(N.Uint8Flags, kind_at, f"the type of {what}")
        if kind == 0 and value_at is None:
            return None
        members = SCHEMA.unions[field.of]
        if kind not in members:
            self.fail(f"{what} has union type {kind}, which is none of {sorted(members)}")
        if value_at is None:
            self.fail(f"{what} has a type and no value")
        at = self.target(value_at, what)
        if (struct := SCHEMA.structs.get(members[kind])) is not None:
            return self.struct(struct, at, what)
        return self.table(SCHEMA.tables[members[kind]], at, what)

    def struct(self, struct: Struct, at: int, what: str) -> Any:
        self.need(at, struct.size, what, 8)
        values = {}
        for name, of in struct.fields:
            values[name] = int(encode.Get(SCALARS[of].packer_type, self.data, at))
            at += SCALARS[of].bytewidth
        return getattr(records, struct.name)(**values)

    def string(self, at: int, what: str) -> str:
        count = self.vector(at, 1, what)
        raw = self.data[at + 4 : at + 4 + count]
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.fail(f"{what} is not UTF-8")


#: Headers up to this size are remembered: the layers of a model differ in their data, not in their headers, and records never change.
_SMALL = 4096


def read(data: bytes, root: str = "Tensor") -> Any:
    """The record of table `root` that a FlatBuffer holds. RuntimeError says what is wrong with one that does not."""
    return _known(data, root) if len(data) <= _SMALL else _read(data, root)


def _read(data: bytes, root: str) -> Any:
    reader = _Reader(data)
    return reader.table(SCHEMA.tables[root], reader.target(0, f"the root table {root}"), root)


_known = lru_cache(maxsize=256)(_read)
