"""Enums, dtypes, shapes and tiles: what they refuse, how they print, and the one table of formats."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tessera.formats.dtype import FORMATS, FORMATS_BY_NAME, TABLE, DataType, Layout
from tessera.formats.enums import official_enum
from tessera.formats.shape import Shape, volume
from tessera.formats.tile import HEIGHTS, WIDTHS, Tile

extents = st.lists(st.integers(0, 2**32 - 1), max_size=8)


class TestEnums:
    def test_print_their_class_and_name(self) -> None:
        assert repr(DataType.BFLOAT16) == str(DataType.BFLOAT16) == f"{DataType.BFLOAT16}" == "DataType.BFLOAT16"
        assert DataType.BFLOAT16.cpp == "DataType::BFLOAT16"

    def test_equal_only_themselves(self) -> None:
        assert DataType.FLOAT32.value != DataType.FLOAT32
        assert DataType(1) is DataType.FLOAT32
        with pytest.raises(ValueError, match="999 is not a valid DataType"):
            DataType(999)

    def test_two_names_of_one_number_stay_two_members(self) -> None:
        noc = official_enum("NOC", {"RISCV_0": 0, "RISCV_1": 1, "NOC_0": 0})
        assert [str(m) for m in noc] == ["NOC.RISCV_0", "NOC.RISCV_1", "NOC.NOC_0"]
        assert noc(0) is noc.RISCV_0
        assert noc.NOC_0 is not noc.RISCV_0
        assert list(noc.__members__) == ["RISCV_0", "RISCV_1", "NOC_0"]

    def test_survive_copies_as_the_same_member(self) -> None:
        assert copy.deepcopy(Layout.TILE) is pickle.loads(pickle.dumps(Layout.TILE)) is Layout.TILE


class TestFormats:
    def test_every_dtype_but_invalid_has_one_row(self) -> None:
        assert set(FORMATS) == set(DataType) - {DataType.INVALID}
        assert len(FORMATS_BY_NAME) == len(TABLE)

    @pytest.mark.parametrize("row", TABLE, ids=lambda r: r.name)
    def test_the_values_dtype_holds_every_value_of_the_format(self, row) -> None:
        if row.kind == "int":
            info = torch.iinfo(row.values)
            assert info.min <= row.low < row.high <= info.max
        else:
            mantissa = -torch.log2(torch.tensor(torch.finfo(row.values).eps)).item()
            assert mantissa >= (row.mantissa - 1 if row.is_block else row.mantissa)

    @pytest.mark.parametrize(
        ("name", "full", "half"), [("Bfp8_b", 1088, 544), ("Bfp4_b", 576, 288), ("Bfp2_b", 320, 160), ("Float16", 2048, 1024)]
    )
    def test_tile_bytes(self, name: str, full: int, half: int) -> None:
        assert FORMATS_BY_NAME[name].bytes_for(1024) == full
        assert FORMATS_BY_NAME[name].bytes_for(512) == half

    def test_shared_exponents_are_padded_to_sixteen_bytes(self) -> None:
        assert Tile((1, 32)).get_tile_size(DataType.BFLOAT8_B) == 16 + 32
        assert Tile((1, 16)).get_tile_size(DataType.BFLOAT4_B) == 16 + 8


class TestShape:
    @given(extents)
    def test_is_its_extents(self, dims: list[int]) -> None:
        shape = Shape(dims)
        assert list(shape) == dims
        assert shape == dims == list(reversed(list(reversed(shape))))
        assert len(shape) == shape.rank == len(dims)
        assert hash(shape) == hash(Shape(tuple(dims)))
        assert eval(repr(shape), {"Shape": Shape}) == shape
        assert pickle.loads(pickle.dumps(shape)) == shape

    @given(extents, st.integers(-12, 12))
    def test_remembers_four_dimensions(self, dims: list[int], index: int) -> None:
        shape, rank = Shape(dims), len(dims)
        if -max(rank, 4) <= index < rank:
            assert shape[index] == (dims[index] if index >= -rank else 1)
        else:
            with pytest.raises(RuntimeError, match=r"ShapeBase\[\] index out of range"):
                shape[index]

    @given(extents, st.integers(0, 10))
    def test_to_rank_adds_and_takes_ones_in_front(self, dims: list[int], rank: int) -> None:
        surplus = len(dims) - rank
        if all(d == 1 for d in dims[: max(surplus, 0)]):
            changed = Shape(dims).to_rank(rank)
            assert changed.rank == rank
            assert volume(changed.dims) == volume(tuple(dims))
        else:
            with pytest.raises(RuntimeError, match="Can't convert shape rank"):
                Shape(dims).to_rank(rank)

    @pytest.mark.parametrize("bad", [None, 5, "12", {1: 2}, [1.0], [-1], [2**32], (d for d in [1])])
    def test_refuses_what_is_no_shape(self, bad) -> None:
        with pytest.raises(TypeError, match="incompatible function arguments"):
            Shape(bad)

    @pytest.mark.parametrize("index", [slice(1), None, "a", 1.0])
    def test_is_indexed_by_integers_only(self, index) -> None:
        with pytest.raises(TypeError, match="incompatible function arguments"):
            Shape([1, 2])[index]

    def test_compares_with_sequences_and_nothing_else(self) -> None:
        shape = Shape([1, 2])
        assert shape == torch.Size([1, 2]) == (1, 2)
        assert shape == range(1, 3)
        assert shape != None  # noqa: E711
        assert shape != 5
        assert shape != [1, 2.0]
        with pytest.raises(TypeError):
            shape < shape  # noqa: B015
        with pytest.raises(AttributeError):
            shape.dims = (3,)  # type: ignore[misc]


class TestTile:
    @pytest.mark.parametrize("height", HEIGHTS)
    @pytest.mark.parametrize("width", WIDTHS)
    def test_geometry(self, height: int, width: int) -> None:
        tile = Tile((height, width))
        face_height, face_width = tile.face_shape
        assert tile.num_faces * face_height * face_width == height * width
        assert (tile.partial_face, tile.narrow_tile) == (int(height < 32), int(width < 32))
        assert tile.get_tile_size(DataType.FLOAT32) == 4 * height * width
        assert repr(tile) == f"Tile with shape: [{height}, {width}]"

    @pytest.mark.parametrize("shape", [(32, 8), (5, 32), (64, 32), (0, 32), (32, 64)])
    def test_refuses_sizes_the_hardware_lacks(self, shape) -> None:
        with pytest.raises(RuntimeError, match="Tile size is not valid for our hardware"):
            Tile(shape)

    def test_transposes_only_high_tiles_and_compares_without_it(self) -> None:
        tile = Tile((32, 32), True)
        assert tile == Tile((32, 32))
        assert tile.key != Tile((32, 32)).key
        with pytest.raises(RuntimeError, match="Tile height must equal 16 or 32 in transpose mode"):
            Tile((8, 32), True)
