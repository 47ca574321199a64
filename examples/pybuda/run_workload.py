"""Run Workload: all in one call, in a pipeline that was compiled before, and as a training loop written by hand."""

import threading

import torch
from torch import nn

import pybuda

# Feeding and running go on side by side: one set of inputs is enough to start.
tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("sum", nn.Bilinear(32, 32, 8)))
input0, input1 = torch.randn(4, 32), torch.randn(4, 32)
tt0.push_to_inputs((input0, input1))
output_q = pybuda.run_inference(input_count=3)
feeder = threading.Thread(target=lambda: [tt0.push_to_inputs((torch.randn(4, 32), torch.randn(4, 32))) for _ in range(2)])
feeder.start()
print([output_q.get()[0].shape for _ in range(3)])
feeder.join()

# Compiling and running in separate steps.
pybuda.pybuda_reset()
tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("linear", nn.Linear(32, 8)))
output_q = pybuda.initialize_pipeline(training=False, sample_inputs=(torch.randn(4, 32),))
tt0.push_to_inputs(torch.randn(4, 32))
pybuda.run_forward(input_count=1)
print(output_q.get()[0].shape)

# A training loop by hand: forward, backward, and the optimizer when enough gradients have come together.
pybuda.pybuda_reset()
tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("linear", nn.Linear(32, 8)), optimizer=pybuda.optimizers.SGD(learning_rate=0.1))
tt0.place_loss_module(pybuda.PyTorchModule("loss", nn.MSELoss()))
x, target = torch.randn(4, 32), torch.randn(4, 8)
for _ in range(4):
    tt0.push_to_inputs(x)
    tt0.push_to_target_inputs(target)
checkpoints = pybuda.initialize_pipeline(training=True)
for _step in range(2):
    for acc_step in range(2):
        pybuda.run_forward(input_count=1)
        pybuda.run_backward(input_count=1, zero_grad=(acc_step == 0))

    pybuda.run_optimizer(checkpoint=True)
print([sorted(checkpoints.get()[0]) for _ in range(2)])
loss_q = pybuda.get_loss_queue()
losses = [loss_q.get()[0] for _ in range(4)]
print(losses)
assert losses[-1] < losses[0]
