"""`tessera trace`: the table, the filters, two folders beside each other, and calls that run again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.observers.samples import tensor

import ttnn
from tessera.cli.main import main
from ttnn import operation_tracer

DATA = Path(__file__).parent.parent / "data" / "optrace"


@pytest.fixture(scope="module")
def recorded(device: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with values of a program that has a little of everything."""
    folder = tmp_path_factory.mktemp("recorded")
    with ttnn.manage_config("operation_parameter_log_dir", folder):
        operation_tracer.enable_tracing()
        operation_tracer.enable_tensor_value_serialization()
        program(device)
        operation_tracer.enable_tracing(False)
        operation_tracer.enable_tensor_value_serialization(False)
    return folder


def program(device: Any) -> None:
    x = tensor(device, 1, 1, 32, 64)
    w = tensor(device, 64, 64, dtype=ttnn.bfloat8_b)
    config = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi2)
    y = ttnn.matmul(x, w, compute_kernel_config=config, core_grid=ttnn.CoreGrid(x=8, y=8))
    y = (y + 1.0)[:, :, :16]
    sharded = ttnn.create_sharded_memory_config((1, 1, 32, 64), core_grid=ttnn.CoreGrid(x=2, y=1), strategy=ttnn.ShardStrategy.WIDTH)
    ttnn.relu(ttnn.to_memory_config(x, sharded))
    ttnn.rand([2, 3], device=device)
    ttnn.add_(y, 1.0)
    ttnn.to_torch(y)
    ttnn.deallocate(y)
    ttnn.full([2, 2], float("nan"), device=device, layout=ttnn.TILE_LAYOUT)


def test_the_sequence_as_a_table(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(recorded)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "calls of" in lines[0]
    row = next(line for line in lines if "ttnn.matmul" in line)
    assert "bfloat16[1, 1, 32, 64] TILE DRAM, bfloat8_b[64, 64] TILE DRAM, compute_kernel_config=HiFi2" in row
    numbers = [int(line.split()[0]) for line in lines[2:]]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--op", "matmul"], ["ttnn.matmul"]),
        (["--op", "ttnn.add*"], ["ttnn.add", "ttnn.add_"]),
        (["--dtype", "bfloat8_b"], ["ttnn.from_torch", "ttnn.matmul"]),
        (["--shape", "2,2"], ["ttnn.full"]),
        (["--shape", "1,1,*,64", "--op", "relu"], ["ttnn.relu"]),
        (["--shape", "7"], []),
    ],
)
def test_filters(recorded: Path, capsys: pytest.CaptureFixture[str], flags: list[str], names: list[str]) -> None:
    assert main(["trace", str(recorded), *flags]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[2:]] == names


def test_an_official_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shutil.copy(DATA / "official_matmul.json", tmp_path / "1_ttnn_matmul_20261118_214624_353860.json")
    assert main(["trace", str(tmp_path)]) == 0
    assert "bfloat16[1, 1, 32, 64] TILE L1, bfloat8_b[64, 64] TILE DRAM" in capsys.readouterr().out
    assert main(["trace", str(tmp_path), "--replay"]) == 0
    assert "1 ran" in capsys.readouterr().out


def test_damaged_and_missing_files_are_named_and_skipped(recorded: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(recorded, folder)
    files = {int(f.name.split("_")[0]): f for f in folder.iterdir()}
    files[2].unlink()
    files[4].write_text(files[4].read_text()[:40])
    files[5].write_text("[]")
    files[6].write_text(json.dumps({"operation_name": "x"}))
    files[7].write_bytes(b"\xff\xfe\x00")
    assert main(["trace", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert f"{len(files) - 5} calls" in out
    for said in ("number 2 is missing", files[4].name, files[5].name, files[6].name, files[7].name):
        assert said in err


def test_the_same_trace(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(recorded), "--compare", str(recorded)]) == 0
    assert "the same" in capsys.readouterr().out


def test_the_first_difference_and_the_counts(recorded: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(recorded, other)
    third = next(other.glob("3_*"))
    data = json.loads(third.read_text())
    third.write_text(json.dumps(data | {"operation_name": "ttnn.linear"}))
    assert main(["trace", str(recorded), "--compare", str(other)]) == 1
    out = capsys.readouterr().out
    assert "first difference at call 3" in out and "#3 ttnn.matmul(" in out and "#3 ttnn.linear(" in out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip().startswith("ttnn.")}
    assert rows["ttnn.matmul"] == ["1", "0", "-1"] and rows["ttnn.linear"] == ["0", "1", "+1"] and rows["ttnn.add"] == ["1", "1"]


def test_a_trace_without_values_is_the_same_trace(recorded: Path, device: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ttnn.manage_config("operation_parameter_log_dir", tmp_path), ttnn.manage_config("operation_trace_style", "tt-metal"):
        operation_tracer.enable_tracing()
        program(device)
        operation_tracer.enable_tracing(False)
    assert main(["trace", str(recorded), "--compare", str(tmp_path)]) == 0, capsys.readouterr().out


def test_replay_agrees_with_recorded_values(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(recorded), "--replay", "--repeat", "2"]) == 0
    out = capsys.readouterr().out
    outcomes = {line.split()[1]: line.split()[-1] for line in out.splitlines()[2:]}
    assert outcomes.pop("ttnn.rand") == "ran" and outcomes.pop("ttnn.add_") == "ran" and outcomes.pop("ttnn.deallocate") == "ran"
    assert set(outcomes.values()) == {"agrees"}


def test_replay_finds_a_result_that_differs(recorded: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for file in recorded.glob("3_*"):
        data = json.loads(file.read_text())
        values = torch.tensor(data["return_value"]["values"])
        data["return_value"]["values"] = torch.randn(values.shape).tolist()
        (tmp_path / file.name).write_text(json.dumps(data))
    assert main(["trace", str(tmp_path), "--replay"]) == 1
    assert "differs: pcc" in capsys.readouterr().out


def test_replay_says_what_it_cannot_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"operation_name": "ttnn.no_such_operation", "args": [], "kwargs": {}},
        {"operation_name": "ttnn.relu", "args": [{"position": 0, "value": {"type": "Odd", "value": "odd"}}], "kwargs": {}},
        {"operation_name": "ttnn.relu", "args": [{"position": 0, "value": 3}], "kwargs": {}},
        {"operation_name": "ttnn.os.system", "args": [{"position": 0, "value": "true"}], "kwargs": {}},
    ]
    for i, row in enumerate(rows):
        (tmp_path / f"{i + 1}_x.json").write_text(json.dumps(row))
    assert main(["trace", str(tmp_path), "--replay"]) == 1
    out = capsys.readouterr().out
    assert "ttnn.no_such_operation is no operation here" in out and "argument of type Odd" in out and "failed: TypeError" in out
    assert "ttnn.os.system is no operation here" in out


def test_wrong_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(tmp_path / "none")]) == 2
    assert main(["trace", str(tmp_path)]) == 1
    assert main(["trace", str(tmp_path), "--repeat", "0"]) == 2
    assert "is not a folder" in capsys.readouterr().err
