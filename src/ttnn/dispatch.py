"""Which cores of a chip carry out commands instead of computing.

Rows, columns or Ethernet cores may be given to dispatch; what is left is the grid that operations see. The board knows which ways it
has core maps for and which is its default.
"""

from __future__ import annotations

from typing import Any

from tessera.formats.arguments import expect
from tessera.silicon import board as boards
from tessera.silicon.board import Dispatch
from ttnn.types import DispatchCoreAxis, DispatchCoreType, FabricTensixConfig

__all__ = ["DispatchCoreConfig"]


class _DispatchCoreConfig:
    """A type and an axis, as given."""

    __slots__ = ("axis", "type")

    def __init__(self, type: Any = DispatchCoreType.WORKER, axis: Any = DispatchCoreAxis.ROW) -> None:
        expect("__init__", "type", type, DispatchCoreType)
        expect("__init__", "axis", axis, DispatchCoreAxis)
        if type is DispatchCoreType.ETH and axis is DispatchCoreAxis.COL:
            raise RuntimeError(f"COL axis is not supported for ETH dispatch core type: type={type}, axis={axis}")
        self.type = type
        self.axis = axis


class DispatchCoreConfig(_DispatchCoreConfig):
    """A type and an axis; what is left out is the current board's default."""

    __slots__ = ("fabric_tensix_config",)

    def __init__(self, type: Any = None, axis: Any = None, fabric_tensix_config: Any = None) -> None:
        default = boards.current().dispatch
        if type is None:
            type = DispatchCoreType[default.type.upper()]
        if axis is None:
            axis = DispatchCoreAxis[default.axis.upper()]
        super().__init__(type, axis)
        self.fabric_tensix_config = fabric_tensix_config
        muxed = fabric_tensix_config is FabricTensixConfig.MUX
        if boards.current().arch == "blackhole" and axis is DispatchCoreAxis.ROW and not muxed:
            raise RuntimeError(f"ROW dispatch core axis is not supported for blackhole unless fabric tensix MUX is enabled: axis={axis}")


def as_dispatch(config: _DispatchCoreConfig | None) -> Dispatch | None:
    """The machine's word for a config; None leaves the choice to the board."""
    if config is None:
        return None
    return Dispatch(config.type.name.lower(), config.axis.name.lower())
