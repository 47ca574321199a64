"""Configuration: accepted whole, checked, and honest about what is not built."""

from __future__ import annotations

import json
import pickle

import pytest
import torch
from loguru import logger
from torch import nn

import pybuda
from pybuda import config
from pybuda._C import DRAMPlacementAlgorithm
from pybuda._C.backend_api import BackendDevice, BackendType, DeviceMode


@pytest.fixture
def messages():
    from pybuda import tensor

    tensor.SAID.clear()
    lines: list[str] = []
    sink = logger.add(lambda m: lines.append(str(m)), level="WARNING")
    yield lines
    logger.remove(sink)


def test_every_option_is_accepted(messages):
    pybuda.set_configuration_options(
        enable_recompute=True, balancer_policy="Ribbon", place_on_one_row=True, enable_t_streaming=False, manual_t_streaming=True, enable_consteval=True,
        default_df_override=pybuda.DataFormat.Float16_b, accumulate_df=pybuda.DataFormat.Float16_b, math_fidelity=pybuda.MathFidelity.HiFi4,
        performance_trace=config.PerfTraceLevel.LIGHT, backend_opt_level=2, backend_output_dir="build", backend_device_descriptor_path="a.yaml",
        backend_cluster_descriptor_path="b.yaml", backend_runtime_params_path="c.yaml", backend_runtime_args="-x", enable_auto_fusing=True,
        enable_conv_prestride=False, enable_stable_softmax=True, amp_level=1, harvested_rows=[1, 11], store_backend_db_to_yaml=True,
        input_queues_on_host=False, output_queues_on_host=False, enable_auto_transposing_placement=True, use_interactive_placer=False,
        op_intermediates_to_save=["a"], enable_enumerate_u_kt=False, enable_device_tilize=True, dram_placement_algorithm=DRAMPlacementAlgorithm.CLOSEST,
        chip_placement_policy="SNAKE", enable_forked_dram_inputs=True, device_config="wh_n150",
    )  # fmt: skip
    own = config._get_global_compiler_config()
    assert own.default_accumulate_df is pybuda.DataFormat.Float16_b
    assert own.default_math_fidelity is pybuda.MathFidelity.HiFi4
    assert own.harvesting_mask == 2050
    assert any("enable_recompute" in m for m in messages)
    assert any("place_on_one_row" in m for m in messages)
    assert not any("default_df_override" in m or "math_fidelity" in m for m in messages)


def test_an_option_without_its_feature_warns_once(messages):
    for _ in range(3):
        pybuda.set_configuration_options(enable_recompute=True)
        pybuda.config._clear_global_compiler_config()
    assert len([m for m in messages if "enable_recompute" in m]) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [({"backend_opt_level": 5}, "0 to 4"), ({"balancer_policy": "Best"}, "Ribbon"), ({"harvested_rows": [0]}, "only rows 1-5 and 7-11")],
)
def test_wrong_values(options, words):
    with pytest.raises(ValueError, match=words):
        pybuda.set_configuration_options(**options)
    with pytest.raises(TypeError):
        pybuda.set_configuration_options(no_such_option=1)
    with pytest.raises(AttributeError, match="no option 'typo'"):
        config._get_global_compiler_config().typo = 1


def test_configuration_travels_through_json():
    pybuda.set_configuration_options(default_df_override=pybuda.DataFormat.Bfp8_b, math_fidelity=pybuda.MathFidelity.LoFi)
    own = config._get_global_compiler_config()
    again = config.CompilerConfig.from_dict(json.loads(json.dumps(own.to_dict())))
    assert again.to_dict() == own.to_dict()
    assert again.default_df_override is pybuda.DataFormat.Bfp8_b
    assert len(own.to_dict()) >= 78


@pytest.mark.parametrize(
    "enum",
    [
        pybuda.DataFormat,
        pybuda.MathFidelity,
        BackendType,
        BackendDevice,
        DeviceMode,
        config.CompileDepth,
        config.PerfTraceLevel,
        config.TTIDumpFormat,
        DRAMPlacementAlgorithm,
    ],
)
def test_enums_travel(enum):
    for member in enum:
        assert pickle.loads(pickle.dumps(member)) is member
        assert enum.from_json(member.to_json()) is member
        assert member in {member: 1}
        assert member.name


def test_enum_values():
    assert {f.name: f.value for f in pybuda.DataFormat} == {
        "Float32": 0, "Float16": 1, "Bfp8": 2, "Bfp4": 3, "Bfp2": 11, "Float16_b": 5, "Bfp8_b": 6, "Bfp4_b": 7, "Bfp2_b": 15, "Lf8": 10, "UInt16": 12,
        "Int8": 14, "Int32": 8, "RawUInt8": 0xF0, "RawUInt16": 0xF1, "RawUInt32": 0xF2, "Invalid": 0xFF,
    }  # fmt: skip
    assert {f.name: f.value for f in pybuda.MathFidelity if f.name != "Invalid"} == {"LoFi": 0, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}
    assert len(config.CompileDepth) == 15
    assert config.CompileDepth.FULL.value == 14
    assert BackendDevice.from_string("wormhole_b0") is BackendDevice.Wormhole_B0
    assert BackendDevice.Wormhole_B0.to_string() == "wormhole_b0"


def test_the_environment(monkeypatch):
    monkeypatch.setenv("PYBUDA_DEFAULT_DF", "Bfp8_b")
    monkeypatch.setenv("PYBUDA_COMPILE_DEPTH", "generate_netlist")
    monkeypatch.setenv("PYBUDA_TTI_BACKEND_FORMAT", "1")
    own = config.CompilerConfig()
    assert own.default_df_override is pybuda.DataFormat.Bfp8_b
    assert own.compile_depth is config.CompileDepth.GENERATE_NETLIST
    assert own.tti_dump_format is config.TTIDumpFormat.BACKEND
    monkeypatch.setenv("PYBUDA_DEVMODE", "1")
    monkeypatch.setenv("GOLDEN_WORMHOLE_B0", "1")
    device = pybuda.TTDevice("tt0")
    assert (device.devtype, device.arch) == (BackendType.Golden, BackendDevice.Wormhole_B0)


def test_force_sequential(monkeypatch):
    monkeypatch.setenv("PYBUDA_FORCE_SEQUENTIAL", "1")
    pybuda.run_inference(pybuda.PyTorchModule("l", nn.Linear(2, 2)), inputs=[torch.randn(1, 2)]).get()
    from pybuda.pipeline.context import context

    assert context().sequential
    assert not context().workers


def test_unknown_variables_are_named(monkeypatch, messages):
    monkeypatch.setenv("PYBUDA_AMP_LIHGT", "1")
    config.CompilerConfig()
    assert any("PYBUDA_AMP_LIHGT" in m and "PYBUDA_AMP_LIGHT" in m for m in messages)


def test_mixed_precision_needs_a_criterion():
    with pytest.raises(ValueError, match="at least one of"):
        config.configure_mixed_precision(output_df=pybuda.DataFormat.Bfp8_b)
    with pytest.raises(ValueError, match="'fwd', 'bwd' or 'opt'"):
        config.configure_mixed_precision(epoch_type="sideways")


def test_overrides():
    pybuda.override_op_size("mm", (1, 2))
    pybuda.set_epoch_break("mm")
    own = config._get_global_compiler_config()
    assert own.balancer_op_overrides == {"mm": {"grid_shape": (1, 2)}}
    assert own.op_names_to_epoch_break == ["mm"]
    for knob in ("override_u_kt", "override_t_stream_shape", "override_op_placement", "insert_fracture_group"):
        getattr(config, knob)("mm", 1)
    pybuda.insert_nop("a", ["b", "c"])
    config.add_cpu_fallback_ops("conv2d")
    config.remove_cpu_fallback_ops(["embedding"])
    assert own.cpu_fallback_ops == {"conv2d"}


def test_predicates():
    from types import SimpleNamespace

    from pybuda import query

    node = SimpleNamespace(name="layer.0.mm", op="matmul", tags={"original_op_name": "softmax_1", "original_op_type": "softmax"})
    assert query.name_regex(r"layer\..*")(node)
    assert (query.op_type("softmax") & query.layer_regex("softmax_.*"))(node)
    assert (query.op_type("add") | query.op_type("matmul"))(node)
    assert not query.op_type("matmul").negate()(node)
