"""Chains of a trace: the same bits as the operations one by one, and nothing kept that nobody needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import ttnn
from tessera.native import MODULE
from tessera.runtime.fusion import Chain

pytestmark = pytest.mark.skipif(MODULE is None, reason="chains are native")


@pytest.fixture
def device() -> Iterator[Any]:
    opened = ttnn.open_device(device_id=0, trace_region_size=1 << 20)
    yield opened
    ttnn.close_device(opened)


def put(device: Any, x: torch.Tensor) -> Any:
    return ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)


def captured(device: Any, program: Callable[[], Any]) -> tuple[int, Any]:
    program()
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    result = program()
    ttnn.end_trace_capture(device, trace, cq_id=0)
    return trace, result


def chains(device: Any) -> list[int]:
    return [len(step.steps) for step in list(device.traces.values())[-1].program if isinstance(step, Chain)]


@pytest.mark.parametrize("shape", [(1, 1), (3, 33), (64, 1000), (2, 200, 300)])
@pytest.mark.parametrize("threads", [1, 3])
def test_chains_are_bit_equal(device: Any, shape: tuple[int, ...], threads: int) -> None:
    torch.manual_seed(0)
    a, b = put(device, torch.randn(shape)), put(device, torch.randn(shape))

    def program() -> Any:
        x = ttnn.multiply(ttnn.add(a, b), 1.7)
        y = ttnn.gelu(ttnn.exp(x))
        return ttnn.subtract(ttnn.tanh(y), ttnn.rsub(x, 3.0))

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        want = ttnn.to_torch(program())
        trace, kept = captured(device, program)
        ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    finally:
        torch.set_num_threads(before)
    assert chains(device) == [7]
    assert torch.equal(ttnn.to_torch(kept).view(torch.int16), want.view(torch.int16))


def test_what_is_held_outside_is_written(device: Any) -> None:
    x, y = torch.randn(40, 40).bfloat16(), torch.randn(40, 40).bfloat16()
    a = put(device, x)
    held = []

    def program() -> Any:
        first = ttnn.add(a, 1.0)
        second = ttnn.multiply(first, first)
        held.append((first, second))
        return ttnn.exp(ttnn.softmax(ttnn.neg(second), dim=-1))

    trace, kept = captured(device, program)
    for values in (x, y):
        ttnn.copy_host_to_device_tensor(ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT), a)
        ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
        first, second = held[-1]
        assert torch.equal(ttnn.to_torch(first), values + 1.0)
        assert torch.equal(ttnn.to_torch(second), (values + 1.0) ** 2)
        want = ttnn.to_torch(program())
        held.pop()
        assert torch.equal(ttnn.to_torch(kept), want)
    assert chains(device) == [3]


def test_operations_are_counted(device: Any) -> None:
    a = put(device, torch.ones(32, 32))
    trace, _ = captured(device, lambda: ttnn.exp(ttnn.neg(a)))
    before = sum(device.operations.values())
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    assert sum(device.operations.values()) == before + 2
