"""Parameter tracing, sentence by sentence of its guide."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from loguru import logger
from tests.observers.samples import read, tensor

import ttnn
from tessera.memory.mesh import MeshShape
from tessera.runtime.device import open_mesh
from ttnn import operation_tracer

NAME = re.compile(r"\d+_ttnn_[A-Za-z0-9_]+_\d{8}_\d{6}_\d{6}\.json")


def test_basic_addition_writes_three_files(device: Any, traces: Path) -> None:
    """Example 1 of the guide."""
    a = ttnn.rand(shape=[2, 3], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    b = ttnn.rand(shape=[2, 3], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    c = ttnn.add(a, b)
    assert list(c.shape) == [2, 3]
    names = sorted(os.listdir(traces))
    assert len(names) == 3 and all(NAME.fullmatch(n) for n in names)
    assert [n.rsplit("_", 3)[0] for n in names] == ["1_ttnn_rand", "2_ttnn_rand", "3_ttnn_add"]
    rand, _, add = read(traces)
    assert list(add) == ["operation_number", "operation_id", "operation_name", "timestamp", "args", "kwargs", "num_tensors", "return_value"]
    assert add["operation_number"] == add["operation_id"] == 3 and add["operation_name"] == "ttnn.add"
    assert re.fullmatch(r"\d{8}_\d{6}_\d{6}", add["timestamp"])
    assert [arg["position"] for arg in add["args"]] == [0, 1] and add["kwargs"] == {} and add["num_tensors"] == 3
    for value in (add["args"][0]["value"], add["args"][1]["value"], add["return_value"]):
        assert list(value)[:7] == ["type", "shape", "dtype", "original_shape", "original_dtype", "layout", "storage_type"]
        assert value["type"] == "ttnn.Tensor" and value["shape"] == value["original_shape"] == [2, 3]
        assert value["dtype"] == value["original_dtype"] == "bfloat16"
        assert value["layout"] == "TILE" and value["storage_type"] == "DEVICE_STORAGE" and "values" not in value
        assert value["memory_config"]["buffer_type"] == "BufferType.DRAM" and value["mesh_device"]["device_ids"] == [0]
    assert rand["args"] == [] and rand["kwargs"]["shape"] == [2, 3] and rand["num_tensors"] == 1
    assert rand["kwargs"]["dtype"] == {"type": "DataType", "repr": "DataType.BFLOAT16"}
    assert rand["kwargs"]["device"]["device_ids"] == [0]


def test_from_torch_and_to_device_write_two_files(device: Any, traces: Path) -> None:
    """Example 2 of the guide."""
    torch_tensor = torch.randn([2, 3], dtype=torch.bfloat16)
    host = ttnn.from_torch(torch_tensor, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
    ttnn.to_device(host, device=device, memory_config=ttnn.DRAM_MEMORY_CONFIG)
    first, second = read(traces)
    assert first["args"][0]["value"] == {"type": "torch.Tensor", "shape": [2, 3], "dtype": "bfloat16"}
    assert first["return_value"]["storage_type"] == "HOST_STORAGE" and first["num_tensors"] == 2
    assert second["operation_name"] == "ttnn.to_device"
    assert second["args"][0]["value"]["storage_type"] == "HOST_STORAGE" and second["return_value"]["storage_type"] == "DEVICE_STORAGE"
    assert second["kwargs"]["memory_config"]["memory_layout"] == "TensorMemoryLayout.INTERLEAVED"


def test_values(device: Any, traces: Path) -> None:
    """bfloat16 is written as float32; shape and dtype speak of what is written, the original ones of the tensor."""
    operation_tracer._SERIALIZE_TENSOR_VALUES = True
    given = torch.tensor([[0.1, -2.5, 3.0], [4.0, 1e-3, 6.0]], dtype=torch.bfloat16)
    a = ttnn.from_torch(given, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    b = a + a
    made, added = read(traces)
    torch_value = made["args"][0]["value"]
    assert list(torch_value) == ["type", "shape", "dtype", "values"] and torch_value["dtype"] == "float32"
    value = added["args"][0]["value"]
    assert list(value)[:8] == ["type", "shape", "dtype", "values", "original_shape", "original_dtype", "layout", "storage_type"]
    assert value["dtype"] == "float32" and value["original_dtype"] == "bfloat16"
    assert value["values"] == torch_value["values"] == given.float().tolist()
    assert added["return_value"]["values"] == ttnn.to_torch(b).float().tolist()


@pytest.mark.parametrize(
    ("values", "dtype", "name"),
    [
        (torch.tensor([[1, -2], [3, 2**31 - 1]], dtype=torch.int32), "int32", "int32"),
        (torch.tensor([[1, 2], [3, 2**32 - 1]], dtype=torch.int64), "uint32", "uint32"),
        (torch.tensor([[0, 65535]], dtype=torch.int32), "uint16", "uint16"),
        (torch.tensor([[0, 255]], dtype=torch.uint8), "uint8", "uint8"),
        (torch.tensor([[1 / 3, 2e-40, 3e38]]), "float32", "float32"),
        (torch.randn(32, 32), "bfloat8_b", "float32"),
        (torch.randn(32, 32), "bfloat4_b", "float32"),
    ],
)
def test_every_dtype_with_values(device: Any, traces: Path, values: torch.Tensor, dtype: str, name: str) -> None:
    operation_tracer.enable_tensor_value_serialization()
    made = ttnn.from_torch(values, dtype=getattr(ttnn, dtype), layout=ttnn.TILE_LAYOUT, device=device)
    row = read(traces)[0]["return_value"]
    assert row["dtype"] == name and row["original_dtype"] == dtype
    expected = ttnn.to_torch(made)
    assert row["values"] == (expected.float() if expected.is_floating_point() else expected).tolist()


def test_numbers_that_json_does_not_have_are_strings(device: Any, traces: Path) -> None:
    operation_tracer.enable_tensor_value_serialization()
    a = ttnn.from_torch(torch.tensor([[1.0, math.nan, math.inf, -math.inf]]), dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.full([2], float("inf"), dtype=ttnn.float32, device=device)
    ttnn.add(a, float("-inf"))
    rows = read(traces)
    assert rows[0]["return_value"]["values"] == [[1.0, "NaN", "Infinity", "-Infinity"]]
    assert rows[1]["args"][1]["value"] == "Infinity"
    assert rows[2]["args"][1]["value"] == "-Infinity"


def test_nested_lists_dicts_and_none() -> None:
    value = {"a": [torch.zeros(2), {"b": (1, 2.5, None)}], 3: slice(None, 16, None), "n": np.float32(1.5), "z": np.zeros((2, 2), np.int32)}
    data = operation_tracer.serialize_value(value, True)
    assert data == {
        "a": [{"type": "torch.Tensor", "shape": [2], "dtype": "float32", "values": [0.0, 0.0]}, {"b": [1, 2.5, None]}],
        "3": {"type": "slice", "value": "slice(None, 16, None)"},
        "n": 1.5,
        "z": {"type": "numpy.ndarray", "shape": [2, 2], "dtype": "int32", "values": [[0, 0], [0, 0]]},
    }
    assert operation_tracer.serialize_value(ttnn.CoreGrid(x=8, y=8)) == {"type": "CoreGrid", "value": "ttnn.CoreGrid(x=8, y=8)"}


def test_operators_creation_and_indexing_are_traced(device: Any, traces: Path) -> None:
    a = ttnn.ones([1, 1, 32, 64], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    _ = a + 1.0
    _ = 2 * a
    _ = a @ ttnn.transpose(a, -2, -1)
    _ = a[:, :, :16, :]
    ttnn.to_torch(a)
    ttnn.deallocate(a)
    rows = read(traces)
    names = [r["operation_name"] for r in rows]
    assert names == [
        "ttnn.ones",
        "ttnn.add",
        "ttnn.multiply",
        "ttnn.transpose",
        "ttnn.matmul",
        "ttnn.slice",
        "ttnn.Tensor.__getitem__",
        "ttnn.to_torch",
        "ttnn.deallocate",
    ]
    assert rows[6]["args"][1]["value"][2] == {"type": "slice", "value": "slice(None, 16, None)"}
    assert "return_value" not in rows[-1]
    assert rows[7]["return_value"]["type"] == "torch.Tensor"


def test_traces_in_the_default_runtime_mode() -> None:
    assert ttnn.CONFIG.enable_fast_runtime_mode


def test_configurations(device: Any, traces: Path) -> None:
    a = tensor(device, 1, 1, 32, 64)
    config = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi2, fp32_dest_acc_en=False)
    ttnn.matmul(a, a, transpose_b=True, compute_kernel_config=config, core_grid=ttnn.CoreGrid(x=8, y=8))
    sharded = ttnn.create_sharded_memory_config((1, 1, 32, 64), core_grid=ttnn.CoreGrid(x=2, y=1), strategy=ttnn.ShardStrategy.WIDTH)
    ttnn.to_memory_config(a, sharded)
    matmul, moved = read(traces)[1:]
    assert matmul["kwargs"]["compute_kernel_config"]["math_fidelity"] == "MathFidelity.HiFi2"
    assert matmul["kwargs"]["core_grid"]["type"] == "CoreGrid"
    assert moved["args"][1]["value"]["is_sharded"] and moved["args"][1]["value"]["shard_spec"].startswith("ShardSpec{grid=")
    assert moved["return_value"]["memory_config"]["memory_layout"] == "TensorMemoryLayout.WIDTH_SHARDED"


def test_an_operation_that_raises_writes_nothing(device: Any, traces: Path) -> None:
    with pytest.raises(RuntimeError):
        ttnn.matmul(tensor(device, 32, 32), tensor(device, 64, 32))
    assert [r["operation_name"] for r in read(traces)] == ["ttnn.from_torch", "ttnn.from_torch"]


def test_official_style(device: Any, traces: Path) -> None:
    """Keys, order and strings of today's official library."""
    with ttnn.manage_config("operation_trace_style", "tt-metal"):
        a = tensor(device, 2, 3)
        b = ttnn.add(a, a)
    row = read(traces)[1]
    assert list(row) == ["operation_id", "operation_name", "args", "kwargs", "return_value"]
    official = json.loads((Path(__file__).parent.parent / "data" / "optrace" / "official_matmul.json").read_text())
    assert list(row["return_value"]) == list(official["return_value"]) == list(official["args"][0]["value"])
    assert list(row["return_value"]["memory_config"]) == list(official["return_value"]["memory_config"])
    assert row["return_value"]["dtype"] == "DataType.BFLOAT16" and row["return_value"]["layout"] == "Layout.TILE"
    assert row["return_value"]["storage_type"] == "StorageType.DEVICE"
    assert operation_tracer.serialize_value(torch.zeros(1))["dtype"] == "float32"
    with ttnn.manage_config("operation_trace_style", "tt-metal"):
        assert operation_tracer.serialize_value(torch.zeros(1))["dtype"] == "torch.float32"
        assert operation_tracer.serialize_value(b)["storage_type"] == "StorageType.DEVICE"
    with pytest.raises(TypeError, match="guide"):
        ttnn.CONFIG.operation_trace_style = "other"


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment, then operation_parameter_log_dir, then root_report_path, then the default."""
    assert operation_tracer.trace_folder() == Path("generated/ttnn/operation_parameters")
    with ttnn.manage_config("root_report_path", tmp_path / "root"):
        assert operation_tracer.trace_folder() == tmp_path / "root" / "operation_parameters"
        with ttnn.manage_config("operation_parameter_log_dir", str(tmp_path / "log")):
            assert operation_tracer.trace_folder() == tmp_path / "log"
            monkeypatch.setenv("TTNN_OPERATION_TRACE_DIR", str(tmp_path / "env"))
            assert operation_tracer.trace_folder() == tmp_path / "env"


def test_the_counter_can_be_set_and_read(device: Any, traces: Path) -> None:
    a = tensor(device, 2, 3)
    assert operation_tracer._OPERATION_COUNTER == 1
    operation_tracer._OPERATION_COUNTER = 41
    ttnn.add(a, a)
    assert operation_tracer._OPERATION_COUNTER == 42
    operation_tracer._OPERATION_COUNTER = 0
    ttnn.add(a, a)
    assert [r["operation_number"] for r in read(traces)] == [1, 42, 43]


def test_numbers_go_on_where_a_folder_ends_and_start_again_in_a_new_one(device: Any, traces: Path, tmp_path: Path) -> None:
    a = tensor(device, 2, 3)
    ttnn.add(a, a)
    with ttnn.manage_config("operation_parameter_log_dir", tmp_path / "other"):
        ttnn.add(a, a)
        assert [r["operation_number"] for r in read(tmp_path / "other")] == [1]
    ttnn.add(a, a)
    assert [r["operation_number"] for r in read(traces)] == [1, 2, 3]


def test_the_guard_stops_recursion(device: Any, traces: Path) -> None:
    operation_tracer._IS_SERIALIZING = True
    tensor(device, 2, 3)
    operation_tracer._IS_SERIALIZING = False
    assert not traces.exists()
    tensor(device, 2, 3)
    assert len(read(traces)) == 1 and not operation_tracer._IS_SERIALIZING


def test_threads_share_one_sequence(device: Any, traces: Path) -> None:
    a = tensor(device, 2, 3)
    threads = [threading.Thread(target=lambda: [ttnn.add(a, a) for _ in range(50)]) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [r["operation_number"] for r in read(traces)] == list(range(1, 202))


def test_processes_share_one_sequence(tmp_path: Path) -> None:
    script = (
        "import ttnn, torch, ttnn.operation_tracer as t\n"
        "t.enable_tracing()\n"
        "d = ttnn.open_device(device_id=0)\n"
        "a = ttnn.ones([2, 3], device=d)\n"
        "for _ in range(60): ttnn.add(a, a)\n"
    )
    env = os.environ | {"TTNN_OPERATION_TRACE_DIR": str(tmp_path)}
    running = [subprocess.Popen([sys.executable, "-c", script], env=env) for _ in range(3)]
    assert [p.wait(60) for p in running] == [0, 0, 0]
    assert sorted(os.listdir(tmp_path)) == sorted(p.name for p in tmp_path.glob("*.json"))
    assert [r["operation_number"] for r in read(tmp_path)] == list(range(1, 184))


def test_a_forked_child_shares_the_sequence(device: Any, traces: Path) -> None:
    a = tensor(device, 2, 3)
    child = os.fork()
    if not child:
        try:
            ttnn.add(a, a)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    ttnn.add(a, a)
    assert [r["operation_number"] for r in read(traces)] == [1, 2, 3]


def test_an_error_in_writing_is_logged_once_and_the_result_stands(device: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    said: list[str] = []
    sink = logger.add(said.append, level="ERROR")
    with ttnn.manage_config("operation_parameter_log_dir", tmp_path / "file"):
        operation_tracer.enable_tracing()
        a = tensor(device, 2, 3)
        assert ttnn.to_torch(ttnn.add(a, a)).shape == (2, 3)
    operation_tracer.enable_tracing(False)
    logger.remove(sink)
    assert len(said) == 1 and "ParameterTracing" in said[0] and "FileExistsError" in said[0]


def test_an_argument_that_cannot_be_written_leaves_no_gap(device: Any, traces: Path) -> None:
    class Odd:
        def __str__(self) -> str:
            raise ValueError("no name")

    a = tensor(device, 2, 3)
    f = operation_tracer.wrap_function_for_tracing(lambda x, odd: x, "my.function")
    assert f(a, Odd()) is a
    assert f(a, 1) is a
    assert [(r["operation_number"], r["operation_name"]) for r in read(traces)] == [(1, "ttnn.from_torch"), (2, "my.function")]


def test_wrapped_functions_are_traced_while_tracing_is_on(device: Any, traces: Path) -> None:
    double = operation_tracer.wrap_function_for_tracing(lambda x: [x, x], "my.double")
    operation_tracer.enable_tracing(False)
    double(1)
    operation_tracer.enable_tracing(True)
    double(2)
    assert [(r["operation_name"], r["return_value"]) for r in read(traces)] == [("my.double", [2, 2])]


def test_serialize_operation_parameters(device: Any, tmp_path: Path) -> None:
    """By itself it writes values, as the official function does; a folder is made."""
    a = tensor(device, 2, 3)
    operation_tracer.set_sweep_source_hash("abc")
    operation_tracer.serialize_operation_parameters("ttnn.mine", (a,), {"k": None}, tmp_path / "deep" / "er", return_value=a)
    operation_tracer.set_sweep_source_hash()
    row = read(tmp_path / "deep" / "er")[0]
    assert row["kwargs"] == {"k": None} and "values" in row["return_value"] and row["sweep_source_hash"] == "abc"


def test_a_deallocated_argument_has_no_values(device: Any, traces: Path) -> None:
    operation_tracer.enable_tensor_value_serialization()
    a = tensor(device, 2, 3)
    ttnn.deallocate(a)
    assert "values" not in read(traces)[1]["args"][0]["value"]


def test_nothing_is_attached_when_tracing_is_off(device: Any, tmp_path: Path) -> None:
    assert not operation_tracer._ENABLE_TRACE and not operation_tracer.is_tracing_enabled()
    with ttnn.manage_config("operation_parameter_log_dir", tmp_path):
        tensor(device, 2, 3)
    assert not list(tmp_path.iterdir())


def test_troubleshooting(device: Any, traces: Path) -> None:
    """The switch and the folder can be looked at; operations can be traced in part."""
    assert operation_tracer._ENABLE_TRACE is True
    assert Path(ttnn.CONFIG.root_report_path) == traces.parent
    a = tensor(device, 2, 3)
    operation_tracer._ENABLE_TRACE = False
    ttnn.add(a, a)
    operation_tracer._ENABLE_TRACE = True
    ttnn.multiply(a, a)
    assert [r["operation_name"] for r in read(traces)] == ["ttnn.from_torch", "ttnn.multiply"]


def test_the_flag_among_a_programs_arguments(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import ttnn, ttnn.operation_tracer as t; print(t._TRACE_PARAMS_IN_ARGV, t._ENABLE_TRACE); ttnn.zeros([2, 3])\n")
    for flags, answer, files in (([], "False False", 0), (["--trace-params"], "True True", 1)):
        out = tmp_path / f"out{files}"
        env = os.environ | {"TTNN_OPERATION_TRACE_DIR": str(out)}
        done = subprocess.run([sys.executable, str(script), *flags], env=env, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == answer and len(list(out.glob("*.json"))) == files


def test_a_mesh(traces: Path) -> None:
    """Different parts on several chips are written one chip after the other."""
    operation_tracer.enable_tensor_value_serialization()
    device = open_mesh(MeshShape(1, 2), board="n300")
    given = torch.arange(8.0).reshape(2, 4)
    mapper = ttnn.ShardTensorToMesh(device, dim=1)
    ttnn.from_torch(given, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device, mesh_mapper=mapper)
    device.close()
    row = read(traces)[0]["return_value"]
    assert row["mesh_device"]["placements"] == ["PlacementShard(1)"] and row["mesh_device"]["device_ids"] == [0, 1]
    assert row["original_shape"] == [2, 2] and row["shape"] == [2, 2, 2]
    assert row["values"] == [given[:, :2].tolist(), given[:, 2:].tolist()]


def test_the_store_of_a_large_tensor_is_exact_in_chunks(traces: Path) -> None:
    from ttnn.tracing import text

    for shape in ((70000,), (3, 70000), (300, 300), (2, 3, 40000), (0,), (2, 0), ()):
        values = torch.randn(shape)
        assert json.loads(b"".join(text.values_text(values))) == values.tolist()


def test_what_a_cpp_operation_calls_is_its_own_affair(device: Any, traces: Path) -> None:
    """As with the official library, where such calls never reach Python; what Python operations call is traced."""
    x = tensor(device, 32, 64)
    ttnn.split(x, 32, dim=-1)
    with pytest.raises(RuntimeError):
        ttnn.matmul(x, x)
    _ = x[:16]
    names = [r["operation_name"] for r in read(traces)]
    assert names == ["ttnn.from_torch", "ttnn.split", "ttnn.slice", "ttnn.Tensor.__getitem__"]


def test_official_traces_come_out_the_same(device: Any, tmp_path: Path) -> None:
    """A call of an official trace, run here: every key and string is as it was, but numbers and hashes."""
    from tessera.cli.traces import read as read_call
    from ttnn.replay import Player, find

    def compared(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: compared(v) for k, v in value.items() if k not in ("hash", "operation_id")}
        return [compared(v) for v in value] if isinstance(value, list) else value

    player = Player()
    player.device = device
    for file in sorted((Path(__file__).parent.parent / "data" / "optrace").glob("official_*.json")):
        if file.name == "official_graph.json":
            continue
        call = read_call(1, file)
        args, kwargs = [player.argument(a) for a in call.args], {k: player.argument(v) for k, v in call.kwargs.items()}
        with (
            ttnn.manage_config("operation_parameter_log_dir", tmp_path / file.stem),
            ttnn.manage_config("operation_trace_style", "tt-metal"),
        ):
            operation_tracer.enable_tracing()
            find(call.name)(*args, **kwargs)
            operation_tracer.enable_tracing(False)
        ours, theirs = read(tmp_path / file.stem)[-1], json.loads(file.read_text())
        assert json.dumps(compared(ours)) == json.dumps(compared(theirs)), file.name  # the order of keys counts


def test_odd_names_and_words_are_still_json(tmp_path: Path) -> None:
    odd = {'é\u2028\ud800"\\': "\x00"}
    operation_tracer.serialize_operation_parameters("my/../op::x y", (odd,), {'w"x': 1, "é": None}, tmp_path)
    (row,) = read(tmp_path)
    assert row["args"][0]["value"] == odd and row["kwargs"] == {'w"x': 1, "é": None} and row["operation_name"] == "my/../op::x y"
    assert "_my____op_x_y_" in os.listdir(tmp_path)[0]


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shared number is kept outside the trace folder, and goes with the last process that uses it."""
    script = (
        "import ttnn, os, ttnn.operation_tracer as t\n"
        "t.enable_tracing(); ttnn.zeros([2]); print(sorted(os.listdir(os.environ['TESSERA_RUN_DIR'])))\n"
    )
    env = os.environ | {"TTNN_OPERATION_TRACE_DIR": str(tmp_path / "traces"), "TESSERA_RUN_DIR": str(tmp_path / "run")}
    for number in (1, 2):
        done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
        assert ".number" in done.stdout and ".users" in done.stdout
        assert len(os.listdir(tmp_path / "traces")) == number
        assert not list((tmp_path / "run").glob("trace-*"))


def test_without_a_runtime_folder_numbers_are_this_process_s_own(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").write_text("in the way")
    monkeypatch.setenv("TESSERA_RUN_DIR", str(tmp_path / "run"))
    for _ in range(3):
        operation_tracer.serialize_operation_parameters("ttnn.x", (), {}, tmp_path / "traces")
    assert [r["operation_number"] for r in read(tmp_path / "traces")] == [1, 2, 3]


def test_switches_can_be_patched(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = tensor(device, 2, 3)
    monkeypatch.setenv("TTNN_OPERATION_TRACE_DIR", str(tmp_path))
    with mock.patch.object(operation_tracer, "_ENABLE_TRACE", True), mock.patch("ttnn.operation_tracer._SERIALIZE_TENSOR_VALUES", True):
        ttnn.add(x, x)
    assert not operation_tracer._ENABLE_TRACE and not operation_tracer._SERIALIZE_TENSOR_VALUES
    with monkeypatch.context() as patch:
        patch.setattr(operation_tracer, "_ENABLE_TRACE", True)
        ttnn.add(x, x)
    ttnn.add(x, x)
    assert ["values" in r["return_value"] for r in read(tmp_path)] == [True, False]
