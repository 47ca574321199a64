"""Saving and loading: checkpoints at an interval, by hand, to a file, and back onto the device."""

import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

import pybuda

tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("net", nn.Linear(16, 4)), optimizer=pybuda.optimizers.AdamW(learning_rate=0.01))
tt0.place_loss_module(pybuda.PyTorchModule("loss", nn.MSELoss()))
for _ in range(6):
    tt0.push_to_inputs(torch.randn(8, 16))
    tt0.push_to_target_inputs(torch.randn(8, 4))

# Every second optimizer step; the last one is always there.
checkpoint_queue = pybuda.run_training(steps=6, checkpoint_interval=2)
saved = [checkpoint_queue.get() for _ in range(3)]
print([sorted(device) for checkpoint in saved for device in checkpoint])

# By hand, and to a file.
now = pybuda.get_parameter_checkpoint(tt0)[0]
with tempfile.TemporaryDirectory() as directory:
    path = Path(directory) / "net.safetensors"
    save_file({name: tensor.value() for name, tensor in now.items()}, path)
    earlier = load_file(path)

# Onto the device again: first something else, then what was saved.
pybuda.update_device_parameters(tt0, parameters=[{"weight": torch.zeros(4, 16)}])
assert pybuda.get_parameter_checkpoint(tt0)[0]["weight"].value().abs().max() == 0
pybuda.update_device_parameters(tt0, parameters=[earlier])
assert torch.equal(pybuda.get_parameter_checkpoint(tt0)[0]["weight"].value(), now["weight"].value())
