"""Scripts run in this process: whatever one of them leaves open is closed before the next."""

from collections.abc import Iterator

import pytest

from tessera.runtime.device import OPEN


@pytest.fixture(autouse=True)
def every_device_closed() -> Iterator[None]:
    yield
    for device in list(OPEN):
        device.close()
