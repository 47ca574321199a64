"""Results: outputs come through a queue as PyBuda tensors; gradients are read back from the device."""

import queue

import torch

import pybuda


class PyBudaTestModule(pybuda.PyBudaModule):
    def __init__(self, name):
        super().__init__(name)
        self.weights1 = pybuda.Parameter(torch.rand(32, 32), requires_grad=True)
        self.weights2 = pybuda.Parameter(torch.rand(32, 32), requires_grad=True)

    def forward(self, act1, act2):
        m1 = pybuda.op.Matmul("matmul1", act1, self.weights1)
        m2 = pybuda.op.Matmul("matmul2", act2, self.weights2)
        return pybuda.op.Add("sum", m1, m2), pybuda.op.Multiply("product", m1, m2)


input1, input2 = torch.rand(4, 32, 32), torch.rand(4, 32, 32)

output_q = pybuda.run_inference(PyBudaTestModule("run_direct"), inputs=[(input1, input2)])
output = output_q.get()
print(len(output), output[0].shape)

# Back to the framework of one's choice. Indexing looks at a result without taking it out of the queue.
print(type(output_q[0].to_framework("pytorch")), type(output[1].to_pytorch()))
try:
    print(type(output_q[0].to_framework("tensorflow")))
except RuntimeError as error:
    print(error)

# A queue of one's own.
mine = queue.Queue()
pybuda.pybuda_reset()
pybuda.run_inference(PyBudaTestModule("own_queue"), inputs=[(input1, input2)], output_queue=mine)
print(mine.get()[1].shape)

# Gradients, accumulated on the device so far.
pybuda.pybuda_reset()
tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("linear", torch.nn.Linear(32, 8)))
tt0.place_loss_module(pybuda.PyTorchModule("loss", torch.nn.L1Loss()))
tt0.push_to_inputs(torch.rand(4, 32))
tt0.push_to_target_inputs(torch.rand(4, 8))
pybuda.initialize_pipeline(training=True)
pybuda.run_forward()
pybuda.run_backward(zero_grad=True)
for name, gradient in pybuda.get_parameter_gradients(tt0)[0].items():
    print(name, gradient.shape)
