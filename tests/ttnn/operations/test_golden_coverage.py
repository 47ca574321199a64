"""Every operation that official TT-NN gives a golden function has one here that is callable; the open ones are named, and no others."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ttnn
from ttnn.binding import interface
from ttnn.decorators import NotBuilt

WITH_GOLDEN = sorted(name for name, row in interface().items() if isinstance(row, dict) and row.get("golden"))


def found(name: str) -> Any:
    at: Any = ttnn
    for word in name.split(".")[1:]:
        at = getattr(at, word)
    return at


def test_every_built_operation_has_its_golden_function() -> None:
    missing = [
        name
        for name in WITH_GOLDEN
        if not isinstance(found(name), NotBuilt) and not callable(getattr(found(name), "golden_function", None))
    ]
    assert missing == []


def test_the_list_is_the_official_one() -> None:
    assert len(WITH_GOLDEN) > 500


IMAGE = torch.arange(2 * 16 * 3, dtype=torch.float32).reshape(1, 1, 32, 3)
POOL = {"batch_size": 2, "input_h": 4, "input_w": 4, "channels": 3}


def nchw(rows: torch.Tensor) -> torch.Tensor:
    return rows.reshape(2, 4, 4, 3).permute(0, 3, 1, 2)


def nhwc(images: torch.Tensor) -> torch.Tensor:
    return images.permute(0, 2, 3, 1).reshape(1, 1, -1, 3)


POOLS: dict[str, tuple[dict[str, Any], torch.Tensor]] = {
    "max_pool2d": (
        {"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1]},
        nhwc(torch.nn.functional.max_pool2d(nchw(IMAGE), 2)),
    ),
    "avg_pool2d": ({"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0]}, nhwc(torch.nn.functional.avg_pool2d(nchw(IMAGE), 2))),
    "adaptive_avg_pool2d": ({"output_size": [2, 1]}, nhwc(torch.nn.functional.adaptive_avg_pool2d(nchw(IMAGE), (2, 1)))),
    "adaptive_max_pool2d": ({"output_size": [2, 1]}, nhwc(torch.nn.functional.adaptive_max_pool2d(nchw(IMAGE), (2, 1)))),
}


@pytest.mark.parametrize("name", sorted(POOLS))
def test_pooling(name: str) -> None:
    words, expected = POOLS[name]
    assert torch.equal(ttnn.get_golden_function(getattr(ttnn, name))(input_tensor=IMAGE, **POOL, **words), expected)


@pytest.mark.parametrize("name", ["to_device", "from_device", "to_layout", "reallocate", "from_torch", "to_torch"])
def test_places_keep_values(name: str) -> None:
    assert ttnn.get_golden_function(getattr(ttnn, name))(IMAGE, None) is IMAGE


def test_room_corners_and_slices() -> None:
    golden = ttnn.get_golden_function
    assert torch.equal(golden(ttnn.allocate_tensor_on_device)([2, 3], None, None, None), torch.zeros(2, 3))
    assert torch.equal(golden(ttnn.from_buffer)([1, 2, 3, 4], [2, 2], None, None), torch.tensor([[1, 2], [3, 4]]))
    corner = golden(ttnn.fill_rm)(1, 1, 3, 3, 1, 2, IMAGE, 5.0, -1.0)
    assert corner.tolist() == [[[[5.0, 5.0, -1.0], [-1.0] * 3, [-1.0] * 3]]]
    assert golden(ttnn.fill_ones_rm)(N=1, C=1, H=2, W=2, hOnes=1, wOnes=1, any=IMAGE).tolist() == [[[[1.0, 0.0], [0.0, 0.0]]]]
    part = golden(ttnn.interleaved_to_sharded_partial)(IMAGE, None, None, 4, 1, None, None)
    assert torch.equal(part, IMAGE[..., 8:16, :])
    cache = golden(ttnn.sharded_to_interleaved_partial)(part, torch.zeros_like(IMAGE), 4, 1)
    assert torch.equal(cache[..., 8:16, :], part)
    assert not cache[..., 16:, :].any()
    drawn = golden(ttnn.uniform)(torch.zeros(100), 2.0, 3.0)
    assert ((drawn >= 2) & (drawn < 3)).all()
