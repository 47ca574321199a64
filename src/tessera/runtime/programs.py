"""The program cache of a device: which distinct programs were made, and the calls that may skip straight to computing."""

from __future__ import annotations

from typing import Any

#: Remembered calls beyond this many are forgotten all at once: a loop whose scalar changes every time must not grow without end.
MOST_PLANS = 8192


class ProgramCache:
    """Programs by key, with how many device programs each stands for; and whole-call plans on top of them."""

    __slots__ = ("enabled", "entries", "misses_allowed", "plans", "total")

    def __init__(self) -> None:
        self.enabled = True
        self.misses_allowed = True
        self.entries: dict[Any, int] = {}
        self.total = 0
        self.plans: dict[Any, Any] = {}

    def use(self, key: Any, name: str, programs: int) -> bool:
        """Note that a program runs; True if it was there already."""
        if not self.enabled:
            return False
        if key in self.entries:
            return True
        if not self.misses_allowed:
            raise RuntimeError(f'Device operation "{name}": program cache miss occurred, but cache misses are forbidden')
        self.entries[key] = programs
        self.total += programs
        return False

    def remember(self, key: Any, plan: Any) -> None:
        if self.enabled:
            if len(self.plans) >= MOST_PLANS:
                self.plans.clear()
            self.plans[key] = plan

    def clear(self) -> None:
        self.entries.clear()
        self.plans.clear()
        self.total = 0
