"""Plans: what the written function looks like, and that it says where it failed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tessera.graph import packed
from tessera.graph.executor import Executor
from tessera.graph.formats import DataFormat
from tessera.graph.frontends.torch import import_torch
from tessera.graph.passes import AssignFormats, FusePatterns


def plan(module, *inputs, df=None, exact=False):
    graph = import_torch(module.eval(), inputs)
    FusePatterns().apply(graph)
    AssignFormats(df).apply(graph)
    return Executor(graph, exact=exact)


def test_one_line_a_node_and_values_are_dropped():
    source = plan(
        nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Softmax(-1)), torch.randn(2, 4), exact=True
    ).forward_plan.source.splitlines()
    assert len(source) == 7, "def, the input, three operations, the output, return"
    assert source[3].endswith("; del v0")
    assert source[-1] == "    return (v3, )"


def test_bfloat16_costs_no_casts():
    source = plan(nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)), torch.randn(2, 4), df=DataFormat.Float16_b).forward_plan.source
    assert source.count(".to(") == 1, "only the input is cast"


@pytest.mark.skipif(not packed.ready(torch.float32), reason="this build of torch has no packed kernels")
@pytest.mark.parametrize("df", [None, DataFormat.Float16_b])
def test_weights_are_packed_and_repacked(df):
    module = nn.Sequential(nn.Linear(8, 8), nn.GELU())
    x = torch.randn(3, 8)
    runner = plan(module, x, df=df)
    assert len(runner.builder.prepared) == 2
    tolerance = 1e-5 if df is None else 0.05
    torch.testing.assert_close(runner.forward([x])[0].float(), module(x).detach(), rtol=tolerance, atol=tolerance)
    with torch.no_grad():
        module[0].weight.copy_(torch.eye(8))
    runner.set_parameter("0.weight", torch.eye(8))
    torch.testing.assert_close(runner.forward([x])[0].float(), module(x).detach(), rtol=tolerance, atol=tolerance)


def test_a_failure_names_the_node_and_the_line():
    runner = plan(nn.Linear(4, 4), torch.randn(2, 4), exact=True)
    with pytest.raises(RuntimeError) as caught:
        runner.forward([torch.randn(2, 5)])
    assert "while running <op linear: matmul [2, 4] Float32>" in caught.value.__notes__[0]


def test_numbers_beyond_the_format_become_its_largest():
    class Masked(nn.Module):
        def forward(self, x):
            return x.masked_fill(x > 0, torch.finfo(torch.float32).min) + torch.full((4,), torch.finfo(torch.float32).max)

    x = torch.randn(2, 4)
    for df in (DataFormat.Float16_b, DataFormat.Float16):
        assert plan(Masked(), x, df=df).forward([x])[0].isfinite().all()


def test_wrong_parameters():
    runner = plan(nn.Linear(4, 4), torch.randn(2, 4))
    with pytest.raises(RuntimeError, match="no parameter 'w'"):
        runner.set_parameter("w", torch.ones(1))
    with pytest.raises(RuntimeError, match=r"shape \[4, 4\]"):
        runner.set_parameter("weight", torch.ones(1))
