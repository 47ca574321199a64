"""A Tenstorrent device in the pipeline: it compiles the modules placed on it, and runs what came out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from pybuda._C.backend_api import BackendDevice, BackendType, DeviceMode
from pybuda.compile import CompileResults, compile_device
from pybuda.compiled_graph_state import CompiledGraphState
from pybuda.device import Device
from pybuda.module import Module
from pybuda.optimizers import Optimizer, State
from pybuda.pipeline.context import context
from pybuda.tensor import Tensor, TensorFromPytorch, to_pt_tensor, warn_once
from tessera.graph.compiler import CompileDepth
from tessera.graph.executor import Executor
from tessera.graph.formats import DataFormat
from tessera.graph.ir import Graph


def default_arch() -> BackendDevice:
    """Which chip a software device is when nobody says: the original's switches, else Wormhole for silicon and Grayskull for models."""
    if "GOLDEN_WORMHOLE_B0" in os.environ:
        return BackendDevice.Wormhole_B0
    if "PYBUDA_GOLDEN_BLACKHOLE" in os.environ:
        return BackendDevice.Blackhole
    return BackendDevice.Grayskull


def chips(num_chips: int | None, chip_ids: Sequence[Any] | None) -> list[Any]:
    if chip_ids is not None and len(chip_ids):
        if num_chips is not None and num_chips != 0 and len(chip_ids) != num_chips:
            raise RuntimeError(f"num_chips={num_chips} and chip_ids={list(chip_ids)} disagree; give one of them, or as many ids as chips")
        return list(chip_ids)
    if num_chips is None:
        return [0]
    if num_chips < 0:
        raise RuntimeError(f"num_chips={num_chips} must not be negative")
    from pybuda.run.api import detect_available_devices

    return list(range(num_chips or len(detect_available_devices())))


class TTDevice(Device):
    is_tt = True

    def __init__(
        self,
        name: str,
        num_chips: int | None = None,
        chip_ids: Sequence[Any] | None = None,
        arch: BackendDevice | None = None,
        devtype: BackendType | None = None,
        device_mode: DeviceMode | None = None,
        optimizer: Optimizer | None = None,
        scheduler: Any = None,
        fp32_fallback: DataFormat = DataFormat.Float16_b,
        mp_context: Any = None,
        module: Module | Sequence[Module] | None = None,
    ) -> None:
        chosen = devtype if devtype is not None else BackendType.Golden if "PYBUDA_DEVMODE" in os.environ else BackendType.Silicon
        self.chip_ids = chips(num_chips, chip_ids)
        self.arch_given, self.devtype_given = arch is not None, devtype is not None
        if arch is None:
            arch = (
                BackendDevice.Wormhole_B0
                if chosen is BackendType.Silicon and "PYBUDA_EMULATE_SILICON_DEVICE" not in os.environ
                else default_arch()
            )
        if arch is BackendDevice.Invalid:
            raise RuntimeError("arch=BackendDevice.Invalid is no chip; choose Grayskull, Wormhole_B0 or Blackhole")
        super().__init__(name, mp_context)
        self.arch, self.devtype = arch, chosen
        self.device_mode = device_mode if device_mode is not None else DeviceMode.CompileAndRun
        self.optimizer, self.scheduler, self.fp32_fallback = optimizer, scheduler, fp32_fallback
        self._compile_output: CompileResults | None = None
        self._compiled_graph_state: CompiledGraphState | None = None
        self._states: dict[str, State] = {}
        self._updates: dict[str, torch.Tensor] = {}  # new values from the host, kept across recompilation
        self._active_subgraph = 0
        self._executor: Executor | None = None
        self._losses: list[torch.Tensor] = []
        if module is not None:
            self.place_module(module)

    # compiling --------------------------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph | None:
        return self._compile_output.graph if self._compile_output is not None else None

    @property
    def executor(self) -> Executor:
        if self._executor is None:
            raise RuntimeError(f"{self!r} is not compiled yet; run it, or call initialize_pipeline")
        return self._executor

    def prepare(
        self, sample: Any, kwargs: dict[str, Any], targets: Sequence[torch.Tensor], training: bool, verify_cfg: Any
    ) -> list[torch.Tensor]:
        if not self.modules and self.loss_module is None:
            raise RuntimeError(f"{self!r} has no module; place_module first")
        if len(self.chip_ids) > 1:
            warn_once(
                f"{self!r} stands for {len(self.chip_ids)} chips, but spreading a graph over several is not built yet: it is placed on chip {self.chip_ids[0]}"
            )
        self._arguments = (sample, kwargs, targets, training, verify_cfg)
        self._compile()
        compiled = self._compile_output
        assert compiled is not None
        return [torch.zeros(n.shape, dtype=n.dtype) for n in compiled.graph.outputs]

    def _compile(self) -> None:
        sample, kwargs, targets, training, verify_cfg = self._arguments
        if self._executor is not None and self._executor.graph.gradients:  # what training made of the weights outlives its graph
            self._updates.update({name: self._executor.parameter(name).clone() for name in self._executor.parameters})
        self._compile_output = compile_device(
            self, sample, kwargs, targets=targets, training=training, verify_cfg=verify_cfg, values=self._updates
        )
        self._compiled_graph_state = CompiledGraphState.of(self, self._compile_output, training)
        depth = self._compile_output.compiled.options.depth
        self._compiled = True
        self._executor = (
            self._compile_output.compiled.executor if depth is CompileDepth.FULL and self.devtype is not BackendType.NoBackend else None
        )

    def get_compiled_results(self) -> CompileResults:
        if self._compile_output is None:
            raise RuntimeError(f"{self!r} is not compiled yet; run it, or call initialize_pipeline")
        return self._compile_output

    def compile_to_image(
        self,
        *,
        img_path: str | None = None,
        training: bool = False,
        sample_inputs: Any = (),
        sample_targets: Any = (),
        microbatch_count: int = 1,
        verify_cfg: Any = None,
        cpueval_outputs: Any = None,
    ) -> Any:
        raise NotImplementedError("compile_to_image: device images (TTI) are not built yet")

    @staticmethod
    def load_image(*, img: Any = None, img_path: str | None = None, device_id_overrides: Any = None) -> Any:
        raise NotImplementedError("load_image: device images (TTI) are not built yet")

    def get_device_config(self, compiler_cfg: Any = None) -> dict[str, Any]:
        from tessera.graph.passes.place import CHIPS

        chip = CHIPS[self.arch.to_string()]
        return {
            "arch": self.arch,
            "chip_ids": self.chip_ids,
            "grid_size": [chip.rows, chip.columns],
            "l1_size": chip.l1,
            "dram_channels": chip.channels,
        }

    def set_active_subgraph(self, index: int) -> None:
        if index != 0:
            raise NotImplementedError(
                "set_active_subgraph: compile_subgraphs is not built; the modules of a device form one graph, number 0"
            )

    def get_active_subgraph(self) -> int:
        return self._active_subgraph

    def generate(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("TTDevice.generate is not built; use run_generate")

    # running ----------------------------------------------------------------------------------------------------------

    def _runner(self) -> Executor:
        if self._executor is None:
            depth = self._compile_output.compiled.reached.name if self._compile_output is not None else "nothing"
            raise RuntimeError(f"{self!r} was compiled to {depth} only (CompileDepth, or BackendType.NoBackend), so it cannot run")
        return self._executor

    def forward(self, inputs: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], training: bool) -> list[torch.Tensor]:
        runner = self._executor or self._runner()
        outputs = runner.forward((*inputs, *targets), keep=training) if targets else runner.forward(inputs, keep=training)
        if training and runner.losses:
            self._losses.append(runner.losses[0])
        if runner.intermediates and not training:
            context().intermediates_queue.put(
                [TensorFromPytorch(t, n.format) for t, n in zip(runner.intermediates, runner.intermediate_nodes)]
            )
        return outputs

    def loss_values(self) -> tuple[float, ...]:
        done, self._losses = self._losses, []
        return tuple(float(loss.float().sum()) for loss in done)

    def backward(self, gradients: Sequence[torch.Tensor], zero_grad: bool) -> list[torch.Tensor]:
        runner = self._runner()
        arriving = dict(zip((o.name for o in runner.graph.outputs if o.dtype.is_floating_point), gradients))
        wanted = [arriving[g.name.removesuffix("_gradient")] for g in runner.output_gradients]
        given = runner.backward(wanted, zero=zero_grad)
        return [given[n.name] if n.name in given else torch.zeros(n.shape, dtype=n.dtype) for n in runner.inputs if n.requires_grad]

    def optimizer_step(self) -> None:
        if self.optimizer is None:
            return
        runner = self._runner()
        chosen = self.optimizer.names()
        rate = self.optimizer.learning_rate
        with torch.no_grad():
            for name, gradient in runner.gradients.items():
                if chosen is not None and name not in chosen:
                    continue
                value = runner.parameter(name).float()
                state = self._states.get(name) or self.optimizer.initial_state(value)
                updated, self._states[name] = self.optimizer.step(value, gradient.float(), rate, state)
                runner.set_parameter(name, updated)

    def scheduler_step(self) -> None:
        if self.scheduler is not None:
            self.scheduler.step()

    # parameters -------------------------------------------------------------------------------------------------------

    def read_parameters(self) -> dict[str, Any]:
        found: dict[str, Tensor] = {}
        runner = self._executor
        graph = self._compile_output.initial_graph if self._compile_output is not None else None
        if graph is None:
            return {p.get_name(): TensorFromPytorch(p.value()) for p in self.get_parameters() if p.has_value()}
        for node in graph.nodes:
            if node.kind.value != "parameter":
                continue
            if runner is not None and node.name in runner.parameters:
                found[node.name] = TensorFromPytorch(runner.parameter(node.name).clone(), runner.parameters[node.name].format)
            else:  # folded into another value: what it is made from
                value = self._updates.get(node.name, node.value)
                found[node.name] = TensorFromPytorch(value.detach().clone())
        return found

    def read_gradients(self) -> dict[str, Any]:
        return {n: TensorFromPytorch(g.clone()) for n, g in self._runner().gradients.items()}

    def write_parameters(self, values: Mapping[str, Any]) -> None:
        runner = self._runner()
        assert self._compile_output is not None
        initial = self._compile_output.initial_graph
        again = False
        for name, value in values.items():
            new = to_pt_tensor(value).detach()
            if name in runner.parameters:
                runner.set_parameter(name, new)
            elif name in initial and initial[name].kind.value == "parameter":
                if tuple(new.shape) != initial[name].shape:
                    raise RuntimeError(f"parameter {name!r} has shape {list(initial[name].shape)}, the new value has {list(new.shape)}")
                again = True
            else:
                raise RuntimeError(f"{self!r} has no parameter {name!r}; it has {', '.join(list(runner.parameters)[:8]) or 'none'}")
            self._updates[name] = new.clone()
        if again:
            self._compile()

    def stop(self) -> None:
        super().stop()
        self._compile_output = None
        self._executor = None
        self._states.clear()
        self._updates.clear()
        self._losses.clear()

    def remove_modules(self) -> list[Module]:
        self._updates.clear()
        return super().remove_modules()


class TTCluster:
    """Several TTDevices as one. The original's never worked; a TTDevice with several chips is what replaces it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("TTCluster is not built; use one TTDevice with num_chips or chip_ids")
