"""`torch.compile(model, backend=pybuda.compile_torch)`: not built yet."""

from __future__ import annotations

from typing import Any


def compile_torch(module: Any, sample_inputs: Any, *_: Any, **__: Any) -> Any:
    raise NotImplementedError(
        "compile_torch: the torch.compile backend is not built yet; wrap the module in pybuda.PyTorchModule and run it"
    )
