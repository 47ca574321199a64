"""What holds of every observer: it hears everything, changes nothing, costs nothing when it is gone."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
from loguru import logger
from tests.observers.samples import tensor

import ttnn
from tessera.runtime.observers import OBSERVERS, Observer, watching

EVENTS = ("operation_begins", "operation_ends", "operation_fails", "launched", "allocated", "freed")


class Everything(Observer):
    """Notes what it hears, in order."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name in EVENTS:
            return lambda *args: self.heard.append(f"{name} {getattr(args[0], 'name', '')}".strip())
        return super().__getattribute__(name)


class Broken(Observer):
    """Raises at everything."""

    def __getattribute__(self, name: str) -> Any:
        if name in EVENTS:

            def fail(*_: Any) -> None:
                raise ValueError(f"broken at {name}")

            return fail
        return super().__getattribute__(name)


def test_an_observer_hears_everything_in_order(device: Any) -> None:
    x = tensor(device, 32, 32)
    with watching(Everything()) as seen:
        y = ttnn.relu(x)
        ttnn.deallocate(y)
        with pytest.raises(RuntimeError):
            ttnn.matmul(x, tensor(device, 64, 64))
    assert seen.heard[:8] == [  # type: ignore[attr-defined]
        "operation_begins ttnn.relu",
        "allocated",
        "launched UnaryDeviceOperation",
        "operation_ends ttnn.relu",
        "operation_begins ttnn.deallocate",
        "freed",
        "operation_ends ttnn.deallocate",
        "operation_begins ttnn.from_torch",
    ]
    assert "operation_fails ttnn.matmul" in seen.heard  # type: ignore[attr-defined]
    assert not OBSERVERS


def test_a_broken_observer_changes_nothing_and_is_reported_once(device: Any) -> None:
    x = tensor(device, 32, 32)
    said: list[str] = []
    sink = logger.add(said.append, level="ERROR")
    with watching(Broken()), watching(Everything()) as other:
        for _ in range(3):
            y = ttnn.softmax(ttnn.relu(x) + 1.0, dim=-1)
        del y
    logger.remove(sink)
    assert torch.allclose(ttnn.to_torch(ttnn.sum(ttnn.softmax(x, dim=-1), dim=-1)).float(), torch.ones(32), atol=1e-2)
    assert len(said) == len({line.rpartition("broken at ")[2].strip() for line in said}) <= len(EVENTS)
    assert other.heard.count("operation_ends ttnn.softmax") == 3  # type: ignore[attr-defined]


def test_all_are_called_before_one_that_may_raise_does(device: Any) -> None:
    class Strict(Broken):
        may_raise = True

    x = tensor(device, 32, 32)
    with watching(Strict()), watching(Everything()) as other, pytest.raises(ValueError, match="broken"):
        ttnn.relu(x)
    assert other.heard[0] == "operation_begins ttnn.relu" and "operation_fails ttnn.relu" in other.heard  # type: ignore[attr-defined]


def test_watched_and_unwatched_results_are_the_same(device: Any) -> None:
    x = tensor(device, 64, 64)

    def program() -> torch.Tensor:
        return ttnn.to_torch(ttnn.softmax(ttnn.matmul(x, x) * 0.1, dim=-1))

    plain = program()
    with watching(Everything()):
        assert torch.equal(program(), plain)
    assert torch.equal(program(), plain)


def test_tracing_holds_on_to_nothing(device: Any, traces: Path) -> None:
    x = tensor(device, 32, 32)
    gc.collect()
    alive = device.tensors_alive

    def some() -> None:
        for _ in range(200):
            ttnn.add(x, x)

    some()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    some()
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 50_000 and device.tensors_alive == alive
    assert len(list(traces.iterdir())) == 401


def test_tracing_capture_hooks_and_comparison_together(device: Any, traces: Path) -> None:
    x = tensor(device, 32, 32)
    hooked: list[str] = []
    with (
        ttnn.manage_config("enable_comparison_mode", True),
        ttnn.register_post_operation_hook(lambda o, a, k, r: hooked.append(o.name)),
    ):
        ttnn.graph.begin_graph_capture()
        y = ttnn.relu(x) + 1.0
        nodes = ttnn.graph.end_graph_capture()
    assert hooked == ["ttnn.relu", "ttnn.add"]
    assert [n for n in ttnn.graph.extract_calltrace(nodes) if n.startswith("ttnn.")] == hooked
    assert len(ttnn.graph.comparison_records()["local_tensor_comparison_records"]) == 2
    assert sum("_ttnn_relu_" in f.name or "_ttnn_add_" in f.name for f in traces.iterdir()) == 2
    assert y.is_allocated()
