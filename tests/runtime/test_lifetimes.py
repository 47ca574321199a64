"""Devices and tensors at the ends of their lives, and shared by threads: errors, never a crash (official TT-NN segfaults on some of these)."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import ttnn

TILE = ttnn.TILE_LAYOUT


def on(device: Any, value: float = 1.0) -> Any:
    return ttnn.from_torch(torch.full((32, 32), value), dtype=ttnn.bfloat16, layout=TILE, device=device)


USES: dict[str, Callable[[Any], object]] = {
    "add": lambda x: ttnn.add(x, x),
    "add a number": lambda x: x + 1.0,
    "relu": ttnn.relu,
    "matmul": lambda x: ttnn.matmul(x, x),
    "softmax": lambda x: ttnn.softmax(x, dim=-1),
    "sum": ttnn.sum,
    "transpose": lambda x: ttnn.transpose(x, 0, 1),
    "reshape": lambda x: ttnn.reshape(x, (1, 32, 32)),
    "index": lambda x: x[0],
    "cpu": lambda x: x.cpu(),
    "to_torch": ttnn.to_torch,
    "from_device": ttnn.from_device,
    "to_layout": lambda x: ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT),
    "to": lambda x: x.to(ttnn.ROW_MAJOR_LAYOUT),
    "typecast": lambda x: ttnn.typecast(x, ttnn.float32),
    "to_memory_config": lambda x: ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG),
    "clone": ttnn.clone,
    "copy": lambda x: ttnn.copy(x, x),
    "assign": lambda x: ttnn.assign(x, memory_config=ttnn.L1_MEMORY_CONFIG),
    "move": ttnn.move,
    "reallocate": ttnn.reallocate,
    "write": lambda x: ttnn.copy_host_to_device_tensor(ttnn.zeros((32, 32), dtype=ttnn.bfloat16, layout=TILE), x),
    "in place": lambda x: ttnn.add_(x, 1.0),
}


@pytest.mark.parametrize("use", USES)
def test_a_tensor_is_refused_after_deallocate_and_after_close(use) -> None:
    device = ttnn.open_device(device_id=0)
    gone, left = on(device), on(device)
    USES[use](on(device))  # also when the call is one that the device remembers
    ttnn.deallocate(gone)
    with pytest.raises(RuntimeError, match="not allocated|deallocated"):
        USES[use](gone)
    ttnn.close_device(device)
    with pytest.raises(RuntimeError, match="was closed"):
        USES[use](left)


def test_what_a_deallocated_tensor_still_says() -> None:
    with ttnn.manage_device(0) as device:
        x = on(device)
        ttnn.deallocate(x)
        ttnn.deallocate(x)
        assert not x.is_allocated()
        assert (x.shape, x.dtype, x.layout) == ((32, 32), ttnn.bfloat16, TILE)
        assert "<buffer is not allocated>" in str(x)
        for call in (x.buffer_address, x.to_list, x.to_numpy):
            with pytest.raises(RuntimeError, match="not allocated"):
                call()


def test_both_ways_to_name_a_device() -> None:
    for opened in (ttnn.open_device(0), ttnn.open_device(device_id=0), ttnn.CreateDevice(0), ttnn.CreateDevice(device_id=0)):
        assert opened.is_open
        ttnn.close_device(opened)


def test_a_managed_device_is_closed_when_the_block_fails() -> None:
    with pytest.raises(ZeroDivisionError), ttnn.manage_device(0) as device:
        raise ZeroDivisionError
    assert not device.is_open


def test_the_default_device_is_the_one_that_was_set() -> None:
    with ttnn.manage_device(0) as device:
        ttnn.SetDefaultDevice(device)
        try:
            assert ttnn.GetDefaultDevice() is device
        finally:
            ttnn.SetDefaultDevice(None)
    assert ttnn.GetDefaultDevice() is None


def test_a_device_left_open_is_closed_at_exit() -> None:
    code = """
import ttnn
device = ttnn.open_device(device_id=0)
x = ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
class Last:
    def __del__(self, device=device):
        print("open" if device.is_open else "closed")
last = Last()
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout.strip(), ran.stderr.strip()) == (0, "closed", "")


def test_threads_share_a_device() -> None:
    """Each thread's values are its own, programs are counted once, and all memory comes back."""
    failures: list[str] = []
    with ttnn.manage_device(0) as device:
        before = ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank

        def work(number: int) -> None:
            try:
                for step in range(40):
                    x = on(device, float(number))
                    y = ttnn.to_torch(ttnn.matmul(ttnn.add(x, 1.0), x) if step % 2 else ttnn.multiply(ttnn.add(x, 1.0), x))
                    want = number * (number + 1) * (32 if step % 2 else 1)
                    if not torch.equal(y, torch.full((32, 32), float(want)).bfloat16()):
                        failures.append(f"thread {number}, step {step}: {y[0, 0]} instead of {want}")
            except Exception as error:
                failures.append(f"thread {number}: {error!r}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert device.num_program_cache_entries() == 3
        assert device.tensors_alive == 0
        assert ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank == before


def test_threads_open_and_close_devices_of_their_own() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                with ttnn.manage_device(0) as device:
                    assert ttnn.to_torch(on(device) + 1.0).eq(2).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("call", [lambda x, **force: x.deallocate(**force), ttnn.deallocate])
def test_without_force_memory_stays_while_another_tensor_shows_it(call) -> None:
    with ttnn.manage_device(0) as device:
        x = on(device)
        view = ttnn.reshape(x, (1, 32, 32))
        call(x, force=False)
        assert view.is_allocated()
        call(x, force=True)
        assert not view.is_allocated()
        alone = on(device)
        call(alone, force=False)
        assert not alone.is_allocated()


READS: dict[str, Callable[[Any], object]] = {
    "to_torch": ttnn.to_torch,
    "cpu": lambda x: x.cpu(),
    "to_list": lambda x: x.to_list(),
    "item": lambda x: x.item(),
    "to_numpy": lambda x: x.to_numpy(),
    "str": str,
    "dump_tensor": lambda x: ttnn.dump_tensor("never.tensorbin", x),
    "extract_shard": lambda x: x.extract_shard(core_id=0),
}


@pytest.mark.parametrize("read", READS)
def test_nothing_is_read_while_a_trace_is_captured(read) -> None:
    with ttnn.manage_device(0) as device:
        x = ttnn.ones((1, 1), layout=TILE, device=device)
        trace = ttnn.begin_trace_capture(device)
        with pytest.raises(RuntimeError, match=r"Reads are not supported during trace capture\."):
            READS[read](x)
        ttnn.end_trace_capture(device, trace)
        if read not in ("dump_tensor", "extract_shard"):
            READS[read](x)
    if read != "str":
        with pytest.raises(RuntimeError, match="was closed"):
            READS[read](x)
