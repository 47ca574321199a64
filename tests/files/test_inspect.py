"""`tessera inspect` on tensor files: what it shows, compares, verifies and converts."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import samples
import torch
from safetensors.torch import load_file, save_file

from tessera import native
from tessera.cli.main import main
from tessera.files import conversion, inspection, tensors
from tessera.files.bands import bands, total, unordered
from tessera.formats.dtype import DataType, Layout
from tessera.formats.packing import pack, unpack
from tessera.formats.rounding import to_grid
from tessera.formats.shape import Shape
from tessera.formats.tile import Tile
from tessera.memory.spec import TensorSpec

MESH = samples.FOLDER / "official" / "mesh_2x4_shard1_replicate.tensorbin"
BLOCK = samples.FOLDER / "bfloat8_b_tile_3x5x7_randn.tensorbin"
PLAIN = samples.FOLDER / "float32_row_major_3x5x7_randn.tensorbin"


def inspect(*args: object) -> int:
    return main(["inspect", *map(str, args)])


def test_what_is_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(MESH) == 0
    said = capsys.readouterr().out
    for part in (
        "[16, 8]",
        "BFLOAT16, 16.00 bits",
        "[PlacementShard(1), PlacementReplicate()]",
        "8 shard(s), 2 stored",
        "header 952 B",
        "73.79",
    ):
        assert part in said
    assert said.count("|") == 24, "a heat map of twelve lines"


def test_views_of_a_fused_tensor(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(samples.OVERLAPPED[0]) == 0
    assert "BFLOAT8_B" in capsys.readouterr().out


def test_statistics_are_of_the_finite_values() -> None:
    found = inspection.statistics([torch.tensor([[1.0, 3.0]]), torch.tensor([[0.0, math.inf, math.nan]])])
    assert (found.count, found.low, found.high, found.zeros, found.not_finite) == (5, 0.0, 3.0, 1, 2)
    assert found.mean == pytest.approx(4 / 3)
    assert found.deviation == pytest.approx(math.sqrt(14 / 9))
    assert math.isnan(inspection.statistics([torch.tensor([math.nan])]).mean)


def test_a_heat_map_shows_where_the_large_values_are() -> None:
    values = torch.zeros(24, 128)
    values[12:, 64:] = 4
    values[:12, 64:] = 2
    assert inspection.shaded(inspection.heat_map([values[:5], values[5:]], 24, 2, 4)) == ["  ++", "  @@"]
    assert inspection.shaded(inspection.heat_map([torch.full((2, 2), math.nan)], 2)) == ["??", "??"]
    assert inspection.shaded(inspection.heat_map([torch.zeros(1, 1)], 1)) == [" "]
    assert inspection.heat_map([], 0) == []


@pytest.mark.parametrize("path", samples.PLAIN + samples.SPREAD, ids=lambda p: p.stem)
@pytest.mark.parametrize("elements", [1, 1000, 1 << 19])
def test_bands_are_the_values(path: Path, elements: int) -> None:
    found = tensors.read(path)
    for image in inspection.distinct(found):
        pieces = [band.clone() for band in bands(image, found.spec, elements)]
        whole = unpack(image, found.spec).reshape(-1, found.spec.dims[-1] if found.spec.dims else 1)
        assert torch.equal(torch.cat(pieces).double().nan_to_num(7), whole.double().nan_to_num(7))
        loose = torch.cat([band.clone().reshape(-1) for band in unordered(image, found.spec, elements)])
        assert torch.equal(loose.double().nan_to_num(7).sort()[0], whole.double().reshape(-1).nan_to_num(7).sort()[0])


@pytest.mark.parametrize("isa", native.MODULE.runnable_isas() if native.MODULE is not None else [None])
@pytest.mark.parametrize("path", samples.PLAIN, ids=lambda p: p.stem)
def test_totals(path: Path, isa: str | None) -> None:
    if isa is not None:
        assert native.MODULE is not None
        before = native.MODULE.isa()
        native.MODULE.set_isa(isa)
    found = tensors.read(path)
    want = float(unpack(found.images[0], found.spec).double().sum())
    got = total(found.images[0], found.spec)
    if isa is not None and native.MODULE is not None:
        native.MODULE.set_isa(before)
    magnitude = float(unpack(found.images[0], found.spec).double().abs().sum())
    assert (math.isnan(want) and not math.isfinite(got)) or got == want or abs(got - want) <= 0.01 * magnitude


@pytest.mark.parametrize("dtype", [DataType.BFLOAT8_B, DataType.BFLOAT4_B])
@pytest.mark.parametrize("tile", [(32, 32), (16, 16), (1, 32), (2, 32)])
def test_packed_totals_are_exact(dtype: DataType, tile: tuple[int, int], tmp_path: Path) -> None:
    spec = TensorSpec.of(Shape([64, 96]), dtype, Layout.TILE, tile=Tile(tile))
    values = to_grid(torch.randn(64, 96) * 100, dtype, spec.tile)
    assert total(pack(values, spec), spec) == pytest.approx(float(values.double().sum()), rel=1e-12, abs=1e-9)


# -- differences


def test_equal_files_do_not_differ(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(PLAIN, "--diff", PLAIN) == 0
    assert "1.000000000" in capsys.readouterr().out


def test_a_difference_in_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = conversion.values_of(PLAIN)
    values[0, 0, 0] = torch.nextafter(values[0, 0, 0], torch.tensor(9.0))
    other = tmp_path / "other.tensorbin"
    conversion.to_file(values, other)
    assert inspect(PLAIN, "--diff", other) == 1
    said = capsys.readouterr().out.split()
    assert said[said.index("ULP") + 1] == "1"
    assert said[said.index("differing") + 1] == "1"


@pytest.mark.parametrize(
    ("a", "b", "ulp", "max_abs"),
    [
        ([1.0], [1.0078125], 65536, 0.0078125),
        ([0.0], [-0.0], 0, 0.0),
        ([math.nan], [math.nan], 0, 0.0),
        ([-1e-45], [1e-45], 2, 2.802597e-45),
    ],
)
def test_ulp(a: list[float], b: list[float], ulp: int, max_abs: float) -> None:
    found = inspection.difference(torch.tensor(a), torch.tensor(b))
    assert found.ulp == ulp
    assert found.max_abs == pytest.approx(max_abs)


def test_ulp_of_bfloat16_counts_bfloat16_steps() -> None:
    assert inspection.difference(torch.tensor([1.0], dtype=torch.bfloat16), torch.tensor([1.0078125])).ulp == 1


def test_integers_have_no_ulp_and_shapes_must_agree() -> None:
    assert inspection.difference(torch.tensor([1, 2]), torch.tensor([1, 4])).ulp is None
    with pytest.raises(RuntimeError, match="shapes differ"):
        inspection.difference(torch.zeros(2), torch.zeros(3))


# -- folders


def test_verify_finds_what_is_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(PLAIN, tmp_path / "good.tensorbin")
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers" / "cut.tensorbin").write_bytes(PLAIN.read_bytes()[:-1])
    shutil.copy(PLAIN, tmp_path / "w_dtype_BFLOAT16_layout_TILE.tensorbin")
    (tmp_path / "long.tensorbin").write_bytes(PLAIN.read_bytes() + bytes(999))
    (tmp_path / ".x.tensorbin.lock").touch()
    (tmp_path / "notes.txt").touch()
    assert inspect(tmp_path, "--verify") == 1
    said = capsys.readouterr().out
    assert "5 files, 4 with problems" in said
    assert "its name promises BFLOAT16 TILE and it holds FLOAT32 ROW_MAJOR" in said
    assert "belong to nothing" in said
    assert "left behind by a writer" in said
    assert inspect(tmp_path) == 0, "without --verify it only shows"


def test_a_sound_folder_verifies(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(samples.FOLDER, "--verify") == 0
    assert "0 with problems" in capsys.readouterr().out


# -- conversion


def test_a_folder_to_safetensors_and_back(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    for path in (PLAIN, BLOCK, MESH):
        shutil.copy(path, folder)
    assert inspect(folder, "--to", tmp_path / "all.safetensors") == 0
    named = load_file(tmp_path / "all.safetensors")
    assert {name: list(t.shape) for name, t in named.items()} == {PLAIN.stem: [3, 5, 7], BLOCK.stem: [3, 5, 7], MESH.stem: [16, 16]}
    assert named[MESH.stem].flatten().tolist() == list(range(256))
    assert inspect(tmp_path / "all.safetensors", "--to", tmp_path / "back") == 0
    for name, values in named.items():
        assert torch.equal(conversion.values_of(tmp_path / "back" / f"{name}.tensorbin"), values)


def test_npy_both_ways(tmp_path: Path) -> None:
    assert inspect(BLOCK, "--to", tmp_path / "a.npy") == 0
    values = np.load(tmp_path / "a.npy")
    assert values.dtype == np.float32
    assert np.array_equal(values, conversion.values_of(BLOCK).float().numpy())
    assert inspect(tmp_path / "a.npy", "--to", tmp_path / "a.tensorbin", "--dtype", "bfloat8_b") == 0
    assert (tmp_path / "a.tensorbin").read_bytes() == BLOCK.read_bytes(), "what is on the grid already comes back to the byte"


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "float16", "float32", "float64", "bool"])
def test_every_numpy_dtype_that_fits(tmp_path: Path, dtype: str) -> None:
    array = np.array([[0, 1, 0], [1, 1, 100 if dtype != "bool" else 0]]).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    assert inspect(tmp_path / "a.npy", "--to", tmp_path / "a.tensorbin") == 0
    assert np.array_equal(conversion.values_of(tmp_path / "a.tensorbin").to(torch.float64).numpy(), array.astype(np.float64))


def test_what_would_lose_values_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.array([1 << 40]))
    assert inspect(tmp_path / "a.npy", "--to", tmp_path / "a.tensorbin") == 1
    assert "do not fit" in capsys.readouterr().err


def test_names_cannot_leave_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_file({"../escaped": torch.zeros(2)}, tmp_path / "a.safetensors")
    assert inspect(tmp_path / "a.safetensors", "--to", tmp_path / "folder") == 1
    assert "nothing is written outside" in capsys.readouterr().err
    assert not (tmp_path / "escaped.tensorbin").exists()


def test_nothing_is_unpickled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert inspect(tmp_path / "a.npy", "--to", tmp_path / "a.tensorbin") == 1
    assert "cannot be read as npy" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"\x10\0\0\0\0\0\0\0{}"])
def test_broken_foreign_files(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.safetensors", "a.npy"):
        (tmp_path / name).write_bytes(content)
        assert inspect(tmp_path / name) == 1
        assert "cannot be read as" in capsys.readouterr().err


def test_wrong_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(tmp_path / "missing.tensorbin") == 1
    assert inspect(samples.FOLDER, "--to", tmp_path / "a.npy") == 1
    assert inspect(PLAIN, "--to", tmp_path / "a.txt") == 1
    assert inspect(tmp_path, "--to", tmp_path / "a.safetensors") == 1
    assert inspect(PLAIN, "--to", tmp_path / "a.npy", "--dtype", "bfloat16") == 1
    assert capsys.readouterr().err.count("tessera inspect:") == 5


def test_parts_without_a_whole_are_not_put_together(tmp_path: Path) -> None:
    found = tensors.read(MESH)
    partial = tensors.Stored(found.spec, found.mesh, found.topology, found.images[2:5])
    with pytest.raises(RuntimeError, match="cannot be put together"):
        inspection.whole(partial)
    assert inspection.element_bits(found) == 16
    assert found.spec.dtype is DataType.BFLOAT16
