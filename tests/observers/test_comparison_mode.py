"""Comparison mode: local and global golden results, thresholds, what is raised and what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from loguru import logger
from tests.observers.samples import tensor

import ttnn
from tessera.runtime.observers import OBSERVERS
from ttnn.decorators import REGISTERED_OPERATIONS


@pytest.fixture
def mode() -> Iterator[None]:
    with ttnn.manage_config("enable_comparison_mode", True):
        yield


@pytest.fixture
def said() -> Iterator[list[str]]:
    lines: list[str] = []
    sink = logger.add(lines.append, level="WARNING", format="{level} {message}")
    yield lines
    logger.remove(sink)


@pytest.fixture
def off_by() -> Iterator[Any]:
    """An operation that is wrong by as much as it is told, beside a golden function that is right."""

    @ttnn.register_python_operation(name="ttnn.test_wrong", golden_function=lambda t, amount: t)
    def wrong(t: Any, amount: float) -> Any:
        return ttnn.add(t, ttnn.multiply(ttnn.rand(t.shape, dtype=t.dtype, layout=t.layout, device=t.device()), amount))

    yield wrong
    del REGISTERED_OPERATIONS["ttnn.test_wrong"]


def given(device: Any, *shape: int) -> Any:
    """A tensor, its making forgotten."""
    made = tensor(device, *shape)
    ttnn.graph.reset_comparison_records_data()
    return made


def records() -> tuple[list[Any], list[Any]]:
    data = ttnn.graph.comparison_records()
    return data["local_tensor_comparison_records"], data["global_tensor_comparison_records"]


def test_right_operations_pass(device: Any, mode: None) -> None:
    x = given(device, 64, 128)
    y = ttnn.softmax(ttnn.exp(x), dim=-1)
    ttnn.matmul(y, x, transpose_a=True)
    ttnn.layer_norm(x)
    z = ttnn.sqrt(ttnn.exp(x)) + 1.0
    local, world = records()
    assert len(local) == len(world) == 7
    assert all(r["matches"] and r["actual_pcc"] >= r["desired_pcc"] for r in local + world)
    assert local[-1]["tensor_id"] == z.tensor_id
    assert ttnn.graph.has_comparison_records()
    ttnn.graph.reset_comparison_records_data()
    assert not ttnn.graph.has_comparison_records()


def test_a_wrong_operation_is_logged(device: Any, mode: None, said: list[str], off_by: Any) -> None:
    x = given(device, 64, 128)
    wrong = off_by(x, 3.0)
    assert len(said) == 2 and "ttnn.test_wrong" in said[0] and "local golden" in said[0] and "global golden" in said[1]
    local, _ = records()
    assert not local[0]["matches"] and local[0]["actual_pcc"] < local[0]["desired_pcc"]
    # What comes after is right for what it is given, and carries the error on.
    ttnn.relu(wrong)
    assert records()[0][-1]["matches"] and not records()[1][-1]["matches"]


def test_a_wrong_operation_is_raised_when_asked(device: Any, mode: None, off_by: Any) -> None:
    x = given(device, 64, 128)
    with ttnn.manage_config("comparison_mode_should_raise_exception", True):
        with pytest.raises(RuntimeError, match=r"ttnn.test_wrong: .*local golden failed: pcc is .* but should be >="):
            off_by(x, 3.0)
        assert not records()[0][-1]["matches"]
        ttnn.add(x, x)


def test_the_threshold(device: Any, mode: None, said: list[str], off_by: Any) -> None:
    x = given(device, 64, 128)
    with ttnn.manage_config("comparison_mode_pcc", 0.5):
        off_by(x, 0.5)
    assert records()[0][-1]["matches"] and records()[0][-1]["desired_pcc"] == 0.5 and not said


def test_operations_that_cannot_be_compared_are_said_once(device: Any, mode: None, said: list[str]) -> None:
    name = "ttnn.test_odd"

    def golden(t: Any) -> Any:
        raise ValueError("no idea")

    odd = ttnn.register_python_operation(name=name, golden_function=golden)(lambda t: ttnn.relu(t))
    x = given(device, 32, 32)
    odd(x)
    odd(x)
    del REGISTERED_OPERATIONS[name]
    assert len(said) == 1 and "WARNING" in said[0] and name in said[0] and not records()[0]


def test_in_place_operations_are_compared_with_what_they_were_given(device: Any, mode: None) -> None:
    x = given(device, 32, 32)
    before = ttnn.to_torch(x)
    ttnn.graph.reset_comparison_records_data()
    ttnn.add_(x, 1.0)
    local, world = records()
    assert [r["matches"] for r in local + world] == [True, True]
    assert torch.equal(ttnn.to_torch(x), before + 1.0)


def test_integers_and_several_outputs(device: Any, mode: None) -> None:
    x = ttnn.from_torch(torch.arange(64, dtype=torch.int32).reshape(2, 32), dtype=ttnn.int32, layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.add(x, x)
    ttnn.split(given(device, 32, 64), 32, dim=1)
    local, _ = records()
    assert len(local) >= 1 and all(r["matches"] for r in local)


def test_nothing_stays_attached(device: Any) -> None:
    with ExitStack() as stack:
        stack.enter_context(ttnn.manage_config("enable_comparison_mode", True))
        assert len(OBSERVERS) == 1
    assert not OBSERVERS
