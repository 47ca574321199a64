"""Copies to some cores only: the pages that lie on the cores of a set, found as the allocator deals them."""

from __future__ import annotations

from typing import Any

import torch

from tessera.formats.packing import unpack
from tessera.memory.geometry import CoreCoord, CoreRangeSet
from tessera.memory.layout import bank_plan, pages
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import require


@operation("ttnn.copy_host_to_device_tensor_partial", planned=False)
def copy_host_to_device_tensor_partial(
    host_tensor: Tensor, device_tensor: Tensor, logical_core_filter: CoreRangeSet, cq_id: Any = None
) -> None:
    """Write what lies on the cores of `logical_core_filter`; the rest of the device tensor stays as it is."""
    what = "copy_host_to_device_tensor_partial"
    device, spec = device_tensor.buffer.device, device_tensor.spec
    require(host_tensor.buffer.device is None, f"{what}: host_tensor must be on the host")
    require(device is not None, f"{what}: device_tensor must be on a device")
    assert device is not None
    device.require_open(what)
    require(device.trace is None, f"Writes are not supported during trace capture. {what} was called while capturing")
    require(spec.is_sharded, f"{what}: device_tensor must be sharded, so that cores hold parts of it; got {spec.memory_config}")
    for word in ("shape", "dtype", "layout"):
        mine, theirs = getattr(host_tensor.spec, word), getattr(spec, word)
        require(mine == theirs, f"{what}: Host tensor has different {word}: {mine} on the host, {theirs} on the device")
    plan = bank_plan(spec, device.board)
    chosen = torch.tensor(
        [p.page for p in pages(spec, plan, device.board) if logical_core_filter.contains(CoreCoord(*p.core))], dtype=torch.int64
    )
    for index in range(len(device_tensor.buffer.values)):
        whole = device_tensor.buffer.image(index).clone()
        given = Tensor.on_host(spec, [host_tensor.part(index)]).buffer.image()
        whole.view(-1, spec.page_size)[chosen] = given.view(-1, spec.page_size)[chosen]
        device_tensor.put(index, unpack(whole, spec))
