"""Modules: native ones are written with pybuda.op, those of other frameworks are wrapped. All of them run on a TTDevice."""

import torch

import pybuda
from pybuda import CPUDevice, PyTorchModule, TTDevice


class Native(pybuda.PyBudaModule):
    def __init__(self, name):
        super().__init__(name)
        self.weights = pybuda.Parameter(torch.rand(64, 64), requires_grad=True)

    def forward(self, x):
        return pybuda.op.Gelu("gelu", pybuda.op.Matmul("matmul", x, self.weights))


tt0 = TTDevice("tt0")
mod = Native("native")
tt0.place_module(mod)

# A second module on the same device is fed by the first.
tt0.place_module(PyTorchModule("linear", torch.nn.Linear(64, 64)))

tt0.push_to_inputs(torch.randn(1, 32, 64))
print(pybuda.run_inference().get()[0])

# A CPU runs what PyTorch runs, and nothing native.
try:
    CPUDevice("cpu0").place_module(Native("elsewhere"))
except RuntimeError as error:
    print(error)
