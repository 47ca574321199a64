"""What to verify, and how closely."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from pybuda._C.backend_api import BackendDevice, BackendType, DeviceMode
from pybuda._C.enums import JsonEnum
from tessera.graph.formats import DataFormat


class TestKind(JsonEnum):
    __test__ = False  # not a test class, whatever its name looks like

    INFERENCE = 1
    TRAINING = 2
    TRAINING_RECOMPUTE = 3

    def is_training(self) -> bool:
        return self is not TestKind.INFERENCE

    def is_recompute(self) -> bool:
        return self is TestKind.TRAINING_RECOMPUTE

    @classmethod
    def get(cls, training: bool, recompute: bool = False) -> TestKind:
        if not training:
            return cls.INFERENCE
        return cls.TRAINING_RECOMPUTE if recompute else cls.TRAINING

    @classmethod
    def get_all(cls) -> list[TestKind]:
        return list(cls)


class NebulaGalaxy:
    chip_ids: list[int] = list(range(32))


def _tolerances(bf16: float, f16: float, f32: float) -> Callable[[], dict[Any, float | None]]:
    return lambda: {torch.float32: f32, torch.float16: f16, torch.bfloat16: bf16, torch.int8: 0.0, torch.int32: 0.0, torch.int64: 0.0}


@dataclass
class VerifyConfig:
    graph_name: str = "graph"
    enabled: bool = True
    intermediates: bool = False
    rtol: Any = field(default_factory=_tolerances(1e-1, 1e-2, 1e-3))
    atol: Any = field(default_factory=_tolerances(1e-1, 1e-2, 1e-3))
    relative_atol: float = 0.1
    pcc: float | None = None
    dump_tensors_path: str = ""
    run_golden: bool = False
    run_net2pipe: bool = False
    golden_ignore_df_precision: bool = True
    chip_ids: Any = None
    num_chips: int | None = None
    verify_each_buda_pass: bool = False
    golden_compare_callback: Any = None
    verify_tvm_compile: bool = False
    verify_pipeline_result_vs_framework: bool = False
    verify_pybuda_codegen_vs_framework: bool = False
    verify_all: bool = False
    verify_last: bool = True
    verify_post_autograd_passes: bool = False
    verify_post_placer: bool = False
    waive_gradient_errors: set[str] = field(default_factory=set)
    override_module_outptus: Any = None
    sequential: bool = True
    test_kind: TestKind = TestKind.INFERENCE
    devtype: BackendType = BackendType.Golden
    devmode: DeviceMode = DeviceMode.CompileAndRun
    arch: BackendDevice = BackendDevice.Grayskull
    scale_loss: float = 50.0
    optimizer: Any = field(default_factory=lambda: {"type": "sgd", "params": {"learning_rate": 50.0}})
    scheduler: Any = None
    epochs: int = 1
    steps: int = 1
    accumulation_steps: int = 1
    microbatch_count: int = 1
    epoch_breaks: list[str] = field(default_factory=list)
    fp32_fallback: DataFormat = DataFormat.Float16_b
    skip_shutdown: bool = False
    tti_path: str | None = None
    checkpoint_interval: int = 1
    enable_input_gradient_checking: bool = True
    enable_parameter_gradient_checking: bool = True

    def __post_init__(self) -> None:
        if self.pcc is None:
            self.pcc = 0.99
        if self.arch is BackendDevice.Grayskull and self.fp32_fallback is DataFormat.Float32:
            raise ValueError("fp32_fallback=Float32: Grayskull has no Float32; choose Float16_b or Float16")

    @classmethod
    def disabled(cls) -> VerifyConfig:
        made = cls(enabled=False)
        made.verify_last = False
        made.scale_loss = 1.0
        return made

    def total_number_of_inputs(self) -> int:
        return self.epochs * self.steps * self.accumulation_steps * self.microbatch_count

    def tolerance(self, which: str, dtype: torch.dtype) -> float:
        value = getattr(self, which)
        return float(value.get(dtype, 0.0) if isinstance(value, dict) else value)
