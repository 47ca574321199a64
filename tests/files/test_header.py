"""The header's FlatBuffer: read and written through one schema, and read with suspicion."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import pytest
import samples

from tessera.files import records
from tessera.files.reading import read
from tessera.files.schema import SCHEMA, Kind
from tessera.files.writing import write


def padded(flat: bytes) -> bytes:
    return flat + bytes(-(8 + len(flat)) % 64)


@pytest.mark.parametrize("path", samples.PLAIN + samples.SPREAD, ids=lambda p: p.stem)
def test_a_header_written_again_is_the_official_one(path: Path) -> None:
    header = samples.header(path)
    assert padded(write(read(header))) == header


def test_overlapped_headers_too() -> None:
    for path in samples.OVERLAPPED:
        header = samples.header(path)
        assert padded(write(read(header, "OverlappedTensors"))) == header


def test_records_mirror_the_schema() -> None:
    for name, table in SCHEMA.tables.items():
        fields = [f.name for f in table.fields]
        assert list(records.__dict__[name].__dataclass_fields__) == fields, name


def test_a_union_takes_two_slots() -> None:
    layout = SCHEMA.tables["TensorLayout"]
    assert [(f.name, f.slot) for f in layout.fields] == [("data_type", 0), ("page_config", 1), ("memory_config", 3), ("alignment", 4)]
    assert layout.slots == 5
    assert layout.fields[1].kind is Kind.UNION


# -- suspicion


GOOD = samples.header(samples.FOLDER / "bfloat16_row_major_17_randn.tensorbin")
ROOT = struct.unpack_from("<I", GOOD)[0]


def damaged(at: int, fmt: str, value: int) -> bytes:
    data = bytearray(GOOD)
    struct.pack_into(fmt, data, at, value)
    return bytes(data)


def test_every_prefix_is_refused_or_means_the_same() -> None:
    whole = read(GOOD)
    for length in range(len(GOOD)):
        try:
            assert read(GOOD[:length]) == whole  # only the padding was cut off
        except RuntimeError as error:
            assert "corrupt" in str(error)


@pytest.mark.parametrize(
    ("at", "fmt", "value", "says"),
    [
        (0, "<I", 0xFFFFFFF0, "outside the header"),
        (0, "<I", 0, "points to itself"),
        (0, "<I", 6, "not a multiple of 4"),
        (ROOT, "<i", 0x7FFFFFF0, "vtable"),
        (ROOT, "<i", -0x7FFFFFF0, "vtable"),
        (ROOT, "<i", 3, "multiple of 2"),
        (8, "<H", 3, "claims a size of 3 bytes"),
        (8, "<H", 0xFFFE, "outside the header"),
        (10, "<H", 2, "claims a size of 2 bytes"),
        (10, "<H", 0xFFFC, "outside the header"),
        (12, "<H", 60, "field 0 of Tensor lies at offset 60"),
        (ROOT + 4, "<I", 0xFFFFFF00, "outside the header"),
    ],
)
def test_each_number_is_checked_before_it_is_followed(at: int, fmt: str, value: int, says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        read(damaged(at, fmt, value))


Build = Callable[[flatbuffers.Builder], int]


def built(build: Build) -> bytes:
    builder = flatbuffers.Builder(64)
    builder.Finish(build(builder))
    return bytes(builder.Output())


def table(builder: flatbuffers.Builder, slots: int, offsets: dict[int, int]) -> int:
    builder.StartObject(slots)
    for slot, target in offsets.items():
        builder.PrependUOffsetTRelativeSlot(slot, target, 0)
    return int(builder.EndObject())


def test_shared_targets_cannot_multiply_the_work() -> None:
    def bomb(b: flatbuffers.Builder) -> int:
        b.StartVector(4, 2000, 4)
        for _ in range(2000):
            b.PrependUint32(1)
        values = b.EndVector()
        place = table(b, 1, {0: values})
        shard = table(b, 3, {2: place})
        b.StartVector(4, 2000, 4)
        for _ in range(2000):
            b.PrependUOffsetTRelative(shard)
        return table(b, 4, {2: b.EndVector()})

    with pytest.raises(RuntimeError, match="cyclic or shared"):
        read(built(bomb))


def test_a_vector_longer_than_the_header_is_not_allocated() -> None:
    def liar(b: flatbuffers.Builder) -> int:
        b.StartVector(4, 1, 4)
        b.PrependUint32(7)
        shape = b.EndVector(1)
        spec = table(b, 2, {0: shape})
        return table(b, 4, {0: spec})

    data = bytearray(built(liar))
    place = data.rindex(struct.pack("<II", 1, 7))
    struct.pack_into("<I", data, place, 0xFFFFFFFF)
    with pytest.raises(RuntimeError, match="claims 4294967295 elements"):
        read(bytes(data))


def _record(**changes: Any) -> records.Tensor:
    return records.Tensor(**changes)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (_record(tensor_spec=records.TensorSpec(tensor_layout=records.TensorLayout(data_type=77))), "data_type is 77"),
        (
            _record(
                tensor_spec=records.TensorSpec(tensor_layout=records.TensorLayout(memory_config=records.MemoryConfig(memory_layout=1)))
            ),
            "memory_layout is 1",
        ),
        (_record(tensor_topology=records.TensorTopology(placements=(records.MeshMapperPlacement(type=2),))), "type is 2"),
    ],
)
def test_enum_values_outside_the_schema_are_refused(record: records.Tensor, says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        read(write(record))


def test_an_unknown_union_type_is_refused() -> None:
    flat = bytearray(write(records.Tensor(shards=(records.TensorShard(buffer=records.InlineFileStorage(1, 2)),))))
    assert flat.count(b"\x01") >= 1
    hit = False
    for i, byte in enumerate(flat):
        if byte == 1:
            changed = bytearray(flat)
            changed[i] = 9
            try:
                read(bytes(changed))
            except RuntimeError as error:
                hit = hit or "union type 9" in str(error)
    assert hit


def test_a_name_that_is_not_utf8_is_refused() -> None:
    flat = bytearray(write(records.OverlappedTensors(views=(records.OverlappedView(name="weights"),))))
    flat[flat.index(b"weights")] = 0xFF
    with pytest.raises(RuntimeError, match="not UTF-8"):
        read(bytes(flat), "OverlappedTensors")
