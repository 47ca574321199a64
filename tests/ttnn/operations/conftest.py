"""One open device for a module's tests."""

from collections.abc import Iterator

import pytest

import ttnn


@pytest.fixture(scope="module")
def device() -> Iterator[ttnn.MeshDevice]:
    opened = ttnn.open_device(device_id=0)
    yield opened
    ttnn.close_device(opened)
