"""Reading torch modules: names, in-place writes, buffers, and everything that cannot be read."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tessera.graph.executor import evaluate
from tessera.graph.frontends.torch import import_torch
from tessera.graph.ir import GraphError, Kind, UnsupportedOperators


class Body(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *inputs):
        return self.fn(*inputs)


X = torch.randn(2, 4, 8)

CASES = {
    "views": lambda x: x.view(8, 8).t().contiguous().flatten().unflatten(0, (4, 16)).movedim(0, 1),
    "slices": lambda x: x[:, 1:3, ::2] + x[..., -4:][:, :2] + x[0, 1, 2],
    "tensors as indices": lambda x: x[:, torch.tensor([0, 2])] + x[torch.tensor([1, 0]), torch.tensor([1, 2])][:, None],
    "masks": lambda x: x.masked_fill(x > 0.5, 0.0) + torch.where(x > 0, x, 0.0) + torch.where(x > 0, 1.0, x) + x.tril(),
    "splits": lambda x: torch.cat([*x.chunk(2, -1), *x.split(3, -1), *x.unbind(0)[0][None].expand(2, 4, 8).split([2, 6], -1)], -1),
    "reductions": lambda x: x.sum() + x.mean(-1).amax() + x.var(1).sum() + x.std() + x.norm() + x.prod(-1).sum() + x.max(1)[0].sum() + x.argmax().float(),
    "scalars": lambda x: 2 - x / 3 + x**2 - 2**x + (-x).clamp(min=0) + x.clamp(-1, 1) + 1 / (x + 5) + x.remainder(2),
    "comparisons": lambda x: ((x > 0) & (x < 1) | (x == 0)).float() + (~(x >= 0)).float() + (x != 0).float(),
    "creation": lambda x: x + torch.arange(8) + torch.zeros(8) + torch.ones_like(x) + torch.full((8,), 2.0) + x.new_zeros(8) + torch.eye(8)[0] + torch.linspace(0, 1, 8),
    "casts": lambda x: x.to(torch.int32).float() + x.bool().to(x.dtype) + x.long().type_as(x),
    "gathers": lambda x: torch.gather(x, 2, torch.zeros(2, 4, 8, dtype=torch.long)) + x.index_select(1, torch.tensor([3, 2, 1, 0])) + F.one_hot(torch.arange(8) % 3, 8).float()[:4],
    "scatters": lambda x: torch.scatter(x, 2, torch.zeros(2, 4, 1, dtype=torch.long), torch.ones(2, 4, 1)) + torch.zeros(2, 4, 8).scatter_add(2, torch.zeros(2, 4, 8, dtype=torch.long), x),
    "in place": lambda x: (x * 1).add_(1).mul_(2).relu_().clamp_(0, 3),
    "writes into views": lambda x: _write(x),
    "roll and flip": lambda x: x.roll(2, -1) + x.flip(-1) + x.repeat(1, 1, 2)[..., :8] + x.repeat_interleave(2, -1)[..., :8],
    "einsum": lambda x: torch.einsum("bij,bkj->bik", x, x),
    "products": lambda x: torch.baddbmm(torch.zeros(2, 4, 4), x, x.mT) + torch.bmm(x, x.mT) + torch.addmm(torch.zeros(4, 4), x[0], x[1].t()),
    "norms": lambda x: F.layer_norm(x, (4, 8)) + F.group_norm(x, 2) + F.rms_norm(x, (8,)) + F.instance_norm(x) + F.normalize(x, dim=-1),
    "one-dimensional": lambda x: F.max_pool1d(F.conv1d(x, torch.ones(3, 4, 3), padding=1), 2) + F.avg_pool1d(x, 2)[:, :3],
    "padding": lambda x: F.pad(x, (1, 1)) + F.pad(x, (1, 1), mode="reflect") + F.pad(x, (1, 1), value=2.0),
    "sorting out": lambda x: x.topk(2, -1)[0].sum(-1) + x.cumsum(-1)[..., -1] + x.cumprod(-1)[..., 0],
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "broadcasts": lambda x: x.expand(3, 2, 4, 8) * torch.ones(4, 1).expand_as(x[0]) + torch.broadcast_to(x[0, 0], (4, 8)),
    "sums of products": lambda x: torch.addcmul(x, x, x, value=0.5) + torch.addcdiv(x, x, x.abs() + 1) + torch.lerp(x, x * 2, 0.5),
}  # fmt: skip


def _write(x):
    y = x.clone()
    y[:, 0] = 1.0
    y[:, :, 1:3] += 2.0
    return y


@pytest.mark.parametrize("name", CASES)
def test_reading(name):
    graph = import_torch(Body(CASES[name]).eval(), (X,))
    torch.testing.assert_close(evaluate(graph, [X])[0], CASES[name](X), rtol=1e-5, atol=1e-5)


def test_parameters_keep_their_names_and_are_not_copied():
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    graph = import_torch(module, (torch.randn(2, 4),))
    assert [n.name for n in graph.of(Kind.PARAMETER)] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert graph["0.weight"].value.data_ptr() == module[0].weight.data_ptr()
    assert graph["1.running_mean"].kind is Kind.CONSTANT


def test_shared_weights_are_one_parameter():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids):
            return self.head(self.words(ids))

    graph = import_torch(Tied(), (torch.tensor([[1, 2]]),))
    assert len(graph.of(Kind.PARAMETER)) == 1


def test_running_statistics_are_updates_in_training():
    graph = import_torch(nn.BatchNorm1d(4), (torch.randn(8, 4),), training=True)
    assert [name for name, _ in graph.updates] == ["running_mean", "running_var"]


def test_the_module_is_left_in_its_mode():
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2)).train()
    module[1].eval()
    import_torch(module, (torch.randn(1, 2),))
    assert module[0].training
    assert not module[1].training


def test_every_unsupported_operator_is_named_with_its_line():
    def odd(x):
        y = torch.linalg.det(x @ x.mT)
        return y + torch.fft.fft(x).abs().sum()

    with pytest.raises(UnsupportedOperators) as caught:
        import_torch(Body(odd), (X,))
    named = [name for name, _ in caught.value.found]
    assert any("det" in n for n in named)
    assert any("fft" in n for n in named)
    assert all("test_torch_frontend.py:" in where for _, where in caught.value.found)


def test_operators_without_a_row_are_taken_apart_by_torch():
    a, b = torch.randn(4, 8), torch.randn(4, 8)
    module = nn.Bilinear(8, 8, 3)
    torch.testing.assert_close(evaluate(import_torch(module, (a, b)), [a, b])[0], module(a, b).detach(), rtol=1e-4, atol=1e-5)
    for fn in (torch.trace, torch.hypot, lambda x: torch.special.entr(x.abs()), lambda x: torch.logit(torch.sigmoid(x))):
        args = (a, b) if fn is torch.hypot else (a,)
        torch.testing.assert_close(evaluate(import_torch(Body(fn), args), list(args))[0], fn(*args), rtol=1e-4, atol=1e-5)


def test_source_lines_are_on_the_nodes():
    class Raised(nn.Module):
        def forward(self, x):
            return torch.exp(x)

    graph = import_torch(Raised(), (X,))
    assert "test_torch_frontend.py" in graph["exp"].source
    assert "torch.exp(x)" in graph["exp"].source


@pytest.mark.parametrize("fn", [lambda x: x if x.sum() > 0 else -x, lambda x: x[x > 0], lambda x: x.nonzero()])
def test_shapes_and_branches_that_depend_on_values(fn):
    with pytest.raises(GraphError):
        import_torch(Body(fn), (X,))


def test_a_module_without_outputs():
    with pytest.raises(GraphError, match="no tensor"):
        import_torch(Body(lambda x: None), (X,))
