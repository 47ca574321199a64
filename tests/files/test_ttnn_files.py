"""`ttnn.dump_tensor` and `ttnn.load_tensor`: the bytes are official, specs and values come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import samples
import torch

import ttnn
from tessera import native


@pytest.fixture
def device() -> Iterator[ttnn.Device]:
    device = ttnn.open_device(device_id=0)
    yield device
    ttnn.close_device(device)


def official_tensor(row: dict[str, Any]) -> ttnn.Tensor:
    """The tensor of which official TT-NN wrote this sample, from the same source values."""
    name, words = row["name"], {}
    if "tile" in row:
        words["tile"] = ttnn.Tile(row["tile"], transpose_tile=name.endswith("_t_33x47"))
    if "mem" in name:
        words["mem_config"] = ttnn.L1_MEMORY_CONFIG
    source = np.load(samples.FOLDER / f"{name}.src.npy")
    return ttnn.Tensor(source, data_type=getattr(ttnn.DataType, row["dtype"]), layout=getattr(ttnn.Layout, row["layout"]), **words)


@pytest.mark.parametrize("row", samples.ROWS, ids=lambda row: row["name"])
def test_files_are_byte_for_byte_official(row: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "mine.tensorbin"
    ttnn.dump_tensor(path, official_tensor(row))
    assert path.read_bytes() == (samples.FOLDER / f"{row['name']}.tensorbin").read_bytes()


@pytest.mark.whole
def test_all_official_files() -> None:
    folder = Path(__file__).parents[3] / "shared" / "reference" / "tensorbin"
    if not folder.exists():
        pytest.skip("needs the reference folder")
    import subprocess
    import sys

    tool = Path(__file__).parents[3] / "shared" / "tools" / "tensorbin.py"
    ran = subprocess.run([sys.executable, tool, folder, "--mutate", "500"], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


DTYPES = ("bfloat16", "float32", "bfloat8_b", "bfloat4_b", "uint8", "uint16", "uint32", "int32", "int8")


def tensor_of(dtype: str, layout: str, shape: tuple[int, ...], **words: Any) -> ttnn.Tensor:
    kind = getattr(ttnn, dtype)
    torch.manual_seed(len(shape))
    values = torch.randn(shape) if "float" in dtype else torch.randint(0, 100, shape, dtype=torch.int32)
    return ttnn.from_torch(values, dtype=kind, layout=getattr(ttnn, f"{layout}_LAYOUT"), **words)


@pytest.mark.parametrize("layout", ["ROW_MAJOR", "TILE"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (5,), (33, 47), (2, 3, 40, 70)])
def test_values_and_spec_come_back(tmp_path: Path, dtype: str, layout: str, shape: tuple[int, ...]) -> None:
    if layout == "ROW_MAJOR" and "_b" in dtype:
        pytest.skip("block floats are tiled")
    path = tmp_path / "a.tensorbin"
    tensor = tensor_of(dtype, layout, shape)
    ttnn.dump_tensor(str(path), tensor)
    loaded = ttnn.load_tensor(str(path))
    assert loaded.spec is tensor.spec
    assert torch.equal(ttnn.to_torch(loaded), ttnn.to_torch(tensor))
    assert loaded.storage_type() == ttnn.StorageType.HOST


def test_device_tensors_are_written_and_loaded_with_their_memory_config(tmp_path: Path, device: ttnn.Device) -> None:
    path = tmp_path / "a.tensorbin"
    tensor = tensor_of("bfloat16", "TILE", (64, 96), device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
    ttnn.dump_tensor(path, tensor)
    loaded = ttnn.load_tensor(path, device=device)
    assert loaded.memory_config() == ttnn.L1_MEMORY_CONFIG
    assert loaded.device() is device
    assert torch.equal(ttnn.to_torch(loaded), ttnn.to_torch(tensor))
    assert torch.equal(ttnn.to_torch(ttnn.add(loaded, loaded)), ttnn.to_torch(tensor) * 2)
    assert ttnn.load_tensor(path).memory_config() == ttnn.L1_MEMORY_CONFIG


@pytest.mark.parametrize("layout", ["height", "width", "block"])
def test_sharded_tensors(tmp_path: Path, device: ttnn.Device, layout: str) -> None:
    config = ttnn.create_sharded_memory_config((64, 128), ttnn.CoreGrid(x=2, y=2), getattr(ttnn.ShardStrategy, layout.upper()))
    tensor = tensor_of("bfloat8_b", "TILE", (64, 128)) if layout == "block" else tensor_of("bfloat16", "TILE", (128, 128))
    if layout != "block":
        config = ttnn.create_sharded_memory_config((128, 128), ttnn.CoreGrid(x=2, y=2), getattr(ttnn.ShardStrategy, layout.upper()))
    on_device = ttnn.to_device(tensor, device, memory_config=config)
    path = tmp_path / "a.tensorbin"
    ttnn.dump_tensor(path, on_device)
    for loaded in (ttnn.load_tensor(path), ttnn.load_tensor(path, device=device)):
        assert loaded.memory_config() == on_device.memory_config()
        assert torch.equal(ttnn.to_torch(loaded), ttnn.to_torch(tensor))


def test_a_padded_spec_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "a.tensorbin"
    tensor = ttnn.Tensor(np.arange(33 * 47, dtype=np.float32).reshape(33, 47), ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT).pad_to_tile(0.0)
    ttnn.dump_tensor(path, tensor)
    loaded = ttnn.load_tensor(path)
    assert list(loaded.padded_shape) == [64, 64]
    assert torch.equal(ttnn.to_torch(loaded), ttnn.to_torch(tensor))


def test_a_loaded_tensor_stays_packed_until_values_are_used(tmp_path: Path, device: ttnn.Device) -> None:
    path = tmp_path / "a.tensorbin"
    ttnn.dump_tensor(path, tensor_of("bfloat8_b", "TILE", (64, 64)))
    loaded = ttnn.load_tensor(path, device=device)
    assert loaded.buffer.values == [None]
    again = tmp_path / "b.tensorbin"
    ttnn.dump_tensor(again, loaded)
    assert loaded.buffer.values == [None], "writing what was read needs no values"
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.skipif(native.MODULE is None, reason="the native part consumes packed weights")
def test_a_packed_weight_is_multiplied_with_as_it_lies_in_the_file(tmp_path: Path, device: ttnn.Device) -> None:
    path = tmp_path / "weight.tensorbin"
    torch.manual_seed(0)
    weight = ttnn.from_torch(torch.randn(512, 256), dtype=ttnn.bfloat8_b)
    ttnn.dump_tensor(path, weight)
    loaded = ttnn.load_tensor(path, device=device)
    x = ttnn.from_torch(torch.randn(32, 512), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    product = ttnn.to_torch(ttnn.linear(x, loaded)).float()
    assert loaded.buffer.values == [None], "the weight was never expanded as a whole"
    exact = ttnn.to_torch(x).double() @ ttnn.to_torch(weight).double()
    assert float((product - exact).abs().max()) <= 2**-8 * float(exact.abs().max())


def test_views_of_other_shape_are_written_as_themselves(tmp_path: Path, device: ttnn.Device) -> None:
    path = tmp_path / "a.tensorbin"
    tensor = tensor_of("bfloat16", "ROW_MAJOR", (4, 8), device=device)
    view = ttnn.reshape(tensor, (2, 16))
    ttnn.dump_tensor(path, view)
    loaded = ttnn.load_tensor(path)
    assert list(loaded.shape) == [2, 16]
    assert torch.equal(ttnn.to_torch(loaded), ttnn.to_torch(tensor).reshape(2, 16))


def test_what_cannot_be_written_is_refused(tmp_path: Path, device: ttnn.Device) -> None:
    tensor = tensor_of("bfloat16", "TILE", (32, 32), device=device)
    with pytest.raises(RuntimeError, match=r"must have \.tensorbin extension"):
        ttnn.dump_tensor(tmp_path / "a.bin", tensor)
    with pytest.raises(RuntimeError, match="does not exist"):
        ttnn.dump_tensor(tmp_path / "nowhere" / "a.tensorbin", tensor)
    with pytest.raises(RuntimeError, match="empty buffer"):
        ttnn.dump_tensor(tmp_path / "a.tensorbin", ttnn.from_torch(torch.zeros(0, 4), dtype=ttnn.float32))
    with pytest.raises(RuntimeError, match="cannot be serialized"):
        ttnn.dump_tensor(tmp_path / "a.tensorbin", ttnn.from_torch(torch.zeros(4, 4), dtype=ttnn.fp8_e4m3))
    ttnn.deallocate(tensor)
    with pytest.raises(RuntimeError, match="not allocated"):
        ttnn.dump_tensor(tmp_path / "a.tensorbin", tensor)
    assert list(tmp_path.iterdir()) == []


def test_a_closed_device_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tensorbin"
    ttnn.dump_tensor(path, tensor_of("bfloat16", "TILE", (32, 32)))
    device = ttnn.open_device(device_id=0)
    ttnn.close_device(device)
    with pytest.raises(RuntimeError, match="closed"):
        ttnn.load_tensor(path, device=device)


def test_goldens() -> None:
    path = samples.FOLDER / "float32_row_major_17_randn.tensorbin"
    assert ttnn.get_golden_function(ttnn.load_tensor)(path).shape == (17,)
    given = torch.ones(2)
    assert ttnn.get_golden_function(ttnn.as_tensor)(given, ttnn.bfloat16, preprocess=lambda t: t + 1).tolist() == [2, 2]


def test_the_names_of_the_compiled_module(tmp_path: Path) -> None:
    path, tensor = tmp_path / "a.tensorbin", ttnn.from_torch(torch.ones(32, 32), dtype=ttnn.bfloat16)
    ttnn._ttnn.tensor.dump_tensor_flatbuffer(str(path), tensor, ttnn.DumpTensorMode.LOCAL)
    assert torch.equal(ttnn.to_torch(ttnn._ttnn.tensor.load_tensor_flatbuffer(str(path), None)), ttnn.to_torch(tensor))
