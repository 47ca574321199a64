"""A CPU in the pipeline: it runs framework modules as they are, and may hold the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from pybuda.device import Device
from pybuda.module import FrameworkModule, Module, OnnxModule, PyTorchModule
from pybuda.tensor import TensorFromPytorch, to_pt_tensor, to_pt_tensors


class CPUDevice(Device):
    torch_device = "cpu"

    def __init__(
        self,
        name: str,
        optimizer_f: Callable[..., Any] | None = None,
        scheduler_f: Callable[..., Any] | None = None,
        mp_context: Any = None,
        retain_backward_graph: bool = False,
        module: Module | Sequence[Module] | None = None,
        input_dtypes: Sequence[torch.dtype] | None = None,
    ) -> None:
        super().__init__(name, mp_context)
        self.optimizer_f, self.scheduler_f = optimizer_f, scheduler_f
        self.retain_backward_graph = retain_backward_graph
        self.input_dtypes = list(input_dtypes) if input_dtypes is not None else None
        self.optimizer: Any = None
        self.scheduler: Any = None
        self.scale_loss = 1.0
        self._stash: list[tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor | None]] = []
        self._losses: list[torch.Tensor] = []
        if module is not None:
            self.place_module(module)

    def _check_module(self, module: Module) -> None:
        if not isinstance(module, (PyTorchModule, OnnxModule)):
            kind = "a framework module that is not built yet" if isinstance(module, FrameworkModule) else "a native PyBuda module"
            raise RuntimeError(f"{self!r} runs PyTorch and ONNX modules only, and {module.name!r} is {kind}; place it on a TTDevice")

    def _networks(self) -> list[torch.nn.Module]:
        found = [m.replay if isinstance(m, OnnxModule) else m.module for m in self.modules if isinstance(m, FrameworkModule)]
        if isinstance(self.loss_module, PyTorchModule):
            found.append(self.loss_module.module)
        return found

    def _run(self, values: Sequence[Any], names: Sequence[str] = ()) -> list[torch.Tensor]:
        current: Any = list(values)
        for position, module in enumerate(self.modules):
            assert isinstance(module, FrameworkModule)
            given = module.forward(**dict(zip(names, current))) if names and position == 0 else module.forward(*current)
            current = [t for t in to_pt_tensors(_leaves(given)) if t is not None]
        return list(current)

    def _inputs(self, values: Sequence[Any], training: bool) -> list[Any]:
        out = []
        for position, value in enumerate(values):
            if isinstance(value, torch.Tensor):
                if self.input_dtypes is not None and position < len(self.input_dtypes):
                    value = value.to(self.input_dtypes[position])
                elif value.dtype in (torch.float16, torch.bfloat16):
                    value = value.float()
                value = value.to(self.torch_device)
                if training and value.is_floating_point():
                    value = value.detach().requires_grad_(True)
            out.append(value)
        return out

    # the pipeline's calls -------------------------------------------------------------------------------------------------

    def prepare(
        self, sample: Any, kwargs: dict[str, Any], targets: Sequence[torch.Tensor], training: bool, verify_cfg: Any
    ) -> list[torch.Tensor]:
        self.names = tuple(kwargs)
        if training and self._trainable():
            if self.optimizer is None and self.optimizer_f is not None:
                module = self._networks()[0] if len(self._networks()) == 1 else torch.nn.ModuleList(self._networks())
                self.optimizer = self.optimizer_f(module)
                self.scheduler = self.scheduler_f(self.optimizer) if self.scheduler_f is not None else None
        for network in self._networks():
            network.train(training)
        self._compiled = True
        with torch.no_grad():
            return self._run(self._inputs([*sample, *kwargs.values()], False), self.names)

    def _trainable(self) -> list[tuple[str, torch.nn.Parameter]]:
        return [(n, p) for network in self._networks() for n, p in network.named_parameters()]

    def forward(self, inputs: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], training: bool) -> list[torch.Tensor]:
        if not training:
            with torch.no_grad():
                return self._run(self._inputs(inputs, False), self.names)
        with torch.enable_grad():
            given = self._inputs(inputs, True)
            outputs = self._run(given, self.names)
            loss = None
            if isinstance(self.loss_module, FrameworkModule):
                loss = self.loss_module.forward(*outputs, *targets) * self.scale_loss
                self._losses.append(loss.detach())
            self._stash.append((given, outputs, loss))
        return [o.detach() for o in outputs]

    def loss_values(self) -> tuple[float, ...]:
        if self.loss_module is None:
            return ()
        done, self._losses = self._losses, []
        return tuple(float(loss.sum()) for loss in done)

    def backward(self, gradients: Sequence[torch.Tensor], zero_grad: bool) -> list[torch.Tensor]:
        if not self._stash:
            raise RuntimeError(f"{self!r}: a backward pass needs a forward pass before it; run_forward first")
        if zero_grad:
            for network in self._networks():
                network.zero_grad()
        given, outputs, loss = self._stash.pop(0)
        if loss is not None:
            loss.sum().backward(retain_graph=self.retain_backward_graph)
        else:
            roots = [o for o in outputs if o.requires_grad]
            torch.autograd.backward(roots, [g.to(o.dtype) for o, g in zip(roots, gradients)], retain_graph=self.retain_backward_graph)
        return [v.grad if v.grad is not None else torch.zeros_like(v) for v in given if isinstance(v, torch.Tensor) and v.requires_grad]

    def optimizer_step(self) -> None:
        if self.optimizer is not None:
            self.optimizer.step()

    def scheduler_step(self) -> None:
        if self.scheduler is not None:
            self.scheduler.step()

    def read_parameters(self) -> dict[str, Any]:
        return {n: TensorFromPytorch(p.detach().clone()) for n, p in self._trainable()}

    def read_gradients(self) -> dict[str, Any]:
        return {n: TensorFromPytorch(p.grad.clone()) for n, p in self._trainable() if p.grad is not None}

    def write_parameters(self, values: Mapping[str, Any]) -> None:
        own = dict(self._trainable())
        for name, value in values.items():
            if name not in own:
                raise RuntimeError(f"{self!r} has no parameter {name!r}; it has {', '.join(own) or 'none'}")
            new = to_pt_tensor(value)
            if new.shape != own[name].shape:
                raise RuntimeError(f"parameter {name!r} has shape {list(own[name].shape)}, the new value has {list(new.shape)}")
            with torch.no_grad():
                own[name].copy_(new)

    def stop(self) -> None:
        super().stop()
        self._stash.clear()
        self._losses.clear()


def _leaves(value: Any) -> list[Any]:
    """The tensors of whatever a framework's forward returns."""
    return [v for v in torch.utils._pytree.tree_leaves(value) if v is not None]
