"""Passes: each does its one thing, and none changes what is computed."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tessera.graph.executor import Executor, evaluate
from tessera.graph.formats import DataFormat, MathFidelity
from tessera.graph.frontends.torch import import_torch
from tessera.graph.ir import Kind
from tessera.graph.passes import AssignFormats, Autograd, Decompose, EraseInverses, FoldConstants, FoldNorms, FusePatterns
from tessera.graph.passes.formats import PrecisionRule
from tessera.graph.passes.lower import lower


class Body(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, *inputs):
        return self.fn(self, *inputs)


def check(fn, *inputs, passes=()):
    """The graph of `fn` after the passes; it must compute what torch does."""
    module = Body(fn).eval()
    graph = import_torch(module, inputs)
    for one in passes:
        one.apply(graph)
    torch.testing.assert_close(evaluate(graph, list(inputs))[0], module(*inputs).detach(), rtol=1e-4, atol=1e-5)
    return graph


def names(graph):
    return [n.op for n in graph.ops()]


@pytest.mark.parametrize("one", [Autograd(), AssignFormats(), Decompose(), EraseInverses(), FoldConstants(), FoldNorms(), FusePatterns()])
def test_a_pass_is_a_frozen_dataclass_with_a_name(one):
    assert dataclasses.is_dataclass(one)
    assert one.name
    assert one == type(one)()
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "other"


def test_constants_are_folded_in_full_precision():
    graph = check(
        lambda m, x: x * (torch.arange(x.shape[1]).float()[:, None] * 0.3).cos(), torch.randn(2, 300, 8), passes=[FoldConstants()]
    )
    assert names(graph) == ["multiply"]
    assert graph.of(Kind.CONSTANT)[0].dtype is torch.float32


def test_inverse_manipulations_go():
    graph = check(
        lambda m, x: x.transpose(1, 2).transpose(1, 2).reshape(4, 4, 8).reshape(2, 8, 8) + 1, torch.randn(2, 8, 8), passes=[EraseInverses()]
    )
    assert names(graph) == ["add"]
    graph = check(lambda m, x: x.permute(2, 0, 1).permute(2, 1, 0), torch.randn(2, 8, 4), passes=[EraseInverses()])
    assert names(graph) == ["permute"]
    graph = check(lambda m, x: x.reshape(2, 8, 4).reshape(16, 4).unsqueeze(0), torch.randn(2, 32), passes=[EraseInverses()])
    assert names(graph) == ["reshape"]


def test_a_value_somebody_wants_is_kept():
    graph = import_torch(Body(lambda m, x: x.transpose(0, 1).transpose(0, 1) + 1), (torch.randn(2, 8),))
    EraseInverses(keep=frozenset({"transpose"})).apply(graph)
    assert "transpose" in graph


def test_batch_norms_fold_into_convolutions():
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    module(torch.randn(8, 3, 8, 8) * 3 + 1)
    module.eval()
    x = torch.randn(2, 3, 8, 8)
    graph = import_torch(module, (x,))
    FoldNorms().apply(graph)
    assert names(graph) == ["conv2d", "relu"]
    torch.testing.assert_close(evaluate(graph, [x])[0], module(x).detach(), rtol=1e-5, atol=1e-5)


def test_a_convolution_that_others_read_keeps_its_norm():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

        def forward(self, x):
            y = self.conv(x)
            return self.norm(y) + y

    graph = import_torch(Both().eval(), (torch.randn(1, 3, 4, 4),))
    FoldNorms().apply(graph)
    assert "batchnorm" in names(graph)


@pytest.mark.parametrize(
    ("fn", "kind"),
    [
        (F.relu, "relu"),
        (F.gelu, "gelu"),
        (lambda x: F.gelu(x, approximate="tanh"), "gelu_tanh"),
        (F.silu, "silu"),
        (torch.sigmoid, "sigmoid"),
    ],
)
def test_activations_fuse(fn, kind):
    graph = check(lambda m, x: fn(x @ m.weight), torch.randn(2, 8), passes=[FusePatterns()])
    assert names(graph) == ["matmul"]
    assert graph.ops()[0].attrs["activation"] == kind


def test_a_bias_fuses_unless_it_must_stay():
    body = lambda m, x: x @ m.weight + m.weight[0]  # noqa: E731
    check(body, torch.randn(2, 8), passes=[FusePatterns()])

    class Biased(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.b = nn.Parameter(torch.randn(8, 4)), nn.Parameter(torch.randn(4))

        def forward(self, x):
            return x @ self.w + self.b

    graph = import_torch(Biased(), (torch.randn(2, 8),))
    FusePatterns().apply(graph)
    assert names(graph) == ["matmul"]
    assert len(graph.ops()[0].inputs) == 3
    graph = import_torch(Biased(), (torch.randn(2, 8),))
    FusePatterns(keep=frozenset({"matmul"})).apply(graph)
    assert names(graph) == ["matmul", "add"]


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("divide", [False, True])
def test_attention_by_hand_is_recognised(mask, divide):
    def attention(m, q, k, v, *more):
        scores = q @ k.transpose(-1, -2)
        scores = scores / 2.0 if divide else scores * 0.5
        return torch.softmax(scores + more[0] if more else scores, -1) @ v

    inputs = [torch.randn(2, 3, 8, 16) for _ in range(3)] + ([torch.randn(2, 1, 1, 8)] if mask else [])
    graph = check(attention, *inputs, passes=[FusePatterns()])
    assert names(graph) == ["attention"]


def test_attention_that_is_not_is_left_alone():
    inputs = [torch.randn(2, 3, 8, 16) for _ in range(3)]
    graph = check(lambda m, q, k, v: torch.softmax(q @ k.transpose(-1, -2), -2) @ v, *inputs, passes=[FusePatterns()])
    assert "attention" not in names(graph)


@pytest.mark.parametrize("square", [lambda x: x.pow(2), lambda x: x * x])
def test_rms_norm_by_hand_is_recognised(square):
    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8))

        def forward(self, x):
            return _rms(self, x, square)

    module, x = Norm(), torch.randn(2, 3, 8)
    graph = import_torch(module, (x,))
    FusePatterns().apply(graph)
    assert names(graph) == ["rms_norm"]
    torch.testing.assert_close(evaluate(graph, [x])[0], module(x).detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(evaluate(lower(graph), [x])[0], module(x).detach(), rtol=1e-5, atol=1e-5)


def _rms(m, x, square):
    return m.weight * (x * torch.rsqrt(square(x).mean(-1, keepdim=True) + 1e-6))


@pytest.mark.parametrize("layer", [nn.LayerNorm(64), nn.RMSNorm(64, eps=1e-6)])
def test_norms_in_bfloat16_round_once(layer):
    x = torch.randn(4, 64).bfloat16().float()
    graph = import_torch(layer, (x,))
    AssignFormats(DataFormat.Float16_b).apply(graph)
    got = Executor(graph).forward([x])[0]
    assert got.dtype is torch.bfloat16
    torch.testing.assert_close(got.float(), layer(x).detach(), rtol=2**-7, atol=1e-6)


def test_default_formats():
    graph = check(lambda m, x: F.relu(x @ m.weight), torch.randn(2, 8))
    AssignFormats(DataFormat.Bfp8_b, accumulate=DataFormat.Float16_b, fidelity=MathFidelity.HiFi2).apply(graph)
    assert {n.format for n in graph.nodes} == {DataFormat.Bfp8_b}
    assert graph.ops()[0].accumulate is DataFormat.Float16_b
    assert graph.ops()[0].fidelity is MathFidelity.HiFi2
    AssignFormats(DataFormat.Float16).apply(graph)
    assert {n.format for n in graph.nodes} == {DataFormat.Bfp8}, "narrower values keep their width, in the family of the default"


def test_formats_round_where_they_are():
    graph = import_torch(Body(lambda m, x: x * 1.0 + 0.001), (torch.ones(2, 8),))
    AssignFormats(DataFormat.Float16_b).apply(graph)
    assert Executor(graph).forward([torch.ones(2, 8)])[0].unique().tolist() == [1.0]


def test_grayskull_has_no_float32():
    graph = check(lambda m, x: x + 1, torch.randn(2, 8))
    AssignFormats(fp32_fallback=DataFormat.Float16_b).apply(graph)
    assert {n.format for n in graph.nodes} == {DataFormat.Float16_b}


def test_rules_win_over_defaults():
    graph = check(lambda m, x: F.relu(x @ m.weight), torch.randn(2, 8))
    rule = PrecisionRule(op_type="matmul", output=DataFormat.Bfp4_b, inputs=((1, DataFormat.Bfp2_b, False),))
    AssignFormats(DataFormat.Float16_b, rules=(rule,)).apply(graph)
    assert graph["matmul"].format is DataFormat.Bfp4_b
    assert graph["weight"].format is DataFormat.Bfp2_b
    assert graph.of(Kind.INPUT)[0].format is DataFormat.Float16_b


LOWERED = {
    "softmax": (lambda m, x: torch.softmax(x, -1), (2, 8)),
    "log_softmax": (lambda m, x: torch.log_softmax(x, -1), (2, 8)),
    "layer_norm": (lambda m, x: F.layer_norm(x, (8,), m.weight[0], m.weight[1]), (2, 3, 8)),
    "attention": (lambda m, x: F.scaled_dot_product_attention(x, x, x), (1, 2, 8, 8)),
    "causal": (lambda m, x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (1, 2, 8, 8)),
    "convolution": (lambda m, x: F.conv2d(x, m.weight.reshape(4, 4, 2, 2), stride=2), (1, 4, 8, 8)),
    "grouped": (lambda m, x: F.conv2d(x, m.weight.reshape(4, 1, 4, 4), groups=4), (1, 4, 8, 8)),
    "silu": (lambda m, x: F.silu(x @ m.weight), (2, 8)),
    "fused relu": (lambda m, x: F.relu(F.conv2d(x, m.weight.reshape(4, 4, 2, 2))), (1, 4, 8, 8)),
    "broadcast": (lambda m, x: x * m.weight[:, :1] + m.weight[0], (2, 8, 8)),
    "moves": (lambda m, x: (x.transpose(0, 1).reshape(4, 16) * 2).t(), (8, 8)),
    "slices": (lambda m, x: torch.cat([x[:, :4] + 1, x[:, 4:] * 2], 1), (2, 8)),
}


@pytest.mark.parametrize("name", LOWERED)
def test_the_lowered_graph_computes_the_same(name):
    fn, shape = LOWERED[name]
    x = torch.randn(shape)
    graph = check(fn, x, passes=[FusePatterns()])
    low = lower(graph)
    torch.testing.assert_close(evaluate(low, [x])[0], evaluate(graph, [x])[0], rtol=1e-4, atol=1e-5)


def test_lowering_tags_what_things_were_and_fuses_chains():
    graph = check(lambda m, x: torch.softmax(x, -1), torch.randn(2, 8))
    low = lower(graph)
    assert names(low) == ["reduce_max", "fused_op", "reduce_sum", "reciprocal", "multiply"]
    assert {n.tag() for n in low.ops() if n.op != "fused_op"} == {"softmax"}
    assert [step[1] for step in low.ops("fused_op")[0].attrs["program"]] == ["subtract", "exp"]


def test_manipulations_lie_on_edges():
    graph = check(lambda m, x: x.transpose(0, 1) @ m.weight, torch.randn(8, 4))
    low = lower(graph)
    assert names(low) == ["matmul"]
    assert [tm.op for tm in low.ops()[0].tms[0]] == ["transpose"]
