"""What the first use of a loaded tensor costs and says: sums of the bytes as they lie, answers straight from the map, files that were cut short."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import ttnn
from tessera import native

SHAPES = [(64, 96), (2, 3, 64, 32), (70, 50)]
KINDS = [
    (ttnn.bfloat16, ttnn.TILE_LAYOUT),
    (ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT),
    (ttnn.float32, ttnn.TILE_LAYOUT),
    (ttnn.bfloat8_b, ttnn.TILE_LAYOUT),
    (ttnn.bfloat4_b, ttnn.TILE_LAYOUT),
    (ttnn.int32, ttnn.TILE_LAYOUT),
    (ttnn.uint16, ttnn.ROW_MAJOR_LAYOUT),
]


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    opened = ttnn.open_device(device_id=0)
    yield opened
    ttnn.close_device(opened)


def kept(folder: Path, shape: tuple[int, ...], dtype: Any, layout: Any) -> tuple[Path, Any]:
    torch.manual_seed(3)
    whole = dtype in (ttnn.int32, ttnn.uint16)
    values = torch.randint(0, 9, shape, dtype=torch.int32) if whole else torch.randn(shape) + 1
    tensor = ttnn.from_torch(values, dtype=dtype, layout=layout)
    path = folder / "a.tensorbin"
    ttnn.dump_tensor(path, tensor)
    return path, tensor


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS[:4], ids=str)
def test_a_sum_of_all_is_made_of_the_bytes(device: Any, tmp_path: Path, shape: tuple[int, ...], kind: tuple[Any, Any]) -> None:
    path, tensor = kept(tmp_path, shape, *kind)
    exact = tensor.values.double().sum()
    for keepdim in (False, True, True):  # the last goes by the remembered plan
        loaded = ttnn.load_tensor(path, device=device)
        found = ttnn.sum(loaded, keepdim=keepdim)
        assert found.spec.dims == ((1,) * len(shape) if keepdim else ())
        torch.testing.assert_close(found.values.double().reshape(()), exact, rtol=2**-7, atol=0)
        if native.MODULE is not None and loaded.spec.padded_dims == loaded.spec.dims:
            assert loaded.buffer.values == [None], "the values were not needed"
    rows = ttnn.sum(ttnn.load_tensor(path, device=device), dim=-1)
    assert torch.equal(rows.values, ttnn.sum(ttnn.to_device(tensor, device), dim=-1).values)


def test_padding_of_a_file_is_never_added(device: Any, tmp_path: Path) -> None:
    tensor = ttnn.from_torch(torch.ones(3, 5), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, pad_value=7.0)
    ttnn.dump_tensor(tmp_path / "a.tensorbin", tensor)
    assert float(ttnn.sum(ttnn.load_tensor(tmp_path / "a.tensorbin", device=device)).values) == 15


def test_infinite_exponents_reach_the_sum(device: Any, tmp_path: Path) -> None:
    values = torch.ones(32, 32)
    values[0, 0] = float("inf")
    tensor = ttnn.from_torch(values, dtype=ttnn.bfloat8_b)
    ttnn.dump_tensor(tmp_path / "a.tensorbin", tensor)
    found = ttnn.sum(ttnn.load_tensor(tmp_path / "a.tensorbin", device=device)).values
    wanted = ttnn.sum(ttnn.to_device(tensor, device)).values
    assert torch.equal(found.nan_to_num(1.5), wanted.nan_to_num(1.5))


def test_a_loaded_weight_is_multiplied_whatever_its_format(device: Any, tmp_path: Path) -> None:
    a = ttnn.from_torch(torch.randn(32, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    for dtype in (ttnn.bfloat16, ttnn.bfloat8_b, ttnn.float32):
        path, tensor = kept(tmp_path, (64, 96), dtype, ttnn.TILE_LAYOUT)
        found, wanted = (ttnn.matmul(a, b) for b in (ttnn.load_tensor(path, device=device), ttnn.to_device(tensor, device)))
        torch.testing.assert_close(found.values.float(), wanted.values.float(), rtol=2**-6, atol=0.1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_to_torch_of_a_file_is_the_callers_own(tmp_path: Path, shape: tuple[int, ...], kind: tuple[Any, Any]) -> None:
    path, tensor = kept(tmp_path, shape, *kind)
    before, wanted = path.read_bytes(), ttnn.to_torch(tensor)
    loaded = ttnn.load_tensor(path)
    first, second = ttnn.to_torch(loaded), ttnn.to_torch(loaded)
    assert first.dtype == wanted.dtype and torch.equal(first, wanted)
    first.zero_()
    assert torch.equal(second, wanted)
    assert torch.equal(ttnn.to_torch(loaded), wanted)
    assert path.read_bytes() == before
    path.unlink()
    assert torch.equal(ttnn.to_torch(loaded), wanted), "its name is gone, its bytes are not"


def test_to_torch_of_a_replaced_file_answers_what_was_loaded(tmp_path: Path) -> None:
    path, tensor = kept(tmp_path, (64, 96), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
    loaded = ttnn.load_tensor(path)
    ttnn.dump_tensor(path, ttnn.from_torch(torch.zeros(64, 96), dtype=ttnn.bfloat16))
    assert torch.equal(ttnn.to_torch(loaded), ttnn.to_torch(tensor))


@pytest.mark.parametrize("use", ["to_torch", "values", "sum"])
def test_a_file_that_was_cut_short_is_an_error_not_a_crash(device: Any, tmp_path: Path, use: str) -> None:
    path, _ = kept(tmp_path, (512, 512), ttnn.bfloat16, ttnn.TILE_LAYOUT)
    loaded = ttnn.load_tensor(path, device=device)
    os.truncate(path, 4096)
    with pytest.raises(RuntimeError, match=r"a\.tensorbin\" is truncated or corrupt: it had \d+ bytes when it was loaded and has 4096 now"):
        {"to_torch": ttnn.to_torch, "values": lambda t: t.values, "sum": ttnn.sum}[use](loaded)


def test_loaded_files_hold_no_descriptor(tmp_path: Path) -> None:
    path, _ = kept(tmp_path, (64, 96), ttnn.bfloat16, ttnn.TILE_LAYOUT)
    before = len(os.listdir("/proc/self/fd"))
    loaded = [ttnn.load_tensor(path) for _ in range(50)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(loaded) == 50
