"""Where it is decided how a thing is computed: by a native kernel or by torch.

An engine function is written once in torch and marked `@engine_function`. A native kernel for it is another function with the same
arguments, registered with `@softmax.native`; it answers `NotImplemented` for inputs it has no kernel for, and the torch form takes over.
`TESSERA_ENGINE=torch` turns all native forms off, so that both can be compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

USE_NATIVE = os.environ.get("TESSERA_ENGINE", "native") != "torch"


class EngineFunction:
    """A computation with a torch form and, for some inputs, a native one."""

    def __init__(self, reference: Callable[..., Any]) -> None:
        self.__name__ = reference.__name__
        self.__doc__ = reference.__doc__
        self.torch = reference
        self._native: Callable[..., Any] | None = None

    def native(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Register the native form."""
        self._native = kernel
        return kernel

    @property
    def has_native(self) -> bool:
        return self._native is not None

    def __call__(self, *values: Any, **attributes: Any) -> Any:
        if self._native is not None and USE_NATIVE:
            result = self._native(*values, **attributes)
            if result is not NotImplemented:
                return result
        return self.torch(*values, **attributes)

    def __repr__(self) -> str:
        return f"<engine function {self.__name__}{', native' if self._native else ''}>"


def engine_function(reference: Callable[..., Any]) -> EngineFunction:
    """Mark a torch function as an engine function."""
    return EngineFunction(reference)
