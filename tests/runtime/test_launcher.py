"""Remembered calls: same results, addresses, counts and refusals as the first call, with and without the native launcher."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import ttnn
from tessera.runtime.observers import Observer, watching


@pytest.fixture
def device() -> Iterator[Any]:
    opened = ttnn.open_device(device_id=0)
    yield opened
    ttnn.close_device(opened)


def put(device: Any, x: torch.Tensor, dtype: Any = ttnn.bfloat16) -> Any:
    return ttnn.from_torch(x, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)


def test_a_second_call_is_the_first_again(device: Any) -> None:
    x, y = torch.randn(3, 33).bfloat16(), torch.randn(3, 33).bfloat16()
    a, b = put(device, x), put(device, y)
    calls = [lambda: ttnn.add(a, b), lambda: ttnn.add(a, 1.5), lambda: ttnn.exp(a), lambda: ttnn.multiply(a, b, dtype=ttnn.bfloat16)]
    for call in calls:
        results = [call() for _ in range(3)]
        assert torch.equal(ttnn.to_torch(results[0]), ttnn.to_torch(results[2]))
        assert len({r.buffer.unique_id for r in results}) == len({r.buffer_address() for r in results}) == 3
        assert results[2].spec is results[0].spec
        assert results[2].buffer.allocation.owner() is results[2].buffer


def test_room_comes_back(device: Any) -> None:
    a, b = put(device, torch.ones(32, 32)), put(device, torch.ones(32, 32))
    c = ttnn.add(a, b)
    alive, address = device.tensors_alive, c.buffer_address()
    for _ in range(5):
        c = ttnn.add(a, b)
    assert device.tensors_alive == alive
    assert c.buffer_address() in (address, address + 2048)
    del c
    gc.collect()
    assert device.tensors_alive == alive - 1
    before = device.operations["BinaryNgDeviceOperation"]
    ttnn.add(a, b)
    assert device.operations["BinaryNgDeviceOperation"] == before + 1
    assert device.busy_seconds > 0


def test_scalars_that_are_equal_but_not_the_same(device: Any) -> None:
    a = put(device, torch.zeros(1, 1))
    for _ in range(2):
        assert ttnn.to_torch(ttnn.multiply(a, 0.0)).signbit().item() is False
        assert ttnn.to_torch(ttnn.multiply(a, -0.0)).signbit().item() is True


def test_one_tensor_as_two_arguments(device: Any) -> None:
    x, y = torch.randn(5, 5).bfloat16(), torch.randn(5, 5).bfloat16()
    a, b = put(device, x), put(device, y)
    for _ in range(2):
        assert torch.equal(ttnn.to_torch(ttnn.subtract(a, a)), x - x)
    assert torch.equal(ttnn.to_torch(ttnn.subtract(a, b)), x - y)
    assert torch.equal(ttnn.to_torch(ttnn.subtract(b, a)), y - x)
    assert torch.equal(ttnn.to_torch(ttnn.where(a, b, a)), torch.where(x != 0, y, x))
    assert torch.equal(ttnn.to_torch(ttnn.where(a, a, b)), torch.where(x != 0, x, y))


def test_refusals_stay(device: Any) -> None:
    a, b = put(device, torch.ones(32, 32)), put(device, torch.ones(32, 32))
    ttnn.add(a, b)
    ttnn.deallocate(b)
    with pytest.raises(RuntimeError, match="not allocated"):
        ttnn.add(a, b)
    with pytest.raises(RuntimeError):
        ttnn.add(a, ttnn.from_torch(torch.ones(32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT))
    with pytest.raises(TypeError):
        ttnn.add(a)


def test_observers_see_remembered_calls(device: Any) -> None:
    class Names(Observer):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def launched(self, launch: Any) -> None:
            self.seen.append(launch.name)

    a = put(device, torch.ones(32, 32))
    ttnn.exp(a)
    ttnn.exp(a)
    watcher = Names()
    with watching(watcher):
        ttnn.exp(a)
    assert len(watcher.seen) == 1


def test_memory_runs_out_in_words(device: Any) -> None:
    a = put(device, torch.ones(1024, 1024))
    kept = []
    with pytest.raises(RuntimeError, match="Out of Memory"):
        while True:
            kept.append(ttnn.exp(a, memory_config=ttnn.L1_MEMORY_CONFIG))
    assert len(kept) > 5


def test_a_closed_device_refuses() -> None:
    device = ttnn.open_device(device_id=0)
    a = put(device, torch.ones(32, 32))
    ttnn.exp(a)
    ttnn.exp(a)
    ttnn.close_device(device)
    with pytest.raises(RuntimeError):
        ttnn.exp(a)


def test_the_python_launcher_is_the_same() -> None:
    """This file once more without the native part."""
    if os.environ.get("TESSERA_NATIVE") == "0":
        pytest.skip("this is that run")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", __file__],
        env={**os.environ, "TESSERA_NATIVE": "0"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-2000:]
