"""ONNX modules in pipelines: inference against onnxruntime, training, and on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import pybuda

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402

W = np.random.RandomState(0).randn(16, 4).astype(np.float32)


def model():
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["y"]),
        helper.make_node("Add", ["y", "bias"], ["z"]),
        helper.make_node("Relu", ["z"], ["out"]),
    ]
    value = lambda name, *shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)  # noqa: E731
    held = [onnx.numpy_helper.from_array(W, "weight"), onnx.numpy_helper.from_array(np.ones(4, np.float32), "bias")]
    return helper.make_model(
        helper.make_graph(nodes, "small", [value("x", 2, 16)], [value("out", 2, 4)], held),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


def reference(x):
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(model().SerializeToString(), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"x": x.numpy()})[0])


@pytest.mark.parametrize("device", [pybuda.TTDevice, pybuda.CPUDevice])
def test_inference(device):
    x = torch.randn(2, 16)
    device("d", module=pybuda.OnnxModule("onnx", model())).push_to_inputs(x)
    torch.testing.assert_close(pybuda.run_inference().get()[0].value(), reference(x), rtol=1e-5, atol=1e-5)


def test_from_a_file(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model(), path)
    x = torch.randn(2, 16)
    module = pybuda.OnnxModule("onnx", None, str(path))
    assert module.input_names == ["x"]
    torch.testing.assert_close(pybuda.run_inference(module, inputs=[{"x": x}]).get()[0].value(), reference(x), rtol=1e-5, atol=1e-5)
    with pytest.raises(RuntimeError, match="ModelProto"):
        pybuda.OnnxModule("nothing", None)


def test_training():
    module = pybuda.OnnxModule("onnx", model())
    assert {p.get_name() for p in module.get_parameters()} == {"weight", "bias"}
    tt0 = pybuda.TTDevice("tt0", module=module, optimizer=pybuda.optimizers.SGD(0.1))
    tt0.place_loss_module(pybuda.PyTorchModule("loss", nn.MSELoss()))
    x, target = torch.randn(2, 16), torch.randn(2, 4)
    tt0.push_to_inputs(x)
    tt0.push_to_target_inputs(target)
    got = pybuda.run_training().get()[0]
    weight, bias = torch.from_numpy(W.copy()).requires_grad_(True), torch.ones(4, requires_grad=True)
    nn.functional.mse_loss(torch.relu(x @ weight + bias), target).backward()
    torch.testing.assert_close(got["weight"].value(), weight.detach() - 0.1 * weight.grad, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(got["bias"].value(), bias.detach() - 0.1 * bias.grad, rtol=1e-5, atol=1e-5)
