"""Scripts run in this process: what one of them leaves open or sets in the environment ends with it."""

import os
from collections.abc import Iterator

import pytest

from tessera.runtime.device import OPEN


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    before, held = dict(os.environ), list(OPEN)
    yield
    for device in [one for one in OPEN if one not in held]:
        device.close()
    os.environ.clear()
    os.environ.update(before)
