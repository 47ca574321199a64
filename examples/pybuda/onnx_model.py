"""ONNX: a model from a file or from memory, run like any other. Needs the `onnx` extra."""

import numpy as np
import onnx
import torch
from onnx import helper

import pybuda

weight = onnx.numpy_helper.from_array(np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32), "weight")
nodes = [helper.make_node("MatMul", ["x", "weight"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
value = lambda name, *shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)  # noqa: E731
graph = helper.make_graph(nodes, "small", [value("x", 2, 16)], [value("z", 2, 4)], [weight])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])

x = torch.randn(2, 16)
output = pybuda.run_inference(pybuda.OnnxModule("small", model), inputs=[x]).get()[0].value()
print(output)
assert torch.allclose(output, torch.relu(x @ torch.tensor(onnx.numpy_helper.to_array(weight))), atol=1e-5)
