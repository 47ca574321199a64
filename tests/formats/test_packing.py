"""Properties of packing and rounding: both faces say the same, for every format, tile, rank and path of the code."""

from __future__ import annotations

import pytest
import torch
from formats_samples import awkward, same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera import native
from tessera.formats.dtype import BLOCK, FORMATS, FORMATS_BY_NAME, TABLE, DataType, Format, Layout
from tessera.formats.layout import tilize, untilize
from tessera.formats.packing import image_size, pack, pack_tiles, unpack, unpack_tiles
from tessera.formats.rounding import host_convert, to_grid
from tessera.formats.shape import Shape
from tessera.formats.tile import HEIGHTS, WIDTHS, Tile
from tessera.memory.spec import TensorSpec

TILES = [Tile((h, w), t) for h in HEIGHTS for w in WIDTHS for t in (False, True) if not t or h >= 16]
BLOCKS = [row for row in TABLE if row.is_block]
DTYPES = list(FORMATS)

shapes = st.lists(st.integers(0, 3), max_size=4).flatmap(
    lambda outer: st.tuples(st.integers(1, 40), st.integers(1, 70)).map(lambda last: (*outer, *last))
) | st.sampled_from([(), (1,), (17,), (0,), (0, 5), (5, 0), (2, 0, 3)])
seeds = st.integers(0, 2**31)


def specs_of(shape: tuple[int, ...], dtype: DataType, tile: Tile) -> list[TensorSpec]:
    layouts = (
        [Layout.TILE] if FORMATS[dtype].is_block else [Layout.ROW_MAJOR] if dtype is DataType.FP8_E4M3 else [Layout.TILE, Layout.ROW_MAJOR]
    )
    return [TensorSpec.of(Shape(list(shape)), dtype, layout, tile=tile) for layout in layouts]


@settings(max_examples=150, deadline=None)
@given(shapes, st.sampled_from(DTYPES), st.sampled_from(TILES), seeds)
def test_packing_a_values_face_loses_nothing(shape: tuple[int, ...], dtype: DataType, tile: Tile, seed: int) -> None:
    values = to_grid(awkward(shape, seed), dtype, tile)
    for spec in specs_of(shape, dtype, tile):
        image = pack(values, spec)
        assert image.numel() == image_size(spec) == spec.image_size
        back = unpack(image, spec)
        assert same_bits(back, values)
        assert torch.equal(pack(back, spec), image)


@settings(max_examples=60, deadline=None)
@given(shapes, st.sampled_from(BLOCKS), st.sampled_from(TILES), st.sampled_from(["host", "device"]), seeds)
def test_rounding_twice_is_rounding_once(shape: tuple[int, ...], row: Format, tile: Tile, rounding: str, seed: int) -> None:
    values = awkward(shape, seed)
    once = to_grid(values, row, tile, rounding)  # type: ignore[arg-type]
    assert same_bits(to_grid(once, row, tile, rounding), once)  # type: ignore[arg-type]
    assert same_bits(unpack_tiles(pack_tiles(values, row, tile, rounding=rounding), shape, row, tile), once)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(shapes, st.sampled_from(TILES), st.sampled_from([torch.uint8, torch.int16, torch.float32, torch.int64]), seeds)
def test_tilize_moves_and_pads(shape: tuple[int, ...], tile: Tile, dtype: torch.dtype, seed: int) -> None:
    torch.manual_seed(seed)
    values = torch.randint(0, 100, shape).to(dtype)
    tiles = tilize(values, tile, pad=7)
    assert torch.equal(untilize(tiles, shape, tile), values)
    assert torch.equal(
        tiles.sort().values, torch.cat([values.reshape(-1), torch.full((tiles.numel() - values.numel(),), 7, dtype=dtype)]).sort().values
    )


def test_the_place_of_an_element() -> None:
    values = torch.arange(32 * 64).reshape(32, 64)
    tiles = tilize(values).reshape(2, 4, 16, 16)
    assert tiles[1, 2, 3, 4] == values[16 + 3, 32 + 4]
    turned = tilize(values, Tile((32, 32), True)).reshape(2, 4, 16, 16)
    assert turned[1, 1, 4, 3] == values[16 + 3, 32 + 4]


@pytest.mark.parametrize("rounding", ["host", "device"])
@pytest.mark.parametrize("row", [row for row in BLOCKS if row.exponent == 8], ids=lambda row: row.name)
def test_every_instruction_set_gives_the_bits_of_the_definition(row: Format, rounding: str) -> None:
    if native.MODULE is None:
        pytest.skip("the native module is not built")
    module, chosen = native.MODULE, native.MODULE.isa()
    shapes = [(33, 47), (2, 3, 40, 70), (17,), (), (64, 288), (3, 0), (32, 512)]
    try:
        for tile in TILES:
            for seed, shape in enumerate(shapes):
                for dtype in (torch.float32, torch.bfloat16):
                    values = awkward(shape, seed, specials=seed % 2 == 0).to(dtype)
                    scaled = values * 1e-34 if seed == 1 else values

                    def results(values: torch.Tensor = scaled, shape: tuple[int, ...] = shape, tile: Tile = tile) -> list[torch.Tensor]:
                        image = pack_tiles(values, row, tile, 3.5, rounding)  # type: ignore[arg-type]
                        return [image, unpack_tiles(image, shape, row, tile), to_grid(values, row, tile, rounding)]  # type: ignore[arg-type]

                    native.MODULE = None
                    expected = results()
                    native.MODULE = module
                    for isa in module.runnable_isas():
                        module.set_isa(isa)
                        for got, want in zip(results(), expected):
                            assert same_bits(got, want), (isa, tile.key, shape, dtype)
    finally:
        native.MODULE = module
        module.set_isa(chosen)


def test_large_results_are_written_past_the_caches_alike() -> None:
    values = awkward((2048, 1024), 5)
    expected_grid, expected_image = to_grid(values[:64], DataType.BFLOAT8_B), pack_tiles(values[:64], DataType.BFLOAT8_B)
    assert same_bits(to_grid(values.repeat(2, 1), DataType.BFLOAT8_B)[:64], expected_grid)
    image = pack_tiles(values.repeat(2, 1), DataType.BFLOAT8_B)
    assert torch.equal(image[: expected_image.numel()], expected_image)
    assert same_bits(unpack_tiles(image, (4096, 1024), DataType.BFLOAT8_B)[:64], expected_grid)
    assert same_bits(untilize(tilize(values), (2048, 1024)), values)


def test_height_is_padded_for_each_matrix() -> None:
    spec = TensorSpec.of(Shape([2, 1, 3]), DataType.UINT8, Layout.TILE)
    tiles = pack(torch.tensor([[[1, 2, 3]], [[4, 5, 6]]], dtype=torch.uint8), spec).reshape(2, 4, 16, 16)
    assert tiles[0, 0, 0, :4].tolist() == [1, 2, 3, 0]
    assert tiles[1, 0, 0, :4].tolist() == [4, 5, 6, 0]
    assert tiles.sum() == 21


def test_padding_beyond_the_tile() -> None:
    spec = TensorSpec.of(Shape([2, 5, 7]), DataType.BFLOAT16, Layout.TILE).padded_to([2, 64, 96])
    values = torch.randn(2, 5, 7).bfloat16()
    image = pack(values, spec, pad=1.0)
    assert image.numel() == spec.image_size == 2 * 64 * 96 * 2
    assert same_bits(unpack(image, spec), values)
    assert (image.view(torch.bfloat16) == 1.0).sum() >= 2 * (64 * 96 - 35)


def test_a_row_major_image_borrows_the_values() -> None:
    spec = TensorSpec.of(Shape([3, 5]), DataType.FLOAT32, Layout.ROW_MAJOR)
    values = torch.randn(3, 5)
    assert pack(values, spec).data_ptr() == values.data_ptr()
    assert unpack(pack(values, spec), spec).data_ptr() == values.data_ptr()


def test_an_image_that_starts_anywhere() -> None:
    spec = TensorSpec.of(Shape([40, 50]), DataType.FLOAT32, Layout.TILE)
    values = torch.randn(40, 50)
    shifted = torch.cat([torch.zeros(3, dtype=torch.uint8), pack(values, spec)])[3:]
    assert torch.equal(unpack(shifted, spec), values)


def test_wrong_sizes_are_refused() -> None:
    spec = TensorSpec.of(Shape([40, 50]), DataType.FLOAT32, Layout.TILE)
    with pytest.raises(RuntimeError, match=r"unpack: image must be 16384 bytes"):
        unpack(torch.zeros(100, dtype=torch.uint8), spec)
    with pytest.raises(RuntimeError, match=r"pack: values have shape \[50, 40\]"):
        pack(torch.zeros(50, 40), spec)
    with pytest.raises(RuntimeError, match="untilize: tiles holds 5 elements"):
        untilize(torch.zeros(5), (2, 2))


def test_integers_wrap_and_outside_floats_convert_as_on_the_host() -> None:
    assert to_grid(torch.tensor([-1, 256, 300]), DataType.UINT8).tolist() == [255, 0, 44]
    assert to_grid(torch.tensor([-1, 65536]), DataType.UINT16).tolist() == [65535, 0]
    assert to_grid(torch.tensor([-1, 2**32 + 5]), DataType.UINT32).tolist() == [2**32 - 1, 5]
    assert to_grid(torch.tensor([-129, 128]), DataType.INT8).tolist() == [127, -128]
    floats = torch.tensor([-2.7, 2.7, float("nan"), float("inf"), 3e9, -3e9, -1.0, 0.0])
    low = -(2**31)
    assert host_convert(floats, DataType.INT32).tolist() == [-2, 2, low, low, low, low, -1, 0]
    assert host_convert(floats, DataType.UINT32).tolist() == [2**32 - 2, 2, 2**31, 2**31, 3_000_000_000, 2**31, 2**32 - 1, 0]
    assert host_convert(floats, DataType.INT8).tolist() == [-2, 2, -128, -128, -128, -128, -1, 0]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("Float16_b", 1.00390625, 1.0),
        ("Float16_b", 1.01171875, 1.015625),
        ("Tf32", 1.00048828125, 1.0),
        ("Tf32", 1.00146484375, 1.001953125),
        ("Fp8_e4m3", 3.14159, 3.25),
        ("Fp8_e4m3", 1e10, 448.0),
        ("Lf8", 3.14159, 3.0),
        ("Float16", 1.00048828125, 1.0),
        ("Bfp8", 3.14159, 3.15625),
        ("Bfp8", 1e9, 127 * 2.0**10),
        ("Bfp8", 1e-9, 0.0),
        ("Bfp2", 3.14159, 2.0),
    ],
)
def test_a_number_on_a_grid(name: str, value: float, expected: float) -> None:
    assert to_grid(torch.tensor([value]), FORMATS_BY_NAME[name]).float().item() == expected


def test_a_block_shares_the_largest_exponent() -> None:
    values = torch.full((1, 2 * BLOCK), 0.3)
    values[0, 0] = 100.0
    rounded = to_grid(values, DataType.BFLOAT8_B).float()
    assert rounded[0, 1:BLOCK].unique().tolist() == [0.0]
    assert rounded[0, BLOCK:].unique().tolist() == [0.30078125]
    turned = to_grid(values.T.contiguous(), DataType.BFLOAT8_B, Tile((32, 32), True)).float()
    assert torch.equal(turned, rounded.T)


def test_a_lone_element_cut_from_a_larger_tensor() -> None:
    spec = TensorSpec.of(Shape([1, 1]), DataType.BFLOAT16, Layout.ROW_MAJOR)
    values = torch.randn(1, 16).bfloat16()[:, :1]
    assert same_bits(unpack(pack(values, spec), spec), values)
