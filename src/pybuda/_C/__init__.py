"""The names that once came from the compiled core: formats, fidelities and node kinds, as plain Python enums."""

from __future__ import annotations

import enum

from pybuda._C import backend_api
from pybuda._C.enums import JsonEnum
from tessera.graph.formats import DataFormat, MathFidelity


class NodeEpochType(JsonEnum):
    Forward = 0
    Backward = 1
    Optimizer = 2


class DRAMPlacementAlgorithm(JsonEnum):
    ROUND_ROBIN = 0
    ROUND_ROBIN_FLIP_FLOP = 1
    GREATEST_CAPACITY = 2
    CLOSEST = 3


class IRLevel(JsonEnum):
    IR_PYBUDA = 0
    IR_BUDA = 1
    IR_CONSTEVAL = 2


class UnsupportedHWOpsError(RuntimeError):
    """A graph that the chip has no operation for."""


k_dim = enum.IntEnum("k_dim", {"c": -1, "r": -2, "z": -3, "w": -4})

__all__ = [
    "DRAMPlacementAlgorithm",
    "DataFormat",
    "IRLevel",
    "JsonEnum",
    "MathFidelity",
    "NodeEpochType",
    "UnsupportedHWOpsError",
    "backend_api",
    "k_dim",
]
