"""Memory configs and tensor specs: identity, padding, pages, shards that do not fit."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.shape import Shape, volume
from tessera.formats.tile import HEIGHTS, WIDTHS, Tile
from tessera.memory.config import (
    L1,
    BufferType,
    MemoryConfig,
    NdShardSpec,
    ShardDistributionStrategy,
    ShardOrientation,
    ShardShapeAlignment,
    ShardSpec,
    TensorMemoryLayout,
)
from tessera.memory.geometry import CoreRange, CoreRangeSet
from tessera.memory.spec import TensorSpec

ROW, TILE = Layout.ROW_MAJOR, Layout.TILE
BF16 = DataType.BFLOAT16
HEIGHT, WIDTH, BLOCK = TensorMemoryLayout.HEIGHT_SHARDED, TensorMemoryLayout.WIDTH_SHARDED, TensorMemoryLayout.BLOCK_SHARDED


def cores(x: int, y: int) -> CoreRangeSet:
    return CoreRangeSet([CoreRange((0, 0), (x - 1, y - 1))])


def sharded(layout: TensorMemoryLayout, shard: tuple[int, int], grid: CoreRangeSet, orientation=ShardOrientation.ROW_MAJOR) -> MemoryConfig:
    return MemoryConfig(layout, BufferType.L1, ShardSpec(grid, shard, orientation))


class TestMemoryConfig:
    def test_equal_ones_share_an_identity(self) -> None:
        one, other = sharded(HEIGHT, (32, 64), cores(4, 2)), sharded(HEIGHT, (32, 64), cores(4, 2))
        assert one == other
        assert hash(one) == hash(other)
        assert one != sharded(HEIGHT, (32, 32), cores(4, 2))
        assert one != L1

    def test_shard_specs_are_held_by_value(self) -> None:
        spec = ShardSpec(cores(4, 2), [32, 64], ShardOrientation.ROW_MAJOR)
        config = MemoryConfig(HEIGHT, BufferType.L1, spec)
        spec.shape = [1, 1]
        config.shard_spec.shape = [2, 2]
        assert config.shard_spec.shape == [32, 64]
        with pytest.raises(AttributeError):
            config.buffer_type = BufferType.DRAM  # type: ignore[misc]

    @pytest.mark.parametrize(
        "args", [(BufferType.L1,), ("L1",), (HEIGHT, BufferType.L1, 5), (HEIGHT, BufferType.L1, None, 1), (BufferType.L1, None)]
    )
    def test_refuses_what_fits_neither_signature(self, args) -> None:
        with pytest.raises(TypeError, match="incompatible function arguments"):
            MemoryConfig(*args)

    @pytest.mark.parametrize("config", [MemoryConfig(), L1, sharded(BLOCK, (32, 64), cores(4, 2), ShardOrientation.COL_MAJOR)])
    def test_json_and_copies_round_trip(self, config: MemoryConfig) -> None:
        assert MemoryConfig.from_json(config.to_json()) == config == copy.deepcopy(config) == pickle.loads(pickle.dumps(config))

    def test_nd_json_is_as_unreadable_as_the_official_one(self) -> None:
        config = MemoryConfig(BufferType.L1, NdShardSpec([1, 32, 64], cores(4, 2)))
        with pytest.raises(RuntimeError, match="shard_shape"):
            MemoryConfig.from_json(config.to_json())

    def test_experimental_flags_are_for_sharded_l1(self) -> None:
        config = sharded(HEIGHT, (32, 64), cores(4, 2))
        config.experimental_set_per_core_allocation(True)
        assert config != sharded(HEIGHT, (32, 64), cores(4, 2))
        assert "per_core_allocation=1" in repr(config)
        for refused in (MemoryConfig(), MemoryConfig(buffer_type=BufferType.L1)):
            with pytest.raises(RuntimeError, match="per_core_allocation"):
                refused.experimental_set_per_core_allocation(True)


class TestIdentity:
    def test_equal_specs_are_one_object(self) -> None:
        spec = TensorSpec([2, 3, 33, 65], BF16, TILE)
        assert TensorSpec(Shape((2, 3, 33, 65)), BF16, TILE, tile=Tile((32, 32))) is spec
        assert spec.replace() is spec
        assert spec.replace(dtype=DataType.FLOAT32).replace(dtype=BF16) is spec
        assert copy.deepcopy(spec) is spec
        assert pickle.loads(pickle.dumps(spec)) is spec
        assert spec.padded_to([2, 3, 64, 96]) is spec

    def test_what_differs_is_another(self) -> None:
        spec = TensorSpec([32, 32], BF16, TILE)
        others = [
            spec.replace(shape=(32, 64)),
            spec.replace(dtype=DataType.UINT16),
            spec.replace(layout=ROW),
            spec.replace(memory_config=L1),
            spec.replace(tile=Tile((32, 32), True)),
            spec.padded_to([64, 32]),
        ]
        assert len({spec, *others}) == len(others) + 1

    def test_row_major_specs_have_no_tile_of_their_own(self) -> None:
        assert TensorSpec([4, 4], BF16, ROW, tile=Tile((16, 32))) is TensorSpec([4, 4], BF16, ROW)

    def test_an_nd_spec_is_one_object_with_its_layout_spelt_out_or_not(self) -> None:
        spec = TensorSpec([256, 32], BF16, TILE, NdShardSpec([32, 32], cores(4, 2)), BufferType.L1)
        assert spec.memory_config.memory_layout is HEIGHT
        assert spec.replace(memory_config=spec.memory_config) is spec


dims = st.lists(st.integers(0, 70), max_size=5).map(tuple)


class TestPadding:
    @settings(max_examples=80)
    @given(dims, st.sampled_from(list(FORMATS)), st.sampled_from([ROW, TILE]), st.sampled_from(HEIGHTS), st.sampled_from(WIDTHS))
    def test_bytes_hold_the_padded_matrix(self, shape, dtype, layout, height: int, width: int) -> None:
        if (FORMATS[dtype].is_block and layout is ROW) or (dtype is DataType.FP8_E4M3 and layout is TILE):
            with pytest.raises(RuntimeError, match="layout is supported for"):
                TensorSpec(shape, dtype, layout)
            return
        spec = TensorSpec(shape, dtype, layout, tile=Tile((height, width)))
        assert spec.volume == volume(shape) <= volume(spec.padded_dims)
        assert spec.physical_shape[0] * spec.physical_shape[1] == volume(spec.padded_dims)
        assert spec.physical_shape[1] == spec.padded_shape[-1]
        if volume(spec.padded_dims):
            assert spec.num_pages * spec.page_size == spec.image_size
        if layout is TILE:
            assert spec.padded_shape[-1] % width == 0
            assert spec.padded_shape[-2] % height == 0
            matrix = (1, 1, *shape)[-2:]
            assert all(p - d < s for d, p, s in zip(matrix, spec.padded_dims[-2:], (height, width), strict=True))
            assert spec.image_size == volume(spec.padded_dims) // (height * width) * spec.tile.get_tile_size(dtype)
        else:
            assert spec.padded_dims == (shape or (1,))

    @settings(max_examples=60)
    @given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 9)), min_size=1, max_size=4))
    def test_any_padded_shape_of_last_two_dimensions_can_be_had(self, pairs) -> None:
        shape = tuple(d for d, _ in pairs)
        padded = shape[:-2] + tuple(d + more for d, more in pairs[-2:])
        spec = TensorSpec(shape, BF16, ROW).padded_to(padded)
        assert (spec.padded_dims, spec.dims) == (padded, shape)
        assert spec.image_size == 2 * volume(padded)

    def test_outer_padding(self) -> None:
        spec = TensorSpec([1, 1, 32, 32], BF16, ROW).padded_to([2, 3, 32, 32])
        assert (list(spec.padded_shape), spec.physical_shape) == ([2, 3, 32, 32], (192, 32))


class TestPages:
    def test_rows_of_the_tensor_or_of_the_shard(self) -> None:
        assert TensorSpec([4, 6], BF16, ROW).page_size == 12
        assert TensorSpec([4, 6], BF16, ROW, WIDTH, ShardSpec(cores(3, 1), [4, 2], ShardOrientation.ROW_MAJOR)).page_size == 4
        assert TensorSpec([4, 6], BF16, ROW, HEIGHT, ShardSpec(cores(2, 1), [2, 6], ShardOrientation.ROW_MAJOR)).page_size == 12

    def test_a_row_major_tensor_without_elements_has_a_page_of_four_bytes(self) -> None:
        spec = TensorSpec([0, 32], BF16, ROW)
        assert (spec.page_size, spec.num_pages, spec.image_size) == (4, 0, 0)


class TestShards:
    @pytest.mark.parametrize(
        ("layout", "memory_layout", "shard", "orientation", "phrase"),
        [
            (TILE, HEIGHT, (64, 32), 1, "Shard width 32 must match physical width 64 for height sharded"),
            (ROW, HEIGHT, (32, 50), 0, "Shard width 50 must match physical width 100 for height sharded"),
            (TILE, HEIGHT, (32, 50), 0, "Physical shard shape (32, 50) must be tile {32, 32} sized!"),
            (ROW, HEIGHT, (30, 64), 0, "Number of shards along height 9 must not exceed number of cores 8"),
            (ROW, WIDTH, (32, 64), 0, "Shard height 32 must match physical height 256 for width sharded"),
            (ROW, BLOCK, (30, 64), 0, "Number of shards along height 9 must not exceed number of rows 2 for row major orientation!"),
        ],
    )
    def test_what_does_not_fit_is_refused_with_the_official_phrase(self, layout, memory_layout, shard, orientation, phrase) -> None:
        spec = ShardSpec(cores(4, 2), shard, ShardOrientation(orientation))
        with pytest.raises(RuntimeError) as refused:
            TensorSpec([1, 1, 256, 64], BF16, layout, memory_layout, spec, BufferType.L1)
        assert phrase in str(refused.value)

    def test_blocks_need_one_rectangle(self) -> None:
        spec = ShardSpec(CoreRangeSet([CoreRange((0, 0), (3, 0)), CoreRange((0, 1), (1, 1))]), (64, 64), ShardOrientation.ROW_MAJOR)
        with pytest.raises(RuntimeError, match="Shard grid must be one full rectangular grid for block sharded!"):
            TensorSpec([1, 1, 256, 64], BF16, TILE, BLOCK, spec, BufferType.L1)

    def test_a_sharded_layout_needs_a_shard(self) -> None:
        with pytest.raises(RuntimeError, match="needs a shard spec"):
            TensorSpec([64, 64], BF16, TILE, HEIGHT)

    def test_each_tongue_fills_in_the_other(self) -> None:
        legacy = TensorSpec([256, 64], BF16, TILE, HEIGHT, ShardSpec(cores(4, 2), (32, 64), ShardOrientation.ROW_MAJOR), BufferType.L1)
        nd = legacy.memory_config.nd_shard_spec
        assert (list(nd.shard_shape), nd.shard_distribution_strategy) == ([32, 64], ShardDistributionStrategy.ROUND_ROBIN_1D)
        back = TensorSpec([256, 64], BF16, TILE, nd, BufferType.L1).memory_config
        assert (back.memory_layout, back.shard_spec) == (HEIGHT, legacy.memory_config.shard_spec)
        assert back.created_with_nd_shard_spec

    def test_builders(self) -> None:
        spec = TensorSpec([2, 3, 33, 65], BF16, TILE)
        built = {
            "height": spec.height_sharded(cores(4, 2)),
            "width": spec.width_sharded(cores(4, 2)),
            "block": spec.block_sharded(cores(4, 2)),
            "dims": spec.sharded_across_dims([0], cores(4, 2)),
            "except": spec.sharded_across_dims_except([-1], cores(4, 2)),
        }
        shards = {name: (s.memory_config.memory_layout.name, list(s.memory_config.nd_shard_spec.shard_shape)) for name, s in built.items()}
        assert shards == {
            "height": ("HEIGHT_SHARDED", [64, 96]),
            "width": ("WIDTH_SHARDED", [384, 32]),
            "block": ("BLOCK_SHARDED", [192, 32]),
            "dims": ("HEIGHT_SHARDED", [1, 3, 64, 96]),
            "except": ("ND_SHARDED", [1, 1, 32, 96]),
        }

    def test_nothing_cannot_be_cut(self) -> None:
        with pytest.raises(RuntimeError, match="without elements"):
            TensorSpec([0, 32], BF16, TILE).height_sharded(cores(4, 2))

    def test_shard_alignment(self) -> None:
        spec = TensorSpec([64, 100], BF16, ROW)

        def width(alignment: ShardShapeAlignment) -> int:
            return spec.sharded([10, 10], cores(8, 8), alignment).memory_config.nd_shard_spec.shard_shape[-1]

        assert [width(a) for a in ShardShapeAlignment] == [10, 10, 32]
