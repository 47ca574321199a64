"""Value types by which programs describe kernels, sockets and ids to the hardware.

Tessera runs operations, not kernels: these classes hold what they are given, compare and print as the official ones do,
and that is all there is to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ttnn.enums as enums
from tessera.formats.arguments import UINT64, expect, refuse, uint
from tessera.formats.dtype import DataType
from tessera.formats.enums import official_enum
from tessera.formats.tile import Tile
from tessera.memory.config import BufferType
from tessera.memory.geometry import CoreCoord, CoreRange, CoreRangeSet
from tessera.memory.mesh import MeshCoordinate, MeshCoordinateRange, MeshShape, Placement, PlacementReplicate, PlacementShard
from ttnn.bags import Bag, bags, key_of

SourceType = official_enum("SourceType", {"FILE_PATH": 0, "SOURCE_CODE": 1}, module="ttnn._ttnn.program_descriptor")


HARDWARE_FORMATS: dict[Any, int] = {
    DataType.FLOAT32: 0,
    DataType.BFLOAT16: 5,
    DataType.BFLOAT8_B: 6,
    DataType.BFLOAT4_B: 7,
    DataType.INT32: 8,
    DataType.UINT16: 9,
    DataType.INT8: 14,
    DataType.UINT32: 24,
    DataType.FP8_E4M3: 26,
    DataType.UINT8: 30,
}


class Number:
    """An id: a number with a name of its own."""

    __slots__ = ("value",)

    def __init__(self, value: Any, /) -> None:
        self.value = uint("__init__", "value", value, UINT64)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.value == self.value  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.value))

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value})"


class QueueId(Number):
    """A command queue."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if type(other) is QueueId else other)

    __hash__ = Number.__hash__


class SubDeviceId(Number):
    """A sub-device of the loaded manager."""

    __slots__ = ()

    def __init__(self, id: Any) -> None:
        super().__init__(id)


class SubDeviceManagerId(Number):
    """A sub-device manager."""

    __slots__ = ()


class MeshTraceId(Number):
    """A captured trace."""

    __slots__ = ()


class MeshId(Number):
    """A mesh of the fabric."""

    __slots__ = ()

    def __init__(self, value: Any) -> None:
        super().__init__(value)


class Rank(Number):
    """A process of a multi-host job."""

    __slots__ = ()


class Size(Number):
    """The number of processes of a multi-host job."""

    __slots__ = ()


class SubcontextId(Number):
    """A group of processes within a multi-host job."""

    __slots__ = ()


class SubDevice:
    """A set of cores that runs on its own."""

    __slots__ = ("cores",)

    def __init__(self, cores: Any) -> None:
        if not isinstance(cores, (list, tuple)):
            refuse("__init__", "cores", cores, "must be a sequence of CoreRangeSet")
        for c in cores:
            expect("__init__", "cores", c, CoreRangeSet)
        self.cores = list(cores)

    @property
    def key(self) -> tuple[Any, ...]:
        return ("SubDevice", *self.cores)


class MeshMapperConfig:
    """How a tensor is laid over a mesh: `(placements, ...)`, or `(row_dim, col_dim, ...)`, the dimensions cut along rows and columns."""

    __slots__ = ("mesh_offset_override", "mesh_shape_override", "placements")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        first, given = _mesh_words("placements", args, kwargs)
        if first:
            for p in given["placements"]:
                expect("__init__", "placements", p, (PlacementReplicate, PlacementShard))
            self.placements: list[Placement] = list(given["placements"])
        else:
            dims = (given.get("row_dim"), given.get("col_dim"))
            self.placements = [PlacementReplicate() if d is None else PlacementShard(d) for d in dims]
        self.mesh_shape_override: MeshShape | None = given.get("mesh_shape_override")
        self.mesh_offset_override: MeshCoordinate = given.get("mesh_offset_override") or MeshCoordinate([])

    def __repr__(self) -> str:
        return f"MeshMapperConfig(placements: {self.placements}{_overrides(self)})"


class MeshComposerConfig:
    """How the parts of a mesh tensor are put together: `(dims, ...)`, a tensor dimension for each mesh dimension, or `(row_dim, col_dim, ...)`."""

    __slots__ = ("dims", "mesh_offset_override", "mesh_shape_override")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        first, given = _mesh_words("dims", args, kwargs)
        if not first and ("row_dim" not in given or "col_dim" not in given):
            refuse("__init__", "arguments", (args, kwargs), "must be a sequence of tensor dimensions, or row_dim and col_dim")
        self.dims: list[int] = [int(d) for d in (given["dims"] if first else (given["row_dim"], given["col_dim"]))]
        self.mesh_shape_override: MeshShape | None = given.get("mesh_shape_override")
        self.mesh_offset_override: MeshCoordinate = given.get("mesh_offset_override") or MeshCoordinate([])

    def __repr__(self) -> str:
        return f"MeshComposerConfig(dims: {self.dims}{_overrides(self)})"


def _mesh_words(first: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Whether the first of the two signatures is meant, and its arguments by name."""
    sequence = first in kwargs or (bool(args) and isinstance(args[0], (list, tuple)))
    names = ((first,) if sequence else ("row_dim", "col_dim")) + ("mesh_shape_override", "mesh_offset_override")
    given = dict(zip(names, args)) | kwargs
    if len(args) > len(names) or not given.keys() <= set(names) or len(given) != len(args) + len(kwargs):
        refuse("__init__", "arguments", (args, kwargs), f"must be {', '.join(names)}")
    for name, kind in (("mesh_shape_override", MeshShape), ("mesh_offset_override", MeshCoordinate)):
        expect("__init__", name, given.get(name), (kind, type(None)))
    return sequence, given


def _overrides(config: MeshMapperConfig | MeshComposerConfig) -> str:
    shape = config.mesh_shape_override
    return "" if shape is None else f", mesh_shape_override={shape}"


class MeshCoordinateRangeSet:
    """Boxes of places in a mesh."""

    __slots__ = ("_ranges",)

    def __init__(self, range: MeshCoordinateRange | None = None) -> None:
        self._ranges: list[MeshCoordinateRange] = [] if range is None else [range]

    def merge(self, range: MeshCoordinateRange) -> None:
        """Add a box."""
        if range not in self._ranges:
            self._ranges.append(range)

    def ranges(self) -> list[MeshCoordinateRange]:
        return list(self._ranges)

    def __repr__(self) -> str:
        return f"MeshCoordinateRangeSet({self._ranges})"


class RuntimeArgs:
    """Arguments of a kernel for each core, as `args[x][y]`."""

    __slots__ = ("_args",)

    def __init__(self) -> None:
        self._args: dict[tuple[int, int], list[int]] = {}

    def append(self, core: Any, args: Any) -> None:
        """Set the arguments of a core."""
        place = CoreCoord.of(core, "append", "core")
        self._args[place.x, place.y] = [uint("append", "args", a) for a in args]

    def get(self, x: int, y: int) -> list[int]:
        return self._args.get((x, y), [])

    def clear(self) -> None:
        self._args.clear()

    def to_list(self) -> list[tuple[CoreCoord, list[int]]]:
        return [(CoreCoord(*place), list(args)) for place, args in self._args.items()]

    def __len__(self) -> int:
        return len(self._args)

    def __iter__(self) -> Iterator[tuple[CoreCoord, list[int]]]:
        return iter(self.to_list())

    def __getitem__(self, x: int) -> RuntimeArgsColProxy:
        return RuntimeArgsColProxy(self._args, x)

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple((place, tuple(args)) for place, args in self._args.items())


class RuntimeArgsColProxy:
    """The arguments of one column of cores."""

    __slots__ = ("_args", "_x")

    def __init__(self, args: dict[tuple[int, int], list[int]], x: int) -> None:
        self._args, self._x = args, x

    def __getitem__(self, y: int) -> list[int]:
        return self._args.setdefault((self._x, y), [])

    def __setitem__(self, y: int, args: Any) -> None:
        self._args[self._x, y] = [uint("__setitem__", "args", a) for a in args]

    def append(self, args: Any) -> None:
        """Set the arguments of the next core down the column."""
        self[max((y for x, y in self._args if x == self._x), default=-1) + 1] = args

    def extend(self, args: Any) -> None:
        """Set the arguments of the next cores down the column."""
        for a in args:
            self.append(a)


class _Comparable(Bag):
    """A bag that official TT-NN compares by value."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.key == other.key  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.key)


class _FabricNode(_Comparable):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"FabricNodeId(M{self.mesh_id.value}, D{self.chip_id})"  # type: ignore[attr-defined]


class _MeshCore(_Comparable):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"MeshCoreCoord(device={self.device_coord}, core=({self.core_coord.x},{self.core_coord.y}))"  # type: ignore[attr-defined]


class _TileDescriptor(_Comparable):
    """`TileDescriptor(height, width, transpose)`, or one made from a `Tile` or from another descriptor."""

    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        source = (
            args[0] if len(args) == 1 and not kwargs else kwargs.get("tile", kwargs.get("other")) if len(kwargs) == 1 and not args else None
        )
        if isinstance(source, Tile):
            args, kwargs = (source.height, source.width, source.transposed), {}
        elif isinstance(source, _TileDescriptor):
            args, kwargs = (source.height, source.width, source.transpose), {}  # type: ignore[attr-defined]
        super().__init__(*args, **kwargs)


class _Format(Bag):
    __slots__ = ()

    @property
    def data_format_as_uint8(self) -> int:
        """The number by which the hardware knows the format."""
        return HARDWARE_FORMATS.get(self.data_format, 255)  # type: ignore[attr-defined]


class _CircularBuffer(Bag):
    """May lie over a tensor: then its address is the tensor's."""

    __slots__ = ("_tensor",)

    def lie_over(self, tensor: Any) -> None:
        object.__setattr__(self, "_tensor", tensor)

    def has_buffer(self) -> bool:
        return getattr(self, "_tensor", None) is not None

    def buffer_address(self) -> int | None:
        return self._tensor.buffer_address() if self.has_buffer() else None  # type: ignore[no-any-return]

    def set_buffer_from_cb(self, other: Any) -> None:
        expect("set_buffer_from_cb", "other", other, _MADE["CBDescriptor"])
        self.lie_over(getattr(other, "_tensor", None))

    def has_global_circular_buffer(self) -> bool:
        return False  # they need kernels; none can be made here


class _MeshProgram(Bag):
    """Programs by range of the mesh."""

    __slots__ = ()

    def __getitem__(self, place: MeshCoordinateRange) -> Any:
        return self.mesh_programs[place]  # type: ignore[attr-defined]

    def __setitem__(self, place: MeshCoordinateRange, program: Any) -> None:
        self.mesh_programs[place] = program  # type: ignore[attr-defined]

    def __contains__(self, place: MeshCoordinateRange) -> bool:
        return place in self.mesh_programs  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.mesh_programs.items())  # type: ignore[attr-defined]


_LINES = """
FabricNodeId(mesh_id: MeshId, chip_id: int)
FabricRouterConfig(*, max_packet_payload_size_bytes: int | None = None)
MeshCoreCoord(device_coord: MeshCoordinate, core_coord: CoreCoord)
SocketConnection(sender_core: MeshCoreCoord, receiver_core: MeshCoreCoord)
SocketMemoryConfig(socket_storage_type: BufferType, fifo_size: int, sender_sub_device: SubDeviceId | None = None, receiver_sub_device: SubDeviceId | None = None, per_core_allocation: bool = False)
SocketConfig(connections: Sequence[SocketConnection], memory_config: SocketMemoryConfig, sender_rank: int | None = None, receiver_rank: int | None = None, sender_mesh_id: int | None = None, receiver_mesh_id: int | None = None)
D2DStageGateConfig(num_gates: int, slot_id_offset_bytes: int, gate_mode_offset_bytes: int)
FaceGeometry?(face_r_dim: int, num_faces: int)
TileDescriptor(height: int = 32, width: int = 32, transpose: bool = False)
CBFormatDescriptor?(buffer_index: int, data_format: object, page_size: int, tile: TileDescriptor | None = None, face_geometry: FaceGeometry | None = None)
CBDescriptor?(total_size: int, core_ranges: CoreRangeSet, format_descriptors: Sequence[CBFormatDescriptor], remote_format_descriptors: Sequence[CBFormatDescriptor] = [], address_offset: int = 0)
SemaphoreDescriptor?(id: int, core_type: CoreType = CoreType.WORKER, core_ranges: CoreRangeSet = None, initial_value: int = 0)
ReaderConfigDescriptor()
WriterConfigDescriptor()
DataMovementConfigDescriptor(processor: DataMovementProcessor = DataMovementProcessor.RISCV_0, noc: NOC = NOC.RISCV_0_default, noc_mode: NOC_MODE = NOC_MODE.DM_DEDICATED_NOC)
ComputeConfigDescriptor(math_fidelity: MathFidelity = MathFidelity.HiFi4, math_approx_mode: bool = False, fp32_dest_acc_en: bool = False, dst_full_sync_en: bool = False, bfp8_pack_precise: bool = False, unpack_to_dest_mode: object = [], enable_trisc2_rvv: bool = False)
KernelDescriptor?(kernel_source: str, source_type: SourceType = SourceType.FILE_PATH, core_ranges: CoreRangeSet = None, compile_time_args: Sequence[int] = [], named_compile_time_args: object = [], defines: object = [], runtime_args: object = [], common_runtime_args: Sequence[int] = [], opt_level: object = None, config: ReaderConfigDescriptor | WriterConfigDescriptor | DataMovementConfigDescriptor | ComputeConfigDescriptor = ReaderConfigDescriptor(), compiler_include_paths: object = [], *, blaze_named_compile_time_args: object = [])
ProgramDescriptor(kernels: Sequence[KernelDescriptor] = [], semaphores: Sequence[SemaphoreDescriptor] = [], cbs: Sequence[CBDescriptor] = [], *, custom_program_hash: int | None = None)
MeshProgramDescriptor(mesh_programs: object = {})
McastConfig(*, noc: NOC = NOC.RISCV_0_default, handshake: bool = True, handshake_cores: CoreRangeSet | None = None, data_ready: McastDataReady = McastDataReady.Flag, irregular_receiver_set_mode: TransferMode = TransferMode.Multicast)
McastExplicitFixedSenderConfig(senders_per_group: Sequence[CoreCoord])
McastFixedSenderConfig(*, sender_index: int = 0, placement: McastSenderPlacement = McastSenderPlacement.Uniform)
McastRotatingSenderConfig(sender_cores: CoreRangeSet | None = None, *, sender_order: McastCoreOrder | None = None)
YUVCoefficients(y: Sequence[float] = [0.0, 0.0, 0.0, 0.0], cb: Sequence[float] = [0.0, 0.0, 0.0, 0.0], cr: Sequence[float] = [0.0, 0.0, 0.0, 0.0])
"""

_SCOPE: dict[str, Any] = {
    **{name: getattr(enums, name) for name in enums.__all__},
    "BufferType": BufferType,
    "CoreRange": CoreRange,
    "CoreRangeSet": CoreRangeSet,
    "DataType": DataType,
    "MeshCoordinate": MeshCoordinate,
    "MeshId": MeshId,
    "MeshShape": MeshShape,
    "SourceType": SourceType,
    "SubDeviceId": SubDeviceId,
}


def core_coord(call: str, argument: str, value: Any) -> CoreCoord:
    return CoreCoord.of(value, call, argument)


_MADE = bags(
    _LINES,
    _SCOPE,
    module="ttnn._ttnn.program_descriptor",
    bases={
        "FabricNodeId": _FabricNode,
        "MeshCoreCoord": _MeshCore,
        "FaceGeometry": _Comparable,
        "TileDescriptor": _TileDescriptor,
        "CBDescriptor": _CircularBuffer,
        "CBFormatDescriptor": _Format,
        "MeshProgramDescriptor": _MeshProgram,
    },
    conversions={"CoreCoord": core_coord},
)
globals().update(_MADE)
_MADE["KernelDescriptor"].SourceType = SourceType  # type: ignore[attr-defined]

D2D_STAGE_GATE_UNGATED_SLOT = 2**32 - 1
UNIFIED_ROUTED_EXPERT_CORE_GRID = CoreCoord(11, 8)


YUV_OF_RGB = {
    "BT601": (
        [32.74049758911133, 64.27649688720703, 12.482999801635742, 125.5],
        [-18.898420333862305, -37.10157775878906, 56.0, 128.0],
        [56.0, -46.893009185791016, -9.106989860534668, 128.0],
    ),
    "BT709": (
        [23.279699325561523, 78.31439971923828, 7.905900001525879, 125.5],
        [-12.832075119018555, -43.16792297363281, 56.0, 128.0],
        [56.0, -50.8651237487793, -5.13487434387207, 128.0],
    ),
}


def yuv_bt601_coefficients() -> Any:
    """From red, green, blue in [-1, 1] and one to y, cb, cr, by ITU-R BT.601 in the limited range."""
    return _MADE["YUVCoefficients"](*YUV_OF_RGB["BT601"])


def yuv_bt709_coefficients() -> Any:
    """The same by ITU-R BT.709."""
    return _MADE["YUVCoefficients"](*YUV_OF_RGB["BT709"])


def compute_program_descriptor_hash(program_descriptor: Any) -> int:
    """A number that equal program descriptors share."""
    expect("compute_program_descriptor_hash", "program_descriptor", program_descriptor, _MADE["ProgramDescriptor"])
    return hash(key_of(program_descriptor)) & (2**64 - 1)


__all__ = [
    "D2D_STAGE_GATE_UNGATED_SLOT",
    "UNIFIED_ROUTED_EXPERT_CORE_GRID",
    "MeshComposerConfig",
    "MeshCoordinateRangeSet",
    "MeshId",
    "MeshMapperConfig",
    "MeshTraceId",
    "QueueId",
    "Rank",
    "RuntimeArgs",
    "RuntimeArgsColProxy",
    "Size",
    "SubDevice",
    "SubDeviceId",
    "SubDeviceManagerId",
    "SubcontextId",
    "compute_program_descriptor_hash",
    "yuv_bt601_coefficients",
    "yuv_bt709_coefficients",
    *_MADE,
]
