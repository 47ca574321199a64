"""`verify_module`: random inputs through devices and through PyTorch, and everything that comes out compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pybuda._C.backend_api import BackendType
from pybuda.config import _get_global_compiler_config
from pybuda.module import FrameworkModule, Module, PyBudaModule
from pybuda.optimizers import get_optimizer_type_from_string
from pybuda.run import api
from pybuda.tensor import to_pt_tensors
from pybuda.verify.compare import compare_tensor_to_golden
from pybuda.verify.config import VerifyConfig
from tessera.graph.compiler import CompileDepth
from tessera.graph.executor import Executor
from tessera.graph.passes import Autograd


def _random(shape: Any, uniform: bool, centred: bool) -> torch.Tensor:
    if uniform:
        return torch.rand(shape) - 0.5 if centred else torch.rand(shape)
    return torch.randn(shape) if centred else torch.normal(0.5, 0.1, tuple(shape)).abs() + 1e-5


def verify_module(
    module: Module,
    input_shapes: Sequence[Sequence[int]],
    verify_cfg: VerifyConfig,
    input_params: Sequence[dict[str, Any]] = (),
    device_type: str = "TTDevice",
    params_centered_on_zero: bool = False,
    scale_params: float = 1.0,
    inputs: Any = None,
    loss_module: Module | None = None,
    uniform_inputs: bool = False,
    inputs_centered_on_zero: bool = False,
) -> None:
    """Raise if `module` on a device differs from PyTorch by more than `verify_cfg` allows."""
    verify_module_pipeline(
        [module],
        input_shapes,
        verify_cfg,
        input_params,
        [device_type],
        params_centered_on_zero=params_centered_on_zero,
        scale_params=scale_params,
        inputs=inputs,
        loss_module=loss_module,
        uniform_inputs=uniform_inputs,
        inputs_centered_on_zero=inputs_centered_on_zero,
    )


def verify_module_pipeline(
    modules: Sequence[Module],
    input_shapes: Sequence[Sequence[int]],
    verify_cfg: VerifyConfig,
    input_params: Sequence[dict[str, Any]] = (),
    device_types: Sequence[str] = ("TTDevice",),
    *,
    params_centered_on_zero: bool = False,
    scale_params: float = 1.0,
    inputs: Any = None,
    loss_module: Module | None = None,
    uniform_inputs: bool = False,
    inputs_centered_on_zero: bool = False,
) -> None:
    """The same for a chain of modules; "-" in `device_types` puts a module on the device of the one before it."""
    from pybuda.cpudevice import CPUDevice
    from pybuda.gpudevice import GPUDevice
    from pybuda.ttdevice import TTDevice

    if len(device_types) != len(modules):
        raise ValueError(
            f"verify_module_pipeline: {len(modules)} modules and {len(device_types)} device types; give one for each ('-' for the same device)"
        )
    training = verify_cfg.test_kind.is_training()
    for module in modules:
        _fill(module, params_centered_on_zero, scale_params)
    count = verify_cfg.total_number_of_inputs()
    sets = [
        _inputs(input_shapes, input_params, inputs, uniform_inputs, inputs_centered_on_zero, training)
        for _ in range(count if inputs is None else 1)
    ]
    settings = verify_cfg.optimizer or {"type": "sgd", "params": {"learning_rate": 0.0}}
    devices: list[Any] = []
    for index, (module, kind) in enumerate(zip(modules, device_types)):
        if kind == "-":
            devices[-1].place_module(module)
        elif kind == "TTDevice":
            optimizer = get_optimizer_type_from_string(settings["type"])(**settings["params"], device_params=True) if training else None
            devices.append(
                TTDevice(
                    f"tt{index}",
                    arch=verify_cfg.arch,
                    devtype=verify_cfg.devtype,
                    chip_ids=verify_cfg.chip_ids,
                    optimizer=optimizer,
                    fp32_fallback=verify_cfg.fp32_fallback,
                    module=module,
                )
            )
        elif kind in ("CPUDevice", "GPUDevice"):
            devices.append((CPUDevice if kind == "CPUDevice" else GPUDevice)(f"cpu{index}", module=module))
        else:
            raise ValueError(f"device type {kind!r} must be 'TTDevice', 'CPUDevice', 'GPUDevice' or '-'")
    config = _get_global_compiler_config()
    config.op_names_to_epoch_break += list(verify_cfg.epoch_breaks)
    try:
        if config.compile_depth is not CompileDepth.FULL or verify_cfg.devtype is BackendType.NoBackend:
            devices[0].push_to_inputs(*sets[0])
            if training:
                _targets(devices, loss_module, modules, sets[0])
            api.initialize_pipeline(training, _verify_cfg=verify_cfg, _sequential=verify_cfg.sequential)
        elif training:
            _verify_training(devices, modules, sets, loss_module, verify_cfg)
        else:
            _verify_inference(devices, modules, sets, verify_cfg)
    finally:
        if not verify_cfg.skip_shutdown:
            api.shutdown()


def _fill(module: Module, centred: bool, scale: float) -> None:
    if isinstance(module, PyBudaModule):
        for parameter in module.get_parameters():
            if not parameter.has_value():
                parameter.set_value(_random(parameter.shape.dims, False, centred) * scale)


def _inputs(shapes: Any, params: Sequence[dict[str, Any]], given: Any, uniform: bool, centred: bool, training: bool) -> list[torch.Tensor]:
    if given is not None:
        first = given[0] if given and isinstance(given[0], (list, tuple)) else given
        return [t for t in to_pt_tensors(list(first)) if t is not None]
    made = []
    for index, shape in enumerate(shapes):
        own = dict(params[index]) if index < len(params) else {}
        value = _random(shape, uniform, centred)
        if "data_format" in own:
            value = value.to(own["data_format"])
        if own.get("requires_grad", training) and value.is_floating_point():
            value.requires_grad_(True)
        made.append(value)
    return made


def _reference(modules: Sequence[Module], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What PyTorch makes of it: framework modules as they are, native ones through their graph in full precision."""
    from pybuda.frontend import trace

    values = list(inputs)
    for module in modules:
        if isinstance(module, FrameworkModule):
            if isinstance(getattr(module, "module", None), torch.nn.Module):
                module.module.eval()
            with torch.no_grad():
                made = module.forward(*values)
            values = [t for t in torch.utils._pytree.tree_leaves(made) if isinstance(t, torch.Tensor)]
        else:
            assert isinstance(module, PyBudaModule)
            values = Executor(trace(module, values), exact=True).forward([v.detach() for v in values])
    return values


def _compare(what: str, expected: torch.Tensor, got: torch.Tensor, config: VerifyConfig) -> None:
    if not compare_tensor_to_golden(what, expected.detach().float(), got.detach().float(), config):
        raise RuntimeError(f"verification failed: {what} differs from PyTorch beyond pcc={config.pcc}")


def _verify_inference(devices: list[Any], modules: Sequence[Module], sets: list[list[torch.Tensor]], config: VerifyConfig) -> None:
    for inputs in sets:
        devices[0].push_to_inputs(*[i.detach() for i in inputs])
    queue = api.run_inference(input_count=len(sets), _sequential=config.sequential, _verify_cfg=config)
    for number, inputs in enumerate(sets):
        outputs = queue.get()
        for index, (expected, got) in enumerate(zip(_reference(modules, inputs), outputs)):
            _compare(f"output {index} of input {number}", expected, got.value(), config)


def _targets(devices: list[Any], loss_module: Module | None, modules: Sequence[Module], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    from pybuda.op.loss import L1Loss

    if devices[-1].loss_module is None:
        devices[-1].place_loss_module(loss_module or L1Loss("verify_loss"))
    made = [torch.rand(o.shape) for o in _reference(modules, inputs) if o.is_floating_point()]
    devices[-1].push_to_target_inputs(*made)
    return made


def _verify_training(
    devices: list[Any], modules: Sequence[Module], sets: list[list[torch.Tensor]], loss_module: Module | None, config: VerifyConfig
) -> None:
    """Loss and parameter gradients of the first step against a graph of the same modules run in full precision."""
    from pybuda.frontend import chain

    if len(devices) != 1 or not devices[0].is_tt:
        raise NotImplementedError("verify_module_pipeline compares training of one TTDevice only; use run_training for longer pipelines")
    device = devices[0]
    device.push_to_inputs(*sets[0])
    targets = _targets(devices, loss_module, modules, sets[0])
    reference_graph = chain(
        "reference",
        list(modules),
        [i.detach() for i in sets[0]],
        {},
        training=True,
        dropout=False,
        loss=device.loss_module,
        targets=targets,
    )
    Autograd().apply(reference_graph)
    reference = Executor(reference_graph, exact=True)
    api.initialize_pipeline(True, _sequential=config.sequential)
    api.run_forward(1)
    api.run_backward(1, zero_grad=True)
    api.sync()
    loss = api.get_loss_queue().get()
    got = api.get_parameter_gradients()[0]
    reference.forward([*[i.detach() for i in sets[0]], *targets], keep=True)
    reference.backward()
    _compare("loss", reference.losses[0].sum().reshape(1), torch.tensor([sum(loss)]), config)
    if config.enable_parameter_gradient_checking:
        for name, expected in reference.gradients.items():
            if name not in config.waive_gradient_errors:
                _compare(f"gradient of {name}", expected, got[name].value(), config)
    api.run_optimizer(checkpoint=False)
    api.sync()
