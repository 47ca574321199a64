"""Gradients: every operation that networks are made of, against torch's own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tessera.graph.executor import Executor
from tessera.graph.frontends.torch import import_torch
from tessera.graph.ir import Epoch, Graph, GraphError, Kind
from tessera.graph.passes import Autograd, Decompose, EraseInverses, FoldConstants


class Net(nn.Module):
    def __init__(self, fn, shape):
        super().__init__()
        self.fn, self.w = fn, nn.Parameter(torch.randn(shape) * 0.5)
        self.v = nn.Parameter(torch.randn(shape[-1]) * 0.5)

    def forward(self, x):
        return self.fn(self, x)


CASES = {
    "matmul": lambda m, x: x @ m.w,
    "linear": lambda m, x: F.linear(x, m.w, m.v),
    "arithmetic": lambda m, x: (x + m.v) * m.w - m.v / (m.w * m.w + 1),
    "unary": lambda m, x: (
        torch.exp(torch.tanh(m.w))
        + torch.sigmoid(m.w).log()
        + torch.sqrt(m.w * m.w + 1)
        + torch.rsqrt(m.w**2 + 1)
        + m.w.abs()
        + m.w.sin() * m.w.cos()
    ),
    "activations": lambda m, x: (
        F.gelu(m.w)
        + F.silu(m.w)
        + F.leaky_relu(m.w)
        + F.elu(m.w)
        + F.hardswish(m.w)
        + F.softplus(m.w)
        + F.mish(m.w)
        + F.relu6(m.w)
        + F.hardsigmoid(m.w)
    ),
    "power": lambda m, x: (m.w.abs() + 1) ** 3 + (m.w.abs() + 1) ** m.v,
    "softmax": lambda m, x: torch.softmax(m.w, -1) + torch.log_softmax(m.w, 0),
    "layer_norm": lambda m, x: F.layer_norm(x @ m.w, (8,), m.v, m.v),
    "group_norm": lambda m, x: F.group_norm((x @ m.w).reshape(2, 8, 4, 1), 2, m.v, m.v),
    "reductions": lambda m, x: m.w.sum() + m.w.mean(0) + m.w.amax(1).sum() + m.w.var(0) + torch.logsumexp(m.w, 0),
    "shapes": lambda m, x: torch.cat([m.w.reshape(4, 16).t()[:8, ::2], m.w.permute(1, 0)[:, 2:6]], 1).unsqueeze(0).expand(3, 8, 6).flip(1),
    "choice": lambda m, x: (
        torch.where(m.w > 0, m.w, m.v) + torch.clamp(m.w, -0.3, 0.3) + torch.maximum(m.w, m.v) + m.w.masked_fill(m.w > 1, 0.0)
    ),
    "indexing": lambda m, x: (
        m.w[torch.tensor([0, 2, 2])].sum(0) + torch.index_select(m.w, 1, torch.tensor([1, 1, 3])).sum() + m.w[2] + m.w[:, 1]
    ),
    "embedding": lambda m, x: F.embedding(torch.tensor([[1, 3], [3, 0]]), m.w),
    "convolution": lambda m, x: F.conv2d(x.reshape(1, 1, 8, 8), m.w.reshape(4, 1, 4, 4), m.v[:4], padding=1, stride=2),
    "transposed": lambda m, x: F.conv_transpose2d(x.reshape(1, 4, 4, 4), m.w.reshape(4, 4, 2, 2), stride=2),
    "pooling": lambda m, x: (
        F.max_pool2d(m.w.reshape(1, 1, 8, 8), 2)
        + F.avg_pool2d(m.w.reshape(1, 1, 8, 8), 2)
        + F.adaptive_avg_pool2d(m.w.reshape(1, 1, 8, 8), 4)
    ),
    "attention": lambda m, x: F.scaled_dot_product_attention(*(m.w.reshape(1, 2, 8, 4) * k for k in (1, 2, 3))),
    "causal": lambda m, x: F.scaled_dot_product_attention(*(m.w.reshape(1, 2, 8, 4) * k for k in (1, 2, 3)), is_causal=True),
    "upsampling": lambda m, x: (
        F.interpolate(m.w.reshape(1, 1, 8, 8), scale_factor=2) + F.interpolate(m.w.reshape(1, 1, 8, 8), size=(16, 16), mode="bilinear")
    ),
    "padding": lambda m, x: F.pad(m.w, (1, 2, 0, 1)) * 2,
    "stacking": lambda m, x: torch.stack([m.w, m.w * 2], 1).chunk(2, -1)[1].repeat(1, 2, 1) + 1,
    "used twice": lambda m, x: m.w @ m.w + m.w.t() * m.w,
    "einsum": lambda m, x: torch.einsum("ij,kj->ik", x, m.w),
    "cumsum": lambda m, x: torch.cumsum(m.w, 0) * m.w,
}


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    module, x = Net(CASES[name], (8, 8)), torch.randn(8, 8)
    graph = import_torch(module, (x,), training=True)
    for one in (Decompose(), FoldConstants(), EraseInverses(), Autograd(), FoldConstants(), EraseInverses()):
        one.apply(graph)
    runner = Executor(graph)
    out = runner.forward([x], keep=True)[0]
    wanted = module(x)
    torch.testing.assert_close(out, wanted.detach(), rtol=1e-5, atol=1e-5)
    seed = torch.randn_like(wanted)
    runner.backward([seed])
    wanted.backward(seed)
    for parameter, value in module.named_parameters():
        if value.grad is not None:
            torch.testing.assert_close(
                runner.gradients[parameter], value.grad, rtol=1e-4, atol=1e-5, msg=lambda m, p=parameter: f"{p}: {m}"
            )


LOSSES = {
    "l1": (nn.L1Loss(), lambda: torch.randn(4, 6)),
    "mse": (nn.MSELoss(), lambda: torch.randn(4, 6)),
    "mse sum": (nn.MSELoss(reduction="sum"), lambda: torch.randn(4, 6)),
    "cross entropy": (nn.CrossEntropyLoss(), lambda: torch.randint(0, 6, (4,))),
    "soft labels": (nn.CrossEntropyLoss(label_smoothing=0.1), lambda: torch.softmax(torch.randn(4, 6), -1)),
    "nll": (nn.NLLLoss(), lambda: torch.randint(0, 6, (4,))),
    "bce logits": (nn.BCEWithLogitsLoss(), lambda: torch.rand(4, 6)),
    "smooth l1": (nn.SmoothL1Loss(), lambda: torch.randn(4, 6)),
    "huber": (nn.HuberLoss(), lambda: torch.randn(4, 6)),
    "kl": (nn.KLDivLoss(reduction="batchmean"), lambda: torch.softmax(torch.randn(4, 6), -1)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    loss, target = LOSSES[name]

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.loss = nn.Linear(8, 6), loss

        def forward(self, x, t):
            return self.loss(self.layer(x), t)

    module, x, t = Whole(), torch.randn(4, 8), target()
    graph = import_torch(module, (x, t), training=True)
    graph.losses = [graph.outputs[0].inputs[0]]
    Decompose().apply(graph)
    Autograd().apply(graph)
    runner = Executor(graph)
    runner.forward([x, t], keep=True)
    runner.backward()
    wanted = module(x, t)
    wanted.backward()
    torch.testing.assert_close(runner.losses[0], wanted.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(runner.gradients["layer.weight"], module.layer.weight.grad, rtol=1e-4, atol=1e-6)


def test_backward_nodes_are_marked_and_forward_ones_keep_their_names():
    module = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    graph = import_torch(module, (torch.randn(2, 4),), training=True)
    before = {n.name for n in graph.nodes}
    Autograd().apply(graph)
    assert before <= {n.name for n in graph.nodes}
    assert all(n.name.startswith("bw_") for n in graph.ops() if n.epoch is Epoch.BACKWARD)
    assert set(graph.gradients) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert len(graph.of(Kind.GRADIENT)) == 1


def test_a_loss_without_parameters():
    graph = import_torch(nn.MSELoss(), (torch.randn(2), torch.randn(2)), training=True)
    graph.losses = [graph.outputs[0].inputs[0]]
    with pytest.raises(GraphError, match="depends on no trainable parameter"):
        Autograd().apply(graph)


def test_backward_before_forward():
    graph = import_torch(nn.Linear(2, 2), (torch.randn(1, 2),), training=True)
    assert isinstance(graph, Graph)
    with pytest.raises(GraphError, match="compiled for inference"):
        Executor(graph.copy()).backward()
    Autograd().apply(graph)
    with pytest.raises(GraphError, match="forward pass before it"):
        Executor(graph).backward([torch.ones(1, 2)])
