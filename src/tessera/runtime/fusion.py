"""Chains: steps of a trace that follow each other elementwise over tensors of one shape, run as one program over blocks.

A step can be part of a chain if the kernel it would call by itself is known (`engine.native.direct`): the chain calls the same kernel, on pieces that
stay in the cache, so that its results are the same bits. What the trace made and nobody outside holds or reads later never reaches memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from tessera.engine.native.direct import direct_of, table_of
from tessera.formats.dtype import DataType
from tessera.native import MODULE, threads

if TYPE_CHECKING:
    from tessera.runtime.buffer import Buffer
    from tessera.runtime.device import Device
    from tessera.runtime.trace import Place, Step

_KINDS = {"unary": 0, "binary": 1, "scalar": 2, "table": 4}
_REFLECTED = 3


def kernel_of(step: Step) -> tuple[Any, ...] | None:
    """The kernel that a step calls on bfloat16 operands of its output's shape, if it does nothing else."""
    launch = step.launch
    if launch.across or launch.mutates or len(step.outputs) != 1:
        return None
    views = (*step.inputs, *step.outputs)
    if any(spec.dtype is not DataType.BFLOAT16 or place.parts != 1 or spec.volume != place.spec.volume for place, spec, _ in views):
        return None
    dims = step.outputs[0][1].dims
    shapes = [spec.dims for _, spec, _ in step.inputs]
    found = direct_of(launch.compute, shapes, dims, launch.attributes)
    if found is None:
        found = table_of(launch.compute, shapes, dims, launch.attributes)
    return found if found is not None and found[0] in _KINDS else None


class Chain:
    """Consecutive steps as one program. Registers are the inputs from outside, then what each step writes."""

    def __init__(self, steps: Sequence[Step], kernels: Sequence[tuple[Any, ...]]) -> None:
        self.steps = tuple(steps)
        self.dims = steps[0].outputs[0][1].dims
        self.volume = steps[0].outputs[0][1].volume
        self.inputs: list[Place] = []
        holds: dict[int, int] = {}  # place -> the register with its content
        written: set[int] = set()
        for step in steps:
            for place, _, _ in step.inputs:
                if id(place) not in written and id(place) not in holds:
                    holds[id(place)] = len(self.inputs)
                    self.inputs.append(place)
            written.add(id(step.outputs[0][0]))
        rows, register = [], len(self.inputs)
        self.tables: list[torch.Tensor] = []
        which: Any
        for step, (kind, _, which, *rest) in zip(steps, kernels):
            a = holds[id(step.inputs[0][0])]
            b = holds[id(step.inputs[1][0])] if len(step.inputs) > 1 else 0
            number, reflected = (rest[0], rest[1]) if kind == "scalar" else (0.0, False)
            address = 0
            if kind == "table":
                self.tables.append(which)
                which, address = 0, which.data_ptr()
            rows.append((_REFLECTED if reflected else _KINDS[kind], which, a, b, register, number, address))
            holds[id(step.outputs[0][0])] = register
            register += 1
        #: Places that steps write, with the register that holds their content in the end.
        self.outputs = {id(step.outputs[0][0]): (step.outputs[0][0], holds[id(step.outputs[0][0])]) for step in steps}
        self.registers = register
        self.program = MODULE.Chain(rows, register, len(self.inputs)) if MODULE is not None else None
        ends = {id(place) for step in steps for place in step.last_uses}
        self.inner = {key for key, (place, _) in self.outputs.items() if place.made_here and key in ends}
        """Written and read only here: kept in the cache unless a tensor outside still shows it."""

    def run(self, buffers: dict[int, Buffer], device: Device) -> None:
        started = perf_counter()
        memory = [0] * self.registers
        kept = []  # inputs must live until the end
        for index, place in enumerate(self.inputs):
            values = buffers[id(place)].part(0)
            kept.append(values)
            memory[index] = values.data_ptr()
        results = []
        for key, (place, register) in self.outputs.items():
            if key in self.inner and not place.is_alive:
                continue
            out = torch.empty(place.spec.dims, dtype=torch.bfloat16)
            memory[register] = out.data_ptr()
            results.append((buffers[key], out))
        assert self.program is not None
        self.program.run(memory, self.volume, threads())
        for buffer, out in results:
            buffer.replace(0, out)
        share = (perf_counter() - started) / len(self.steps)
        for step in self.steps:
            device.count(step.launch.name, share)


def fused(steps: Sequence[Step]) -> tuple[Step | Chain, ...]:
    """The steps with every run of two or more that can be a chain made one."""
    if MODULE is None:
        return tuple(steps)
    found: list[Step | Chain] = []
    group: list[tuple[Step, tuple[Any, ...]]] = []

    def close() -> None:
        if len(group) > 1:
            found.append(Chain([step for step, _ in group], [kernel for _, kernel in group]))
        else:
            found.extend(step for step, _ in group)
        group.clear()

    for step in steps:
        kernel = kernel_of(step)
        if kernel is None or (group and group[0][0].outputs[0][1].dims != step.outputs[0][1].dims):
            close()
        if kernel is None:
            found.append(step)
        else:
            group.append((step, kernel))
    close()
    return tuple(found)
