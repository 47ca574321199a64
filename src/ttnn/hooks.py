"""Functions of the program's own that are called before and after every operation it calls.

A hook sees the operations that the program calls itself, not those that operations call inside. It must return None: anything else is a mistake that
is worth an error, since a hook cannot change arguments or results. A hook that raises is reported once and the operation goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tessera.runtime import observers

__all__ = ["register_post_operation_hook", "register_pre_operation_hook"]

PreHook = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
PostHook = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]


class _Depth(threading.local):
    value = 0


class Hooks(observers.Observer):
    """Calls the hooks. It is attached while there are any."""

    may_raise = True
    sees_launches = False

    def __init__(self) -> None:
        self.before: list[PreHook] = []
        self.after: list[PostHook] = []
        self.depth = _Depth()

    def operation_begins(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.depth.value += 1
        if self.depth.value == 1:
            for hook in tuple(self.before):
                self._call("Pre", hook, operation, args, kwargs)

    def operation_ends(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        try:
            if self.depth.value == 1:
                for hook in tuple(self.after):
                    self._call("Post", hook, operation, args, kwargs, result)
        finally:
            self._leave()

    def operation_fails(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: BaseException) -> None:
        self._leave()

    def _leave(self) -> None:
        self.depth.value = max(0, self.depth.value - 1)

    def _call(self, when: str, hook: Callable[..., None], *given: Any) -> None:
        try:
            answer = hook(*given)
        except Exception as error:
            observers.report(self, f"hook {getattr(hook, '__name__', hook)}", error)
            return
        if answer is not None:
            raise RuntimeError(f"{when}-operation hook {hook} returned {answer!r}: a hook must return None")


_hooks = Hooks()


@contextmanager
def _registered(hook: Any, place: list[Any]) -> Iterator[None]:
    place.append(hook)
    if _hooks not in observers.OBSERVERS:
        observers.attach(_hooks)
    try:
        yield
    finally:
        place.remove(hook)
        if not _hooks.before and not _hooks.after and _hooks in observers.OBSERVERS:
            _hooks.depth = _Depth()
            observers.detach(_hooks)


def register_pre_operation_hook(hook: PreHook) -> Any:
    """For the length of a `with` block: `hook(operation, args, kwargs)` before every operation."""
    return _registered(hook, _hooks.before)


def register_post_operation_hook(hook: PostHook) -> Any:
    """For the length of a `with` block: `hook(operation, args, kwargs, output)` after every operation."""
    return _registered(hook, _hooks.after)
