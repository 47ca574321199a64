"""From a device with modules on it to a compiled graph: reads the configuration, runs the compiler, keeps what clients ask for."""

from __future__ import annotations

import getpass
import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pybuda.config import CompilerConfig, _get_global_compiler_config
from pybuda.frontend import chain
from pybuda.tensor import TensorFromPytorch, warn_once
from tessera.graph.compiler import Compiled, CompileDepth, Options, compile_graph, report
from tessera.graph.executor import evaluate
from tessera.graph.formats import DataFormat, MathFidelity
from tessera.graph.ir import Epoch, Graph, GraphError, Kind
from tessera.graph.passes.formats import PrecisionRule
from tessera.graph.passes.optimize import AppendOptimizer
from tessera.graph.passes.place import CHIPS, Chip

if TYPE_CHECKING:
    from pybuda.ttdevice import TTDevice


@dataclass
class CompileResults:
    """What one compilation made, by the names of the original."""

    compiled: Compiled
    outputs: list[Any] = field(default_factory=list)
    golden_outputs: list[Any] = field(default_factory=list)
    golden_intermediates: dict[str, Any] = field(default_factory=dict)
    perf_model_results: dict[str, float] = field(default_factory=dict)
    pass_specific_output_kwargs: dict[str, Any] = field(default_factory=dict)
    output_dir: str = ""

    @property
    def graph(self) -> Graph:
        return self.compiled.graph

    @property
    def initial_graph(self) -> Graph:
        return self.compiled.initial

    @property
    def lowered_graph(self) -> Graph | None:
        return self.compiled.lowered

    @property
    def netlist(self) -> str | None:
        return self.compiled.netlist

    @property
    def netlist_filename(self) -> str:
        """The netlist as a file, in the output directory; written when it is first asked for."""
        if self.compiled.netlist is None:
            raise RuntimeError(f"there is no netlist: the compilation stopped at {self.compiled.reached.name}")
        directory = Path(self.output_dir or output_directory(self.compiled.graph.name))
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.compiled.graph.name}_netlist.yaml"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(self.compiled.netlist, encoding="utf-8")
        os.replace(temporary, path)
        return str(path)


def output_directory(name: str) -> str:
    base = os.environ.get("PYBUDA_BUILD_DIR")
    if base:
        return base
    digest = hashlib.sha256(f"{os.getcwd()}:{name}".encode()).hexdigest()[:12]
    return str(Path(tempfile.gettempdir()) / f"pybuda_{getpass.getuser()}" / digest)


def chip_of(device: TTDevice) -> Chip:
    return CHIPS[device.arch.to_string()]


def options_for(device: TTDevice, config: CompilerConfig, training: bool, batch: int) -> Options:
    default, rules = amp_rules(config.amp_level or 0, config.default_df_override)
    sizes = tuple(sorted((op, tuple(v["grid_shape"])) for op, v in config.balancer_op_overrides.items() if "grid_shape" in v))
    return Options(
        chip=chip_of(device),
        training=training,
        depth=config.compile_depth,
        default_format=default,
        fp32_fallback=device.fp32_fallback if chip_of(device).arch == "grayskull" else None,
        accumulate=config.default_accumulate_df,
        fidelity=config.default_math_fidelity,
        precision=(*rules, *(_rule(p) for p in config.amp_properties)),
        consteval=config.enable_consteval,
        fuse=config.enable_auto_fusing,
        dont_fuse=frozenset(config.op_names_dont_fuse),
        intermediates=tuple(config.op_intermediates_to_save),
        epoch_breaks=frozenset(n for n in config.op_names_to_epoch_break if isinstance(n, str)),
        op_sizes=sizes,  # type: ignore[arg-type]
        batch=batch,
        optimizer=_optimizer(device) if training else None,
        inputs_on_host=config.input_queues_on_host,
        outputs_on_host=config.output_queues_on_host,
    )


def amp_rules(level: int, default: DataFormat | None) -> tuple[DataFormat | None, tuple[PrecisionRule, ...]]:
    """The default format and the rules of an AMP level: block floats everywhere, 16 bits where sums and exponentials need them.

    The default's family decides between the two tables; without a default, level 1 is the family with eight exponent bits and level 2 the
    other one. As the guide promises, what has no rule is in eight bits, unless the user chose another default.
    """
    if level == 0:
        return default, ()
    if level not in (1, 2):
        warn_once(f"amp_level={level} is no level (0, 1 or 2); it changes nothing")
        return default, ()
    b_family = default.name.endswith("_b") if default is not None else level == 1
    wide, narrow = (DataFormat.Float16_b, DataFormat.Bfp8_b) if b_family else (DataFormat.Float16, DataFormat.Bfp8)
    rules = [
        PrecisionRule(op_type=op, output=wide, intermediate=wide, accumulate=wide, expected=False)
        for op in ("softmax", "log_softmax", "layernorm", "rms_norm")
    ]
    weights = ((1, narrow, False), (2, narrow, False))
    rules.append(
        PrecisionRule(
            op_type="matmul",
            output=narrow,
            intermediate=narrow,
            accumulate=wide,
            fidelity=MathFidelity.HiFi2,
            inputs=weights,
            expected=False,
        )
    )
    rules.append(PrecisionRule(op_type="fused_op", output=wide, intermediate=wide, accumulate=wide, expected=False))
    return default or narrow, tuple(rules)


def _optimizer(device: TTDevice) -> AppendOptimizer | None:
    if device.optimizer is None:
        return None
    narrow = chip_of(device).arch == "grayskull"
    return AppendOptimizer(
        device.optimizer.step, tuple(device.optimizer.get_optimizer_state_keys()), device.fp32_fallback if narrow else DataFormat.Float32
    )


def _rule(given: dict[str, Any]) -> PrecisionRule:
    """What `configure_mixed_precision` was given, as the compiler wants it."""
    epoch = given.get("epoch_type")
    if epoch is not None:
        name = epoch if isinstance(epoch, str) else epoch.name
        epoch = {
            "fwd": Epoch.FORWARD,
            "forward": Epoch.FORWARD,
            "bwd": Epoch.BACKWARD,
            "backward": Epoch.BACKWARD,
            "opt": Epoch.OPTIMIZER,
            "optimizer": Epoch.OPTIMIZER,
        }[name.lower()]
    wanted = given.get("input_df")
    if isinstance(wanted, DataFormat):
        wanted = dict.fromkeys(range(8), (wanted, True))
    pairs = {port: v if isinstance(v, tuple) else (v, False) for port, v in (wanted or {}).items()}
    return PrecisionRule(
        op_type=given.get("op_type"),
        name_regex=given.get("name_regex"),
        epoch=epoch,
        is_gradient=given.get("is_gradient_op"),
        output=given.get("output_df"),
        intermediate=given.get("intermediate_df"),
        accumulate=given.get("accumulate_df"),
        fidelity=given.get("math_fidelity"),
        inputs=tuple((port, fmt, bool(activations)) for port, (fmt, activations) in sorted(pairs.items())),
    )


def compile_device(
    device: TTDevice,
    sample: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    targets: Sequence[torch.Tensor] = (),
    training: bool = False,
    verify_cfg: Any = None,
    config: CompilerConfig | None = None,
    graph_name: str = "",
    values: Mapping[str, torch.Tensor] | None = None,
) -> CompileResults:
    """Compile what is placed on `device` for inputs like `sample` and `kwargs`."""
    config = config or _get_global_compiler_config()
    name = graph_name or (device.modules[0].name if device.modules else device.name)
    loss = device.loss_module if training else None
    if training and not device.modules:
        raise GraphError(f"{device!r} has a loss but no module; place_module first")
    graph = chain(
        name, device.modules, list(sample), kwargs, training=training, dropout=config.enable_tvm_dropout, loss=loss, targets=targets
    )
    for parameter, value in (values or {}).items():
        if parameter in graph:
            graph[parameter].value = value
    missing = [n for n in config.op_intermediates_to_save if n not in graph]
    if missing:
        raise GraphError(
            f"op_intermediates_to_save names {', '.join(missing)}, which {name} does not have; its operations are {', '.join(n.name for n in graph.ops()[:12])}, ..."
        )
    leaves = [t for t in torch.utils._pytree.tree_leaves([list(sample), kwargs]) if isinstance(t, torch.Tensor)]
    batch = leaves[0].shape[0] if leaves and leaves[0].dim() else 1
    options = options_for(device, config, training, batch)
    watch = (
        _checker(leaves, list(targets), verify_cfg)
        if "PYBUDA_FORCE_VERIFY_ALL" in os.environ or getattr(verify_cfg, "verify_all", False)
        else None
    )
    compiled = compile_graph(graph, options, watch)
    results = CompileResults(compiled, output_dir=config.backend_output_dir)
    results.outputs = [
        TensorFromPytorch(torch.zeros(n.shape, dtype=n.dtype if n.dtype is not torch.bool else torch.int32)) for n in graph.outputs
    ]
    results.pass_specific_output_kwargs = {
        "placer_solution": compiled.placement,
        "output_host_tms": {},
        "consteval_trace": {},
        "match_result": None,
    }
    return results


def _checker(leaves: list[torch.Tensor], targets: list[torch.Tensor], verify_cfg: Any) -> Any:
    """After every pass the graph must still compute, in full precision, what it computed before the first."""
    reference: list[torch.Tensor] = []

    def watch(depth: CompileDepth, name: str, graph: Graph) -> None:
        if not graph.outputs or (graph.of(Kind.GRADIENT) and depth.value >= CompileDepth.BUDA_GRAPH_PRE_PLACER.value and name == "lower"):
            return
        forward = evaluate(graph, [*leaves, *targets][: len(graph.of(Kind.INPUT, Kind.TARGET))])
        if not reference:
            reference.extend(forward)
            return
        for index, (now, before) in enumerate(zip(forward, reference)):
            if not torch.allclose(now.float(), before.float(), rtol=1e-3, atol=1e-4, equal_nan=True):
                worst = (now.float() - before.float()).abs().max().item()
                raise GraphError(f"pass {name!r} changed output {index} of {graph.name} by {worst:.3g}")

    return watch


def pybuda_compile(
    dev: TTDevice,
    graph_name: str,
    *inputs: Any,
    targets: Sequence[Any] = (),
    compiler_cfg: CompilerConfig | None = None,
    verify_cfg: Any = None,
    losses: Any = None,
    microbatch_size: int = 1,
    microbatch_count: int = 1,
) -> CompileResults:
    """Compile the modules of a device by hand, without running anything."""
    from pybuda.tensor import to_pt_tensors

    config = compiler_cfg or _get_global_compiler_config()
    training = config.enable_training
    return compile_device(
        dev,
        [t for t in to_pt_tensors(list(inputs)) if t is not None],
        {},
        targets=[t for t in to_pt_tensors(list(targets)) if t is not None],
        training=training,
        verify_cfg=verify_cfg,
        config=config,
        graph_name=graph_name,
    )


def compile_report(device: TTDevice | None = None) -> dict[str, Any]:
    """Placement, memory by channel and operation counts of a compiled device (the first one by default), as plain data."""
    from pybuda.pipeline.context import context
    from pybuda.ttdevice import TTDevice as Kind_

    chosen = device or next((d for d in context().devices if isinstance(d, Kind_)), None)
    if chosen is None or chosen._compile_output is None:
        raise RuntimeError("compile_report: nothing is compiled yet; run the pipeline, or call initialize_pipeline")
    made = report(chosen._compile_output.compiled)
    made["device"] = chosen.name
    made["arch"] = chosen.arch.name
    return made
