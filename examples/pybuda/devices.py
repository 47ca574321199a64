"""Devices: each is created with a name, and they form a pipeline in the order of their creation."""

import torch
from torch import nn

import pybuda
from pybuda import CPUDevice, TTDevice

tt0 = TTDevice("tt0")
cpu0 = CPUDevice("cpu0")

tt0.place_module(pybuda.PyTorchModule("body", nn.Sequential(nn.Linear(64, 64), nn.ReLU())))
cpu0.place_module(pybuda.PyTorchModule("head", nn.Linear(64, 10)))

# What tt0 computes goes to cpu0, and what cpu0 computes comes out.
tt0.push_to_inputs(torch.randn(4, 64))
print(pybuda.run_inference().get()[0].shape)

# Several chips behind one device: chosen by number, or by id.
print(pybuda.detect_available_devices())
pybuda.pybuda_reset()
print(TTDevice("first_three", num_chips=3).chip_ids)
print(TTDevice("all_but_1", chip_ids=[0, 2, 3]).chip_ids)
print(TTDevice("everything", num_chips=0).chip_ids)
