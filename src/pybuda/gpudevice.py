"""A GPU in the pipeline: a CPU device whose tensors live on CUDA."""

from __future__ import annotations

from typing import Any

import torch

from pybuda.cpudevice import CPUDevice


class GPUDevice(CPUDevice):
    torch_device = "cuda"
    device = "cuda"

    def __init__(self, name: str, *args: Any, **kwargs: Any) -> None:
        if not torch.cuda.is_available():
            raise RuntimeError(
                f"GPUDevice {name!r} needs a CUDA GPU with its driver and a CUDA build of torch (this one is {torch.__version__}, and it sees no GPU); use a CPUDevice instead"
            )
        super().__init__(name, *args, **kwargs)

    def _check_module(self, module: Any) -> None:
        super()._check_module(module)
        if hasattr(module, "module") and isinstance(module.module, torch.nn.Module):
            module.module.to("cuda")

    def forward(self, inputs: Any, targets: Any, training: bool) -> list[torch.Tensor]:
        return [o.cpu() for o in super().forward(inputs, [t.cuda() for t in targets], training)]

    def backward(self, gradients: Any, zero_grad: bool) -> list[torch.Tensor]:
        return [g.cpu() for g in super().backward([g.cuda() for g in gradients], zero_grad)]
