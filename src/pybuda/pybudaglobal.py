"""What belongs to the process rather than to a device: the pipeline's order, and starting over."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from pybuda.device import Device
from pybuda.pipeline.context import context

TILE_DIM = 32
TILE_HEIGHT = 32
TILE_WIDTH = 32


def pybuda_reset() -> None:
    """Forget devices, configuration and errors, as if the process had just started."""
    from pybuda.config import _clear_global_compiler_config

    pipeline = context()
    pipeline.stop()
    for device in pipeline.devices:
        for module in device.modules:
            module._set_device(None)
        device.modules = []
    pipeline.devices = []
    pipeline.finished = False
    pipeline.training = False
    _clear_global_compiler_config()
    random.seed(0)


def set_device_pipeline(devices: Sequence[Device]) -> None:
    """Connect the devices in this order; those left out take no part."""
    for device in devices:
        if not isinstance(device, Device):
            raise RuntimeError(f"set_device_pipeline takes devices, not a {type(device).__name__}")
    pipeline = context()
    if pipeline.compiled:
        pipeline.stop()
    pipeline.devices = list(devices)


def get_devices() -> list[Device]:
    return list(context().devices)


def is_silicon() -> bool:
    """Never: this is a software device."""
    return False


def get_tenstorrent_device() -> Any:
    """The first Tenstorrent device of the pipeline, or None."""
    return next((d for d in context().devices if d.is_tt), None)


def lazy_trace_data(*_: Any, **__: Any) -> None:
    """A debugging hook of the original; nothing is traced."""
