"""How an operation may be told to run: compute-kernel configs, program configs, slice configs, fused activations."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tessera.formats.arguments import expect, refuse
from tessera.formats.dtype import DataType, Layout
from tessera.formats.enums import OfficialEnum, official_enum
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from tessera.memory.geometry import CoreCoord, CoreRangeSet, set_from_json
from ttnn import enums
from ttnn.bags import CPP_NAMES, Bag, Style, bags
from ttnn.descriptors import core_coord

SliceTypeEnum = official_enum(
    "SliceTypeEnum", {"L1Full": 2, "DRAMSliceHeight": 0, "DRAMSliceWidth": 1}, module="ttnn._ttnn.operations.conv"
)
CPP_NAMES |= {
    SliceTypeEnum.L1Full: "SliceType::L1_FULL",
    SliceTypeEnum.DRAMSliceHeight: "SliceType::DRAM_HEIGHT",
    SliceTypeEnum.DRAMSliceWidth: "SliceType::DRAM_WIDTH",
}


class UnaryWithParam:
    """A unary operation and its parameters, as fused activations are given: `(op, number)` stands for it."""

    __slots__ = ("op_type", "params")

    def __init__(self, *args: Any) -> None:
        if len(args) == 1 and isinstance(args[0], tuple):
            args = args[0]
        if not 1 <= len(args) <= 3 or not isinstance(args[0], enums.UnaryOpType):  # type: ignore[attr-defined]
            refuse("__init__", "arguments", args, "must be a UnaryOpType and at most two numbers")
        for a in args[1:]:
            if not isinstance(a, (int, float)):
                refuse("__init__", "params", a, "must be a number")
        self.op_type: OfficialEnum = args[0]
        self.params: list[float] = [float(np.float32(a)) for a in args[1:]]

    @classmethod
    def of(cls, call: str, argument: str, value: Any) -> UnaryWithParam:
        """`value` as a fused activation."""
        if isinstance(value, cls):
            return value
        if isinstance(value, (tuple, enums.UnaryOpType)):  # type: ignore[attr-defined]
            return cls(value)
        refuse(call, argument, value, "must be a UnaryWithParam, a UnaryOpType or (UnaryOpType, number)")

    @property
    def key(self) -> tuple[Any, ...]:
        return "UnaryWithParam", self.op_type, tuple(self.params)

    def __repr__(self) -> str:
        params = f", params=[{', '.join(f'{p:g}' for p in self.params)}]" if self.params else ""
        return f"UnaryWithParam(op_type={self.op_type.cpp}{params})"


class DeviceComputeKernelConfig(Bag):
    """How exactly a device computes; made as one of the configs of a chip generation."""

    __slots__ = ()


class SoftmaxProgramConfig(Bag):
    """What softmax's program configs have in common."""

    __slots__ = ()


class _Slices(Bag):
    """Into how many slices a convolution or a pool that lives in DRAM is cut, and along which side."""

    __slots__ = ()
    SliceTypeEnum = SliceTypeEnum


class _Minimal(Bag):
    """Made without any argument it holds zeros; the defaults hold as soon as one is given."""

    __slots__ = ()

    def __init__(self, **kwargs: Any) -> None:
        unset = dict.fromkeys(self.FIELDS, 0) | {"compute_with_storage_grid_size": CoreCoord(0, 0)}
        super().__init__(**(kwargs or unset))


class _PagedCache(Bag):
    __slots__ = ()

    def active(self) -> bool:
        """Whether anything is overridden."""
        return bool(self.block_size or self.num_kv_heads)  # type: ignore[attr-defined]


class _Json(Bag):
    """A bag that can be written as JSON and read again: keys in order, what is not set as null."""

    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for block, whole in (("out_block_h", "per_core_M"), ("out_block_w", "per_core_N")):
            if getattr(self, block, 0) is None:
                setattr(self, block, getattr(self, whole))

    def to_json(self) -> str:
        return json.dumps({name: _as_json(getattr(self, name)) for name in sorted(self.FIELDS)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Any:
        return cls(**{name: _from_json(name, value) for name, value in json.loads(text).items()})


def _as_json(value: Any) -> Any:
    if isinstance(value, UnaryWithParam):
        return {"op_type": value.op_type.value, "param": value.params}
    if isinstance(value, (CoreCoord, CoreRangeSet)):
        return value.as_json()
    return value.value if isinstance(value, OfficialEnum) else value


def _from_json(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "fused_activation":
        return UnaryWithParam(enums.UnaryOpType(value["op_type"]), *value["param"])  # type: ignore[attr-defined]
    if name == "compute_with_storage_grid_size":
        return CoreCoord(value["x"], value["y"])
    return set_from_json(value) if isinstance(value, list) else value


_KERNEL = (
    "(*, math_fidelity: MathFidelity = MathFidelity.Invalid, math_approx_mode: bool = True, fp32_dest_acc_en: bool = False, "
    "packer_l1_acc: bool = False, dst_full_sync_en: bool = False, throttle_level: ThrottleLevel = ThrottleLevel.NO_THROTTLE)"
)
_CONV = (
    "(*, weights_dtype: DataType | None = None, activation: UnaryWithParam | None = None, deallocate_activation: bool = False, "
    "reallocate_halo_output: bool = True, config_tensors_in_dram: bool = False, act_block_h_override: int = 0, act_block_w_div: int = 1, "
    "reshard_if_not_optimal: bool = False, override_sharding_config: bool = False, shard_layout: TensorMemoryLayout | None = None, "
    "core_grid: CoreRangeSet | None = None, transpose_shards: bool = False, output_layout: Layout = Layout.TILE, "
    "enable_act_double_buffer: bool = False, enable_weights_double_buffer: bool = False, full_inner_dim: bool = False, "
    "enable_kernel_stride_folding: bool | None = None, enable_activation_reuse: bool = False, force_split_reader: bool | None = None, "
    "override_output_sharding_config: bool = False, padding_mode: PaddingMode = PaddingMode.Zeros)"
)
_LINES = f"""
WormholeComputeKernelConfig{_KERNEL}
MatmulMultiCoreReuseProgramConfig(*, compute_with_storage_grid_size: CoreCoord, in0_block_w: int, out_subblock_h: int, out_subblock_w: int, per_core_M: int, per_core_N: int, allowed_worker_cores: CoreRangeSet | None = None)
MatmulMultiCoreReuseMultiCastProgramConfig(*, compute_with_storage_grid_size: CoreCoord, in0_block_w: int, out_subblock_h: int, out_subblock_w: int, out_block_h: int | None = None, out_block_w: int | None = None, per_core_M: int, per_core_N: int, transpose_mcast: bool, fused_activation: UnaryWithParam | None = None, fuse_batch: bool = True, allowed_worker_cores: CoreRangeSet | None = None)
MatmulMultiCoreReuseMultiCast1DProgramConfig(*, compute_with_storage_grid_size: CoreCoord, in0_block_w: int, out_subblock_h: int, out_subblock_w: int, out_block_h: int | None = None, out_block_w: int | None = None, per_core_M: int, per_core_N: int, fuse_batch: bool, fused_activation: UnaryWithParam | None = None, mcast_in0: bool, gather_in0: bool = False, hop_cores: CoreRangeSet = NO_CORES, num_global_cb_receivers: int = 1, untilize_out: bool = False, allowed_worker_cores: CoreRangeSet | None = None, stream_in1: bool = False)
MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(*, in0_block_w: int, per_core_M: int, per_core_N: int, fused_activation: UnaryWithParam | None = None, num_workers_per_dram_bank: int = 1)
MatmulMultiCoreReuseMultiCastBatchedDRAMShardedProgramConfig(*, in0_block_w: int, per_core_M: int, per_core_N: int, fused_activation: UnaryWithParam | None = None)
MinimalMatmulConfig(*, M_block_size: int = 1, K_block_size: int = 1, N_block_size: int = 1, subblock_h: int = 1, subblock_w: int = 1, compute_with_storage_grid_size: CoreCoord = ONE_CORE)
LayerNormDefaultProgramConfig(*, legacy_reduction: bool = False, legacy_rsqrt: bool = False, use_welford: bool = False)
LayerNormShardedMultiCoreProgramConfig(*, compute_with_storage_grid_size: CoreCoord, subblock_w: int, block_h: int, block_w: int, inplace: bool, legacy_reduction: bool = False, legacy_rsqrt: bool = False, use_welford: bool = False)
SoftmaxDefaultProgramConfig()
SoftmaxShardedMultiCoreProgramConfig(*, compute_with_storage_grid_size: CoreCoord, subblock_w: int, block_h: int, block_w: int)
SDPAProgramConfig(*, compute_with_storage_grid_size: CoreCoord, sub_core_grids: CoreRangeSet | None = None, q_chunk_size: int, k_chunk_size: int, exp_approx_mode: bool | None = None, max_cores_per_head_batch: int = 16, max_k_splits: int = 1, matmul_math_fidelity: MathFidelity | None = None, segmented_accumulation: bool = False)
Conv2dConfig{_CONV}
Conv3dConfig(*, weights_dtype: DataType = DataType.BFLOAT16, output_layout: Layout = Layout.ROW_MAJOR, T_out_block: int = 1, W_out_block: int = 1, H_out_block: int = 1, C_out_block: int = 0, C_in_block: int = 0, dilation: Sequence[int] = [1, 1, 1], alignment: int = 32, compute_with_storage_grid_size: CoreCoord = ONE_CORE, enable_fp32_operand_split: bool = False)
Op2DSliceConfig(*, slice_type: SliceTypeEnum, num_slices: int = 0)
SlidingWindowParallelConfig(*, grid: CoreRangeSet, shard_scheme: TensorMemoryLayout, shard_orientation: ShardOrientation)
ChunkGdnFusedProgramConfig(*, num_producers: int | None = None, num_receivers: int | None = None, row_local: bool | None = None, handoff_depth: int | None = None, unicast: bool = True, posted: bool = False, producer_pool: bool | None = None, pool_extra_share: float | None = None, handoff_checks: bool = False, handoff_fault: int = 0)
ChunkGdnMonoProgramConfig()
ChunkGdnPhasedProgramConfig(*, use_mcast: bool = True, scan_serial: bool = False, prep_serial: bool = False)
IndexerScoreProgramConfig(*, q_chunk_size: int = 32, k_chunk_size: int = 32, head_group_size: int = 1)
QkvCausalConv1dSiluProgramConfig(*, channel_chunk_size: int)
PagedCacheGeometryOverride(*, block_size: int = 0, num_kv_heads: int = 0)
LayerNormInputs(input: object, *, residual_input_tensor: object = None, weight: object = None, bias: object = None, stats: object = None, recip_tensor: object = None)
LayerNormParams(*, norm_type: LayerNormType = LayerNormType.LAYERNORM, distributed_norm_stage: DistributedLayerNormStage = DistributedLayerNormStage.NOT_DISTRIBUTED, eps: float = 0.0, output_mem_config: MemoryConfig = MemoryConfig(), program_config: LayerNormDefaultProgramConfig | LayerNormShardedMultiCoreProgramConfig = LayerNormDefaultProgramConfig(), compute_kernel_config: WormholeComputeKernelConfig = WormholeComputeKernelConfig(), dtype: DataType | None = None)
MatmulInputs(*, input_tensors: Sequence[object] = [], optional_input_tensors: Sequence[object] = [], optional_output_tensors: Sequence[object] = [])
MatmulParams(*, program_config: object = None, bcast_batch: bool | None = None, output_mem_config: MemoryConfig = MemoryConfig(), output_dtype: DataType | None = None, compute_kernel_config: WormholeComputeKernelConfig | None = None, untilize_out: bool = False, transpose_a: bool = False, transpose_b: bool = False)
SliceInputs(input: object, *, preallocated_output: object = None)
SliceParams(*, slice_start: Shape = Shape([]), slice_end: Shape = Shape([]), step: Shape = Shape([]), output_mem_config: MemoryConfig = MemoryConfig(), output_mem_config_inherited: bool = False, sub_core_grids: CoreRangeSet | None = None)
"""

_SCOPE: dict[str, Any] = {
    **{name: getattr(enums, name) for name in enums.__all__},
    "CoreRangeSet": CoreRangeSet,
    "DataType": DataType,
    "Layout": Layout,
    "MemoryConfig": MemoryConfig,
    "NO_CORES": CoreRangeSet([]),
    "ONE_CORE": CoreCoord(1, 1),
    "ShardOrientation": ShardOrientation,
    "Shape": Shape,
    "SliceTypeEnum": SliceTypeEnum,
    "TensorMemoryLayout": TensorMemoryLayout,
}
_MATMULS = [line.split("(")[0] for line in _LINES.splitlines() if line.startswith("MatmulMultiCore")]
_SILENT = {"WormholeComputeKernelConfig", "SoftmaxDefaultProgramConfig", "IndexerScoreProgramConfig", "SlidingWindowParallelConfig"}
_SILENT |= {f"{op}{part}" for op in ("LayerNorm", "Matmul", "Slice") for part in ("Inputs", "Params")}
_PLAIN, _PYTHON = Style(), Style(", ", python=True)
_STYLES = {
    **{line.split("(")[0]: _PLAIN for line in _LINES.splitlines() if "(" in line},
    "SDPAProgramConfig": Style(", ", words=True),
    "SoftmaxShardedMultiCoreProgramConfig": Style(", "),
    "ChunkGdnFusedProgramConfig": _PYTHON,
    "ChunkGdnMonoProgramConfig": _PYTHON,
    "ChunkGdnPhasedProgramConfig": _PYTHON,
    "PagedCacheGeometryOverride": _PYTHON,
    "LayerNormDefaultProgramConfig": Style(without=("legacy_rsqrt",)),
    "LayerNormShardedMultiCoreProgramConfig": Style(without=("legacy_rsqrt",)),
}
_MADE = bags(
    _LINES,
    _SCOPE,
    module="ttnn._ttnn.operations",
    bases={
        **dict.fromkeys(_MATMULS, _Json),
        "WormholeComputeKernelConfig": DeviceComputeKernelConfig,
        "SoftmaxDefaultProgramConfig": SoftmaxProgramConfig,
        "SoftmaxShardedMultiCoreProgramConfig": SoftmaxProgramConfig,
        "MinimalMatmulConfig": _Minimal,
        "Op2DSliceConfig": _Slices,
        "PagedCacheGeometryOverride": _PagedCache,
    },
    styles={name: style for name, style in _STYLES.items() if name not in _SILENT},
    conversions={"CoreCoord": core_coord, "Shape": lambda call, argument, value: Shape(value), "UnaryWithParam": UnaryWithParam.of},
)
globals().update(_MADE)

BlackholeComputeKernelConfig = _MADE["WormholeComputeKernelConfig"]
Conv1dConfig = _MADE["Conv2dConfig"]
Conv2dSliceConfig = _MADE["Op2DSliceConfig"]
Op2DL1FullSliceConfig = Conv2dL1FullSliceConfig = Conv2dSliceConfig(slice_type=SliceTypeEnum.L1Full)
Op2DL1Full = Conv2dL1Full = SliceTypeEnum.L1Full
Op2DDRAMSliceHeight = Conv2dDRAMSliceHeight = SliceTypeEnum.DRAMSliceHeight
Op2DDRAMSliceWidth = Conv2dDRAMSliceWidth = SliceTypeEnum.DRAMSliceWidth


def init_device_compute_kernel_config(
    arch: Any,
    device_kernel_config: Any = None,
    *,
    math_fidelity: Any = enums.MathFidelity.LoFi,  # type: ignore[attr-defined]
    math_approx_mode: bool = True,
    fp32_dest_acc_en: bool = False,
    packer_l1_acc: bool = False,
    dst_full_sync_en: bool = False,
    throttle_level: Any = enums.ThrottleLevel.NO_THROTTLE,  # type: ignore[attr-defined]
) -> Any:
    """The given config as it is, or one made from what is said here."""
    call = "init_device_compute_kernel_config"
    expect(call, "arch", arch, enums.Arch)  # type: ignore[attr-defined]
    if device_kernel_config is None:
        return BlackholeComputeKernelConfig(
            math_fidelity=math_fidelity,
            math_approx_mode=math_approx_mode,
            fp32_dest_acc_en=fp32_dest_acc_en,
            packer_l1_acc=packer_l1_acc,
            dst_full_sync_en=dst_full_sync_en,
            throttle_level=throttle_level,
        )
    expect(call, "device_kernel_config", device_kernel_config, DeviceComputeKernelConfig)
    return device_kernel_config


def layernorm_default_compute_config(arch: Any) -> Any:
    """What layer_norm computes with when it is told nothing: full fidelity, fp32 sums."""
    fidelity = enums.MathFidelity.HiFi4  # type: ignore[attr-defined]
    return init_device_compute_kernel_config(arch, math_fidelity=fidelity, math_approx_mode=False, fp32_dest_acc_en=True)


def rmsnorm_default_compute_config(arch: Any) -> Any:
    """What rms_norm computes with when it is told nothing: full fidelity."""
    return init_device_compute_kernel_config(arch, math_fidelity=enums.MathFidelity.HiFi4)  # type: ignore[attr-defined]


def create_layernorm_program_config(shard_spec: ShardSpec | None = None, tile_height: int = 32, tile_width: int = 32) -> Any:
    """The program config that layer_norm takes for a tensor with these shards."""
    if shard_spec is None:
        return _MADE["LayerNormDefaultProgramConfig"]()
    size = shard_spec.grid.bounding_box().grid_size()
    height, width = shard_spec.shard
    return _MADE["LayerNormShardedMultiCoreProgramConfig"](
        compute_with_storage_grid_size=size, subblock_w=1, block_h=height // tile_height, block_w=width // tile_width, inplace=False
    )


__all__ = [
    "BlackholeComputeKernelConfig",
    "Conv1dConfig",
    "Conv2dDRAMSliceHeight",
    "Conv2dDRAMSliceWidth",
    "Conv2dL1Full",
    "Conv2dL1FullSliceConfig",
    "Conv2dSliceConfig",
    "DeviceComputeKernelConfig",
    "Op2DDRAMSliceHeight",
    "Op2DDRAMSliceWidth",
    "Op2DL1Full",
    "Op2DL1FullSliceConfig",
    "SoftmaxProgramConfig",
    "UnaryWithParam",
    "create_layernorm_program_config",
    "init_device_compute_kernel_config",
    "layernorm_default_compute_config",
    "rmsnorm_default_compute_config",
    *_MADE,
]
