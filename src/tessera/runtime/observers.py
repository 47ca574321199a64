"""Everything that wants to see operations go by: tracing, graph capture, reports, hooks, comparison, telemetry.

`OBSERVERS` is empty in ordinary runs, and `if OBSERVERS:` is all that an operation pays. An observer overrides the methods it cares for;
an exception it raises is a fault of the observer: `notify` logs it once and the program goes on.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from loguru import logger

if TYPE_CHECKING:
    from tessera.runtime.buffer import Buffer
    from tessera.runtime.launch import Launch


class Observer:
    """A watcher of operations. Every method may be left as it is."""

    #: False asks `launch` not to compute or allocate (graph capture's NO_DISPATCH).
    dispatch: bool = True
    #: True lets this observer's exceptions reach the program (comparison mode that should raise).
    may_raise: bool = False
    #: False says that only whole operations are of interest, so that those may go their remembered way.
    sees_launches: bool = True

    def operation_begins(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A public operation was called, at any depth."""

    def operation_ends(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """It returned."""

    def operation_fails(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: BaseException) -> None:
        """It raised."""

    def launched(self, launch: Launch) -> None:
        """A device operation ran, between the begin and the end of its public operation."""

    def allocated(self, buffer: Buffer) -> None:
        """Device memory was given out."""

    def freed(self, buffer: Buffer) -> None:
        """Device memory came back."""


OBSERVERS: list[Observer] = []
_reported: set[tuple[int, str]] = set()


def notify(event: str, *args: Any) -> None:
    """Call one method of every observer; only those that may raise can disturb the program, and only when all were called."""
    failed: Exception | None = None
    for observer in tuple(OBSERVERS):
        try:
            getattr(observer, event)(*args)
        except Exception as error:
            if observer.may_raise:
                failed = failed or error
            else:
                report(observer, event, error)
    if failed is not None:
        raise failed


def report(observer: Observer, event: str, error: Exception) -> None:
    """Say what went wrong in an observer, once for each of its events."""
    if (id(observer), event) not in _reported:
        _reported.add((id(observer), event))
        where = "".join(traceback.format_exception(error, limit=-4)).rstrip()
        logger.error(f"{type(observer).__name__}.{event} failed; the program goes on without what it would have recorded\n{where}")


def attach(observer: Observer) -> None:
    OBSERVERS.append(observer)


def detach(observer: Observer) -> None:
    OBSERVERS.remove(observer)
    _reported.difference_update([key for key in _reported if key[0] == id(observer)])


@contextmanager
def watching(observer: Observer) -> Iterator[Observer]:
    """Attach an observer for a block."""
    attach(observer)
    try:
        yield observer
    finally:
        detach(observer)


def dispatching() -> bool:
    """False while any observer asked for a dry run."""
    return all(o.dispatch for o in OBSERVERS)
