"""Intermediates: name the operations to look into, and their values come through a queue of their own."""

import torch

import pybuda


class PyBudaTestModule(pybuda.PyBudaModule):
    def __init__(self, name):
        super().__init__(name)
        self.weights1 = pybuda.Parameter(torch.rand(32, 32), requires_grad=True)
        self.weights2 = pybuda.Parameter(torch.rand(32, 32), requires_grad=True)

    def forward(self, x):
        matmul1 = pybuda.op.Matmul("matmul1", x, self.weights1)
        matmul1_gelu = pybuda.op.Gelu("gelu", matmul1)
        matmul2 = pybuda.op.Matmul("matmul2", matmul1_gelu, self.weights2)
        return matmul2


pybuda.set_configuration_options(op_intermediates_to_save=["matmul1", "gelu"])
output_q = pybuda.run_inference(PyBudaTestModule("test_module"), inputs=[torch.randn(1, 32, 32)])
output_q.get()
matmul1_tensor, gelu_tensor = pybuda.get_intermediates_queue().get()
print(matmul1_tensor.shape, gelu_tensor.shape)
assert torch.allclose(gelu_tensor.value(), torch.nn.functional.gelu(matmul1_tensor.value()), atol=1e-5)
