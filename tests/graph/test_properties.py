"""Random graphs: no pass changes what is computed, lowering included, and the same graph gives the same netlist."""

from __future__ import annotations

import torch
import torch.nn.functional as F
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tessera.graph.compiler import Options, compile_graph
from tessera.graph.executor import evaluate
from tessera.graph.formats import DataFormat
from tessera.graph.frontends.torch import import_torch

# Each takes the values so far and returns another of shape [2, 8, 32].
STEPS = {
    "add": lambda m, a, b: a + b,
    "scale": lambda m, a, b: a * m.vector + 0.5,
    "matmul": lambda m, a, b: a @ m.square,
    "linear": lambda m, a, b: F.linear(a, m.square, m.vector),
    "relu": lambda m, a, b: F.relu(a),
    "gelu": lambda m, a, b: F.gelu(a),
    "softmax": lambda m, a, b: torch.softmax(a, -1),
    "norm": lambda m, a, b: F.layer_norm(a, (32,), m.vector, m.vector),
    "attention": lambda m, a, b: (
        F.scaled_dot_product_attention(*(t.reshape(2, 8, 4, 8).transpose(1, 2) for t in (a, b, a))).transpose(1, 2).reshape(2, 8, 32)
    ),
    "transposes": lambda m, a, b: a.transpose(1, 2).transpose(1, 2),
    "turn": lambda m, a, b: a.transpose(1, 2).reshape(2, 8, 32),
    "reshape": lambda m, a, b: a.reshape(4, 128).reshape(16, 32).view(2, 8, 32),
    "halves": lambda m, a, b: torch.cat([a[..., :16], b[..., 16:]], -1),
    "mean": lambda m, a, b: a - b.mean(-1, keepdim=True),
    "largest": lambda m, a, b: torch.maximum(a, b.amax(1, keepdim=True)),
    "constant": lambda m, a, b: a * torch.arange(32).float().cos() + torch.ones(8, 1).cumsum(0),
    "where": lambda m, a, b: torch.where(a > b, a, b * 0.5),
    "convolution": lambda m, a, b: F.conv2d(a.reshape(2, 1, 16, 16), m.kernel, padding=1).reshape(2, 8, 32),
}


class Random(nn.Module):
    def __init__(self, program):
        super().__init__()
        self.program = program
        self.square, self.vector, self.kernel = (
            nn.Parameter(torch.randn(32, 32) * 0.2),
            nn.Parameter(torch.randn(32)),
            nn.Parameter(torch.randn(1, 1, 3, 3)),
        )

    def forward(self, x, y):
        values = [x, y]
        for name, first, second in self.program:
            values.append(STEPS[name](self, values[first % len(values)], values[second % len(values)]))
        return values[-1], values[len(values) // 2] * 1.0


PROGRAMS = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8)


@given(PROGRAMS)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_every_pass_preserves_every_value(program):
    torch.manual_seed(0)
    module, inputs = Random(program).eval(), (torch.randn(2, 8, 32), torch.randn(2, 8, 32))
    wanted = [w.detach() for w in module(*inputs)]

    def watch(depth, name, graph):
        for got, want in zip(evaluate(graph, list(inputs)), wanted):
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4, msg=lambda m: f"after {name}: {m}")

    options = Options(default_format=DataFormat.Float16_b)
    compiled = compile_graph(import_torch(module, inputs), options, watch)
    for got, want in zip(compiled.executor.forward(list(inputs)), wanted):
        assert got.shape == want.shape
        assert got.dtype is torch.bfloat16
    again = compile_graph(import_torch(module, inputs), options)
    assert again.netlist == compiled.netlist
    assert set(yaml.safe_load(compiled.netlist)) == {"devices", "queues", "graphs", "programs", "fused_ops"}
