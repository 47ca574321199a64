"""Queues between the user, the devices and back. They are the standard library's in look, with three differences: an error in a worker
wakes every reader, a reader is told when nothing can arrive any more, and an item can be looked at before it is taken.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any


class Stopped(Exception):
    """The pipeline was shut down while somebody waited on one of its queues."""


class Channel:
    """A first-in, first-out queue that can be closed."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._changed = threading.Condition(threading.Lock())
        self._closed = False
        self._last: Any = None

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        with self._changed:
            self._items.append(item)
            self._changed.notify()

    def take(self) -> Any:
        """The oldest item; waits for one. Raises `Stopped` once the channel is closed."""
        with self._changed:
            while not self._items:
                if self._closed:
                    raise Stopped
                self._changed.wait()
            return self._items.popleft()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def clear(self) -> None:
        with self._changed:
            self._items.clear()

    def qsize(self) -> int:
        return len(self._items)

    __len__ = qsize

    def empty(self) -> bool:
        return not self._items

    def full(self) -> bool:
        return False


class ResultQueue(Channel):
    """What the user reads. `state` raises a worker's error, and says whether anything is still on its way."""

    def __init__(self, state: Callable[[], bool], what: str) -> None:
        super().__init__()
        self._state = state
        self._what = what

    def _wait(self, block: bool, timeout: float | None) -> None:
        """Return with at least one item there; the lock is held."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._items:
            coming = self._state()
            if self._items:
                return
            if not block:
                raise queue.Empty
            if self._closed:
                raise RuntimeError(f"the pipeline was shut down, and its {self._what} queue is empty")
            if not coming:
                raise RuntimeError(f"the {self._what} queue is empty and nothing is running that could fill it; push inputs and run first")
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise queue.Empty
            self._changed.wait(left)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        with self._changed:
            if not self._items:
                self._wait(block, timeout)
            self._last = self._items.popleft()
            return self._last

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def __getitem__(self, index: int) -> Any:
        """Output `index` of the oldest item, which stays in the queue; with nothing left there, of the item taken last."""
        with self._changed:
            if not self._items and self._last is not None:
                return self._last[index]
            self._wait(True, None)
            return self._items[0][index]
