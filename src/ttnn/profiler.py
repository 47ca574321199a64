"""The profiler's public names.

A zone or a message goes to whatever profiler is attached; here none is, so marking up a program costs nothing and changes nothing. Times of programs
on the chip are not modelled yet: asking for them says so rather than answer times of this computer. They will be one more observer
(`tessera.runtime.observers`): its `launched` hears of every device operation.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "get_all_programs_perf_data",
    "get_latest_programs_perf_data",
    "start_tracy_zone",
    "stop_tracy_zone",
    "tracy_frame",
    "tracy_message",
]


def start_tracy_zone(source: str, functName: str, lineNum: int, color: int = 0) -> None:
    """A zone begins."""


def stop_tracy_zone(name: str = "", color: int = 0) -> bool:
    """The last zone ends. Answers whether one was recorded."""
    return False


def tracy_message(source: str, color: int = 0xF0F8FF) -> None:
    """A message at this moment."""


def tracy_frame() -> None:
    """A frame ends."""


def get_latest_programs_perf_data() -> Any:
    raise NotImplementedError(
        "ttnn.get_latest_programs_perf_data is not built in Tessera: how long programs take on the chip is not modelled yet"
    )


def get_all_programs_perf_data() -> Any:
    raise NotImplementedError(
        "ttnn.get_all_programs_perf_data is not built in Tessera: how long programs take on the chip is not modelled yet"
    )
