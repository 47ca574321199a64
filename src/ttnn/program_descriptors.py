"""What is said about descriptions of programs without running one: their parts joined, and circular buffers laid over sharded tensors.

The kernels themselves need a card; programs that compute descriptors, addresses and core ranges on the host find them here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tessera.formats.arguments import expect
from tessera.memory.geometry import CoreRangeSet
from tessera.runtime.tensor import Tensor
from ttnn import descriptors

__all__ = ["cb_descriptor_from_sharded_tensor", "get_cb_address", "merge_program_descriptors"]

_Program: Any = descriptors._MADE["ProgramDescriptor"]
_CircularBuffer: Any = descriptors._MADE["CBDescriptor"]
_Format: Any = descriptors._MADE["CBFormatDescriptor"]
_TileShape: Any = descriptors._MADE["TileDescriptor"]


def merge_program_descriptors(descriptors: Sequence[Any]) -> Any:
    """One description with the kernels, semaphores and circular buffers of all; no two of them may have a kernel on the same core."""
    for program in descriptors:
        expect("merge_program_descriptors", "descriptors", program, _Program)
    cores = [[box for each in program.kernels for box in each.core_ranges.ranges()] for program in descriptors]
    for first in range(len(cores)):
        for second in range(first + 1, len(cores)):
            if any(a.overlap(b) for a in cores[first] for b in cores[second]):
                raise RuntimeError(
                    f"merge_program_descriptors: overlapping kernel core ranges between descriptor {first} and {second}; "
                    "each descriptor must have cores of its own"
                )
    return _Program(*([part for program in descriptors for part in getattr(program, name)] for name in ("kernels", "semaphores", "cbs")))


def cb_descriptor_from_sharded_tensor(
    cb_index: int, tensor: Tensor, address_offset: int = 0, total_size: int = 0, core_ranges: CoreRangeSet | None = None
) -> Any:
    """A circular buffer in the memory of a sharded tensor: all of what each core holds unless offset and size say less."""
    spec, allocation = tensor.spec, tensor.buffer.allocation
    shard = spec.memory_config.shard_spec
    if allocation is None or shard is None:
        raise RuntimeError(
            f"cb_descriptor_from_sharded_tensor: Tensor must be sharded to automatically create a CBDescriptor; got one in {spec.memory_config}"
        )
    size = total_size or allocation.size
    if address_offset + total_size > allocation.size:
        raise RuntimeError(
            f"cb_descriptor_from_sharded_tensor: Address offset + total size exceeds buffer size: {address_offset} + {total_size} > {allocation.size}"
        )
    tile = spec.tile
    shape = _TileShape(tile.height, tile.width, tile.transposed)
    form = _Format(cb_index, spec.dtype, allocation.page_size, shape)
    made = _CircularBuffer(size, shard.grid if core_ranges is None else core_ranges, [form], address_offset=address_offset)
    made.lie_over(tensor)
    return made


def get_cb_address(descriptor: Any) -> int:
    """The L1 address of a circular buffer: its offset, from the start of its tensor if it lies over one."""
    expect("get_cb_address", "descriptor", descriptor, _CircularBuffer)
    return int((descriptor.buffer_address() or 0) + descriptor.address_offset)
