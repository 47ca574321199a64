"""`ttnn.tracer`, `ttnn.dot_access` and `ttnn.reflection`."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
import torch
from tests.observers.samples import tensor

import ttnn
from tessera.runtime.observers import OBSERVERS
from ttnn import tracer
from ttnn.dot_access import make_dot_access_dict
from ttnn.reflection import pop_argument


def model(values: torch.Tensor, device: Any) -> Any:
    x = ttnn.from_torch(values * 2, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
    y = ttnn.matmul(x, x, transpose_b=True, compute_kernel_config=ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi4))
    first, second = ttnn.split(y, 32, dim=-1)
    return ttnn.softmax(first + second, dim=-1)[:16]


def names(graph: Any) -> list[str]:
    return [step.name for step in tracer.ordered(graph)]


def test_a_function_becomes_a_graph(device: Any) -> None:
    graph, out = tracer.trace_function(model, torch.randn(64, 32), device)
    assert list(out.shape) == [16, 32]
    assert names(graph) == [
        "input",
        "torch.Tensor.mul",
        "ttnn.from_torch",
        "ttnn.matmul",
        "ttnn.split",
        "ttnn.add",
        "ttnn.softmax",
        "ttnn.Tensor.__getitem__",
    ]
    assert nx.is_directed_acyclic_graph(graph) and not OBSERVERS and not tracer.is_tracing_enabled()
    split, add = tracer.ordered(graph)[4:6]
    assert sorted((d["source"], d["sink"]) for _, _, d in graph.edges(split, data=True)) == [(0, 0), (1, 1)]
    assert add.shapes == ((64, 32),) and add.seconds > 0


def test_only_what_a_result_depends_on(device: Any) -> None:
    x = tensor(device, 32, 32)
    with tracer.trace():
        y = ttnn.relu(x)
        ttnn.exp(x)
        z = ttnn.neg(y)
        assert tracer.is_tracing_enabled()
    assert names(tracer.get_graph(z)) == ["input", "ttnn.relu", "ttnn.neg"]
    assert names(tracer.get_graph([y, z])) == ["input", "ttnn.relu", "ttnn.neg"]
    with pytest.raises(RuntimeError, match="not made under"):
        tracer.get_graph(tensor(device, 2, 2))
    with pytest.raises(RuntimeError, match="no tensor"):
        tracer.get_graph(3)


def test_code_that_computes_the_same(device: Any) -> None:
    values = torch.randn(64, 32)
    graph, out = tracer.trace_function(model, values, device)
    code = tracer.codegen(graph)
    assert "import ttnn" in code and "def program(input_0, device):" in code and "ttnn.MathFidelity.HiFi4" in code
    space: dict[str, Any] = {}
    exec(code, space)
    assert torch.equal(ttnn.to_torch(space["program"](values, device)), ttnn.to_torch(out))


def test_code_of_sharded_configs(device: Any) -> None:
    x = tensor(device, 1, 1, 64, 256)
    config = ttnn.create_sharded_memory_config((1, 1, 64, 256), core_grid=ttnn.CoreGrid(x=8, y=1), strategy=ttnn.ShardStrategy.WIDTH)
    graph, out = tracer.trace_function(lambda t: ttnn.to_memory_config(t, config), x)
    space: dict[str, Any] = {}
    exec(tracer.codegen(graph, name="move"), space)
    assert space["move"](x).memory_config() == out.memory_config()


def test_pictures_need_graphviz(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = tensor(device, 32, 32)
    with tracer.trace():
        y = ttnn.relu(x)
    import sys

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "graphviz", None)
        with pytest.raises(ModuleNotFoundError, match=r"tessera\[viz\]"):
            tracer.visualize(y)
    pytest.importorskip("graphviz")
    assert "ttnn.relu" in tracer.visualize(y).source


def test_an_operation_that_raises(device: Any) -> None:
    x = tensor(device, 32, 64)
    with tracer.trace():
        with pytest.raises(RuntimeError):
            ttnn.matmul(x, x)
        y = ttnn.relu(x)
    assert names(tracer.get_graph(y)) == ["input", "ttnn.relu"]


def test_dot_access() -> None:
    class Kept(dict[str, int]):
        pass

    d = make_dot_access_dict({"a": {"b": 1}, "l": [{"c": 2}], "k": Kept(x=3), 0: "zero"}, ignore_types=(Kept,))
    assert d.a.b == 1 and d.l[0].c == 2 and type(d.k) is Kept and d[0] == "zero"
    d.new = 4
    assert d["new"] == 4 and "new" in dir(d)
    del d.new
    for name in ("new", "other"):
        with pytest.raises(AttributeError, match="there is no"):
            getattr(d, name)
    with pytest.raises(AttributeError):
        del d.new


def test_pop_argument() -> None:
    assert pop_argument("x", (1, 2), {"y": 3}) == (1, (2,), {"y": 3})
    given = {"x": 1, "y": 3}
    assert pop_argument("x", (2,), given) == (1, (2,), {"y": 3}) and given == {"x": 1, "y": 3}
    with pytest.raises(TypeError, match="'x'"):
        pop_argument("x", (), {})
