"""`ttnn.as_tensor` and its cache: what is a hit, what is a miss, and what never becomes an entry (guide, sections 2.3, 5.2, 6)."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from loguru import logger

import ttnn

DATA = torch.arange(64 * 64, dtype=torch.float32).reshape(64, 64)


@pytest.fixture
def device() -> Iterator[ttnn.Device]:
    device = ttnn.open_device(device_id=0)
    yield device
    ttnn.close_device(device)


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    said: list[str] = []
    sink = logger.add(lambda message: said.append(str(message)), level="WARNING")
    yield said
    logger.remove(sink)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "model" / "weights"


def cached(cache: Path, tensor: Any = DATA, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT, **words: Any) -> ttnn.Tensor:
    return ttnn.as_tensor(tensor, dtype=dtype, layout=layout, cache_file_name=cache, **words)


def names(cache: Path) -> list[str]:
    return sorted(p.name for p in cache.parent.iterdir())


def test_the_file_is_named_after_dtype_and_layout(cache: Path) -> None:
    cached(cache)
    cached(cache, dtype=ttnn.float32, layout=ttnn.ROW_MAJOR_LAYOUT)
    assert names(cache) == ["weights_dtype_BFLOAT16_layout_TILE.tensorbin", "weights_dtype_FLOAT32_layout_ROW_MAJOR.tensorbin"]


def test_on_a_hit_the_input_is_not_touched(cache: Path) -> None:
    first = cached(cache)
    second = cached(cache, tensor=DATA * 0 + 7)
    assert torch.equal(ttnn.to_torch(first), ttnn.to_torch(second))
    assert torch.equal(ttnn.to_torch(cached(cache, tensor=torch.empty(64, 64, device="meta"))), ttnn.to_torch(first))


def test_preprocess_runs_on_a_miss_only(cache: Path) -> None:
    calls = []

    def transpose(tensor: torch.Tensor) -> torch.Tensor:
        calls.append(tensor.shape)
        return tensor[:32].T

    first = cached(cache, preprocess=transpose)
    second = cached(cache, preprocess=transpose)
    assert len(calls) == 1
    assert list(second.shape) == [64, 32]
    assert torch.equal(ttnn.to_torch(first), ttnn.to_torch(second))


def test_both_spellings_of_the_dtype_are_read(cache: Path, warnings: list[str]) -> None:
    cached(cache)
    official = cache.with_name("weights_dtype_BFLOAT16_layout_TILE.tensorbin")
    official.rename(cache.with_name("weights_dtype_bfloat16_layout_TILE.tensorbin"))
    assert torch.equal(ttnn.to_torch(cached(cache, tensor=torch.zeros(64, 64))), DATA.bfloat16())
    assert not official.exists()
    assert not warnings


def test_another_shape_is_a_miss_with_a_warning(cache: Path, warnings: list[str]) -> None:
    cached(cache)
    other = cached(cache, tensor=torch.ones(32, 96))
    assert list(other.shape) == [32, 96]
    assert "shape [64, 64]" in warnings[0]
    assert "[32, 96]" in warnings[0]
    assert list(ttnn.load_tensor(cache.with_name("weights_dtype_BFLOAT16_layout_TILE.tensorbin")).shape) == [32, 96]
    cached(cache, tensor=torch.ones(32, 96))
    assert len(warnings) == 1


@pytest.mark.parametrize("damage", ["truncated", "noise", "empty"])
def test_a_corrupt_entry_is_generated_again_with_a_warning(cache: Path, warnings: list[str], damage: str) -> None:
    cached(cache)
    path = cache.with_name("weights_dtype_BFLOAT16_layout_TILE.tensorbin")
    content = path.read_bytes()
    path.write_bytes({"truncated": content[:-1], "noise": bytes(range(256)) * 8, "empty": b""}[damage])
    assert torch.equal(ttnn.to_torch(cached(cache)), DATA.bfloat16())
    assert "cannot be used and is generated again" in warnings[0]
    assert path.read_bytes() == content


def test_a_file_of_another_dtype_under_the_name_is_a_miss(cache: Path, warnings: list[str]) -> None:
    cached(cache)
    cached(cache, dtype=ttnn.float32)
    cache.with_name("weights_dtype_FLOAT32_layout_TILE.tensorbin").replace(cache.with_name("weights_dtype_BFLOAT16_layout_TILE.tensorbin"))
    assert cached(cache).dtype == ttnn.bfloat16
    assert "dtype DataType.FLOAT32" in warnings[0]


@pytest.mark.parametrize("hit", [False, True])
def test_device_and_memory_config_are_honoured(cache: Path, device: ttnn.Device, hit: bool) -> None:
    if hit:
        cached(cache)
    tensor = cached(cache, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
    assert tensor.device() is device
    assert tensor.memory_config() == ttnn.L1_MEMORY_CONFIG
    tensor = cached(cache, device=device, memory_config=ttnn.DRAM_MEMORY_CONFIG)
    assert tensor.memory_config() == ttnn.DRAM_MEMORY_CONFIG
    assert torch.equal(ttnn.to_torch(tensor), DATA.bfloat16())


def test_a_sharded_config_of_other_padding_on_a_hit(cache: Path, device: ttnn.Device) -> None:
    data = torch.arange(64 * 60, dtype=torch.float32).reshape(64, 60)
    cached(cache, tensor=data, dtype=ttnn.float32, layout=ttnn.ROW_MAJOR_LAYOUT)
    config = ttnn.create_sharded_memory_config(
        (64, 32), ttnn.CoreGrid(x=2, y=1), ttnn.ShardStrategy.WIDTH, use_height_and_width_as_shard_shape=True
    )
    for _ in range(2):
        tensor = cached(cache, tensor=data, dtype=ttnn.float32, layout=ttnn.ROW_MAJOR_LAYOUT, device=device, memory_config=config)
        assert tensor.memory_config() == config
        assert torch.equal(ttnn.to_torch(tensor), data)


def test_a_device_needs_a_memory_config(cache: Path, device: ttnn.Device) -> None:
    for words in ({}, {"cache_file_name": cache}):
        with pytest.raises(RuntimeError, match="memory_config must be specified when device is specified"):
            ttnn.as_tensor(DATA, dtype=ttnn.bfloat16, device=device, **words)


def test_without_a_name_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert torch.equal(ttnn.to_torch(ttnn.as_tensor(DATA, dtype=ttnn.float32)), DATA)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "placeholder",
    [torch.empty(4, 4, device="meta"), torch.nn.UninitializedParameter(), None],
    ids=["meta", "uninitialized", "none"],
)
def test_a_placeholder_is_never_cached(cache: Path, placeholder: Any) -> None:
    with pytest.raises(RuntimeError, match="no content"):
        cached(cache, tensor=placeholder)
    assert not cache.parent.exists()


def test_a_fake_or_freed_tensor_is_a_placeholder(cache: Path) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(4, 4)
    freed = torch.ones(4, 4)
    freed.untyped_storage().resize_(0)
    for placeholder in (fake, freed):
        with pytest.raises(RuntimeError, match="placeholder"):
            cached(cache, tensor=placeholder)


def test_cache_only_demands_a_hit(cache: Path) -> None:
    with pytest.raises(RuntimeError, match="not generated yet"):
        cached(cache, cache_only=True)
    assert not cache.parent.exists()
    cached(cache)
    assert torch.equal(ttnn.to_torch(cached(cache, tensor=None, cache_only=True)), DATA.bfloat16())
    with pytest.raises(RuntimeError, match="shape"):
        cached(cache, tensor=torch.ones(2, 2), cache_only=True)
    with pytest.raises(RuntimeError, match="needs cache_file_name"):
        ttnn.as_tensor(None, cache_only=True)


def test_block_floats(cache: Path) -> None:
    first = cached(cache, dtype=ttnn.bfloat4_b)
    second = cached(cache, dtype=ttnn.bfloat4_b)
    assert names(cache) == ["weights_dtype_BFLOAT4_B_layout_TILE.tensorbin"]
    assert torch.equal(ttnn.to_torch(first), ttnn.to_torch(second))


def test_the_model_cache_switch_has_no_say(cache: Path) -> None:
    """`ttnn.CONFIG.enable_model_cache` is read by model preprocessing only; `as_tensor` caches whenever it is given a name."""
    assert ttnn.CONFIG.enable_model_cache is False
    cached(cache)
    with ttnn.manage_config("enable_model_cache", True):
        cached(cache)
    assert len(names(cache)) == 1


def test_no_room_and_no_permission_are_errors(cache: Path) -> None:
    cache.parent.mkdir()
    (cache.parent / "file").touch()
    with pytest.raises(RuntimeError, match="Unable to"):
        cached(cache.parent / "file" / "below")


def test_concurrent_processes_make_one_whole_entry(cache: Path) -> None:
    code = """
        import sys, torch, ttnn
        data = torch.full((512, 512), float(sys.argv[2]))
        made = ttnn.as_tensor(data, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, cache_file_name=sys.argv[1])
        print(ttnn.to_torch(made).unique().tolist())
    """
    workers = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), cache, str(n)], stdout=subprocess.PIPE, text=True) for n in (1, 2, 3)
    ]
    said = [worker.communicate(timeout=120)[0].splitlines()[-1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    kept = ttnn.to_torch(ttnn.load_tensor(cache.with_name("weights_dtype_BFLOAT16_layout_TILE.tensorbin"))).unique().tolist()
    assert len(kept) == 1
    assert all(len(eval(line)) == 1 for line in said)
    assert names(cache) == ["weights_dtype_BFLOAT16_layout_TILE.tensorbin"]
