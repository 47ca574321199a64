"""Compiler configuration: every option of the original is accepted; one whose feature is not built yet says so once, when it is set."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from loguru import logger

from pybuda._C import DRAMPlacementAlgorithm, NodeEpochType
from pybuda._C.backend_api import DeviceMode
from pybuda._C.enums import JsonEnum
from pybuda.tensor import warn_once
from tessera.graph.compiler import CompileDepth as CompileDepth
from tessera.graph.formats import DataFormat, MathFidelity


class PerfTraceLevel(JsonEnum):
    NONE = 0
    LIGHT = 1
    VERBOSE = 2


class TTIDumpFormat(JsonEnum):
    DEFAULT = "pkl"
    BACKEND = "bin"
    BACKEND_TILIZED = "tbin"


# Options that change what is compiled or run here. Every other one is accepted, kept, and warned about when it is set to something new.
BUILT = {
    "enable_training",
    "enable_consteval",
    "enable_auto_fusing",
    "compile_depth",
    "enable_tvm_dropout",
    "default_df_override",
    "default_accumulate_df",
    "default_math_fidelity",
    "op_intermediates_to_save",
    "input_queues_on_host",
    "output_queues_on_host",
    "backend_output_dir",
    "op_names_to_epoch_break",
    "op_names_dont_fuse",
    "balancer_op_overrides",
    "device_mode",
    "amp_properties",
    "amp_level",
}
# Options that say how the original did its work, and that mean nothing to a software device: accepted in silence.
MOOT = {
    "enable_t_streaming",
    "enable_stable_softmax",
    "backend_opt_level",
    "enable_tvm_constant_prop",
    "convert_framework_params_to_tvm",
    "compile_tvm_to_python",
    "retain_tvm_python_files",
    "tvm_graph_store_path",
    "tvm_graph_load_path",
    "enable_enumerate_u_kt",
    "use_interactive_placer",
    "scheduler_policy",
    "graph_solver_self_cut_type",
    "enable_single_buffer_fallback",
    "enable_tvm_cpu_fallback",
    "cpu_fallback_ops",
    "enable_device_tilize",
    "enable_conv_prestride",
}
# Variables that are read here, or that name a feature of a later floor; any other PYBUDA_ name is a typo until shown otherwise.
KNOWN_VARIABLES = {
    "PYBUDA_AMP_LIGHT",
    "PYBUDA_AMP_LEVEL",
    "PYBUDA_BUILD_DIR",
    "PYBUDA_COMPILE_DEPTH",
    "PYBUDA_DEFAULT_DF",
    "PYBUDA_DEVMODE",
    "PYBUDA_DISABLE_REPORTIFY_DUMP",
    "PYBUDA_DUMP_MIXED_PRECISION",
    "PYBUDA_EMULATE_SILICON_DEVICE",
    "PYBUDA_ENABLE_AUTO_TRANSPOSE",
    "PYBUDA_FORCE_EMULATE_HARVESTED",
    "PYBUDA_FORCE_FULL_COMPILE_DEPTH",
    "PYBUDA_FORCE_SEQUENTIAL",
    "PYBUDA_FORCE_THREADS",
    "PYBUDA_FORCE_VERIFY_ALL",
    "PYBUDA_GOLDEN_BLACKHOLE",
    "PYBUDA_GRAPH_NAME_SUFFIX",
    "PYBUDA_HOME",
    "PYBUDA_N300_DATA_PARALLEL",
    "PYBUDA_OVERRIDES_VETO",
    "PYBUDA_OVERRIDE_DEVICE_YAML",
    "PYBUDA_OVERRIDE_NUM_CHIPS",
    "PYBUDA_TTI_BACKEND_FORMAT",
    "PYBUDA_TTI_BACKEND_TILIZED_FORMAT",
    "PYBUDA_VERIFY_GOLDEN",
}
_POLICIES = ("default", "NLP", "Ribbon", "CNN", "MinimizeGrid", "MaximizeTMinimizeGrid", "Random", "SingleOpPerEpoch")


@dataclass
class CompilerConfig:
    enable_training: bool = False
    enable_recompute: bool = False
    match_subgraph_patterns: int | None = None
    balancer_policy: str = "default"
    scheduler_policy: str = "ModuleInputsBFS"
    enable_t_streaming: bool = True
    manual_t_streaming: bool = False
    enable_consteval: bool = True
    enable_auto_fusing: bool = True
    compile_subgraphs: bool = False
    graph_solver_self_cut_type: str = "FastCut"
    use_interactive_placer: bool = True
    enable_enumerate_u_kt: bool = True
    enable_link_past_cache_ios: bool = False
    enable_pt2_fx_graph_link: bool = False
    compile_depth: CompileDepth = CompileDepth.FULL
    enable_tvm_cpu_fallback: bool = True
    cpu_fallback_ops: set[str] = field(default_factory=lambda: {"embedding"})
    enable_tm_cpu_fallback: bool = False
    tm_cpu_fallback_max_depth: int = 10
    enable_tvm_dropout: bool = False
    enable_tvm_unsupported_ops: bool = False
    enable_op_level_comparision: bool = False
    enable_tvm_constant_prop: bool = False
    convert_framework_params_to_tvm: bool = True
    enable_xla_jax_convert: bool = False
    enable_tvm_jax_freeze_large_model: bool = True
    framework_model_output_names: list[str] = field(default_factory=list)
    tvm_constnat_prop_mask: set[str] = field(default_factory=set)
    compile_tvm_to_python: bool = True
    retain_tvm_python_files: bool = False
    tvm_graph_store_path: str = ""
    tvm_graph_load_path: str = ""
    tvm_module_to_num_patterns: dict[str, int] = field(default_factory=dict)
    enable_conv_prestride: bool = True
    max_pool_add_sub_surround: bool = False
    max_pool_add_sub_surround_value: float = 1.0
    loopback_outputs: dict[str, int] = field(default_factory=dict)
    enable_device_tilize: bool = False
    enable_forked_dram_inputs: bool = False
    chip_placement_policy: str = "MMIO_LAST"
    op_names_to_epoch_break: list[Any] = field(default_factory=list)
    op_names_to_chip_break: list[Any] = field(default_factory=list)
    op_names_dont_fuse: list[str] = field(default_factory=list)
    op_names_manual_fuse: list[str] = field(default_factory=list)
    balancer_op_overrides: dict[str, dict[str, Any]] = field(default_factory=dict)
    default_dram_parameters: bool | None = None
    placer_op_overrides: list[Any] = field(default_factory=list)
    default_df_override: DataFormat | None = None
    default_accumulate_df: DataFormat | None = None
    enable_broadcast_splitting: bool = False
    default_math_fidelity: MathFidelity = MathFidelity.HiFi3
    performance_trace: PerfTraceLevel = PerfTraceLevel.NONE
    amp_level: int | None = None
    harvesting_mask: int = 0
    enable_auto_transposing_placement: bool = field(default_factory=lambda: "PYBUDA_ENABLE_AUTO_TRANSPOSE" in os.environ)
    fracture_groups: list[Any] = field(default_factory=list)
    conv_multi_op_fracture_factor_override: dict[str, int] = field(default_factory=dict)
    enable_stable_softmax: bool = True
    enable_single_buffer_fallback: bool = False
    device_mode: DeviceMode = DeviceMode.CompileAndRun
    backend_opt_level: int = 4
    backend_output_dir: str = ""
    backend_device_descriptor_path: str = ""
    backend_cluster_descriptor_path: str = ""
    backend_runtime_params_path: str = ""
    backend_runtime_args: str = ""
    store_backend_db_to_yaml: bool = False
    input_queues_on_host: bool = True
    output_queues_on_host: bool = True
    manual_dram_queue_placement: dict[str, Any] = field(default_factory=dict)
    buffering_nops_to_insert: dict[str, Any] = field(default_factory=dict)
    insert_queues: list[Any] = field(default_factory=list)
    amp_properties: list[Any] = field(default_factory=list)
    scheduler_constraints: list[Any] = field(default_factory=list)
    paddings: dict[str, bool] = field(default_factory=dict)
    op_intermediates_to_save: list[str] = field(default_factory=list)
    tti_dump_format: TTIDumpFormat = TTIDumpFormat.DEFAULT
    dram_placement_algorithm: DRAMPlacementAlgorithm = DRAMPlacementAlgorithm.ROUND_ROBIN
    device_config: str | None = None

    def __post_init__(self) -> None:
        self.apply_env_config_overrides()
        object.__setattr__(self, "_ready", True)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dataclass_fields__:
            raise AttributeError(f"CompilerConfig has no option {name!r}")
        if self.__dict__.get("_ready") and name not in BUILT | MOOT and value != self.__dict__.get(name):
            _not_built(name)
        object.__setattr__(self, name, value)

    def apply_env_config_overrides(self) -> None:
        """The environment wins over defaults; each variable is read where it is named here and nowhere else."""
        env = os.environ
        for name in sorted(n for n in env if n.startswith("PYBUDA_") and n not in KNOWN_VARIABLES):
            close = difflib.get_close_matches(name, KNOWN_VARIABLES, 1, 0.8)
            warn_once(
                f"environment variable {name} is not known to PyBuda and changes nothing" + (f"; did you mean {close[0]}?" if close else "")
            )
        if "PYBUDA_DEFAULT_DF" in env:
            self.default_df_override = DataFormat.from_json(env["PYBUDA_DEFAULT_DF"])
        if "PYBUDA_COMPILE_DEPTH" in env:
            self.compile_depth = CompileDepth.from_json(env["PYBUDA_COMPILE_DEPTH"])
        if "PYBUDA_FORCE_FULL_COMPILE_DEPTH" in env:
            self.compile_depth = CompileDepth.FULL
        if "PYBUDA_TTI_BACKEND_FORMAT" in env:
            self.tti_dump_format = TTIDumpFormat.BACKEND
        if "PYBUDA_TTI_BACKEND_TILIZED_FORMAT" in env:
            self.tti_dump_format = TTIDumpFormat.BACKEND_TILIZED
        if env.get("PYBUDA_AMP_LEVEL", "0") not in ("", "0"):
            self.amp_level = int(env["PYBUDA_AMP_LEVEL"])
        if env.get("PYBUDA_AMP_LIGHT", "0") not in ("", "0"):
            self.enable_amp_light(int(env["PYBUDA_AMP_LIGHT"]))

    # methods of the original --------------------------------------------------------------------------------------------

    def enable_amp_light(self, level: int = 1) -> None:
        if level not in (0, 1, 2, 3):
            raise ValueError(f"enable_amp_light: level={level} must be 0, 1, 2 or 3")
        if level:
            width, fidelity = {
                1: (DataFormat.Bfp8_b, MathFidelity.HiFi2),
                2: (DataFormat.Bfp4_b, MathFidelity.LoFi),
                3: (DataFormat.Bfp4_b, MathFidelity.LoFi),
            }[level]
            rule = {"op_type": "matmul", "math_fidelity": fidelity, "input_df": {1: (width, False), 2: (width, False)}}
            if rule not in self.amp_properties:
                self.amp_properties.append(rule)

    def place_on_new_epoch(self, op_names: str | Sequence[str]) -> None:
        self.op_names_to_epoch_break += [op_names] if isinstance(op_names, str) else list(op_names)

    def place_on_new_chip(self, op_names: str | Sequence[str]) -> None:
        _not_built("place_on_new_chip")
        self.op_names_to_chip_break += [op_names] if isinstance(op_names, str) else list(op_names)

    def place_queue_to_chip_dram(self, queue_name: str, *, chip_id: int, channel: int) -> None:
        _not_built("place_queue_to_chip_dram")
        self.manual_dram_queue_placement[queue_name] = (chip_id, channel)

    def dont_fuse(self, op_name: str) -> None:
        self.op_names_dont_fuse.append(op_name)

    def manual_fuse(self, op_name: str) -> None:
        _not_built("manual_fuse")
        self.op_names_manual_fuse.append(op_name)

    def balancer_op_override(self, op_name: str, attribute: str, value: Any) -> None:
        if attribute != "grid_shape":
            _not_built(f"balancer_op_override of {attribute}")
        self.balancer_op_overrides.setdefault(op_name, {})[attribute] = value

    def save_intermediates(self, op_name: str) -> None:
        self.op_intermediates_to_save.append(op_name)

    def to_dict(self) -> dict[str, Any]:
        return {f.name: _encode(getattr(self, f.name)) for f in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> CompilerConfig:
        made = cls()
        object.__setattr__(made, "_ready", False)
        for name, value in values.items():
            current = getattr(made, name)
            kind = _ENUM_FIELDS.get(name)
            if kind is not None and isinstance(value, str):
                value = kind.from_json(value)
            elif isinstance(current, set):
                value = set(value)
            setattr(made, name, value)
        object.__setattr__(made, "_ready", True)
        return made


_ENUM_FIELDS: dict[str, Any] = {
    "compile_depth": CompileDepth,
    "default_df_override": DataFormat,
    "default_accumulate_df": DataFormat,
    "default_math_fidelity": MathFidelity,
    "performance_trace": PerfTraceLevel,
    "device_mode": DeviceMode,
    "tti_dump_format": TTIDumpFormat,
    "dram_placement_algorithm": DRAMPlacementAlgorithm,
}


def _encode(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, set):
        return sorted(value)
    return value


def _not_built(what: str) -> None:
    warn_once(f"PyBuda option {what} is accepted, but its feature is not built yet: it changes nothing")


# the global configuration ------------------------------------------------------------------------------------------------

g_compiler_config = CompilerConfig()


def _get_global_compiler_config() -> CompilerConfig:
    return g_compiler_config


def _set_global_compiler_config(config: CompilerConfig) -> None:
    global g_compiler_config
    g_compiler_config = config


def _clear_global_compiler_config() -> None:
    _set_global_compiler_config(CompilerConfig())


def _set_pybuda_override_veto(*_: Any, **__: Any) -> None:
    _not_built("PYBUDA_OVERRIDES_VETO")


def set_configuration_options(
    enable_recompute: bool | None = None,
    balancer_policy: str | None = None,
    place_on_one_row: bool | None = None,
    enable_t_streaming: bool | None = None,
    manual_t_streaming: bool | None = None,
    enable_consteval: bool | None = None,
    default_df_override: DataFormat | None = None,
    accumulate_df: DataFormat | None = None,
    math_fidelity: MathFidelity | None = None,
    performance_trace: PerfTraceLevel | None = None,
    backend_opt_level: int | None = None,
    backend_output_dir: str | None = None,
    backend_device_descriptor_path: str | None = None,
    backend_cluster_descriptor_path: str | None = None,
    backend_runtime_params_path: str | None = None,
    backend_runtime_args: str | None = None,
    enable_auto_fusing: bool | None = None,
    enable_conv_prestride: bool | None = None,
    enable_stable_softmax: bool | None = None,
    amp_level: int | None = None,
    harvested_rows: list[int] | None = None,
    store_backend_db_to_yaml: bool | None = None,
    input_queues_on_host: bool | None = None,
    output_queues_on_host: bool | None = None,
    enable_auto_transposing_placement: bool | None = None,
    use_interactive_placer: bool | None = None,
    op_intermediates_to_save: list[str] | None = None,
    enable_enumerate_u_kt: bool | None = None,
    enable_device_tilize: bool | None = None,
    dram_placement_algorithm: DRAMPlacementAlgorithm | None = None,
    chip_placement_policy: str | None = None,
    enable_forked_dram_inputs: bool | None = None,
    device_config: str | None = None,
) -> None:
    """Set options of the global configuration; what is None stays as it is."""
    given = {k: v for k, v in locals().items() if v is not None}
    config = _get_global_compiler_config()
    renamed = {"accumulate_df": "default_accumulate_df", "math_fidelity": "default_math_fidelity"}
    if given.pop("place_on_one_row", None):
        _not_built("place_on_one_row")
    if "backend_opt_level" in given and not 0 <= given["backend_opt_level"] <= 4:
        raise ValueError(f"backend_opt_level={given['backend_opt_level']} must be 0 to 4")
    if "balancer_policy" in given and given["balancer_policy"] not in _POLICIES:
        raise ValueError(f"balancer_policy={given['balancer_policy']!r} must be one of {', '.join(_POLICIES)}")
    rows = given.pop("harvested_rows", None)
    if rows is not None:
        bad = [r for r in rows if r not in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11)]
        if bad:
            raise ValueError(f"harvested_rows={rows}: only rows 1-5 and 7-11 can be harvested")
        given["harvesting_mask"] = sum(1 << r for r in rows)
    if enable_auto_transposing_placement is not None:
        given["enable_auto_transposing_placement"] = config.enable_auto_transposing_placement or enable_auto_transposing_placement
    for name, value in given.items():
        setattr(config, renamed.get(name, name), value)


# functions beside it -------------------------------------------------------------------------------------------------------


def set_epoch_break(op_names: str | Sequence[str]) -> None:
    _get_global_compiler_config().place_on_new_epoch(op_names)


def set_chip_break(op_names: str | Sequence[str]) -> None:
    _get_global_compiler_config().place_on_new_chip(op_names)


def override_op_size(op_name: str, grid_size: tuple[int, int]) -> None:
    _get_global_compiler_config().balancer_op_override(op_name, "grid_shape", tuple(grid_size))


def override_dram_queue_placement(queue_name: str, *, chip_id: int = 0, channel: int = 0) -> None:
    _get_global_compiler_config().place_queue_to_chip_dram(queue_name, chip_id=chip_id, channel=channel)


def add_cpu_fallback_ops(op_types: str | Sequence[str]) -> None:
    _get_global_compiler_config().cpu_fallback_ops.update([op_types] if isinstance(op_types, str) else op_types)


def remove_cpu_fallback_ops(op_types: str | Sequence[str]) -> None:
    _get_global_compiler_config().cpu_fallback_ops.difference_update([op_types] if isinstance(op_types, str) else op_types)


_PRECISION_KEYS = ("epoch_type", "name_regex", "op_type", "is_gradient_op")


def configure_mixed_precision(
    *,
    op_type: str | None = None,
    epoch_type: NodeEpochType | str | None = None,
    output_df: DataFormat | None = None,
    intermediate_df: DataFormat | None = None,
    accumulate_df: DataFormat | None = None,
    math_fidelity: MathFidelity | None = None,
    name_regex: str | None = None,
    input_df: Any = None,
    is_gradient_op: bool | None = None,
    input_parameter_indices_to_optimize: Any = None,
) -> None:
    """Keep a precision rule for the compiler."""
    given = dict(locals())
    if all(given[k] is None for k in _PRECISION_KEYS):
        raise ValueError(f"configure_mixed_precision needs at least one of {', '.join(_PRECISION_KEYS)}")
    if input_parameter_indices_to_optimize is not None:
        _not_built("input_parameter_indices_to_optimize")
    if isinstance(epoch_type, str) and epoch_type.lower() not in ("fwd", "bwd", "opt", "forward", "backward", "optimizer"):
        raise ValueError(f"configure_mixed_precision: epoch_type={epoch_type!r} must be 'fwd', 'bwd' or 'opt'")
    _get_global_compiler_config().amp_properties.append({k: v for k, v in given.items() if v is not None})


def insert_nop(
    src_op: str, dest_ops: str | Sequence[str], *, hoist_tms: bool = True, nop_count: int = 1, daisy_chain: bool = False
) -> None:
    _not_built("insert_nop")
    dests = (dest_ops,) if isinstance(dest_ops, str) else tuple(dest_ops)
    _get_global_compiler_config().buffering_nops_to_insert[f"{src_op}->{','.join(dests)}"] = (hoist_tms, nop_count, daisy_chain)


def insert_buffering_nop(
    src_op: str, dest_ops: str | Sequence[str], *, hoist_tms: bool = True, nop_count: int = 1, daisy_chain: bool = False
) -> None:
    logger.warning("insert_buffering_nop is deprecated; use insert_nop")
    insert_nop(src_op, dest_ops, hoist_tms=hoist_tms, nop_count=nop_count, daisy_chain=daisy_chain)


def _internal_insert_fj_buffering_nop(
    src_op: str, dest_ops: str | Sequence[str], *, hoist_tms: bool = True, nop_count: int = 1, daisy_chain: bool = False
) -> None:
    insert_nop(src_op, dest_ops, hoist_tms=hoist_tms, nop_count=nop_count, daisy_chain=daisy_chain)


def add_schedule_constraint(partial_ordering: Sequence[str]) -> None:
    _get_global_compiler_config().scheduler_constraints.append(list(partial_ordering))
    _not_built("add_schedule_constraint")


def set_auto_transposing_placement(op_names: Any = None, enable: bool = True) -> None:
    _get_global_compiler_config().enable_auto_transposing_placement = enable


def _accepted(name: str) -> Callable[..., None]:
    """A tuning knob of the original's balancer or placer: it is heard, and it changes nothing here."""

    def knob(*_: Any, **__: Any) -> None:
        _not_built(name)

    knob.__name__ = name
    knob.__doc__ = f"{name} of the original: accepted, and warned about once."
    return knob


override_dram_parameters = _accepted("override_dram_parameters")
override_t_stream_dir = _accepted("override_t_stream_dir")
override_t_stream_shape = _accepted("override_t_stream_shape")
override_u_kt = _accepted("override_u_kt")
override_input_buffer_multiplier = _accepted("override_input_buffer_multiplier")
internal_override_output_buffer_multiplier = _accepted("internal_override_output_buffer_multiplier")
override_multi_op_fracture_factor = _accepted("override_multi_op_fracture_factor")
insert_fracture_group = _accepted("insert_fracture_group")
override_op_placement = _accepted("override_op_placement")
set_num_repeated_patterns = _accepted("set_num_repeated_patterns")
