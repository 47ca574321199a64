"""Padding, reshaping and indexing of tensors on the host."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ttnn

ROW, TILE = ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT


def tensor(dims: tuple[int, ...], dtype=ttnn.int32, layout=ROW) -> ttnn.Tensor:
    count = int(torch.Size(dims).numel())
    return ttnn.Tensor(list(range(1, count + 1)), list(dims), dtype, layout)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=4), st.integers(-5, 5))
def test_pad_surrounds_and_unpad_takes_back(extents, value: int) -> None:
    dims, start = tuple(d for d, _, _ in extents), [a for _, a, _ in extents]
    target = [a + d + b for d, a, b in extents]
    source = tensor(dims)
    padded = source.pad(target, start, value)
    assert (padded.shape, padded.padded_shape) == (dims, target)
    whole = torch.full(target, value, dtype=torch.int32)
    whole[tuple(slice(a, a + d) for d, a, _ in extents)] = torch.tensor(source.to_list(), dtype=torch.int32)
    assert torch.equal(padded.to_torch_with_padded_shape(), whole)
    back = padded.unpad(start, [a + d for d, a, _ in extents])
    assert back.to_list() == source.to_list()


def test_tiles() -> None:
    source = tensor((2, 3, 5))
    padded = source.pad_to_tile(7)
    assert padded.padded_shape == (2, 32, 32)
    assert padded.layout is ROW
    assert padded.unpad_from_tile([2, 3, 5]).to_list() == source.to_list()
    tiled = tensor((2, 3, 5), layout=TILE)
    assert tiled.pad_to_tile(7).to_list() == tiled.to_list()
    with pytest.raises(RuntimeError, match="Tensor layout must be ROW_MAJOR for unpadding"):
        tiled.unpad([0, 0, 0], [1, 1, 1])
    with pytest.raises(RuntimeError, match="Last 2 dims of input shape must be multiples of 32"):
        source.unpad_from_tile([2, 3, 5])
    with pytest.raises(RuntimeError, match="does not lie in"):
        source.unpad([0, 0, 0], [2, 9, 9])


class TestReshape:
    def test_rows_keep_their_order(self) -> None:
        assert tensor((2, 3)).reshape([3, -1]).to_list() == [[1, 2], [3, 4], [5, 6]]
        assert tensor((1, 2, 3, 4)).reshape(1, 1, 6, 4).shape == (1, 1, 6, 4)

    def test_tiles_keep_their_bytes(self) -> None:
        """As official TT-NN: on the host a reshape is a view, and padding may come to light."""
        assert tensor((2, 3), layout=TILE).reshape([3, 2]).to_list() == [[1, 2], [4, 5], [0, 0]]
        assert tensor((4, 64, 32), layout=TILE).reshape([2, 2, 64, 32]).to_list()[1][0] == tensor((4, 64, 32)).to_list()[2]

    def test_refusals(self) -> None:
        with pytest.raises(TypeError):
            tensor((2, 3)).reshape(6, 1)
        with pytest.raises(RuntimeError, match="Invalid arguments to reshape"):
            tensor((2, 3)).reshape([4, 2])


@pytest.mark.parametrize("layout", [ROW, TILE])
@pytest.mark.parametrize("index", [0, -1, slice(1, None), (0, 1), (..., 1), (slice(None), slice(0, 2)), slice(1, 1)])
def test_square_brackets(layout, index) -> None:
    cut = tensor((2, 3, 4), layout=layout)[index]
    expected = torch.tensor(tensor((2, 3, 4)).to_list())[index]
    assert cut.to_list() == expected.tolist()
    assert cut.layout is layout


def test_brackets_refuse_strides_and_block_floats_on_the_host() -> None:
    with pytest.raises(RuntimeError, match="without strides"):
        _ = tensor((2, 3))[:, ::2]
    with pytest.raises(RuntimeError, match="Only TILE layout is supported for BFLOAT8_B dtype!"):
        _ = ttnn.Tensor([1.0, 2.0], [1, 2], ttnn.bfloat8_b, TILE)[0]
    with pytest.raises(IndexError):
        _ = tensor((2, 3))[5]


class TestBytes:
    def test_host_buffers_are_the_bytes_of_the_chip(self) -> None:
        buffer = ttnn.Tensor([1.0, 2.0], [1, 2], ttnn.float32, ROW).host_buffer()
        shard = buffer.get_shard(ttnn.MeshCoordinate(0, 0))
        assert buffer.shape() == ttnn.MeshShape(1, 1)
        assert np.asarray(shard).view(np.float32).tolist() == [1.0, 2.0]
        assert len(ttnn.Tensor([1.0], [1, 1], ttnn.bfloat8_b, TILE).host_buffer().get_shard(ttnn.MeshCoordinate(0, 0))) == 1088
        with pytest.raises(RuntimeError, match="out of bounds"):
            buffer.get_shard(ttnn.MeshCoordinate(0, 1))

    @pytest.mark.parametrize(("strategy", "shard"), [("HEIGHT", (32, 64)), ("WIDTH", (64, 32)), ("BLOCK", (32, 32))])
    def test_each_core_holds_its_shard(self, strategy: str, shard: tuple[int, int]) -> None:
        device = ttnn.open_device(device_id=0)
        try:
            source = torch.arange(64 * 64, dtype=torch.float32).reshape(64, 64)
            columns, rows = (2, 2) if strategy == "BLOCK" else (2, 1)
            grid = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (columns - 1, rows - 1))])
            spec = ttnn.ShardSpec(grid, shard, ttnn.ShardOrientation.ROW_MAJOR)
            config = ttnn.MemoryConfig(getattr(ttnn.TensorMemoryLayout, f"{strategy}_SHARDED"), ttnn.BufferType.L1, spec)
            sharded = ttnn.from_torch(source, ttnn.float32, layout=TILE, device=device, memory_config=config)
            second = sharded.extract_shard(1)
            assert second.shape == (1, 1, *shard)
            expected = source[32:, :] if strategy == "HEIGHT" else source[: shard[0], 32:]
            assert torch.equal(torch.tensor(second.to_list())[0, 0], expected)
            with pytest.raises(RuntimeError, match="holds no shard"):
                sharded.extract_shard(ttnn.CoreCoord(5, 5))
        finally:
            ttnn.close_device(device)
