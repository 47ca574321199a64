"""The formats' table, and rounding."""

from __future__ import annotations

import pytest
import torch

from tessera.graph.formats import FORMATS, DataFormat, in_family, is_float, quantize, tile_bytes, width


@pytest.mark.parametrize(
    ("fmt", "size"),
    [
        ("Float32", 4128),
        ("Float16", 2080),
        ("Float16_b", 2080),
        ("Int8", 1056),
        ("Bfp8", 1120),
        ("Bfp8_b", 1120),
        ("Bfp4", 608),
        ("Bfp4_b", 608),
        ("Bfp2", 352),
        ("Bfp2_b", 352),
    ],
)
def test_a_tile_in_memory(fmt, size):
    assert tile_bytes(DataFormat[fmt]) == size


@pytest.mark.parametrize("fmt", [f for f in FORMATS if is_float(f)], ids=lambda f: f.name)
def test_rounding_twice_is_rounding_once(fmt):
    values = torch.randn(3, 50)
    once = quantize(values, fmt)
    assert once.dtype is FORMATS[fmt].values
    assert torch.equal(quantize(once, fmt).float(), once.float())
    relative = (once.float() - values).abs().max() / values.abs().max()
    assert relative <= 2.0 ** -(width(fmt) - 2 if FORMATS[fmt].kind == "block" else 1)


def test_a_block_shares_its_largest_exponent():
    values = torch.zeros(1, 16)
    values[0, 0], values[0, 1] = 64.0, 0.4
    assert quantize(values, DataFormat.Bfp8_b)[0, :2].tolist() == [64.0, 0.0]
    values[0, 0] = 0.5
    assert quantize(values, DataFormat.Bfp8_b)[0, 1].item() == pytest.approx(0.4, rel=0.01)


def test_integers_pass():
    ids = torch.arange(5)
    assert quantize(ids, DataFormat.Bfp8_b) is ids


def test_families():
    assert in_family(DataFormat.Bfp8_b, "a") is DataFormat.Bfp8
    assert in_family(DataFormat.Float16, "b") is DataFormat.Float16_b
    assert in_family(DataFormat.Int32, "b") is DataFormat.Int32
