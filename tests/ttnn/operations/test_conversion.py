"""What `from_torch`, `to_torch` and the constructors of `ttnn.Tensor` make of each of their arguments."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import ttnn
from tessera.formats.dtype import DataType
from tessera.formats.rounding import to_grid

TILE = ttnn.TILE_LAYOUT


def values(*dims: int) -> torch.Tensor:
    return torch.randn(*dims, generator=torch.Generator().manual_seed(sum(dims)))


class TestFromTorch:
    def test_no_tensor_is_no_tensor(self) -> None:
        assert ttnn.from_torch(None) is None

    def test_a_spec_says_all_of_it(self, device) -> None:
        spec = ttnn.TensorSpec((3, 40), ttnn.bfloat16, TILE, tile=ttnn.Tile((16, 32)), buffer_type=ttnn.BufferType.L1)
        x = ttnn.from_torch(values(3, 40), spec=spec, device=device)
        assert x.spec == spec
        assert x.memory_config().buffer_type is ttnn.BufferType.L1
        with pytest.raises(RuntimeError, match="spec says dtype"):
            ttnn.from_torch(values(3, 40), spec=spec, dtype=ttnn.bfloat16)
        with pytest.raises(RuntimeError, match="is not the spec's"):
            ttnn.from_torch(values(4, 40), spec=spec)

    @pytest.mark.parametrize("tile", [(32, 32), (16, 32), (4, 16), (1, 32)])
    def test_tiles_of_every_size_hold_the_same_values(self, device, tile) -> None:
        given = values(2, 5, 50).bfloat16()
        x = ttnn.from_torch(given, layout=TILE, tile=ttnn.Tile(tile), device=device)
        assert x.tile.tile_shape == list(tile)
        assert tuple(x.padded_shape)[-2:] == tuple(-(-d // t) * t for d, t in zip((5, 50), tile))
        assert torch.equal(ttnn.to_torch(x), given)

    @pytest.mark.parametrize("where", ["host", "device", "mesh mapper"])
    def test_pad_value_fills_tiles_and_nothing_else(self, device, where) -> None:
        given = values(3, 5).bfloat16()
        options = {
            "host": {},
            "device": {"device": device},
            "mesh mapper": {"device": device, "mesh_mapper": ttnn.ReplicateTensorToMesh(device)},
        }
        x = ttnn.from_torch(given, layout=TILE, pad_value=-7.0, **options[where])
        assert torch.equal(ttnn.to_torch(x), given)
        padded = ttnn.from_device(x).to_torch_with_padded_shape()
        want = torch.full((32, 32), -7.0).bfloat16()
        want[:3, :5] = given
        assert torch.equal(padded, want)
        total = ttnn.to_torch(ttnn.sum(ttnn.to_device(x, device)))
        assert torch.allclose(total.float(), given.float().sum(), rtol=0.02, atol=0.02)  # no operation reads the padding

    def test_what_pads_a_block_shares_its_exponent(self) -> None:
        one = ttnn.from_torch(torch.full((1, 8), 1.01), dtype=ttnn.bfloat8_b, pad_value=1024.0)
        assert ttnn.to_torch(one).eq(0).all()
        assert ttnn.to_torch(ttnn.from_torch(torch.full((1, 8), 1.01), dtype=ttnn.bfloat8_b)).gt(1).all()

    @pytest.mark.parametrize("dtype", [ttnn.bfloat8_b, ttnn.bfloat4_b])
    def test_col_tilize_shares_exponents_down_columns(self, dtype) -> None:
        given = values(2, 32, 64) * torch.logspace(-6, 6, 64)  # columns of very different size
        x = ttnn.from_torch(given, dtype=dtype, col_tilize=True)
        assert x.shape == (2, 64, 32)
        assert torch.equal(ttnn.to_torch(x), ttnn.to_torch(ttnn.from_torch(given.transpose(1, 2), dtype=dtype)))
        lost = (ttnn.to_torch(x).transpose(1, 2) - given).abs().sum()
        assert lost < (ttnn.to_torch(ttnn.from_torch(given, dtype=dtype)) - given).abs().sum()

    def test_col_tilize_refuses_what_it_cannot_do(self) -> None:
        with pytest.raises(RuntimeError, match="needs dtype bfloat8_b or bfloat4_b"):
            ttnn.from_torch(values(32, 32), dtype=ttnn.bfloat16, col_tilize=True)
        with pytest.raises(RuntimeError, match="rank 2 or more"):
            ttnn.from_torch(values(32), dtype=ttnn.bfloat8_b, col_tilize=True)
        with pytest.raises(RuntimeError, match="together with spec"):
            ttnn.from_torch(values(32, 32), spec=ttnn.TensorSpec((32, 32), ttnn.bfloat8_b, TILE), col_tilize=True)

    def test_enable_bfloat_opt_rounds_as_the_device_does(self, device) -> None:
        given = values(64, 64)
        fast = ttnn.to_torch(ttnn.from_torch(given, dtype=ttnn.bfloat8_b, device=device, enable_bfloat_opt=True))
        assert torch.equal(fast, to_grid(given.bfloat16(), DataType.BFLOAT8_B, rounding="device").float())
        assert not torch.equal(fast, ttnn.to_torch(ttnn.from_torch(given, dtype=ttnn.bfloat8_b, device=device)))

    def test_nan_are_preserved(self, device) -> None:
        given = torch.tensor([[float("nan"), float("inf"), -float("inf"), 1.0] * 8])
        for flag in (False, True):
            back = ttnn.to_torch(ttnn.from_torch(given, dtype=ttnn.bfloat16, layout=TILE, device=device, preserve_nan_values=flag))
            assert torch.equal(back.float().nan_to_num(5.0), given.nan_to_num(5.0))
            assert torch.equal(back.isnan(), given.isnan())

    def test_torch_memory_is_borrowed_on_the_host_and_copied_to_a_device(self, device) -> None:
        given = values(32, 32).bfloat16()
        host = ttnn.from_torch(given)
        assert host.values.data_ptr() == given.data_ptr()
        assert host.to(device).values.data_ptr() != given.data_ptr()
        assert ttnn.to_torch(host).data_ptr() != given.data_ptr()

    def test_tensors_that_are_no_plain_rows(self, device) -> None:
        given = values(40, 30)
        for odd in (given.t(), given[::2], given.expand(2, 40, 30), given.requires_grad_()):
            assert torch.equal(ttnn.to_torch(ttnn.from_torch(odd, layout=TILE, device=device)), odd.detach())

    def test_every_official_argument_is_named(self) -> None:
        """Nothing is swallowed: what is not named is a TypeError."""
        for call, official in ((ttnn.from_torch, 13), (ttnn.to_torch, 6)):
            kinds = [p.kind for p in inspect.signature(call.function).parameters.values()]
            assert len(kinds) == official
            assert inspect.Parameter.VAR_KEYWORD not in kinds
        with pytest.raises(TypeError):
            ttnn.to_torch(ttnn.ones((2, 2)), rank=2)


class TestToTorch:
    def test_rank_is_taken_down_over_ones(self) -> None:
        x = ttnn.from_torch(values(1, 1, 3, 4))
        assert ttnn.to_torch(x, torch_rank=2).shape == (3, 4)
        assert ttnn.to_torch(x, torch_rank=6).shape == (1, 1, 3, 4)
        with pytest.raises(RuntimeError, match="leading dimensions are not all 1"):
            ttnn.to_torch(x, torch_rank=1)

    def test_dtype_and_device(self, device) -> None:
        x = ttnn.from_torch(torch.arange(6).reshape(2, 3), dtype=ttnn.uint16, device=device)
        assert ttnn.to_torch(x).dtype is torch.uint16
        assert ttnn.to_torch(x, dtype=torch.float64, device=device).tolist() == [[0, 1, 2], [3, 4, 5]]
        with pytest.raises(RuntimeError, match="is not the tensor's device"):
            ttnn.to_torch(ttnn.ones((2, 2), device=device), device=object())

    @pytest.mark.parametrize("call", ["from_torch", "to_torch", "to_device", "from_device", "add"])
    def test_a_queue_that_is_not_there(self, device, call) -> None:
        x = ttnn.ones((32, 32), layout=TILE, device=device)
        calls = {
            "from_torch": lambda: ttnn.from_torch(values(2, 2), device=device, cq_id=3),
            "to_torch": lambda: ttnn.to_torch(x, cq_id=3),
            "to_device": lambda: ttnn.to_device(x.cpu(), device, queue_id=3),
            "from_device": lambda: ttnn.from_device(x, queue_id=3),
            "add": lambda: ttnn.add(x, x, queue_id=3),
        }
        with pytest.raises(RuntimeError, match="cq_id 3 is out of range"):
            calls[call]()


class TestConstructors:
    """`ttnn.Tensor(...)` in each of the forms of the interface."""

    def test_of_an_array(self, device) -> None:
        given = values(3, 5).numpy()
        x = ttnn.Tensor(given, device=device, layout=TILE)
        assert (x.dtype, x.layout, x.device()) == (ttnn.float32, TILE, device)
        assert np.array_equal(x.cpu().to_numpy(), given)
        y = ttnn.Tensor(given, ttnn.bfloat16, device, TILE, ttnn.L1_MEMORY_CONFIG, ttnn.Tile((16, 32)), pad_value=3.0)
        assert y.memory_config() == ttnn.L1_MEMORY_CONFIG
        assert y.tile == ttnn.Tile((16, 32))
        assert y.cpu().to_torch_with_padded_shape()[3:].eq(3).all()

    @pytest.mark.parametrize("kind", ["float32", "int32", "uint32", "uint16", "uint8", "int8"])
    def test_dtypes_of_arrays(self, kind) -> None:
        given = np.arange(12, dtype=kind).reshape(3, 4)
        x = ttnn.Tensor(given)
        assert x.dtype is getattr(ttnn, kind)
        assert x.to_list() == given.tolist()

    def test_of_a_list(self, device) -> None:
        x = ttnn.Tensor([1.5, 2.5], [1, 2], ttnn.bfloat16, TILE, pad_value=-1.0)
        assert x.to_torch_with_padded_shape()[0, :3].tolist() == [1.5, 2.5, -1.0]
        y = ttnn.Tensor([1, 2, 3, 4], [2, 2], ttnn.int32, ttnn.ROW_MAJOR_LAYOUT, device)
        assert y.to_list() == [[1, 2], [3, 4]]
        with pytest.raises(RuntimeError, match="do not fill shape"):
            ttnn.Tensor([1, 2, 3], [2, 2], ttnn.int32, TILE)

    def test_of_a_tensor(self, device) -> None:
        x = ttnn.ones((2, 2), device=device)
        assert ttnn.Tensor(x).buffer_address() == x.buffer_address()

    def test_the_wrong_kind_of_argument(self) -> None:
        for wrong in ((), ("text",), ([1.0, 2.0],), (np.ones(2, "float32"), "bfloat16")):
            with pytest.raises(TypeError, match="incompatible function arguments"):
                ttnn.Tensor(*wrong)


class TestPaddingOnTheDevice:
    """What fills tiles up is in their bytes, also when an equal call was made before with another value."""

    @pytest.mark.parametrize("value", [0.0, 5.0, -2.0, float("-inf")])
    def test_its_value_is_the_one_that_was_asked_for(self, device, value) -> None:
        given = values(3, 40).bfloat16()
        x = ttnn.from_torch(given, device=device)
        ways = [
            ttnn.to_layout(x, TILE, pad_value=value),
            ttnn.tilize_with_val_padding(x, [32, 64], value),
            ttnn.fill_implicit_tile_padding(ttnn.to_layout(x, TILE), value),
        ]
        want = torch.full((32, 64), value).bfloat16()
        want[:3, :40] = given
        for y in ways:
            assert torch.equal(ttnn.to_torch(y), given)
            assert torch.equal(y.cpu().to_torch_with_padded_shape(), want)
        assert torch.equal(ttnn.to_layout(x.cpu(), TILE, pad_value=value).to_torch_with_padded_shape(), want)

    def test_more_room_than_tiles_need(self, device) -> None:
        x = ttnn.from_torch(values(3, 40), device=device)
        y = ttnn.tilize_with_val_padding(x, [64, 96], 1.0)
        assert y.padded_shape == (64, 96)
        assert torch.equal(ttnn.to_torch(y), values(3, 40))
        for wrong in ([32, 32], [32, 70], [1, 32, 64]):
            with pytest.raises(RuntimeError, match="must be whole tiles that hold"):
                ttnn.tilize_with_val_padding(x, wrong, 1.0)
