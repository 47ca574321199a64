"""Pipelines for the transformers library: not built yet."""

from typing import Any


def pipeline(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("pybuda.transformers.pipeline is not built yet; wrap the model in pybuda.PyTorchModule")
