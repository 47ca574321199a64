"""A torch module's parameters, as TT-NN tensors in the shape of the module."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from loguru import logger

import ttnn
from ttnn.config import CONFIG
from ttnn.dot_access import DotAccessDict
from ttnn.model_preprocessing.arguments import ModuleArgs, infer_ttnn_module_args
from ttnn.model_preprocessing.rows import row_of

Convert = Callable[[torch.nn.Module, str], bool]


class ParameterList(list[Any]):
    """Parameters of a list of modules."""

    def __repr__(self) -> str:
        return f"ParameterList({list.__repr__(self)})"


class ParameterDict(DotAccessDict):
    """Parameters of a module, by name."""

    def __repr__(self) -> str:
        return f"ParameterDict({dict.__repr__(self)})"


def make_parameter_dict(dictionary: Any) -> Any:
    """A dictionary, and the lists and dictionaries in it, as parameters."""
    if isinstance(dictionary, (ParameterDict, ParameterList, ModuleArgs)):
        return dictionary
    if isinstance(dictionary, dict):
        return ParameterDict({k: make_parameter_dict(v) for k, v in dictionary.items()})
    if isinstance(dictionary, (list, tuple)):
        return ParameterList(make_parameter_dict(v) for v in dictionary)
    return dictionary


def _plain(parameter: torch.Tensor) -> Any:
    """A parameter of a module that no row speaks of: in rows, in bfloat16 or as integers."""
    parameter = parameter.detach()
    if parameter.is_floating_point():
        return ttnn.from_torch(parameter, dtype=ttnn.bfloat16)
    if parameter.dtype is torch.bool or parameter.is_complex():
        return parameter
    return ttnn.from_torch(parameter.to(torch.int32), dtype=ttnn.int32)


def default_preprocessor(model: torch.nn.Module, name: str, ttnn_module_args: Any = None) -> dict[str, Any]:
    """The parameters of one module, without those of the modules inside it."""
    row = row_of(model)
    if row is not None:
        return row(model, ttnn_module_args)
    own = {**dict(model.named_parameters(recurse=False)), **dict(model.named_buffers(recurse=False))}
    return {key: _plain(value) for key, value in own.items()}


def _custom(preprocessor: Callable[..., Any], model: torch.nn.Module, name: str, words: dict[str, Any]) -> Any:
    """Call a custom preprocessor with those of our keywords that it knows."""
    parameters = inspect.signature(preprocessor).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return preprocessor(model, name, **words)
    return preprocessor(model, name, **{k: v for k, v in words.items() if k in parameters})


def convert_torch_model_to_ttnn_model(
    model: torch.nn.Module,
    name: str = "",
    *,
    convert_to_ttnn: Convert = lambda *_: True,
    custom_preprocessor: Callable[..., Any] | None = None,
    ttnn_module_args: Any = None,
    with_args: bool = False,
) -> Any:
    """The parameters of a module and of those inside it."""
    if custom_preprocessor is not None:
        words = {"ttnn_module_args": ttnn_module_args, "convert_to_ttnn": convert_to_ttnn, "custom_preprocessor": custom_preprocessor}
        made = _custom(custom_preprocessor, model, name, words)
        if made:
            return make_parameter_dict(made)

    def inner(child_name: str, child: torch.nn.Module) -> Any:
        key = int(child_name) if child_name.isdigit() else child_name
        args = ttnn_module_args.get(key) if isinstance(ttnn_module_args, dict) else None
        return convert_torch_model_to_ttnn_model(
            child,
            f"{name}.{child_name}" if name else child_name,
            convert_to_ttnn=convert_to_ttnn,
            custom_preprocessor=custom_preprocessor,
            ttnn_module_args=args,
            with_args=with_args,
        )

    if isinstance(model, torch.nn.ModuleList):
        return ParameterList(inner(str(i), child) for i, child in enumerate(model))
    children = {(int(n) if n.isdigit() else n): inner(n, child) for n, child in model.named_children()}
    if convert_to_ttnn(model, name):
        own = default_preprocessor(model, name, ttnn_module_args)
    else:
        own = {key: parameter.detach() for key, parameter in model.named_parameters(recurse=False)}
    made = ParameterDict({**children, **own})
    if with_args and isinstance(ttnn_module_args, ModuleArgs) and type(ttnn_module_args) is not ModuleArgs:
        made["ttnn_module_args"] = ttnn_module_args
    return make_parameter_dict(made)


def move_to_device(value: Any, device: Any) -> Any:
    """The same parameters with all TT-NN tensors on a device."""
    if isinstance(value, ttnn.Tensor):
        return ttnn.to_device(value, device)
    if isinstance(value, ModuleArgs):
        return value
    if isinstance(value, dict):
        return type(value)({k: move_to_device(v, device) for k, v in value.items()})
    if isinstance(value, list):
        return type(value)(move_to_device(v, device) for v in value)
    return value


def preprocess_model_parameters(
    model_name: str | None = None,
    *,
    initialize_model: Callable[[], torch.nn.Module],
    convert_to_ttnn: Convert = lambda *_: True,
    custom_preprocessor: Callable[..., Any] | None = None,
    device: Any = None,
    prefix: str = "",
    run_model: Callable[[torch.nn.Module], Any] | None = None,
    ttnn_module_args: Any = None,
) -> Any:
    """The parameters of the model that `initialize_model` makes. `convert_to_ttnn(module, name)` says which modules become TT-NN tensors;
    `custom_preprocessor(module, name)` answers the parameters of a module itself, or nothing to leave it to the default. With a `model_name` and
    `CONFIG.enable_model_cache` they are kept in `CONFIG.model_cache_path` and the model is made only once."""
    return _preprocess(
        model_name, initialize_model, convert_to_ttnn, custom_preprocessor, device, prefix, run_model, ttnn_module_args, with_args=False
    )


def preprocess_model(
    model_name: str | None = None,
    *,
    initialize_model: Callable[[], torch.nn.Module],
    convert_to_ttnn: Convert = lambda *_: True,
    custom_preprocessor: Callable[..., Any] | None = None,
    device: Any = None,
    prefix: str = "",
    run_model: Callable[[torch.nn.Module], Any],
    ttnn_module_args: Any = None,
) -> Any:
    """The same, where every convolution and pooling also has its arguments, as `ttnn_module_args`: `run_model(model)` runs the model to see them."""
    return _preprocess(
        model_name, initialize_model, convert_to_ttnn, custom_preprocessor, device, prefix, run_model, ttnn_module_args, with_args=True
    )


def _preprocess(
    model_name: str | None,
    initialize_model: Callable[[], torch.nn.Module],
    convert_to_ttnn: Convert,
    custom_preprocessor: Callable[..., Any] | None,
    device: Any,
    prefix: str,
    run_model: Callable[[torch.nn.Module], Any] | None,
    ttnn_module_args: Any,
    with_args: bool,
) -> Any:
    from ttnn.model_preprocessing import stored

    cached = model_name is not None and CONFIG.enable_model_cache and not with_args
    version = stored.version(initialize_model, convert_to_ttnn, custom_preprocessor, prefix)
    parameters = stored.find(model_name, version) if cached and model_name is not None else None
    if parameters is None:
        model = initialize_model()
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"initialize_model must make a torch.nn.Module, it made {type(model).__name__}")
        if model.training:
            logger.warning("preprocess_model_parameters: the model is in training mode; models are put to work after model.eval()")
        if run_model is not None and ttnn_module_args is None:
            ttnn_module_args = infer_ttnn_module_args(model=model, run_model=run_model, device=device)
        parameters = convert_torch_model_to_ttnn_model(
            model,
            prefix,
            convert_to_ttnn=convert_to_ttnn,
            custom_preprocessor=custom_preprocessor,
            ttnn_module_args=ttnn_module_args,
            with_args=with_args,
        )
        if cached and model_name is not None:
            stored.keep(model_name, version, parameters)
    return parameters if device is None else move_to_device(parameters, device)
