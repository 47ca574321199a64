"""Hooks, and operations of a program's own."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from loguru import logger
from tests.observers.samples import read, tensor

import ttnn
from tessera.runtime.observers import OBSERVERS
from ttnn.decorators import REGISTERED_OPERATIONS


@pytest.fixture
def registry() -> Iterator[None]:
    before = dict(REGISTERED_OPERATIONS)
    yield
    REGISTERED_OPERATIONS.clear()
    REGISTERED_OPERATIONS.update(before)


def test_hooks_see_what_the_program_calls_itself(device: Any) -> None:
    x = tensor(device, 32, 32)
    seen: list[Any] = []

    def before(operation: Any, args: Any, kwargs: Any) -> None:
        seen.append(("before", operation.python_fully_qualified_name, len(args), dict(kwargs)))

    def after(operation: Any, args: Any, kwargs: Any, output: Any) -> None:
        seen.append(("after", operation.python_fully_qualified_name, ttnn.to_torch(output).shape))

    with ttnn.register_pre_operation_hook(before), ttnn.register_post_operation_hook(after):
        ttnn.add(x, x, memory_config=ttnn.L1_MEMORY_CONFIG)
        _ = x[:16]  # calls ttnn.slice inside
    ttnn.add(x, x)
    assert seen == [
        ("before", "ttnn.add", 2, {"memory_config": ttnn.L1_MEMORY_CONFIG}),
        ("after", "ttnn.add", (32, 32)),
        ("before", "ttnn.Tensor.__getitem__", 2, {}),
        ("after", "ttnn.Tensor.__getitem__", (16, 32)),
    ]
    assert not OBSERVERS


def test_a_hook_must_return_none(device: Any) -> None:
    x = tensor(device, 32, 32)
    with ttnn.register_pre_operation_hook(lambda o, a, k: 1), pytest.raises(RuntimeError, match="must return None"):
        ttnn.add(x, x)
    with ttnn.register_post_operation_hook(lambda o, a, k, r: r), pytest.raises(RuntimeError, match="must return None"):
        ttnn.add(x, x)
    ttnn.add(x, x)


def test_a_hook_that_raises_is_reported_once_and_changes_nothing(device: Any) -> None:
    x = tensor(device, 32, 32)
    said: list[str] = []
    sink = logger.add(said.append, level="ERROR")

    def broken(*_: Any) -> None:
        raise ValueError("broken hook")

    with ttnn.register_pre_operation_hook(broken):
        assert torch.equal(ttnn.to_torch(x + x), ttnn.to_torch(x) * 2)
    logger.remove(sink)
    assert len(said) == 1 and "broken hook" in said[0]


def test_hooks_after_an_operation_that_raised(device: Any) -> None:
    x, y = tensor(device, 32, 32), tensor(device, 64, 64)
    seen: list[str] = []
    with ttnn.register_post_operation_hook(lambda o, a, k, r: seen.append(o.name)):
        with pytest.raises(RuntimeError):
            ttnn.matmul(x, y)
        ttnn.add(x, x)
    assert seen == ["ttnn.add"]


def test_python_operations(device: Any, registry: None, traces: Path) -> None:
    calls = []

    @ttnn.register_python_operation(name="ttnn.of.my.own.square", golden_function=lambda t: t.float() ** 2, doc="Squares.")
    def square(t: Any) -> Any:
        calls.append(1)
        return ttnn.multiply(t, t)

    x = tensor(device, 32, 32)
    assert ttnn.of.my.own.square is square and square.__doc__ == "Squares."
    for _ in range(3):
        square(x)
    assert len(calls) == 3  # a body of the program's own runs every time
    assert ttnn.get_golden_function(square)(torch.tensor([3.0])).item() == 9
    assert "ttnn.of.my.own.square" in [o.python_fully_qualified_name for o in ttnn.query_registered_operations()]
    names = [r["operation_name"] for r in read(traces)]
    assert names == ["ttnn.from_torch"] + ["ttnn.multiply", "ttnn.of.my.own.square"] * 3
    with pytest.raises(ValueError, match="already"):
        ttnn.register_python_operation(name="ttnn.of.my.own.square")(lambda t: t)
    with pytest.raises(RuntimeError, match='must start with "ttnn."'):
        ttnn.register_python_operation(name="mine.square")(lambda t: t)


def test_methods(device: Any, registry: None, traces: Path) -> None:
    class Thing:
        @ttnn.register_python_operation(name="ttnn.Thing.twice", is_method=True)
        def twice(self, t: Any) -> Any:
            return t + t

    x = tensor(device, 32, 32)
    Thing().twice(x)
    assert [r["operation_name"] for r in read(traces)][-1] == "ttnn.Thing.twice"


def test_cpp_operations(device: Any, registry: None) -> None:
    module = ModuleType("ttnn.native_things")
    made = ttnn.register_cpp_operation(module, "same", lambda t: t)
    assert module.same is made and made.is_cpp_operation and made.python_fully_qualified_name == "ttnn.native_things.same"
    x = tensor(device, 32, 32)
    assert made(x) is x


def test_golden_functions_can_be_attached(device: Any, registry: None) -> None:
    @ttnn.register_python_operation(name="ttnn.plain_thing")
    def plain_thing(t: Any) -> Any:
        return t

    with pytest.raises(RuntimeError, match="does not have a golden function"):
        ttnn.get_golden_function(plain_thing)
    ttnn.attach_golden_function(plain_thing, torch.neg)
    assert ttnn.get_golden_function(plain_thing) is torch.neg is ttnn.get_fallback_function(plain_thing)


def test_dump_operations(tmp_path: Path) -> None:
    ttnn.dump_operations(tmp_path / "operations.csv")
    with (tmp_path / "operations.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = [r["python_fully_qualified_name"] for r in rows]
    assert "ttnn.add" in names and names == sorted(names) and not any(".experimental." in n for n in names)
    assert len(names) == len(ttnn.query_registered_operations())


def test_the_names_are_where_official_ones_are() -> None:
    for name in ("register_cpp_operation", "register_python_operation", "register_pre_operation_hook", "create_module_if_not_exists"):
        assert getattr(ttnn.decorators, name) is getattr(ttnn, name)
