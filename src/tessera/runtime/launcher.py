"""What the fast way through an operation is made of: in C++ where the native part was built, in Python otherwise.

`Gate` is what a device lets through: its remembered calls and its counters. `Plan` is a remembered call. `Owner` is the base of buffers, which gives
room back when nobody holds it. `Caller` is the base of public operations: it makes the key of a call and runs the plan that it finds;
`_missed(key, device, args, kwargs)` is called where there is none, `_watched(args, kwargs)` while anyone observes.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from tessera.native import MODULE

if TYPE_CHECKING:
    from tessera.runtime.device import Device

__all__ = ["VALUE_TYPES", "Caller", "Gate", "Owner", "Plan", "recording_begins", "recording_ends"]

#: Argument types whose equality is enough to know that a call is the same call, beside numbers, strings and None.
VALUE_TYPES: set[type] = set()
_PLAIN = {int, float, bool, str, type(None)}


class PlainGate:
    """Remembered calls, known pages of specs, how often each device operation ran."""

    __slots__ = ("alive", "operations", "plans", "ready", "seconds")

    def __init__(self, plans: dict[Any, Any], bank_plans: dict[Any, Any], operations: dict[str, int]) -> None:
        self.plans = plans
        self.operations = operations
        self.ready = False
        self.alive = 0
        self.seconds = 0.0


class PlainPlan:
    """A whole call that is known to be one launch: what to compute on which arguments, and the spec of what comes out."""

    __slots__ = ("attributes", "compute", "inputs", "name", "spec")

    def __init__(
        self, name: str, compute: Any, attributes: dict[str, Any], inputs: tuple[int | str, ...], spec: Any, direct: Any, images: Any
    ) -> None:
        self.name, self.compute, self.attributes, self.inputs, self.spec = name, compute, attributes, inputs, spec

    def run(self, device: Device, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result, or None where the call must go the long way."""
        from tessera.runtime.launch import operands, recording, rounded
        from tessera.runtime.tensor import Tensor

        tensors = []
        for place in self.inputs:
            tensor = args[place] if isinstance(place, int) else kwargs[place]
            if tensor.buffer.device is not device or not tensor.buffer.allocated:
                return None
            tensors.append(tensor)
        values = operands(self.compute, tensors, 0)
        if recording.launches is not None:
            recording.launches.append(None)
        started = perf_counter()
        buffer = device.new_buffer(self.spec)
        buffer.values[0] = rounded(self.compute(*values, **self.attributes), self.spec)
        device.count(self.name, perf_counter() - started)
        return Tensor.of(self.spec, buffer, None)


class PlainOwner:
    """A buffer that was never freed gives its room back at its end."""

    __slots__ = ()

    def __del__(self) -> None:
        allocation = getattr(self, "allocation", None)
        if allocation is not None and self.allocated and self.device is not None:  # type: ignore[attr-defined]
            self.device.release(self, allocation)  # type: ignore[attr-defined]


def _value_key(value: Any) -> tuple[Any, ...] | None:
    """The part of a key that stands for one argument; None for what cannot be compared."""
    kind = value.__class__
    if kind in _PLAIN:
        return kind, value if value or kind is not float else repr(value)  # 0.0 and -0.0 are equal and are not the same call
    if kind is tuple or kind is list:
        return (kind, tuple(value)) if all(item.__class__ in _PLAIN for item in value) else None
    return (value,) if kind in VALUE_TYPES else None


class PlainCaller:
    """A public operation in Python."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from tessera.runtime.observers import OBSERVERS

        if OBSERVERS:
            return self._watched(args, kwargs)  # type: ignore[attr-defined]
        return self._unwatched(*args, **kwargs)

    def _unwatched(self, *args: Any, **kwargs: Any) -> Any:
        """The call itself, whoever watches."""
        from tessera.runtime.tensor import Tensor

        device, key = None, [self]
        for word, value in [*((None, v) for v in args), *kwargs.items()]:
            part = (value.spec,) if value.__class__ is Tensor else _value_key(value)
            if part is None:
                return self._missed(None, None, args, kwargs)  # type: ignore[attr-defined]
            if value.__class__ is Tensor and device is None:
                device = value.buffer.device
            key.extend(part if word is None else (word, *part))  # type: ignore[arg-type]
        if device is None:
            return self._missed(None, None, args, kwargs)  # type: ignore[attr-defined]
        frozen = tuple(key)
        plan = device.gate.plans.get(frozen) if device.gate.ready else None
        result = plan.run(device, args, kwargs) if plan is not None else None
        return result if result is not None else self._missed(frozen, device, args, kwargs)  # type: ignore[attr-defined]


Gate: Any = PlainGate if MODULE is None else MODULE.Gate
Plan: Any = PlainPlan if MODULE is None else MODULE.Plan
if TYPE_CHECKING:
    Caller, Owner = PlainCaller, PlainOwner
else:
    Caller = PlainCaller if MODULE is None else MODULE.Caller
    Owner = PlainOwner if MODULE is None else MODULE.Owner


def recording_begins() -> None:
    if MODULE is not None:
        MODULE.recording(1)


def recording_ends() -> None:
    if MODULE is not None:
        MODULE.recording(-1)


def equip() -> None:
    """Tell the native launcher the classes and objects it works with. Called once, when operations are declared."""
    if MODULE is None:
        return
    import torch

    from tessera.memory.allocator import Allocation
    from tessera.runtime import buffer, tensor
    from tessera.runtime.launch import operand, recording, rounded
    from tessera.runtime.observers import OBSERVERS

    MODULE.equip(
        tensor=tensor.Tensor,
        buffer=buffer.Buffer,
        allocation=Allocation,
        observers=OBSERVERS,
        value_types=VALUE_TYPES,
        recording=recording,
        tensor_ids=tensor._ids,
        buffer_ids=buffer._ids,
        empty_like=torch.empty_like,
        rounded=rounded,
        threads=torch.get_num_threads,
        operand=operand,
    )
