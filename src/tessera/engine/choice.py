"""Where it is decided how a thing is computed: by a native kernel or by torch.

An engine function is written once in torch and marked `@engine_function`. A native kernel for it is another function with the same
arguments; it answers `NotImplemented` for inputs it has no kernel for, and the torch form takes over. `tessera.engine.native` lists the native forms by
name; they are looked up when an engine function is first called. `TESSERA_ENGINE=torch` turns all native forms off, so that both can be compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tessera.engine.packed import unpacked

USE_NATIVE = os.environ.get("TESSERA_ENGINE", "native") != "torch"


class EngineFunction:
    """A computation with a torch form and, for some inputs, a native one."""

    def __init__(self, reference: Callable[..., Any]) -> None:
        self.__name__ = reference.__name__
        self.__doc__ = reference.__doc__
        self.__module__ = reference.__module__
        self.torch = reference
        self._native: Callable[..., Any] | None = self._look_up
        self._images: tuple[int, ...] = ()
        self.any_format = False
        """Whether bytes of every format are welcome, or of block floats alone."""

    def native(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Register the native form."""
        self._native = kernel
        return kernel

    def _look_up(self, *values: Any, **attributes: Any) -> Any:
        self._resolve()
        return self._native(*values, **attributes) if self._native is not None else NotImplemented

    def _resolve(self) -> None:
        from tessera.engine.native import ANY_FORMAT, form_of, images_of

        family = self.__module__.rpartition(".")[2]
        self._native = form_of(family, self.__name__)
        if self._native is not None and USE_NATIVE:
            self._images = images_of(family, self.__name__)
            self.any_format = (family, self.__name__) in ANY_FORMAT

    @property
    def has_native(self) -> bool:
        if self._native == self._look_up:
            self._resolve()
        return self._native is not None

    @property
    def images(self) -> tuple[int, ...]:
        """Places of inputs that may be given as `Packed` tiles."""
        return self._images if self.has_native else ()

    def __call__(self, *values: Any, **attributes: Any) -> Any:
        if self._native is not None and USE_NATIVE:
            result = self._native(*values, **attributes)
            if result is not NotImplemented:
                return result
        return self.torch(*(map(unpacked, values) if self._images else values), **attributes)

    def __repr__(self) -> str:
        return f"<engine function {self.__name__}{', native' if self.has_native else ''}>"


def engine_function(reference: Callable[..., Any]) -> EngineFunction:
    """Mark a torch function as an engine function."""
    return EngineFunction(reference)
