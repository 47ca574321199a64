"""How two ways of doing one thing are timed: in turns, in one process, so that what else the machine does meets both.

A figure is always a ratio of ours to the peer's time. Of each way the fastest of several rounds counts; a round repeats the call until it takes long
enough to be read off a clock. On one thread the clock is the thread's processor time, which stands still while another program has the core; on more it
is the wall's.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep, thread_time

Call = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """Seconds for one call of each."""

    ours: float
    peer: float

    @property
    def ratio(self) -> float:
        return self.ours / self.peer


def _repeats(call: Call, seconds: float) -> int:
    call()
    started = perf_counter()
    call()
    once = perf_counter() - started
    return max(1, min(20000, int(seconds / max(once, 1e-7))))


def _round(call: Call, repeats: int, clock: Clock) -> float:
    started = clock()
    for _ in range(repeats):
        call()
    return (clock() - started) / repeats


#: Seconds in which spinning threads go to sleep.
PAUSE = 0.02


def compare(ours: Call, peer: Call, *, rounds: int = 7, seconds: float = 0.02, threads: int = 1) -> Timing:
    """The fastest round of each, taken in turns.

    With more threads than one a pause stands before each round: torch's workers spin for some milliseconds after their last call, on the
    cores that the other side needs.
    """
    mine, theirs = _repeats(ours, seconds), _repeats(peer, seconds)
    clock: Clock = thread_time if threads == 1 else perf_counter
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for side, (call, repeats) in enumerate(((ours, mine), (peer, theirs))):
            if threads > 1:
                sleep(PAUSE)
            best[side] = min(best[side], _round(call, repeats, clock))
    return Timing(*best)


def cpu_name() -> str:
    """What the processor calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def human(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
