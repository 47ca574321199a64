"""What every device of a pipeline has: a name, modules, a loss, and queues for inputs and targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from pybuda._C.backend_api import BackendType
from pybuda.module import Module
from pybuda.pipeline.context import context
from pybuda.pipeline.queues import Channel
from pybuda.tensor import pytorch_dtype_to_buda_dataformat, to_pt_tensor, to_pt_tensors


class Pending:
    """One set of inputs: their leaves for running, their structure for the first compilation."""

    __slots__ = ("leaves", "names", "structure")

    def __init__(self, leaves: tuple[torch.Tensor, ...], structure: Any = None, names: tuple[str, ...] = ()) -> None:
        self.leaves, self.structure, self.names = leaves, structure, names


def as_torch(value: Any) -> Any:
    """The same nesting with torch tensors as leaves."""
    if value is None or isinstance(value, torch.Tensor):
        return value
    if isinstance(value, Mapping):
        return {k: as_torch(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(as_torch(v) for v in value)
    return to_pt_tensor(value)


class Device:
    is_tt = False
    devtype = BackendType.Silicon

    def __init__(self, name: str, mp_context: Any = None) -> None:
        self.name: str = name
        pipeline = context()
        if pipeline.finished:
            pipeline.devices = []
            pipeline.finished = False
        if any(d.name == name for d in pipeline.devices):
            raise RuntimeError(
                f"there is already a device {name!r} in the pipeline; give this one another name, or call pybuda.pybuda_reset() first"
            )
        if pipeline.compiled:
            pipeline.stop()
        self.modules: list[Module] = []
        self.loss_module: Module | None = None
        self.inputs = Channel()
        self.targets = Channel()
        self.sample: Pending | None = None
        self.target_sample: tuple[torch.Tensor, ...] | None = None
        self._compiled = False
        pipeline.devices.append(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.name!r}"

    # placing ----------------------------------------------------------------------------------------------------------

    def place_module(self, module: Module | Sequence[Module]) -> None:
        new: list[Any] = list(module) if isinstance(module, (list, tuple)) else [module]
        for one in new:
            if not isinstance(one, Module):
                raise RuntimeError(
                    f"{self!r}: a {type(one).__name__} cannot be placed; wrap it first, a torch.nn.Module as pybuda.PyTorchModule(name, module)"
                )
            if one.get_device() is not None:
                raise RuntimeError(f"module {one.name!r} is already placed on {one.get_device()!r}; call remove_modules() there first")
            if any(one.name == other.name for other in [*self.modules, *(o for o in new if o is not one)]):
                raise RuntimeError(f"Module names should be unique for each module on device: {one.name!r} is there twice")
            self._check_module(one)
        for one in new:
            one._set_device(self)
            self.modules.append(one)
        self._changed()

    def _check_module(self, module: Module) -> None:
        """Refuse what this kind of device cannot run."""

    def place_loss_module(self, module: Module) -> None:
        if not isinstance(module, Module):
            raise RuntimeError(f"{self!r}: a loss is placed as a module; wrap it as pybuda.PyTorchModule(name, loss)")
        if self.loss_module is not None:
            raise RuntimeError(f"{self!r} already has the loss {self.loss_module.name!r}; call remove_loss_module() first")
        self._check_module(module)
        self.loss_module = module
        self._changed()

    def remove_loss_module(self) -> Module | None:
        module, self.loss_module = self.loss_module, None
        self._changed()
        return module

    def remove_modules(self) -> list[Module]:
        gone, self.modules = self.modules, []
        for module in gone:
            module._set_device(None)
        self.sample = None
        self.inputs.clear()
        self._changed()
        return gone

    def _changed(self) -> None:
        """Placement decides the graph: whatever was compiled is no longer valid."""
        pipeline = context()
        if pipeline.compiled and self in pipeline.devices:
            pipeline.stop()
        self._compiled = False

    # feeding ----------------------------------------------------------------------------------------------------------

    def push_to_inputs(self, *tensors: Any) -> None:
        """One set of inputs: tensors, one tuple or list of them, or a dict by the names of forward's arguments."""
        context().check()
        if not self.modules and self.loss_module is None:
            raise RuntimeError(f"{self!r} has no module yet; place_module first, then push inputs")
        value: Any = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list, Mapping)) else tensors
        sample = self.sample
        if isinstance(value, Mapping) or (hasattr(value, "data") and isinstance(getattr(value, "data", None), Mapping)):
            named = dict(value.items())
            if sample is not None and sample.names and set(sample.names) == set(named):
                named = {n: named[n] for n in sample.names}
            item = Pending(
                tuple(t for t in to_pt_tensors(named) if t is not None), as_torch(named) if sample is None else None, tuple(named)
            )
            if sample is None and self.modules:
                self.modules[0].input_names = list(named)
        else:
            leaves = value if all(type(t) is torch.Tensor for t in value) else [t for t in to_pt_tensors(value) if t is not None]
            item = Pending(tuple(leaves), as_torch(value) if sample is None else None)
        if not item.leaves:
            raise RuntimeError(f"{self!r}: push_to_inputs needs at least one tensor")
        if sample is None:
            for leaf in item.leaves:
                pytorch_dtype_to_buda_dataformat(leaf.dtype)  # refuses what no chip holds
            self.sample = item
        else:
            self._check_shapes(sample.leaves, item.leaves)
        self.inputs.put(item)

    def _check_shapes(self, first: Sequence[torch.Tensor], now: Sequence[torch.Tensor]) -> None:
        if len(first) != len(now):
            raise RuntimeError(f"{self!r}: the first push had {len(first)} tensors, this one has {len(now)}")
        for position, (a, b) in enumerate(zip(first, now)):
            if a.shape == b.shape:
                continue
            if a.dim() and b.dim() and a.shape[0] != b.shape[0]:
                raise RuntimeError(
                    f"Batch size mismatch between first input and current input: input {position} of {self.name} has batch {b.shape[0]}, the first had {a.shape[0]};"
                    " a graph is compiled for one batch size, so pad the batch or place the module on a new device"
                )
            raise RuntimeError(
                f"shape mismatch: input {position} of {self.name} has shape {list(b.shape)}, the graph is compiled for {list(a.shape)}; pad it, or remove_modules() and place the module again"
            )

    def push_to_target_inputs(self, *tensors: Any) -> None:
        context().check()
        value: Any = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list, Mapping)) else tensors
        leaves = tuple(t for t in to_pt_tensors(value) if t is not None)
        if self.target_sample is None:
            self.target_sample = leaves
        else:
            self._check_shapes(self.target_sample, leaves)
        self.targets.put(leaves)

    # running: what each kind of device does with it ----------------------------------------------------------------------

    def prepare(
        self, sample: Any, kwargs: dict[str, Any], targets: Sequence[torch.Tensor], training: bool, verify_cfg: Any
    ) -> list[torch.Tensor]:
        """Compile for inputs like these; return outputs of the right shapes."""
        raise NotImplementedError

    def forward(self, inputs: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], training: bool) -> list[torch.Tensor]:
        raise NotImplementedError

    def loss_values(self) -> tuple[float, ...]:
        return ()

    def backward(self, gradients: Sequence[torch.Tensor], zero_grad: bool) -> list[torch.Tensor]:
        raise NotImplementedError

    def optimizer_step(self) -> None:
        """Update the parameters, if the device has an optimizer."""

    def scheduler_step(self) -> None:
        """Move the learning rate, if the device has a scheduler."""

    def read_parameters(self) -> dict[str, Any]:
        return {}

    def read_gradients(self) -> dict[str, Any]:
        return {}

    def write_parameters(self, values: Mapping[str, Any]) -> None:
        raise RuntimeError(f"{self!r} has no parameters to update")

    def stop(self) -> None:
        """Forget what is compiled and queued; placed modules stay."""
        self._compiled = False
        self.sample = None
        self.target_sample = None
        self.inputs = Channel()
        self.targets = Channel()

    # the same, by the names of the API ------------------------------------------------------------------------------------

    def _index(self) -> int:
        return context().devices.index(self)

    def get_parameter_checkpoint(self) -> dict[str, Any]:
        return context().call(self._index(), self.read_parameters)  # type: ignore[no-any-return]

    def get_all_parameters(self) -> dict[str, Any]:
        return self.get_parameter_checkpoint()

    def get_parameter_gradients(self) -> dict[str, Any]:
        return context().call(self._index(), self.read_gradients)  # type: ignore[no-any-return]

    def update_device_parameters(self, parameters: Mapping[str, Any]) -> None:
        context().call(self._index(), lambda: self.write_parameters(parameters))

    def get_parameters(self) -> list[Any]:
        return [p for m in self.modules for p in m.get_parameters()]

    def sync(self) -> None:
        context().sync()

    def shutdown_device(self) -> None:
        context().stop()
