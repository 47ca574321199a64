"""Modules, parameters and tensors as objects."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch import nn

import pybuda
from pybuda import DataFormat, Parameter, op
from pybuda.tensor import Tensor, TensorFromTrace, TensorShape


class Inner(pybuda.PyBudaModule):
    def __init__(self, name):
        super().__init__(name)
        self.weights = Parameter(8, 8)

    def forward(self, x):
        return op.Matmul("", x, self.weights)


class Outer(pybuda.PyBudaModule):
    def __init__(self, name):
        super().__init__(name)
        self.scale = Parameter(torch.randn(8))
        self.inner = Inner("anything")
        self.many = [Parameter(torch.ones(8)), Parameter(torch.ones(8))]
        self.table = {"first": Parameter(torch.ones(8))}
        self.layers = [Inner("x"), Inner("y")]

    def forward(self, x):
        return self.inner(x) * self.scale


def test_parameters_are_found_and_named_by_where_they_are():
    names = [p.get_name() for p in Outer("outer").get_parameters()]
    assert names == [
        "outer.scale", "outer.many.0", "outer.many.1", "outer.table.first", "outer.inner.weights", "outer.layers.0.weights", "outer.layers.1.weights",
    ]  # fmt: skip
    assert len(Outer("outer").get_parameters(submodules=False)) == 4


def test_parameters_without_a_value():
    module = Outer("outer")
    with pytest.raises(RuntimeError, match=r"outer\.inner\.weights.*no value"):
        pybuda.run_inference(module, inputs=[torch.randn(2, 8)])
    pybuda.pybuda_reset()
    module._set_device(None)
    module.initialize_parameters()
    assert pybuda.run_inference(module, inputs=[torch.randn(2, 8)]).get()[0].shape == (2, 8)


def test_setting_parameters():
    module = Inner("inner")
    module.set_parameter("weights", torch.eye(8))
    assert torch.equal(module.get_parameter("weights").value(), torch.eye(8))
    module.load_parameter_dict({"weights": torch.ones(8, 8)})
    assert torch.equal(module.weights.value(), torch.ones(8, 8))
    with pytest.raises(RuntimeError, match=r"shape \[8, 8\].*\[4, 4\]"):
        module.set_parameter("weights", torch.eye(4))
    with pytest.raises(RuntimeError, match="no parameter 'bias'"):
        module.get_parameter("bias")


def test_adding_parameters_and_constants():
    module = Inner("inner")
    extra = Parameter(torch.randn(8))
    module.add_parameter("extra", extra, prepend_name=True)
    assert extra.get_name() == "inner.extra"
    with pytest.raises(RuntimeError, match="already has"):
        module.add_parameter("extra", extra)
    module.add_constant("two")
    with pytest.raises(RuntimeError, match="no constant 'two' with a value"):
        module.get_constant("two")
    module.set_constant("two", torch.full((8,), 2.0))
    assert module.get_constant("two").constant
    with pytest.raises(RuntimeError, match="add_constant first"):
        module.set_constant("three", torch.ones(1))


def test_super_must_be_called_first():
    class Early(pybuda.PyBudaModule):
        def __init__(self, name):
            self.weights = Parameter(torch.randn(2))
            super().__init__(name)

    with pytest.raises(RuntimeError, match="super"):
        Early("early")


def test_a_module_needs_a_name(monkeypatch):
    with pytest.raises(RuntimeError, match="name"):
        Inner("")
    monkeypatch.setenv("PYBUDA_GRAPH_NAME_SUFFIX", "ci_")
    assert Inner("inner").get_name() == "ci_inner"


def test_a_torch_module_is_left_as_it_was():
    linear = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
    forward = linear.forward
    module = pybuda.PyTorchModule("linear", linear)
    pybuda.run_inference(module, inputs=[torch.randn(2, 4)]).get()
    assert linear.training
    assert linear[1].training
    assert linear.forward == forward
    assert [p.get_name() for p in module.get_parameters()] == ["0.weight", "0.bias"]
    module.set_parameters(**{"0__weight": torch.eye(4)})
    assert torch.equal(linear[0].weight, torch.eye(4))
    with pytest.raises(RuntimeError, match="no parameter 'weight'"):
        module.set_parameters(weight=torch.eye(4))


def test_inference_drops_nothing_even_from_a_module_in_training_mode():
    linear = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.9)).train()
    x = torch.randn(2, 4)
    out = pybuda.run_inference(pybuda.PyTorchModule("linear", linear), inputs=[x]).get()[0].value()
    torch.testing.assert_close(out, linear[0](x), rtol=1e-5, atol=1e-5)


def test_outputs_of_a_torch_module_in_any_nesting():
    class Many(nn.Module):
        def forward(self, x, pair):
            return {"a": x + pair[0], "b": (x * pair[1], [x])}

    x, y, z = (torch.randn(2, 4) for _ in range(3))
    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("many", Many()))
    tt0.push_to_inputs(x, (y, z))
    a, b, c = (t.value() for t in pybuda.run_inference().get())
    torch.testing.assert_close(a, x + y)
    torch.testing.assert_close(b, x * z)
    torch.testing.assert_close(c, x)


def test_tensor():
    value = torch.randn(2, 3, 40)
    tensor = Tensor.create_from_torch(value)
    assert tensor.has_value()
    assert tensor.to_pytorch() is value
    assert tensor.shape == (2, 3, 40)
    assert (tensor.shape.c, tensor.shape.r, tensor.shape.z, tensor.shape.w, tensor.shape.rt, tensor.shape.ct) == (40, 3, 2, 1, 1, 2)
    assert tensor.shape.get_pytorch_shape() == (2, 3, 40)
    assert (tensor.data_format, tensor.pt_data_format) == (DataFormat.Float32, torch.float32)
    assert tensor.to_format(DataFormat.Float16_b).value().dtype is torch.bfloat16
    assert tensor.clone().value() is not value
    assert torch.equal((tensor + 1.0).value(), value + 1)
    assert torch.equal((2.0 - tensor).value(), 2 - value)
    tensor.set_requires_grad(True)
    assert tensor.requires_grad
    assert not tensor.detach().value().requires_grad
    traced = Tensor.create_from_trace(None, (2, 2), DataFormat.Float16_b)
    assert isinstance(traced, TensorFromTrace)
    assert not traced.has_value()
    with pytest.raises(RuntimeError, match="no value yet"):
        traced.value()


@pytest.mark.parametrize(
    ("dtype", "fmt"),
    [
        (torch.float32, DataFormat.Float32), (torch.float16, DataFormat.Float16), (torch.bfloat16, DataFormat.Float16_b), (torch.int8, DataFormat.Int8),
        (torch.int32, DataFormat.Int32), (torch.int64, DataFormat.Int32), (torch.bool, DataFormat.Bfp2_b),
    ],
)  # fmt: skip
def test_formats_of_dtypes(dtype, fmt):
    assert Tensor.create_from_torch(torch.zeros(2, dtype=dtype)).data_format is fmt


def test_values_of_other_kinds_can_be_pushed():
    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("add", nn.Identity()))
    tt0.push_to_inputs(np.ones((2, 3), np.float32))
    assert torch.equal(pybuda.run_inference().get()[0].value(), torch.ones(2, 3))
    tt0.push_to_inputs(Tensor.create_from_torch(torch.zeros(2, 3)))
    assert torch.equal(pybuda.run_inference().get()[0].value(), torch.zeros(2, 3))
    with pytest.raises(RuntimeError, match="cannot go into a device"):
        tt0.push_to_inputs("text")


def test_parameter():
    parameter = Parameter(4, 8, name="p", dev_data_format=DataFormat.Bfp8_b)
    assert parameter.shape == TensorShape(4, 8)
    assert parameter.data_format is DataFormat.Bfp8_b
    with pytest.raises(RuntimeError, match="no value"):
        parameter.value()
    parameter.set_value(torch.ones(4, 8))
    parameter.set_requires_grad(False)
    assert not parameter.requires_grad
    assert Parameter.create_from_torch(torch.ones(2)).get_name() == ""


def test_a_parameters_format_is_applied():
    class Narrow(pybuda.PyBudaModule):
        def __init__(self, name):
            super().__init__(name)
            self.weights = Parameter(torch.randn(32, 32), dev_data_format=DataFormat.Bfp4_b)

        def forward(self, x):
            return op.Matmul("mm", x, self.weights)

    module, x = Narrow("narrow"), torch.randn(1, 32)
    got = pybuda.run_inference(module, inputs=[x]).get()[0].value()
    on_grid = module.weights.value()
    from tessera.graph.formats import quantize

    torch.testing.assert_close(got, x @ quantize(on_grid, DataFormat.Bfp4_b).float(), rtol=1e-5, atol=1e-5)


def test_import_brings_no_other_framework():
    import subprocess

    code = (
        "import sys, pybuda; print([m for m in ('onnx', 'onnxruntime', 'tensorflow', 'jax', 'transformers', 'ttnn') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
