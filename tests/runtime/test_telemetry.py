"""Telemetry: what a snapshot holds, and what another process sees of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tessera.memory.allocator import DeviceMemory
from tessera.memory.spec import TensorSpec
from tessera.runtime import telemetry
from tessera.silicon import board

from tessera.formats.dtype import DataType, Layout  # isort: skip
from tessera.formats.shape import Shape  # isort: skip


class FakeDevice(SimpleNamespace):
    """The attributes that telemetry reads of a device, and nothing else."""

    __hash__ = object.__hash__


def device(**changes: Any) -> Any:
    kind = board.get("n300")
    made = FakeDevice(
        board=kind,
        chips=(0, 1),
        mesh_shape=(1, 2),
        mesh_id=1,
        is_open=True,
        parent=None,
        children=weakref.WeakSet(),
        memory=DeviceMemory(kind),
        programs=SimpleNamespace(total=3),
        operations={"Matmul": 2},
        busy_seconds=0.25,
        tensors_alive=4,
        command_queues=1,
    )
    made.__dict__.update(changes)
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    publisher = telemetry._Publisher()
    monkeypatch.setenv("TESSERA_RUN_DIR", str(tmp_path))
    monkeypatch.setattr(telemetry, "_publisher", publisher)
    yield tmp_path
    for one in list(publisher.devices):  # else its thread would go on writing, into the next test's folder
        one.is_open = False


def test_a_snapshot_adds_up_a_device_and_its_submeshes() -> None:
    parent = device()
    child = device(parent=parent, memory=parent.memory, operations={"Matmul": 1, "Softmax": 5}, tensors_alive=1)
    parent.children.add(child)
    allocation = parent.memory.allocate(TensorSpec.of(Shape([64, 64]), DataType.BFLOAT16, Layout.TILE))
    seen = telemetry.snapshot(parent)
    assert (seen.board, seen.chips, seen.mesh_shape, seen.tensors_alive, seen.programs_cached) == ("n300", (0, 1), (1, 2), 5, 6)
    assert seen.operations == {"Matmul": 3, "Softmax": 5}
    assert seen.operations_run == 8
    dram = seen.memory["DRAM"]
    assert (dram.allocated_per_bank, dram.buffers, dram.allocated) == (2048, 1, 12 * 2048)
    parent.memory.free(allocation)
    assert telemetry.snapshot(parent).memory["DRAM"].peak == 12 * 2048
    assert telemetry.DeviceSnapshot.from_dict(json.loads(json.dumps(seen.to_dict()))) == seen


def test_the_status_file_lives_as_long_as_the_device(folder: Path) -> None:
    one = device()
    telemetry._publisher.devices.add(one)
    telemetry.publish()
    (status,) = telemetry.read_all()
    assert status.pid == os.getpid()
    assert status.devices[0].operations == {"Matmul": 2}
    written = status.updated
    telemetry.publish()
    assert telemetry.read_all()[0].updated == written, "nothing changed, yet the file was written again"
    one.operations["Matmul"] = 3
    telemetry.publish()
    assert telemetry.read_all()[0].devices[0].operations == {"Matmul": 3}
    telemetry.closed(one)
    one.is_open = False
    telemetry.publish()
    assert telemetry.read_all() == []
    assert list(folder.iterdir()) == []
    assert telemetry.CLOSED[-1].operations == {"Matmul": 3}


def test_the_thread_publishes_by_itself(folder: Path) -> None:
    one = device()
    telemetry.watch(one)
    until = time.monotonic() + 10
    while not telemetry.read_all() and time.monotonic() < until:
        time.sleep(0.01)
    assert telemetry.read_all()[0].devices[0].board == "n300"
    one.is_open = False
    while telemetry.read_all() and time.monotonic() < until:
        time.sleep(0.01)
    assert telemetry.read_all() == []


def test_files_of_the_dead_are_cleaned_and_strange_ones_ignored(folder: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    head = {"format": 1, "command": ["x"], "updated": 0.0, "devices": []}
    (folder / f"{ended.pid}.json").write_text(json.dumps({**head, "pid": ended.pid, "started": "1"}))
    (folder / "999999999.json").write_text("{not json")
    reused = folder / f"{os.getppid()}.json"
    reused.write_text(json.dumps({**head, "pid": os.getppid(), "started": "another time"}))
    ours = folder / f"{os.getpid()}.json"
    ours.write_text(json.dumps({**head, "pid": os.getpid(), "started": "", "devices": [{"board": "n150"}]}))
    (folder / "notes.json").write_text("[]")
    assert telemetry.read_all() == []
    assert sorted(p.name for p in folder.iterdir()) == sorted([ours.name, "notes.json"])


def test_a_folder_of_somebody_else_is_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert telemetry._own_directory() is None
    telemetry._publisher.devices.add(one := device())
    telemetry.publish()
    assert list(folder.iterdir()) == []
    assert one.is_open


def test_a_forked_child_reports_nothing(folder: Path) -> None:
    one = device()
    telemetry._publisher.devices.add(one)
    telemetry.publish()
    child = os.fork()
    if child == 0:
        os._exit(0 if not telemetry._publisher.devices and not telemetry.CLOSED else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(telemetry.read_all()) == 1
    one.is_open = False
    telemetry.publish()


def test_another_process_sees_an_open_device_until_it_ends(folder: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_telemetry as t; from tessera.runtime import telemetry; "
        "one = t.device(); telemetry.watch(one); telemetry.publish(); print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(Path(__file__).parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"ready\n"
        others = [s for s in telemetry.read_all() if s.pid != os.getpid()]  # other tests of this process may hold devices open
        assert [(s.pid, s.devices[0].board) for s in others] == [(other.pid, "n300")]
        other.stdin.close()
        other.wait(timeout=30)
    assert [s for s in telemetry.read_all() if s.pid != os.getpid()] == []
