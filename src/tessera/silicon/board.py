"""What a board is, as data: chips, grids, banks, clocks and links, read from YAML the first time a board is asked for.

Everything above this room that depends on a chip asks a `Board`; no size, coordinate or rate of a product stands in code. A board names
its chip (`chips/<arch>.yaml`) and adds what differs from one product to another (`boards/<name>.yaml`); adding a board is adding a file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, TypeVar

__all__ = ["DEFAULT_BOARD", "FIDELITY_PHASES", "L1", "Board", "Chip", "Dispatch", "Dram", "Xy", "current", "current_name", "get", "names"]

DEFAULT_BOARD = "n150"
ENVIRONMENT = "TESSERA_BOARD"

FIDELITY_PHASES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}
"""Passes over the multiplier that a math fidelity takes; the matrix rate is divided by it."""


class Xy(NamedTuple):
    """A core by column and row. This room lies below the core types of `memory`, which convert from any pair."""

    x: int
    y: int


@dataclass(frozen=True)
class L1:
    size: int
    base: int
    """First byte for tensors when the device is opened with default sizes."""
    max_unreserved: int
    alignment: int
    ethernet_size: int
    """L1 of an Ethernet core."""


@dataclass(frozen=True)
class Dram:
    banks: int
    bank_size: int
    base: int
    alignment: int
    cores: tuple[Xy, ...]
    banks_per_channel: int = 1

    @property
    def bytes_per_bank(self) -> int:
        """What tensors may fill in each bank."""
        return self.bank_size - self.base

    @property
    def total(self) -> int:
        return self.bank_size * self.banks


@dataclass(frozen=True)
class Dispatch:
    """Which cores carry out the commands of the host instead of computing: `type` "worker" or "eth", `axis` "row" or "col"."""

    type: str
    axis: str

    @property
    def grid_key(self) -> str:
        return "eth" if self.type == "eth" else f"worker_{self.axis}"


@dataclass(frozen=True)
class NocMap:
    size: tuple[int, int]
    columns: tuple[int, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Translated:
    columns: tuple[int, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Workers:
    """For each DRAM bank, the worker core nearest to it on one NoC and on the other."""

    noc_0: tuple[Xy, ...]
    noc_1: tuple[Xy, ...] = ()

    def on(self, noc: int) -> tuple[Xy, ...]:
        return self.noc_1 if noc == 1 and self.noc_1 else self.noc_0


@dataclass(frozen=True)
class Sfpu:
    eps: float
    nan: float
    inf: float


@dataclass(frozen=True)
class Rates:
    """Work of one core in one cycle."""

    matrix_flops_per_cycle: int
    sfpu_lanes: int
    eltwise_per_cycle: int
    reduce_per_cycle: int


@dataclass(frozen=True)
class Bandwidth:
    specified: float
    model: float


@dataclass(frozen=True)
class NocRates:
    link: float
    core_to_core: float
    l1_interleaved: float
    dram_read: float
    dram_write: float
    pcie_read: float
    multicast: float


@dataclass(frozen=True)
class Ethernet:
    links: int
    bytes_per_second: float
    latency_seconds: float


@dataclass(frozen=True)
class Pcie:
    generation: int
    width: int


@dataclass(frozen=True)
class Chip:
    """What all products with the same chip share."""

    arch: str
    noc: NocMap
    harvest_axis: str
    translated: Translated
    l1: L1
    dram: Dram
    optimal_workers: Workers
    sfpu: Sfpu
    dispatch: Dispatch
    clock_hz: int
    rates: Rates
    dram_bandwidth: Bandwidth
    noc_bytes_per_cycle: NocRates
    ethernet: Ethernet
    pcie: Pcie

    def noc_index(self, line: int) -> int:
        """The position of a NoC row (column, where columns are harvested) among those with workers."""
        lines = self.noc.rows if self.harvest_axis == "row" else self.noc.columns
        return lines.index(line)


@dataclass(frozen=True)
class Board:
    """A product: one or more equal chips and how they are joined."""

    name: str
    chip: Chip
    cluster: str
    """Name of the official ClusterType; INVALID for products that TT-NN no longer knows."""
    board_type: int
    """The product code inside a board's serial number."""
    harvested: tuple[tuple[int, ...], ...]
    """NoC rows (columns on Blackhole) switched off at the factory, per chip."""
    grids: dict[str, Xy] = field(hash=False)
    """Compute cores left by each way to dispatch: `worker_row`, `worker_col`, `eth`."""
    dispatch: Dispatch
    clock_hz: int
    dram_bandwidth: Bandwidth
    optimal_workers: Workers
    power_watts: int
    mesh_shape: tuple[int, int] = (1, 1)
    """Rows and columns of chips, as in MeshShape."""
    torus: bool = False
    pcie_devices: int = 1
    physical_mesh_shape: tuple[int, int] = (0, 0)
    """The mesh as cabled, where that is not `mesh_shape`."""
    links_between_neighbours: int = 0
    fabric_links: int = 0
    """Links that the fabric uses between neighbours, where it does not use all."""

    # -- names -------------------------------------------------------------

    @property
    def arch(self) -> str:
        return self.chip.arch

    @property
    def num_chips(self) -> int:
        return self.mesh_shape[0] * self.mesh_shape[1]

    # -- places ------------------------------------------------------------

    @property
    def compute_grid(self) -> Xy:
        """Compute cores that also store tensors, with the board's default way to dispatch."""
        return self.grids[self.dispatch.grid_key]

    def grid_for(self, dispatch: Dispatch) -> Xy:
        try:
            return self.grids[dispatch.grid_key]
        except KeyError:
            known = ", ".join(self.grids)
            raise ValueError(f"dispatch={dispatch.grid_key!r}: {self.name} has core maps for {known} only") from None

    def with_dispatch(self, dispatch: Dispatch) -> Board:
        """The same board with other dispatch cores; refuses a way that its core maps lack."""
        self.grid_for(dispatch)
        return self if dispatch == self.dispatch else replace(self, dispatch=dispatch)

    @property
    def worker_grid(self) -> Xy:
        """All working Tensix cores, dispatch included."""
        off = len(self.harvested[0])
        columns, rows = len(self.chip.noc.columns), len(self.chip.noc.rows)
        return Xy(columns, rows - off) if self.chip.harvest_axis == "row" else Xy(columns - off, rows)

    @property
    def compute_cores(self) -> int:
        return self.compute_grid.x * self.compute_grid.y

    @property
    def l1(self) -> L1:
        return self.chip.l1

    @property
    def dram(self) -> Dram:
        return self.chip.dram

    @property
    def l1_bytes_per_bank(self) -> int:
        return self.chip.l1.size - self.chip.l1.base

    def worker_core_from_logical_core(self, x: int, y: int) -> Xy:
        columns, rows = self._translation()
        if not (0 <= x < len(columns) and 0 <= y < len(rows)):
            raise ValueError(f"logical core {x}-{y} is outside the {len(columns)}x{len(rows)} worker cores of {self.name}")
        return Xy(columns[x], rows[y])

    def logical_core_from_worker_core(self, x: int, y: int) -> Xy:
        columns, rows = self._translation()
        if x not in columns or y not in rows:
            raise ValueError(f"core {x}-{y} is not a worker core of {self.name}")
        return Xy(columns.index(x), rows.index(y))

    def dram_core_from_logical_core(self, x: int, y: int = 0) -> Xy:
        if y != 0 or not 0 <= x < self.dram.banks:
            raise ValueError(f"logical DRAM core {x}-{y}: {self.name} has banks 0-0 to {self.dram.banks - 1}-0")
        return self.dram.cores[x]

    def _translation(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        grid, translated = self.worker_grid, self.chip.translated
        if self.arch != "grayskull":
            return translated.columns[: grid.x], translated.rows[: grid.y]
        off = set(self.harvested[0])  # no translation table on this chip: harvested rows are holes
        return translated.columns, tuple(r for r in translated.rows if r not in off)

    # -- rates -------------------------------------------------------------

    def core_flops(self, fidelity: str = "LoFi") -> float:
        """Peak matrix operations a second of one core."""
        try:
            phases = FIDELITY_PHASES[fidelity]
        except KeyError:
            raise ValueError(f"fidelity={fidelity!r}: expected one of {', '.join(FIDELITY_PHASES)}") from None
        return self.chip.rates.matrix_flops_per_cycle * self.clock_hz / phases

    def peak_flops(self, fidelity: str = "LoFi") -> float:
        """Peak matrix operations a second of one chip's compute grid."""
        return self.core_flops(fidelity) * self.compute_cores


T = TypeVar("T")

_NESTED: dict[str, type] = {
    "noc": NocMap, "translated": Translated, "l1": L1, "dram": Dram, "sfpu": Sfpu, "dispatch": Dispatch, "optimal_workers": Workers, "rates": Rates,
    "dram_bandwidth": Bandwidth, "noc_bytes_per_cycle": NocRates, "ethernet": Ethernet, "pcie": Pcie,
}  # fmt: skip

_CORE_LISTS = {"cores", "noc_0", "noc_1"}


def _frozen(key: str, value: Any) -> Any:
    """A YAML value as the immutable thing that the field `key` holds."""
    if key in _NESTED:
        return _make(_NESTED[key], value)
    if key == "grids":
        return {name: Xy(*pair) for name, pair in value.items()}
    if key in _CORE_LISTS:
        return tuple(Xy(*pair) for pair in value)
    if isinstance(value, list):
        return tuple(_frozen("", v) for v in value)
    return value


def _make(cls: type[T], data: dict[str, Any]) -> T:
    known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
    if unknown := data.keys() - known:
        raise ValueError(f"{cls.__name__} in a board file: unknown fields {', '.join(sorted(unknown))}")
    return cls(**{key: _frozen(key, value) for key, value in data.items()})


def _read(folder: str, name: str) -> dict[str, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = (resources.files("tessera.silicon") / folder / f"{name}.yaml").read_text(encoding="utf-8")
    data: dict[str, Any] = yaml.load(text, loader)
    return data


@cache
def names() -> tuple[str, ...]:
    """All boards, in the order of their chips' generations."""
    found = [f.name.removesuffix(".yaml") for f in (resources.files("tessera.silicon") / "boards").iterdir() if f.name.endswith(".yaml")]
    return tuple(sorted(found, key=lambda n: ("entgp".find(n[0]) if n != "galaxy" else 3, len(n), n)))


@cache
def _chip(arch: str) -> Chip:
    return _make(Chip, _read("chips", arch))


@cache
def get(name: str) -> Board:
    """The board of that name; ValueError with the known names for any other."""
    if name not in names():
        raise ValueError(f"unknown board {name!r}: known boards are {', '.join(names())}")
    data = _read("boards", name)
    chip = _chip(data["chip"])
    inherited = {name: getattr(chip, name) for name in ("dispatch", "clock_hz", "dram_bandwidth", "optimal_workers")}
    given = {key: _frozen(key, value) for key, value in data.items() if key != "chip"}
    rows, columns = given.get("mesh_shape", (1, 1))
    if len(given["harvested"]) == 1:  # one entry stands for all chips
        given["harvested"] *= rows * columns
    given.setdefault("physical_mesh_shape", (rows, columns))
    given.setdefault("fabric_links", given.get("links_between_neighbours", 0))
    return Board(**{**inherited, **given, "chip": chip})


def current_name() -> str:
    return os.environ.get(ENVIRONMENT) or DEFAULT_BOARD


def current() -> Board:
    """The board this process runs on: `TESSERA_BOARD`, or an n150."""
    return get(current_name())
