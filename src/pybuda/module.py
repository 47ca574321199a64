"""Modules: what is placed on devices. Native ones are traced, PyTorch's go through torch.export, ONNX ones are replayed as torch calls."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from pybuda.parameter import Parameter
from pybuda.tensor import Tensor, to_pt_tensor


class Module:
    """Something with a name that a device can run."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise RuntimeError(f"a module needs a name (a non-empty string), not {name!r}")
        self.name = os.environ.get("PYBUDA_GRAPH_NAME_SUFFIX", "") + name
        self.input_names: list[str] = []
        self._device: Any = None
        self.subgraph_idx = 0

    def get_name(self) -> str:
        return self.name

    def get_device(self) -> Any:
        return self._device

    def _set_device(self, device: Any) -> None:
        self._device = device

    def get_parameters(self) -> list[Parameter]:
        return []

    def run(self, *args: Any) -> list[Tensor]:
        """Run once, on the device it is placed on or on a new one."""
        from pybuda.run import run_inference

        result: list[Tensor] = run_inference(self, inputs=[args]).get()
        return result

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.name}"


class FrameworkModule(Module):
    """A module of another framework: it can be called as it is, which is how CPU devices and references run it."""

    def __init__(self, name: str, module: Any) -> None:
        super().__init__(name)
        self.module = module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class PyTorchModule(FrameworkModule):
    """A torch.nn.Module. Calling the wrapped module itself still runs PyTorch: nothing is patched into it (`redirect_forward` is accepted)."""

    def __init__(self, name: str, module: torch.nn.Module, redirect_forward: bool = True) -> None:
        if not isinstance(module, torch.nn.Module):
            raise RuntimeError(f"PyTorchModule {name!r} wraps a torch.nn.Module, not a {type(module).__name__}")
        super().__init__(name, module)
        self.redirect_forward = redirect_forward
        self.original_forward = module.forward
        self._overrides: dict[str, Parameter] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*[a.value() if isinstance(a, Tensor) else a for a in args], **kwargs)

    def add_parameter(self, name: str, parameter: Parameter) -> None:
        if name in self._overrides:
            raise RuntimeError(f"module {self.name} already has a parameter {name!r}")
        self._overrides[name] = parameter

    def set_parameters(self, **values: Any) -> None:
        """New values by parameter name; dots may be written as double underscores."""
        own = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        for name, value in values.items():
            key = name if name in own else name.replace("__", ".")
            if key not in own:
                raise RuntimeError(f"module {self.name} has no parameter {name!r}; it has {', '.join(list(own)[:8])}")
            new = to_pt_tensor(value)
            if new.shape != own[key].shape:
                raise RuntimeError(f"parameter {key!r} has shape {list(own[key].shape)}, the new value has {list(new.shape)}")
            with torch.no_grad():
                own[key].copy_(new)

    def get_parameters(self) -> list[Parameter]:
        found = [Parameter(p, requires_grad=p.requires_grad, name=n) for n, p in self.module.named_parameters() if p.dtype in _TRAVELS]
        found += [Parameter(b, requires_grad=False, name=n) for n, b in self.module.named_buffers() if b.dtype in _TRAVELS]
        return found + list(self._overrides.values())


_TRAVELS = {torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int32, torch.int64, torch.bool}


class OnnxModule(FrameworkModule):
    """An ONNX model, replayed as torch calls; its initialisers are the parameters."""

    def __init__(self, name: str, module: Any, onnx_path: str | None = None) -> None:
        from tessera.graph.frontends.onnx import OnnxReplay

        if module is None and onnx_path is None:
            raise RuntimeError(f"OnnxModule {name!r} needs a ModelProto, or the path of an .onnx file")
        super().__init__(name, module)
        self.onnx_path = onnx_path
        self.replay = OnnxReplay(module if module is not None else onnx_path)
        self.input_names = list(self.replay.input_names)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.replay(*[a.value() if isinstance(a, Tensor) else a for a in args], **kwargs)

    def get_parameters(self) -> list[Parameter]:
        return [Parameter(p, name=n) for n, p in self.replay.named_parameters()]


def _later(framework: str) -> type[FrameworkModule]:
    class Later(FrameworkModule):
        def __init__(self, name: str, *args: Any, **kwargs: Any) -> None:
            raise NotImplementedError(
                f"{type(self).__name__} ({framework}) is not built yet; export the model to ONNX and use OnnxModule, or rewrite it in PyTorch"
            )

    return Later


TFModule = type("TFModule", (_later("TensorFlow"),), {"__doc__": "A Keras model. Not built yet."})
TFGraphDefModule = type("TFGraphDefModule", (_later("TensorFlow GraphDef"),), {"__doc__": "A frozen TensorFlow graph. Not built yet."})
TFLiteModule = type("TFLiteModule", (_later("TensorFlow Lite"),), {"__doc__": "A TFLite model. Not built yet."})
JaxModule = type("JaxModule", (_later("JAX"),), {"__doc__": "A JAX function. Not built yet."})
MXNetModule = type("MXNetModule", (_later("MXNet, which is no longer maintained"),), {"__doc__": "An MXNet block. Not built."})


class PyBudaModule(Module):
    """A native module: subclass it, give it Parameters and sub-modules as attributes, and write `forward` with pybuda.op."""

    is_loss = False

    def __init__(self, name: str) -> None:
        self._parameters: dict[str, Parameter] = {}
        self._submodules: dict[str, PyBudaModule] = {}
        self._constants: dict[str, Tensor] = {}
        super().__init__(name)

    # attributes -------------------------------------------------------------------------------------------------------

    def __setattr__(self, attribute: str, value: Any) -> None:
        self._register(attribute, value)
        object.__setattr__(self, attribute, value)

    def _register(self, attribute: str, value: Any) -> None:
        if attribute.startswith("_") and attribute in ("_parameters", "_submodules", "_constants", "_device"):
            return
        if "_parameters" not in self.__dict__:
            if isinstance(value, (Parameter, PyBudaModule)):
                raise RuntimeError(f"{type(self).__name__}: call super().__init__(name) before assigning {attribute!r}")
            return
        if isinstance(value, Parameter):
            value._set_auto_name(f"{self.name}.{attribute}")
            self._parameters[attribute] = value
        elif isinstance(value, PyBudaModule):
            self._adopt(attribute, value)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                self._register(f"{attribute}.{key}", item)
        elif isinstance(value, (list, tuple)):
            for key, item in enumerate(value):
                if isinstance(item, (Parameter, PyBudaModule)):
                    self._register(f"{attribute}.{key}", item)

    def _adopt(self, attribute: str, child: PyBudaModule) -> None:
        self._submodules[attribute] = child
        child._rename(f"{self.name}.{attribute}")

    def _rename(self, name: str) -> None:
        old = self.name
        object.__setattr__(self, "name", name)
        for parameter in self._parameters.values():
            if parameter.name.startswith(old + "."):
                parameter.name = name + parameter.name[len(old) :]
        for key, child in self._submodules.items():
            child._rename(f"{name}.{key}")

    # parameters -------------------------------------------------------------------------------------------------------

    def add_parameter(self, name: str, parameter: Parameter, prepend_name: bool = False) -> None:
        if name in self._parameters:
            raise RuntimeError(f"module {self.name} already has a parameter {name!r}")
        parameter.name = f"{self.name}.{name}" if prepend_name else (parameter.name or name)
        self._parameters[name] = parameter

    def get_parameter(self, name: str) -> Parameter:
        if name not in self._parameters:
            raise RuntimeError(f"module {self.name} has no parameter {name!r}; it has {', '.join(self._parameters) or 'none'}")
        return self._parameters[name]

    def set_parameter(self, name: str, value: Any) -> None:
        self.get_parameter(name).set_value(value)

    def load_parameter_dict(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self.set_parameter(name, value)

    def get_parameters(self, submodules: bool = True) -> list[Parameter]:
        found = list(self._parameters.values())
        if submodules:
            for child in self._submodules.values():
                found += child.get_parameters()
        return found

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        for parameter in self.get_parameters():
            yield parameter.get_name(), parameter

    def initialize_parameters(self) -> None:
        """Random values for parameters that were declared by shape alone."""
        for parameter in self.get_parameters():
            if not parameter.has_value():
                parameter.set_value(torch.randn(parameter.shape.dims))

    # constants --------------------------------------------------------------------------------------------------------

    def add_constant(self, name: str, value: Any = None) -> None:
        self._constants[name] = Tensor.create_from_torch(to_pt_tensor(value), constant=True) if value is not None else None  # type: ignore[assignment]

    def get_constant(self, name: str) -> Tensor:
        held = self._constants.get(name)
        if held is None:
            raise RuntimeError(f"module {self.name} has no constant {name!r} with a value; it has {', '.join(self._constants) or 'none'}")
        return held

    def set_constant(self, name: str, value: Any) -> None:
        if name not in self._constants:
            raise RuntimeError(f"module {self.name} has no constant {name!r}; add_constant first")
        self._constants[name] = Tensor.create_from_torch(to_pt_tensor(value), constant=True)

    # running ----------------------------------------------------------------------------------------------------------

    def pre_forward(self, *args: Any, **kwargs: Any) -> None:
        """Called before `forward`; a place for what depends on the inputs."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{type(self).__name__} must define forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.pre_forward(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def insert_tapout_queue_for_op(self, op_name: str, output_index: int = 0) -> str:
        """Marks an operation's value to be saved; read it with get_intermediates_queue()."""
        from pybuda.config import _get_global_compiler_config

        _get_global_compiler_config().save_intermediates(op_name)
        return op_name

    def forward_names(self) -> list[str]:
        """The names of forward's inputs; a list of tensors in one argument gets numbers."""
        return [
            p.name for p in inspect.signature(self.forward).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
