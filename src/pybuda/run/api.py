"""Running the pipeline. Each call tells the workers what to do and returns; results come through queues. In sequential mode the caller's
thread does the work. Whatever went wrong in a worker is raised by the next call, with the traceback of the place where it happened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from pybuda._C.backend_api import BackendDevice, DeviceMode
from pybuda.device import Device, Pending
from pybuda.module import Module
from pybuda.pipeline.context import Context, context, devices_or_fail
from pybuda.tensor import TensorFromPytorch

# compiling the pipeline ----------------------------------------------------------------------------------------------------


def _ready(
    training: bool,
    *,
    sequential: bool = False,
    output_queue: Any = None,
    checkpoint_queue: Any = None,
    loss_queue: Any = None,
    verify_cfg: Any = None,
    sample_targets: Sequence[Any] = (),
) -> Context:
    """The pipeline, compiled for `training` or inference; compiles it if it is not."""
    pipeline = context()
    pipeline.check()
    devices_or_fail(pipeline.devices)
    for given, name in ((output_queue, "output_queue"), (checkpoint_queue, "checkpoint_queue"), (loss_queue, "loss_queue")):
        if given is not None:
            setattr(pipeline, name, given)
    if pipeline.compiled and pipeline.training == training:
        return pipeline
    if pipeline.compiled:
        pipeline.sync()
    if training and pipeline.devices[-1].loss_module is None:
        raise RuntimeError(
            f"The last device in pipeline must have a loss module to be able to train. Call place_loss_module on {pipeline.devices[-1].name!r}."
        )
    first = pipeline.devices[0]
    if not any(d.modules for d in pipeline.devices):
        raise RuntimeError(f"no module is placed on {', '.join(d.name for d in pipeline.devices)}; place_module first")
    if first.sample is None:
        raise RuntimeError(
            f"nothing was pushed into {first.name!r} and there are no sample inputs, so its graph has no shapes; push_to_inputs first, or pass sample_inputs"
        )
    if training and pipeline.devices[-1].target_sample is None and not sample_targets:
        raise RuntimeError(f"training needs targets; call push_to_target_inputs on {pipeline.devices[-1].name!r}, or pass sample_targets")
    _compile(pipeline, training, verify_cfg, sample_targets)
    pipeline.training = training
    pipeline.compiled = True
    pipeline.connect()
    pipeline.start(sequential)
    return pipeline


def _compile(pipeline: Context, training: bool, verify_cfg: Any, sample_targets: Sequence[Any]) -> None:
    first = pipeline.devices[0].sample
    assert first is not None
    structure = first.structure if first.structure is not None else list(first.leaves)
    sample: Any = [] if isinstance(structure, Mapping) else list(structure)
    kwargs = dict(structure) if isinstance(structure, Mapping) else {}
    for index, device in enumerate(pipeline.devices):
        last = index == len(pipeline.devices) - 1
        targets = list(sample_targets) or list(device.target_sample or ()) if last and training else []
        outputs = device.prepare(sample, kwargs, targets, training, verify_cfg)
        kwargs = {}
        sample = [o.detach().requires_grad_(training and o.is_floating_point()) for o in outputs]


# one step of one device -------------------------------------------------------------------------------------------------------


def _forward_one(pipeline: Context, index: int) -> None:
    device = pipeline.devices[index]
    if index == 0:
        inputs = device.inputs.take().leaves
    else:
        inputs = pipeline.channels[index - 1].take()
    last = index == len(pipeline.devices) - 1
    training = pipeline.training
    targets = device.targets.take() if training and last else ()
    outputs = device.forward(inputs, targets, training)
    if not last:
        pipeline.channels[index].put(outputs)
    elif training:
        losses = device.loss_values()
        if losses:
            pipeline.loss_queue.put(losses)
    else:
        pipeline.output_queue.put([TensorFromPytorch(o) if o.dtype in _PLAIN else TensorFromPytorch(o.int()) for o in outputs])


_PLAIN = {torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int32, torch.int64}


def _backward_one(pipeline: Context, index: int, zero_grad: bool) -> None:
    last = index == len(pipeline.devices) - 1
    arriving = [] if last else pipeline.back[index].take()
    gradients = pipeline.devices[index].backward(arriving, zero_grad)
    if index > 0:
        pipeline.back[index - 1].put(gradients)


def _forward_many(pipeline: Context, index: int, count: int) -> None:
    if count == 0:
        while True:  # until shutdown closes the queues
            _forward_one(pipeline, index)
    for _ in range(count):
        _forward_one(pipeline, index)


def _backward_many(pipeline: Context, index: int, count: int, zero_grad: bool) -> None:
    for step in range(count):
        _backward_one(pipeline, index, zero_grad and step == 0)


def _guarded(pipeline: Context, work: Any) -> Any:
    """In the caller's thread an error both stops the pipeline and is raised at once."""
    try:
        return work()
    except Exception as error:
        pipeline.fail(error)
        raise


def _do_forward(pipeline: Context, count: int) -> None:
    if not pipeline.sequential:
        if pipeline.endless:
            raise RuntimeError("the pipeline already runs for ever (input_count=0); push inputs and read its queue, or call shutdown()")
        pipeline.endless = count == 0
        for index in range(len(pipeline.devices)):
            pipeline.submit(index, partial(_forward_many, pipeline, index, count))
        return
    if count == 0:
        raise RuntimeError("input_count=0 (run for ever) needs concurrent mode; this pipeline runs sequentially")
    for _ in range(count):
        if pipeline.devices[0].inputs.empty():
            raise RuntimeError(
                f"sequential mode has no input left in {pipeline.devices[0].name!r}; push_to_inputs before running, once for each input_count"
            )
        if pipeline.training and pipeline.devices[-1].targets.empty():
            raise RuntimeError(f"sequential mode has no target left in {pipeline.devices[-1].name!r}; push_to_target_inputs before running")
        for index in range(len(pipeline.devices)):
            _guarded(pipeline, partial(_forward_one, pipeline, index))


def _do_backward(pipeline: Context, count: int, zero_grad: bool) -> None:
    if not pipeline.sequential:
        for index in range(len(pipeline.devices)):
            pipeline.submit(index, partial(_backward_many, pipeline, index, count, zero_grad))
        return
    for step in range(count):
        for index in reversed(range(len(pipeline.devices))):
            _guarded(pipeline, partial(_backward_one, pipeline, index, zero_grad and step == 0))


def _do_optimizer(pipeline: Context, checkpoint: bool) -> None:
    def step(index: int) -> None:
        pipeline.devices[index].optimizer_step()
        if checkpoint:
            pipeline.push_checkpoint(index, pipeline.devices[index].read_parameters())

    _each(pipeline, step)


def _each(pipeline: Context, work: Any) -> None:
    for index in range(len(pipeline.devices)):
        if pipeline.sequential:
            _guarded(pipeline, partial(work, index))
        else:
            pipeline.submit(index, partial(work, index))


# all in one ----------------------------------------------------------------------------------------------------------------


def _push(device: Device, item: Any) -> None:
    if isinstance(item, Mapping) or not isinstance(item, (tuple, list)):
        device.push_to_inputs(item)
    else:
        device.push_to_inputs(*item) if len(item) != 1 else device.push_to_inputs(item[0])


def run_inference(
    module: Module | None = None,
    inputs: Sequence[Any] = (),
    input_count: int = 1,
    output_queue: Any = None,
    _sequential: bool = False,
    _perf_trace: bool = False,
    _verify_cfg: Any = None,
) -> Any:
    """Run forward `input_count` times (0: for ever) and return the queue that the outputs go to; the same one when resumed.

    With a module, it is placed on the first device (made if there is none) instead of what was there; the same module again resumes.
    """
    pipeline = context()
    pipeline.check()
    if pipeline.finished:
        pipeline.devices, pipeline.finished = [], False
    if module is not None:
        _take_module(pipeline, module)
    devices_or_fail(pipeline.devices)
    if inputs:
        if input_count != 1 and input_count != len(inputs):
            raise RuntimeError(
                f"input_count={input_count} does not match the {len(inputs)} inputs that were passed; leave it out, or push inputs yourself"
            )
        input_count = len(inputs)
        for item in inputs:
            _push(pipeline.devices[0], item)
    if input_count < 0:
        raise RuntimeError(f"input_count={input_count} must not be negative")
    pipeline = _ready(False, sequential=_sequential, output_queue=output_queue, verify_cfg=_verify_cfg)
    _do_forward(pipeline, input_count)
    return pipeline.output_queue


def _take_module(pipeline: Context, module: Module) -> None:
    from pybuda.ttdevice import TTDevice

    if not pipeline.devices:
        TTDevice("auto_tt0")
    first = pipeline.devices[0]
    if first.modules == [module]:
        return
    if pipeline.compiled:
        pipeline.stop()
    for device in pipeline.devices:
        if device.modules:
            device.remove_modules()
    first.place_module(module)


def run_training(
    epochs: int = 1,
    steps: int = 1,
    accumulation_steps: int = 1,
    microbatch_count: int = 1,
    checkpoint_queue: Any = None,
    loss_queue: Any = None,
    checkpoint_interval: int = 0,
    _sequential: bool = False,
    _perf_trace: bool = False,
    _verify_cfg: Any = None,
) -> Any:
    """Train: `epochs` times `steps` optimizer steps, each over `accumulation_steps` times `microbatch_count` inputs. Returns the checkpoint queue."""
    for name, value in (
        ("epochs", epochs),
        ("steps", steps),
        ("accumulation_steps", accumulation_steps),
        ("microbatch_count", microbatch_count),
    ):
        if value < 1:
            raise RuntimeError(f"run_training: {name}={value} must be at least 1")
    pipeline = _ready(True, sequential=_sequential, checkpoint_queue=checkpoint_queue, loss_queue=loss_queue, verify_cfg=_verify_cfg)
    total = epochs * steps
    done = 0
    for epoch in range(epochs):
        for _ in range(steps):
            for accumulation in range(accumulation_steps):
                _do_forward(pipeline, microbatch_count)
                _do_backward(pipeline, microbatch_count, accumulation == 0)
            done += 1
            due = checkpoint_interval > 0 and done % checkpoint_interval == 0
            _do_optimizer(pipeline, due or done == total)
        if epoch < epochs - 1 or epochs == 1:
            run_schedulers()
    return pipeline.checkpoint_queue


def initialize_pipeline(
    training: bool,
    output_queue: Any = None,
    checkpoint_queue: Any = None,
    sample_inputs: Sequence[Any] | Mapping[str, Any] = (),
    sample_targets: Sequence[Any] = (),
    microbatch_count: int = 1,
    d2d_fwd_queues: Sequence[Any] = (),
    d2d_bwd_queues: Sequence[Any] = (),
    _sequential: bool = False,
    _verify_cfg: Any = None,
    _device_mode: DeviceMode = DeviceMode.CompileAndRun,
) -> Any:
    """Compile the pipeline, from sample inputs if none were pushed. Returns the output queue, or in training the checkpoint queue."""
    from pybuda.device import as_torch
    from pybuda.tensor import to_pt_tensors

    pipeline = context()
    pipeline.check()
    devices_or_fail(pipeline.devices)
    first, last = pipeline.devices[0], pipeline.devices[-1]
    if len(sample_inputs) and first.sample is None:
        leaves = tuple(t for t in to_pt_tensors(sample_inputs) if t is not None)
        first.sample = Pending(leaves, as_torch(sample_inputs), tuple(sample_inputs) if isinstance(sample_inputs, Mapping) else ())
    targets = [t for t in to_pt_tensors(list(sample_targets)) if t is not None]
    if targets and last.target_sample is None:
        last.target_sample = tuple(targets)
    if _verify_cfg is not None and training:
        for device in pipeline.devices:
            if hasattr(device, "scale_loss"):
                device.scale_loss = getattr(_verify_cfg, "scale_loss", 1.0)
    pipeline.microbatch_count = microbatch_count
    pipeline = _ready(
        training,
        sequential=_sequential,
        output_queue=output_queue,
        checkpoint_queue=checkpoint_queue,
        verify_cfg=_verify_cfg,
        sample_targets=targets,
    )
    return pipeline.checkpoint_queue if training else pipeline.output_queue


# step by step --------------------------------------------------------------------------------------------------------------


def _running(what: str) -> Context:
    pipeline = context()
    pipeline.check()
    devices_or_fail(pipeline.devices)
    if not pipeline.compiled:
        raise RuntimeError(f"{what}: the pipeline is not compiled; call initialize_pipeline first")
    return pipeline


def run_forward(input_count: int = 1) -> None:
    _do_forward(_running("run_forward"), input_count)


def run_backward(input_count: int = 1, zero_grad: bool = False) -> None:
    """Backward for the oldest `input_count` forwards; `zero_grad` clears the gradients before the first of them."""
    pipeline = _running("run_backward")
    if not pipeline.training:
        raise RuntimeError("run_backward: the pipeline was compiled for inference; call initialize_pipeline(training=True)")
    _do_backward(pipeline, input_count, zero_grad)


def run_optimizer(checkpoint: bool = False) -> None:
    pipeline = _running("run_optimizer")
    if not pipeline.training:
        raise RuntimeError("run_optimizer: the pipeline was compiled for inference; call initialize_pipeline(training=True)")
    _do_optimizer(pipeline, checkpoint)


def run_schedulers() -> None:
    pipeline = _running("run_schedulers")
    _each(pipeline, lambda index: pipeline.devices[index].scheduler_step())


def run_generate(input_count: int = 1, write_index: int = -1, tokens_per_iter: int = -1, token_id: int = -1) -> None:
    """One forward of a generating model. `write_index` (or `token_id` with `tokens_per_iter`) says where the chip would write its cache; a
    model whose cache is an input and an output of its own gets it from the user, as here nothing is kept on the device between calls."""
    if not (write_index >= 0 or (tokens_per_iter > 0 and token_id >= 0)):
        raise RuntimeError(
            f"run_generate needs write_index >= 0, or tokens_per_iter > 0 and token_id >= 0; got {write_index}, {tokens_per_iter} and {token_id}"
        )
    from pybuda.config import _get_global_compiler_config

    if _get_global_compiler_config().loopback_outputs:
        raise NotImplementedError(
            "run_generate: loopback_outputs (a cache kept on the device) is not built; push the cache as an input and read it back as an output"
        )
    _do_forward(_running("run_generate"), input_count)


def run_generative_inference(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("run_generative_inference is not built (in the original it never ran); use run_generate in a loop")


# reading and writing the devices' state ----------------------------------------------------------------------------------------


def _chosen(device: Device | None) -> list[Device]:
    pipeline = context()
    if device is None:
        return list(pipeline.devices)
    if device not in pipeline.devices:
        raise RuntimeError(f"{device!r} is not in the pipeline")
    return [device]


def get_parameter_checkpoint(device: Device | None = None) -> list[dict[str, Any]]:
    """Every parameter of every device (or of one), by name, with its present value."""
    context().check()
    return [d.get_parameter_checkpoint() for d in _chosen(device)]


def get_parameter_gradients(device: Device | None = None) -> list[dict[str, Any]]:
    """The gradients accumulated so far, by parameter name."""
    pipeline = _running("get_parameter_gradients")
    if not pipeline.training:
        raise RuntimeError("get_parameter_gradients: the pipeline was compiled for inference; call initialize_pipeline(training=True)")
    return [d.get_parameter_gradients() for d in _chosen(device)]


def update_device_parameters(device: Device | None = None, parameters: Sequence[Mapping[str, Any]] = ()) -> None:
    """New values from the host: one dictionary for each device, or one for `device`."""
    _running("update_device_parameters")
    chosen = _chosen(device)
    if len(parameters) != len(chosen):
        raise RuntimeError(
            f"update_device_parameters: {len(parameters)} dictionaries for {len(chosen)} device(s); pass one for each, {{}} where nothing changes"
        )
    for one, values in zip(chosen, parameters):
        if values:
            one.update_device_parameters(values)


def get_loss_queue() -> Any:
    return context().loss_queue


def get_checkpoint_queue() -> Any:
    return context().checkpoint_queue


def get_intermediates_queue() -> Any:
    return context().intermediates_queue


def error_raised() -> bool:
    return context().error is not None


def sync() -> None:
    """Wait until the devices have done everything they were told."""
    context().sync()


def shutdown() -> bool:
    """Stop the workers. The pipeline ends: the next device that is created starts a new one."""
    pipeline = context()
    clean = pipeline.error is None
    pipeline.stop()
    for device in pipeline.devices:
        for module in device.modules:
            module._set_device(None)
    pipeline.finished = bool(pipeline.devices)
    return clean


def detect_available_devices() -> list[BackendDevice]:
    """The chips this process sees: one software device, of the kind the original's switches ask for."""
    if "PYBUDA_EMULATE_SILICON_DEVICE" in os.environ and "GOLDEN_WORMHOLE_B0" not in os.environ:
        return [BackendDevice.Blackhole if "PYBUDA_GOLDEN_BLACKHOLE" in os.environ else BackendDevice.Grayskull]
    return [BackendDevice.Wormhole_B0]
