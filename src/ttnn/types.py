"""TT-NN's value types under their public names: numbers, shapes, cores, memory, meshes, enums, program descriptors."""

from __future__ import annotations

from enum import Enum

from tessera.formats.dtype import TILE_SIZE, DataType, Layout
from tessera.formats.shape import Shape
from tessera.formats.tile import Tile
from tessera.memory.config import (
    BufferType,
    MemoryConfig,
    NdShardSpec,
    ShardDistributionStrategy,
    ShardOrientation,
    ShardShapeAlignment,
    ShardSpec,
    TensorMemoryLayout,
)
from tessera.memory.geometry import CoreCoord, CoreGrid, CoreRange, CoreRangeSet
from tessera.memory.mesh import MeshCoordinate, MeshCoordinateRange, MeshShape, PlacementReplicate, PlacementShard, TensorTopology
from tessera.memory.spec import TensorSpec
from tessera.memory.work import corerange_to_cores
from ttnn import enums as _enums
from ttnn.descriptors import *  # noqa: F403
from ttnn.descriptors import __all__ as _descriptor_names
from ttnn.enums import *  # noqa: F403
from ttnn.program_configs import (
    BlackholeComputeKernelConfig,
    DeviceComputeKernelConfig,
    UnaryWithParam,
    WormholeComputeKernelConfig,  # type: ignore[attr-defined]
)


class ShardStrategy(Enum):
    """Which way `create_sharded_memory_config` cuts."""

    HEIGHT = 1
    WIDTH = 2
    BLOCK = 3


bfloat16 = DataType.BFLOAT16
float32 = DataType.FLOAT32
uint32 = DataType.UINT32
bfloat8_b = DataType.BFLOAT8_B
bfloat4_b = DataType.BFLOAT4_B
uint8 = DataType.UINT8
uint16 = DataType.UINT16
int32 = DataType.INT32
fp8_e4m3 = DataType.FP8_E4M3
int8 = DataType.INT8

ROW_MAJOR_LAYOUT = Layout.ROW_MAJOR
TILE_LAYOUT = Layout.TILE
DEVICE_STORAGE_TYPE = _enums.StorageType.DEVICE  # type: ignore[attr-defined]

DRAM_MEMORY_CONFIG = MemoryConfig()
L1_MEMORY_CONFIG = MemoryConfig(buffer_type=BufferType.L1)
L1_HEIGHT_SHARDED_MEMORY_CONFIG = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1)
L1_WIDTH_SHARDED_MEMORY_CONFIG = MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, BufferType.L1)
L1_BLOCK_SHARDED_MEMORY_CONFIG = MemoryConfig(TensorMemoryLayout.BLOCK_SHARDED, BufferType.L1)

__all__ = [
    "DEVICE_STORAGE_TYPE",
    "DRAM_MEMORY_CONFIG",
    "L1_BLOCK_SHARDED_MEMORY_CONFIG",
    "L1_HEIGHT_SHARDED_MEMORY_CONFIG",
    "L1_MEMORY_CONFIG",
    "L1_WIDTH_SHARDED_MEMORY_CONFIG",
    "ROW_MAJOR_LAYOUT",
    "TILE_LAYOUT",
    "TILE_SIZE",
    "BlackholeComputeKernelConfig",
    "BufferType",
    "CoreCoord",
    "CoreGrid",
    "CoreRange",
    "CoreRangeSet",
    "DataType",
    "DeviceComputeKernelConfig",
    "Layout",
    "MemoryConfig",
    "MeshCoordinate",
    "MeshCoordinateRange",
    "MeshShape",
    "NdShardSpec",
    "PlacementReplicate",
    "PlacementShard",
    "Shape",
    "ShardDistributionStrategy",
    "ShardOrientation",
    "ShardShapeAlignment",
    "ShardSpec",
    "ShardStrategy",
    "TensorMemoryLayout",
    "TensorSpec",
    "TensorTopology",
    "Tile",
    "UnaryWithParam",
    "WormholeComputeKernelConfig",
    "bfloat4_b",
    "bfloat8_b",
    "bfloat16",
    "corerange_to_cores",
    "float32",
    "fp8_e4m3",
    "int8",
    "int32",
    "uint8",
    "uint16",
    "uint32",
    *_enums.__all__,
    *_descriptor_names,
]
