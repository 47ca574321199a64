"""Every operation: its signature, its value on tensors, and the same value from a compiled graph."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import pybuda
from pybuda import op
from pybuda.tensor import Tensor

SIGNATURES = (Path(__file__).resolve().parents[1] / "data" / "pybuda" / "op_signatures.txt").read_text().splitlines()


def parameters(text: str) -> tuple[str, list[tuple[str, str | None]]]:
    """The name, and the parameters with their defaults, of a signature in the data file."""
    name, inside = re.match(r"(\w+)\((.*)\)$", text).groups()
    depth, parts, current = 0, [], ""
    for char in inside:
        depth += char in "([" or 0
        depth -= char in ")]" or 0
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    parts.append(current)
    found = []
    for part in (p.strip() for p in parts):
        if part == "*" or not part:
            continue
        left, _, default = part.partition("=")
        found.append((left.split(":")[0].strip(), default.strip() or None))
    return name, found


@pytest.mark.parametrize("line", SIGNATURES, ids=lambda line: line.split("(")[0])
def test_signature(line):
    name, wanted = parameters(line)
    holder = next(h for h in (op, op.nn, op.loss) if hasattr(h, name))
    own = list(inspect.signature(getattr(holder, name)).parameters.values())
    assert [("*" if p.kind is p.VAR_POSITIONAL else "") + p.name for p in own] == [n for n, _ in wanted]
    for parameter, (_, default) in zip(own, wanted):
        if default is None:
            assert parameter.default is inspect.Parameter.empty
        else:
            assert parameter.default == eval(default, {"torch": torch})


torch.manual_seed(0)  # the cases are drawn when they are collected, before any fixture


def t(*shape):
    return torch.randn(*shape)


x, y, image = t(2, 4, 32, 64), t(2, 4, 32, 64), t(1, 8, 16, 16)
positive = x.abs() + 0.1
weight, kernel = t(64, 16), t(12, 8, 3, 3)
turned = t(8, 12, 3, 3)
index = torch.tensor([1, 0, 3])
table, ids = t(10, 16), torch.randint(0, 10, (2, 5))
scale = torch.tensor([0.1])

# name, how it is called on tensors, what it must be
CASES = [
    ("Matmul", lambda a, b: op.Matmul("", a, b), (x, weight), x @ weight),
    ("Matmul bias", lambda a, b, c: op.Matmul("", a, b, c), (x, weight, t(1, 16)), None),
    ("SparseMatmul", lambda a, b: op.SparseMatmul("", a, b), (torch.eye(32)[:8], x), x[..., :8, :]),
    ("Conv2d same", lambda a, w: op.Conv2d("", a, w), (image, kernel), F.conv2d(image, kernel, padding=1)),
    ("Conv2d stride", lambda a, w: op.Conv2d("", a, w, stride=2, padding=[1, 1, 1, 1]), (image, kernel), F.conv2d(image, kernel, stride=2, padding=1)),
    ("Conv2d last", lambda a, w: op.Conv2d("", a, w, padding=0, channel_last=True), (image.permute(0, 2, 3, 1), kernel), F.conv2d(image, kernel).permute(0, 2, 3, 1)),
    ("Conv2dTranspose", lambda a, w: op.Conv2dTranspose("", a, w, stride=2, padding=1), (image, turned), F.conv_transpose2d(image, turned, stride=2, padding=1)),
    ("Conv3d", lambda a, w: op.Conv3d("", a, w, padding=1), (image[:, :, None], kernel[:, :, None]), None),
    ("MaxPool1d", lambda a: op.MaxPool1d("", a, 2, stride=2), (t(1, 8, 16),), None),
    ("MaxPool2d", lambda a: op.MaxPool2d("", a, 3, stride=2, padding=1), (image,), F.max_pool2d(image, 3, 2, 1)),
    ("MaxPool3d", lambda a: op.MaxPool3d("", a, 2, stride=2, padding=0), (t(1, 4, 4, 4, 4),), None),
    ("AvgPool1d", lambda a: op.AvgPool1d("", a, 2, stride=2, padding=0), (t(1, 8, 16),), None),
    ("AvgPool2d", lambda a: op.AvgPool2d("", a, 2, stride=2, padding=0), (image,), F.avg_pool2d(image, 2)),
    ("Abs", lambda a: op.Abs("", a), (x,), x.abs()),
    ("Exp", lambda a: op.Exp("", a), (x,), x.exp()),
    ("Log", lambda a: op.Log("", a), (positive,), positive.log()),
    ("Pow", lambda a: op.Pow("", a, 3), (x,), x**3),
    ("Identity", lambda a: op.Identity("", a), (x,), x),
    ("Buffer", lambda a: op.Buffer("", a), (x,), x),
    ("Reciprocal", lambda a: op.Reciprocal("", a), (positive,), 1 / positive),
    ("Sqrt", lambda a: op.Sqrt("", a), (positive,), positive.sqrt()),
    ("Relu", lambda a: op.Relu("", a), (x,), x.relu()),
    ("Relu min", lambda a: op.Relu("", a, threshold=0.5), (x,), torch.where(x >= 0.5, x, 0.0)),
    ("Relu max", lambda a: op.Relu("", a, threshold=0.5, mode="max"), (x,), x.clamp(0, 0.5)),
    ("LeakyRelu", lambda a: op.LeakyRelu("", a, 0.1), (x,), F.leaky_relu(x, 0.1)),
    ("Gelu", lambda a: op.Gelu("", a), (x,), F.gelu(x)),
    ("Gelu tanh", lambda a: op.Gelu("", a, approximate="tanh"), (x,), F.gelu(x, approximate="tanh")),
    ("Sigmoid", lambda a: op.Sigmoid("", a), (x,), x.sigmoid()),
    ("Argmax", lambda a: op.Argmax("", a, -1), (x,), x.argmax(-1, keepdim=True)),
    ("Clip", lambda a: op.Clip("", a, -0.5, 0.5), (x,), x.clamp(-0.5, 0.5)),
    ("Sine", lambda a: op.Sine("", a), (x,), x.sin()),
    ("Cosine", lambda a: op.Cosine("", a), (x,), x.cos()),
    ("Tanh", lambda a: op.Tanh("", a), (x,), x.tanh()),
    ("CumSum", lambda a: op.CumSum("", a, 2), (x,), x.cumsum(2)),
    ("CumSum exclusive", lambda a: op.CumSum("", a, 2, exclusive=True), (x,), x.cumsum(2) - x),
    ("LogicalNot", lambda a: op.LogicalNot("", a), ((x > 0).float(),), (x <= 0).float()),
    ("Dropout off", lambda a: op.Dropout("", a, training=False), (x,), x),
    ("Tilize", lambda a: op.Tilize("", a), (x,), x),
    ("Add", lambda a, b: op.Add("", a, b), (x, y), x + y),
    ("Subtract", lambda a, b: op.Subtract("", a, b), (x, y), x - y),
    ("Multiply", lambda a, b: op.Multiply("", a, b), (x, y), x * y),
    ("Divide", lambda a, b: op.Divide("", a, b), (x, positive), x / positive),
    ("Max", lambda a, b: op.Max("", a, b), (x, y), torch.maximum(x, y)),
    ("Min", lambda a, b: op.Min("", a, b), (x, y), torch.minimum(x, y)),
    ("Heaviside", lambda a, b: op.Heaviside("", a, b), (x, y), torch.heaviside(x, y)),
    ("BinaryStack", lambda a, b: op.BinaryStack("", a, b, -1), (x, y), torch.stack([x, y], -1)),
    ("Power", lambda a, b: op.Power("", a, b), (positive, y), positive**y),
    ("Equal", lambda a, b: op.Equal("", a, b), (x, x), torch.ones_like(x)),
    ("NotEqual", lambda a, b: op.NotEqual("", a, b), (x, y), (x != y).float()),
    ("Greater", lambda a, b: op.Greater("", a, b), (x, y), (x > y).float()),
    ("Less", lambda a, b: op.Less("", a, b), (x, y), (x < y).float()),
    ("GreaterEqual", lambda a, b: op.GreaterEqual("", a, b), (x, y), (x >= y).float()),
    ("LessEqual", lambda a, b: op.LessEqual("", a, b), (x, y), (x <= y).float()),
    ("LogicalAnd", lambda a, b: op.LogicalAnd("", a, b), ((x > 0).float(), (y > 0).float()), ((x > 0) & (y > 0)).float()),
    ("Concatenate", lambda a, b: op.Concatenate("", a, b, axis=-1), (x, y), torch.cat([x, y], -1)),
    ("Where", lambda c, a, b: op.Where("", c, a, b), ((x > 0).float(), x, y), torch.where(x > 0, x, y)),
    ("IndexCopy", lambda a, i, v: op.IndexCopy("", a, i, v, 2), (x, index, y[:, :, :3]), x.index_copy(2, index, y[:, :, :3])),
    ("Stack", lambda a, b: op.Stack("", a, b, axis=1), (x, y), torch.stack([x, y], 1)),
    ("Interleave", lambda a, b: op.Interleave("", a, b, axis=-3, stride=1), (x, y), torch.stack([x, y], 2).flatten(1, 2)),
    ("ReduceSum", lambda a: op.ReduceSum("", a, -1), (x,), x.sum(-1, keepdim=True)),
    ("ReduceAvg", lambda a: op.ReduceAvg("", a, -2), (x,), x.mean(-2, keepdim=True)),
    ("GroupedReduceAvg", lambda a: op.GroupedReduceAvg("", a, -1, 4), (x,), x.unflatten(-1, (4, 16)).mean(-1)),
    ("ReduceMax", lambda a: op.ReduceMax("", a, -1), (x,), x.amax(-1, keepdim=True)),
    ("ReduceMax stride", lambda a: op.ReduceMax("", a, 1, stride=2), (x,), x.unflatten(1, (2, 2)).amax(2)),
    ("HSlice", lambda a: op.HSlice("", a, 4), (x[:, :1],), x[:, 0].unflatten(-1, (4, 16)).transpose(1, 2)),
    ("HStack", lambda a: op.HStack("", a, 4), (x,), x.transpose(1, 2).reshape(2, 1, 32, 256)),
    ("VSlice", lambda a: op.VSlice("", a, 4), (x[:, :1],), x[:, 0].unflatten(1, (4, 8))),
    ("VStack", lambda a: op.VStack("", a), (x,), x.reshape(2, 1, 128, 64)),
    ("Transpose", lambda a: op.Transpose("", a, -2, -1), (x,), x.transpose(-2, -1)),
    ("Reshape", lambda a: op.Reshape("", a, (2, 128, 64)), (x,), x.reshape(2, 128, 64)),
    ("Index", lambda a: op.Index("", a, 2, 4, 20, 2), (x,), x[:, :, 4:20:2]),
    ("Index one", lambda a: op.Index("", a, -1, 3), (x,), x[..., 3:4]),
    ("AdvIndex", lambda a, i: op.AdvIndex("", a, i, 1), (x, index), x[:, index]),
    ("Select", lambda a: op.Select("", a, 2, (1, 2), stride=8), (x,), x[:, :, [1, 2, 9, 10, 17, 18, 25, 26]]),
    ("Pad", lambda a: op.Pad("", a, (1, 2, 3, 4)), (x,), F.pad(x, (1, 2, 3, 4))),
    ("Pad replicate", lambda a: op.Pad("", a, (1, 1, 1, 1), mode="replicate"), (image,), F.pad(image, (1, 1, 1, 1), mode="replicate")),
    ("PadTile", lambda a: op.PadTile("", a, -1, 40), (x[..., :40],), F.pad(x[..., :40], (0, 24))),
    ("Broadcast", lambda a: op.Broadcast("", a, 1, 4), (x[:, :1],), x[:, :1].expand(2, 4, 32, 64)),
    ("Repeat", lambda a: op.Repeat("", a, [1, 1, 2, 1]), (x,), x.repeat(1, 1, 2, 1)),
    ("Unsqueeze", lambda a: op.Unsqueeze("", a, 0), (x,), x[None]),
    ("Squeeze", lambda a: op.Squeeze("", a, 1), (x[:, :1],), x[:, 0]),
    ("Narrow", lambda a: op.Narrow("", a, -1, 5, 10, 64), (x,), x[..., 5:15]),
    ("PixelShuffle", lambda a: op.PixelShuffle("", a, 2), (image,), F.pixel_shuffle(image, 2)),
    ("BudaPad", lambda a: op.BudaPad("", a, (0, 1), 0.0), (x,), F.pad(x, (0, 32))),
    ("BudaUnpad", lambda a: op.BudaUnpad("", a, (20, 30), (0, 0)), (x,), x[..., :20, :30]),
    ("Softmax", lambda a: op.nn.Softmax("", a, dim=-1), (x,), x.softmax(-1)),
    ("Softmax unstable", lambda a: op.nn.Softmax("", a, dim=-1, stable=False), (x,), x.softmax(-1)),
    ("LogSoftmax", lambda a: op.nn.LogSoftmax("", a, dim=-1), (x,), x.log_softmax(-1)),
    ("Layernorm", lambda a, w, b: op.nn.Layernorm("", a, w, b), (x, t(64), t(64)), None),
    ("Batchnorm", lambda a, w, b, m, v: op.nn.Batchnorm("", a, w, b, m, v), (image, t(8), t(8), t(8), t(8).abs() + 0.5), None),
    ("Resize2d", lambda a: op.Resize2d("", a, [32, 32]), (image,), F.interpolate(image, (32, 32))),
    ("Resize2d linear", lambda a: op.Resize2d("", a, [32, 32], method="linear"), (image,), F.interpolate(image, (32, 32), mode="bilinear")),
    ("Resize3d", lambda a: op.Resize3d("", a, [4, 8, 8]), (t(1, 2, 2, 4, 4),), None),
    ("Embedding", lambda w, i: op.Embedding("", w, i), (table, ids), F.embedding(ids, table)),
    ("DRAMQueue", lambda a: op.DRAMQueue("", a, num_entries=2), (x,), x),
    ("Quantize", lambda a, s: op.Quantize("", a, s, 3, -1, torch.int8), (x, scale), (torch.round(x / 0.1) + 3).clamp(-128, 127).to(torch.int8)),
    ("Dequantize", lambda a, s: op.Dequantize("", a, s, 3), ((x * 10).to(torch.int8), scale), ((x * 10).to(torch.int8).float() - 3) * 0.1),
    ("Requantize", lambda a, s, r: op.Requantize("", a, s, r, 0, 0, torch.int8), ((x * 10).to(torch.int8), scale, scale), (x * 10).to(torch.int8)),
    ("BudaRequantize", lambda a, s: op.BudaRequantize("", a, s, 0, torch.int8), ((x * 10).to(torch.int8), torch.tensor([1.0])), (x * 10).to(torch.int8)),
]  # fmt: skip


class One(pybuda.PyBudaModule):
    def __init__(self, body, count):
        super().__init__("one")
        self.body, self.count = body, count

    def forward(self, *inputs):
        return self.body(*inputs)


@pytest.mark.parametrize(("name", "body", "inputs", "wanted"), CASES, ids=[c[0] for c in CASES])
def test_value(name, body, inputs, wanted):
    eager = body(*[Tensor.create_from_torch(i) for i in inputs]).value()
    if wanted is not None:
        torch.testing.assert_close(eager, wanted, rtol=1e-5, atol=1e-5)
    graph = (
        pybuda.run_inference(One(body, len(inputs)), inputs=[inputs], _sequential=True, _verify_cfg=pybuda.VerifyConfig(verify_all=True))
        .get()[0]
        .value()
    )
    assert graph.shape == eager.shape
    torch.testing.assert_close(graph.to(eager.dtype), eager, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("df", [pybuda.DataFormat.Float16_b, pybuda.DataFormat.Float16, pybuda.DataFormat.Bfp8_b], ids=lambda f: f.name)
@pytest.mark.parametrize(("name", "body", "inputs", "wanted"), CASES, ids=[c[0] for c in CASES])
def test_value_in_a_format(name, body, inputs, wanted, df):
    """No operation lacks a kernel in any format, and none is far from its value in full precision (where it is no matter of a hair)."""
    eager = body(*[Tensor.create_from_torch(i) for i in inputs]).value()
    pybuda.set_configuration_options(default_df_override=df)
    got = pybuda.run_inference(One(body, len(inputs)), inputs=[inputs], _sequential=True).get()[0].value()
    assert got.shape == eager.shape
    assert got.is_floating_point() == eager.is_floating_point()
    if name not in ("Argmax", "Heaviside", "Quantize", "Requantize", "BudaRequantize", "Dequantize", "NotEqual"):
        assert pybuda.verify.calculate_pcc(eager.float(), got.float()) > 0.97


def test_every_operation_has_a_value_test():
    named = {c[0].split()[0] for c in CASES}
    tested_elsewhere = {
        "Linear",
        "Conv2dModule",
        "ConvTranspose2dModule",
        "MaxPool1dModule",
        "MaxPool2dModule",
        "AvgPool2dModule",
        "SparseMatmulModule",
        "Constant",
        "CrossEntropyLoss",
        "L1Loss",
    }
    missing = {line.split("(")[0] for line in SIGNATURES} - named - tested_elsewhere - {"Dropout"}
    assert not missing


def test_names_and_scalars():
    class Named(pybuda.PyBudaModule):
        def __init__(self, name):
            super().__init__(name)
            self.w, self.b = pybuda.Parameter(torch.randn(32, 32)), pybuda.Parameter(torch.randn(1, 32))

        def forward(self, a):
            made = op.Matmul("mm", a, self.w, self.b)
            return op.Relu("", made * 2.0 + 1.0) - a

    module = Named("named")
    x = torch.randn(1, 32, 32)
    got = pybuda.run_inference(module, inputs=[x]).get()[0].value()
    torch.testing.assert_close(got, F.relu((x @ module.w.value() + module.b.value()) * 2 + 1) - x, rtol=1e-5, atol=1e-5)
    names = [n.name for n in pybuda.get_tenstorrent_device()._compile_output.initial_graph.ops()]
    assert names == ["mm", "mm.bias", "multiply_2", "add_3", "relu_4", "subtract_5"]
    with pytest.raises(TypeError):
        Tensor.create_from_torch(x) / 2


def test_an_operation_that_does_not_fit_names_itself():
    class Wrong(pybuda.PyBudaModule):
        def forward(self, a, b):
            return op.Matmul("product", a, b)

    with pytest.raises(RuntimeError, match=r"'product' does not fit its operands of shapes \[2, 3\], \[4, 5\]"):
        pybuda.run_inference(Wrong("wrong"), inputs=[(torch.randn(2, 3), torch.randn(4, 5))])
    with pytest.raises(TypeError, match="create_from_torch"):
        op.Add("", torch.randn(2), torch.randn(2))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: op.nn.Linear("l", 32, 16), (1, 8, 32)),
        (lambda: op.nn.Linear("l", 32, 16, bias=False), (1, 8, 32)),
        (lambda: op.nn.Conv2dModule("c", 4, 8, 3), (1, 4, 8, 8)),
        (lambda: op.nn.Conv2dModule("c", 4, 8, (3, 3), stride=2, padding=1, bias=False), (1, 4, 8, 8)),
        (lambda: op.nn.ConvTranspose2dModule("t", 4, 8, 2, stride=2, padding=0), (1, 4, 8, 8)),
        (lambda: op.nn.MaxPool1dModule("m", 2, 2), (1, 4, 8)),
        (lambda: op.nn.MaxPool2dModule("m", 2, 2, 0), (1, 4, 8, 8)),
        (lambda: op.nn.AvgPool2dModule("a", 2, 2, 0), (1, 4, 8, 8)),
        (lambda: op.nn.SparseMatmulModule("s", torch.eye(4, 8)), (1, 8, 8)),
    ],
)
def test_layers(layer, shape):
    module, x = layer(), torch.randn(shape)
    eager = module(Tensor.create_from_torch(x)).value()
    torch.testing.assert_close(pybuda.run_inference(module, inputs=[x]).get()[0].value(), eager, rtol=1e-5, atol=1e-5)


def test_losses():
    logits, labels = torch.randn(4, 8) * 100, F.one_hot(torch.randint(0, 8, (4,)), 8).float()
    got = op.loss.CrossEntropyLoss("ce")(Tensor.create_from_torch(logits), Tensor.create_from_torch(labels)).value()
    torch.testing.assert_close(got.sum(), F.cross_entropy(logits, labels), rtol=1e-5, atol=1e-5)
    for reduction, wanted in (("avg", F.l1_loss(logits, labels)), ("sum", F.l1_loss(logits, labels, reduction="sum"))):
        got = op.loss.L1Loss("l1", reduction)(Tensor.create_from_torch(logits), Tensor.create_from_torch(labels)).value()
        torch.testing.assert_close(got.sum(), wanted, rtol=1e-5, atol=1e-5)


def test_dropout_keeps_the_mean():
    ones = Tensor.create_from_torch(torch.ones(100, 100))
    made = op.Dropout("", ones, p=0.25, seed=7).value()
    assert abs(made.mean() - 1) < 0.05
    assert torch.equal(made, op.Dropout("", ones, p=0.25, seed=7).value())
