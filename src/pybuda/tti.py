"""Device images: a compiled model in a file. Not built yet; the names are here so that a program says what it misses."""

from __future__ import annotations

from typing import Any


class TTDeviceImage:
    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("TTDeviceImage: device images (TTI) are not built yet")

    @staticmethod
    def load_from_disk(path: str, device_id_overrides: Any = None) -> Any:
        raise NotImplementedError(f"TTDeviceImage.load_from_disk({path!r}): device images (TTI) are not built yet")

    @staticmethod
    def save_to_disk(image: Any, path: str, backend_api: Any = None) -> None:
        raise NotImplementedError(f"TTDeviceImage.save_to_disk({path!r}): device images (TTI) are not built yet")
