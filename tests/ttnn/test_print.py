"""How tensors print: the committed sample of observed rows, options, and long tensors."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import ttnn
from ttnn import printing

ROWS = [json.loads(line) for line in (Path(__file__).parents[1] / "data" / "behaviour" / "print.jsonl").read_text().splitlines()]


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    ttnn.set_printoptions(profile="short")
    yield
    ttnn.set_printoptions(profile="short")


def shown(row: dict) -> str:
    values = [float(v) if isinstance(v, str) else v for v in row["values"]]
    tensor = ttnn.Tensor(values, row["shape"], getattr(ttnn.DataType, row["dtype"]), getattr(ttnn.Layout, row["layout"]))
    ttnn.set_printoptions(**row.get("reset_options", {"profile": "short"}))
    if row["options"]:
        ttnn.set_printoptions(**row["options"])
    return str(tensor)


def is_official_defect(row: dict) -> bool:
    """0.81.1 misreads TILE tensors of several matrices whose height is not a multiple of the tile's."""
    return row["layout"] == "TILE" and math.prod(row["shape"][:-2]) > 1 and row["shape"][-2] % 32 != 0


def test_prints_as_observed() -> None:
    wrong = [r for r in ROWS if "printed" in r and not is_official_defect(r) and shown(r) != r["printed"]]
    assert not wrong


def test_where_the_official_library_misreads_memory_the_right_values_print() -> None:
    tensor = ttnn.Tensor(list(range(12)), [2, 2, 3], ttnn.int32, ttnn.TILE_LAYOUT)
    flat = ttnn.Tensor(list(range(12)), [2, 2, 3], ttnn.int32, ttnn.ROW_MAJOR_LAYOUT)
    assert str(tensor).split(", shape=")[0] == str(flat).split(", shape=")[0]


class TestOptions:
    def test_each_call_sets_all_three(self) -> None:
        tensor = ttnn.Tensor([1.5, 1e6], [2], ttnn.float32, ttnn.ROW_MAJOR_LAYOUT)
        ttnn.set_printoptions(profile="SHORT", sci_mode="False", precision=1)
        assert str(tensor).startswith("ttnn.Tensor([ 1.5, 1000000.0]")
        ttnn.set_printoptions(profile="short")
        assert str(tensor).startswith("ttnn.Tensor([ 1.5000e+00,  1.0000e+06]")

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({}, TypeError),
            ({"profile": 3}, TypeError),
            ({"profile": "default"}, RuntimeError),
            ({"profile": "short", "sci_mode": "x"}, ValueError),
            ({"profile": "short", "precision": "a"}, ValueError),
            ({"profile": "short", "precision": 2.0}, ValueError),
        ],
    )
    def test_refused(self, options: dict, error: type[Exception]) -> None:
        with pytest.raises(error):
            ttnn.set_printoptions(**options)


def test_a_long_tensor_shows_its_ends_without_reading_the_middle() -> None:
    values = torch.arange(3 * 200 * 300).reshape(3, 200, 300)
    short = printing.format_values(values, printing.Options())
    parts = [values[:, i] for i in (0, 1, 2, -2, -1)]
    assert short == printing.format_values(torch.stack(parts, 1)[..., [0, 1, 2, -2, -1]].contiguous(), printing.Options())
    assert short.count("...") == 3 * 5


def test_scientific_is_chosen_over_all_elements() -> None:
    assert printing.is_scientific(torch.tensor([1.0, 2000.0]))
    assert printing.is_scientific(torch.tensor([2e8]))
    assert printing.is_scientific(torch.tensor([1e-5]))
    assert not printing.is_scientific(torch.tensor([0.0, float("nan"), float("inf"), 1.0, 1000.0]))


def test_a_deallocated_tensor_says_so() -> None:
    device = ttnn.open_device(device_id=0)
    try:
        tensor = ttnn.zeros([2, 2], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
        ttnn.deallocate(tensor)
        assert str(tensor) == ("ttnn.Tensor(<buffer is not allocated>, shape=Shape([2, 2]), dtype=DataType::BFLOAT16, layout=Layout::TILE)")
    finally:
        ttnn.close_device(device)
