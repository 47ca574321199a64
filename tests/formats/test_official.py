"""Files and results of official TT-NN: every one decodes to its numbers and encodes to its bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from formats_samples import DATA, WHOLE, Sample, same_bits

from tessera.formats.dtype import FORMATS, FORMATS_BY_NAME, DataType, Layout
from tessera.formats.packing import image_size, pack, pack_tiles, unpack, unpack_tiles
from tessera.formats.rounding import host_convert, to_grid

FILES = sorted((DATA / "tensorbin").glob("*.src.npy"))


def check(sample: Sample) -> None:
    spec = sample.spec
    assert image_size(spec) == spec.image_size == sample.image.numel()
    values = unpack(sample.image, spec)
    assert values.dtype == FORMATS[spec.dtype].values
    if FORMATS[spec.dtype].is_float:
        assert np.array_equal(values.float().numpy(), sample.values.numpy(), equal_nan=True)
    else:
        assert torch.equal(values.to(torch.int64), sample.values)
    # What the source becomes, by way of the values face, and for block floats in one pass too.
    tile = spec.tile if spec.layout is Layout.TILE else None
    assert torch.equal(pack(host_convert(sample.source, spec.dtype, tile), spec), sample.image)
    if FORMATS[spec.dtype].is_block:
        assert torch.equal(pack(sample.source, spec), sample.image)


@pytest.mark.parametrize("source", FILES, ids=lambda path: path.name.removesuffix(".src.npy"))
def test_file_decodes_and_encodes_exactly(source: Path) -> None:
    check(Sample(source.with_name(source.name.replace(".src.npy", ".tensorbin"))))


def test_the_sample_covers_the_formats() -> None:
    samples = [Sample(source.with_name(source.name.replace(".src.npy", ".tensorbin"))) for source in FILES]
    assert {sample.spec.dtype for sample in samples} == set(DataType) - {DataType.INVALID, DataType.FP8_E4M3}
    assert len({sample.spec.tile.key for sample in samples}) >= 9


@pytest.mark.whole
@pytest.mark.skipif(not WHOLE.exists(), reason="../shared is not here")
def test_every_file_of_the_reference() -> None:
    files = sorted((WHOLE / "tensorbin").glob("*.tensorbin"))
    assert len(files) > 100
    for path in files:
        check(Sample(path))


@pytest.mark.parametrize("case", ["edge", "wide"])
@pytest.mark.parametrize(("name", "short"), [("Bfp8_b", "bfp8"), ("Bfp4_b", "bfp4"), ("Bfp2_b", "bfp2")])
def test_host_packer(case: str, name: str, short: str) -> None:
    folder = DATA / "bfp"
    values = torch.from_numpy(np.load(folder / f"{case}_in.npy")).reshape(32, 32)
    image = torch.from_numpy(np.load(folder / f"{case}_{short}.npy").view(np.uint8))
    back = torch.from_numpy(np.load(folder / f"{case}_{short}_unpacked.npy"))
    row = FORMATS_BY_NAME[name]
    assert torch.equal(pack_tiles(values, row), image)
    assert same_bits(unpack_tiles(image, (32, 32), row).float().reshape(-1), back)


@pytest.mark.parametrize("source", ["float32", "bfloat16", "bfloat8_b"])
@pytest.mark.parametrize("target", ["bfloat8_b", "bfloat4_b"])
def test_device_packer(source: str, target: str) -> None:
    """Typecasts read back from a simulated chip: the device rounding gives their bits, the host rounding does not."""
    if source == target:
        pytest.skip("no such typecast")
    data = np.load(DATA / "device" / f"typecast_{source}_{target}.npz")
    values = to_grid(torch.from_numpy(data["a"]), DataType[source.upper()])
    want = torch.from_numpy(data["y"])
    assert torch.equal(to_grid(values, DataType[target.upper()], rounding="device").float(), want)
    if (source, target) != ("float32", "bfloat8_b"):
        assert not torch.equal(to_grid(values, DataType[target.upper()]).float(), want)
