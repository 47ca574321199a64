"""ONNX models: each agrees with onnxruntime, replayed and as a graph."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from tessera.graph.executor import Executor, evaluate
from tessera.graph.frontends.onnx import OnnxReplay
from tessera.graph.frontends.torch import import_torch
from tessera.graph.ir import GraphError, Kind, UnsupportedOperators
from tessera.graph.passes import Autograd

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper  # noqa: E402


def exported(model, inputs, opset=17):
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), tuple(inputs), buffer, opset_version=opset, dynamo=False)
    return buffer.getvalue()


def agree(proto, inputs, tolerance=1e-5):
    data = proto if isinstance(proto, bytes) else proto.SerializeToString()
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {i.name: t.numpy() for i, t in zip(session.get_inputs(), inputs)})
    replay = OnnxReplay(onnx.load_from_string(data))
    assert replay.input_names == [i.name for i in session.get_inputs()]
    graph = import_torch(replay, inputs, input_names=replay.input_names)
    for got, want in zip(evaluate(graph, list(inputs)), wanted):
        np.testing.assert_allclose(got.numpy(), want, rtol=tolerance, atol=tolerance)
    return graph


@pytest.mark.parametrize("opset", [13, 17, 20])
@pytest.mark.parametrize("name", ["bert", "resnet", "mobilenet", "unet"])
def test_models(name, opset, load_models):
    models = load_models
    model, inputs = {
        "bert": lambda: (models.BertEncoder(1, 64, 4, 128), (torch.randn(1, 16, 64),)),
        "resnet": lambda: (models.ResNet((1, 1), 8, 10), (torch.randn(1, 3, 32, 32),)),
        "mobilenet": lambda: (models.MobileNet(), (torch.randn(1, 3, 32, 32),)),
        "unet": lambda: (models.UNet(8, 1), (torch.randn(1, 3, 16, 16),)),
    }[name]()
    agree(exported(model, inputs, opset), inputs, 1e-4)


class Shapes(nn.Module):
    """Shapes computed inside the model, as exporters write them."""

    def forward(self, x):
        b, c = x.shape[0], x.shape[1]
        y = x.view(b, c // 2, 2, -1).permute(0, 2, 1, 3).reshape(b, -1)
        return y[:, ::2] + torch.arange(y.shape[1] // 2).float(), x.flatten(1).unsqueeze(-1).expand(-1, -1, 2)


def test_shapes_are_known_on_the_host():
    x = torch.randn(2, 4, 6)
    graph = agree(exported(Shapes(), (x,)), (x,))
    assert len(graph.ops()) < 12


def one(op, inputs, outputs=1, initializers=(), opset=17, domain="", **attrs):
    """A model of one operator on inputs of given shapes."""
    names = [f"x{i}" for i in range(len(inputs))]
    made = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(t.numpy().dtype), list(t.shape)) for n, t in zip(names, inputs)
    ]
    extra = []
    for name, array in initializers:
        extra.append(onnx.numpy_helper.from_array(array, name) if array is not None else None)
        names.append(name if array is not None else "")
    outs = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, outs, domain=domain, **attrs)
    graph = helper.make_graph(
        [node], "one", made, [helper.make_empty_tensor_value_info(o) for o in outs], [e for e in extra if e is not None]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)], ir_version=8)


x4, x2 = torch.randn(1, 4, 8, 8), torch.randn(3, 8)
i64 = lambda *v: np.array(v, np.int64)  # noqa: E731
f32 = lambda *v: np.array(v, np.float32)  # noqa: E731
OPERATORS = [
    *[(name, (x2.abs() * 0.4 + 0.1,), (), {}) for name in ("Abs", "Acos", "Asin", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "HardSwish", "Identity", "Log", "Neg",
                                                          "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh")],
    *[(name, (x2, x2.abs() + 0.5), (), {}) for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual", "PRelu", "Sum", "Mean")],
    ("Pow", (x2.abs(),), [("e", f32(2.0))], {}),
    ("Mod", (torch.arange(8) - 4,), [("m", i64(3))], {}),
    ("Clip", (x2,), [("lo", f32(-0.5).reshape(())), ("hi", f32(0.5).reshape(()))], {}),
    ("LeakyRelu", (x2,), (), {"alpha": 0.2}),
    ("Elu", (x2,), (), {"alpha": 0.5}),
    ("Selu", (x2,), (), {}),
    ("ThresholdedRelu", (x2,), (), {"alpha": 0.5}),
    ("HardSigmoid", (x2,), (), {}),
    ("Softmax", (x2,), (), {"axis": 1}),
    ("LogSoftmax", (x2,), (), {"axis": 0}),
    ("Hardmax", (x2,), (), {"axis": 1}),
    ("ReduceSum", (x4,), [("a", i64(1, 2))], {"keepdims": 0}),
    ("ReduceMean", (x4,), (), {"axes": [2, 3]}),
    ("ReduceMax", (x4,), (), {"axes": [1]}),
    ("ReduceMin", (x4,), (), {"axes": [1], "keepdims": 0}),
    ("ReduceProd", (x4,), (), {"axes": [3]}),
    ("ReduceL1", (x4,), (), {"axes": [1]}),
    ("ReduceL2", (x4,), (), {"axes": [1]}),
    ("ReduceLogSumExp", (x4,), (), {"axes": [1]}),
    ("ReduceSumSquare", (x4,), (), {"axes": [1]}),
    ("ArgMax", (x2,), (), {"axis": 1}),
    ("ArgMin", (x2,), (), {"axis": 0, "keepdims": 0}),
    ("CumSum", (x2,), [("a", np.array(1, np.int64))], {"exclusive": 1, "reverse": 1}),
    ("Reshape", (x4,), [("s", i64(0, -1, 16))], {}),
    ("Transpose", (x4,), (), {"perm": [0, 2, 3, 1]}),
    ("Flatten", (x4,), (), {"axis": 2}),
    ("Squeeze", (x4,), [("a", i64(0))], {}),
    ("Unsqueeze", (x2,), [("a", i64(0, 3))], {}),
    ("Expand", (x2,), [("s", i64(2, 3, 8))], {}),
    ("Tile", (x2,), [("r", i64(2, 3))], {}),
    ("Slice", (x4,), [("s", i64(1, 7)), ("e", i64(3, -100)), ("a", i64(1, 3)), ("t", i64(1, -2))], {}),
    ("Gather", (x4,), [("i", i64(2, 0, -1))], {"axis": 1}),
    ("Gather", (x4,), [("i", np.array(1, np.int64))], {"axis": 2}),
    ("GatherElements", (x2,), [("i", np.zeros((3, 2), np.int64))], {"axis": 1}),
    ("GatherND", (x2,), [("i", np.array([[0, 1], [2, 3]], np.int64))], {}),
    ("ScatterElements", (x2,), [("i", np.array([[1], [0], [2]], np.int64)), ("u", np.ones((3, 1), np.float32))], {"axis": 1}),
    ("ScatterND", (x2,), [("i", np.array([[1]], np.int64)), ("u", np.ones((1, 8), np.float32))], {}),
    ("Concat", (x2, x2), (), {"axis": 1}),
    ("Pad", (x4,), [("p", i64(0, 0, 1, 2, 0, 0, 3, 0)), ("v", f32(1.5).reshape(()))], {}),
    ("Pad", (x4,), [("p", i64(0, 0, 1, 1, 0, 0, 1, 1))], {"mode": "reflect"}),
    ("Trilu", (x2,), (), {"upper": 0}),
    ("DepthToSpace", (x4,), (), {"blocksize": 2}),
    ("DepthToSpace", (x4,), (), {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", (x4,), (), {"blocksize": 2}),
    ("OneHot", (torch.tensor([0, 2, 1]),), [("d", np.array(4, np.int64)), ("v", f32(0, 1))], {}),
    ("MatMul", (x2, x2.t().contiguous()), (), {}),
    ("Einsum", (x2, x2), (), {"equation": "ij,kj->ik"}),
    ("Gemm", (x2,), [("b", np.ones((5, 8), np.float32)), ("c", f32(1, 2, 3, 4, 5))], {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Conv", (x4,), [("w", np.random.RandomState(0).randn(6, 2, 3, 3).astype(np.float32))], {"group": 2, "pads": [1, 1, 2, 0], "strides": [2, 1]}),
    ("Conv", (x4,), [("w", np.random.RandomState(0).randn(6, 4, 3, 3).astype(np.float32))], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("ConvTranspose", (x4,), [("w", np.random.RandomState(0).randn(4, 3, 2, 2).astype(np.float32))], {"strides": [2, 2]}),
    ("MaxPool", (x4,), (), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("AveragePool", (x4,), (), {"kernel_shape": [3, 3], "pads": [0, 0, 1, 1], "strides": [2, 2]}),
    ("GlobalAveragePool", (x4,), (), {}),
    ("GlobalMaxPool", (x4,), (), {}),
    ("BatchNormalization", (x4,), [(n, v) for n, v in zip("sbmv", np.abs(np.random.RandomState(0).randn(4, 4)).astype(np.float32))], {}),
    ("InstanceNormalization", (x4,), [("s", f32(1, 2, 3, 4)), ("b", f32(1, 2, 3, 4))], {}),
    ("LayerNormalization", (x2,), [("s", np.ones(8, np.float32) * 2), ("b", np.ones(8, np.float32))], {"axis": -1}),
    ("LpNormalization", (x2,), (), {"axis": 1}),
    ("LRN", (x4,), (), {"size": 3}),
    ("Resize", (x4,), [("", None), ("s", f32(1, 1, 2, 2))], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    ("Resize", (x4,), [("", None), ("", None), ("z", i64(1, 4, 12, 12))], {"mode": "linear"}),
    ("Cast", (x2 * 4,), (), {"to": TensorProto.INT32}),
    ("Where", (x2 > 0, x2, -x2), (), {}),
    ("Not", (x2 > 0,), (), {}),
    ("And", (x2 > 0, x2 < 1), (), {}),
    ("IsNaN", (x2,), (), {}),
    ("Shrink", (x2,), (), {"lambd": 0.5, "bias": 0.1}),
    ("Celu", (x2,), (), {"alpha": 2.0}),
    ("QuantizeLinear", (x2,), [("s", np.array(0.1, np.float32)), ("z", np.array(3, np.uint8))], {}),
    ("DequantizeLinear", ((x2 * 5).to(torch.int8),), [("s", np.array(0.1, np.float32)), ("z", np.array(3, np.int8))], {}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "initializers", "attrs"), OPERATORS, ids=[f"{o[0]}-{i}" for i, o in enumerate(OPERATORS)])
def test_operators(op, inputs, initializers, attrs):
    agree(one(op, inputs, initializers=initializers, **attrs), inputs)


def test_several_outputs():
    agree(one("Split", (x2,), 2, initializers=[("s", i64(3, 5))], axis=1), (x2,))
    agree(one("TopK", (x2,), 2, initializers=[("k", i64(3))], axis=1), (x2,))


def test_newer_operators():
    agree(one("Gelu", (x2,), opset=20), (x2,))
    agree(one("ReduceMean", (x4,), initializers=[("a", i64(1))], opset=18), (x4,))
    agree(one("Split", (x2,), 2, axis=1, num_outputs=2, opset=18), (x2,))


def test_initialisers_are_trainable():
    proto = one("Gemm", (x2,), initializers=[("w", np.ones((8, 4), np.float32)), ("b", f32(1, 2, 3, 4))])
    replay = OnnxReplay(proto)
    graph = import_torch(replay, (x2,), training=True, input_names=replay.input_names)
    assert [n.name for n in graph.of(Kind.PARAMETER)] == ["w", "b"]
    assert [n.name for n in graph.of(Kind.INPUT)] == ["x0"]
    Autograd().apply(graph)
    runner = Executor(graph)
    out = runner.forward([x2], keep=True)[0]
    runner.backward([torch.ones_like(out)])
    torch.testing.assert_close(runner.gradients["w"], x2.t() @ torch.ones(3, 4), rtol=1e-5, atol=1e-5)


def test_everything_unsupported_is_named_at_once():
    nodes = [helper.make_node("Loop", ["a"], ["b"], name="loop"), helper.make_node("StringNormalizer", ["b"], ["c"], name="strings")]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [helper.make_tensor_value_info("a", 1, [1])], [helper.make_tensor_value_info("c", 1, [1])])
    )
    with pytest.raises(UnsupportedOperators) as caught:
        OnnxReplay(model)
    assert [name for name, _ in caught.value.found] == ["onnx Loop", "onnx StringNormalizer"]


def test_wrong_models(tmp_path):
    with pytest.raises(GraphError, match="no ONNX file"):
        OnnxReplay(str(tmp_path / "nowhere.onnx"))
    with pytest.raises(GraphError, match="ModelProto"):
        OnnxReplay(3.0)
    with pytest.raises(GraphError, match="opset 9"):
        OnnxReplay(one("Relu", (x2,), opset=9))
    with pytest.raises(GraphError, match="takes 1 inputs"):
        OnnxReplay(one("Relu", (x2,)))(x2, x2)


def test_a_file(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(one("Relu", (x2,)), path)
    assert torch.equal(OnnxReplay(path)(x2), x2.relu())
