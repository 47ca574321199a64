"""Graph capture: nodes in the official shape, questions to them, and dry runs."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
import torch
from tests.observers.samples import tensor

import ttnn
from ttnn import graph
from ttnn.graph import RunMode

OFFICIAL = Path(__file__).parent.parent / "data" / "optrace" / "official_graph.json"


def captured(mode: RunMode = RunMode.NORMAL) -> Any:
    class Block:
        nodes: list[dict[str, Any]]

        def __enter__(self) -> Block:
            graph.begin_graph_capture(mode)
            return self

        def __exit__(self, *_: Any) -> None:
            self.nodes = graph.end_graph_capture()

    return Block()


def kinds(nodes: list[dict[str, Any]]) -> list[str]:
    return [n["node_type"] for n in nodes]


def well_formed(nodes: list[dict[str, Any]]) -> None:
    """What holds of every graph."""
    assert nodes[0]["node_type"] == "capture_start" and nodes[-1]["node_type"] == "capture_end"
    depth = 0
    for i, n in enumerate(nodes):
        assert n["counter"] == i
        assert set(n) - {"duration_ns", "stack_trace"} == {
            "arguments",
            "connections",
            "counter",
            "input_tensors",
            "node_type",
            "params",
            "stacking_level",
        }
        assert all(0 <= c < len(nodes) for c in n["connections"]) and all(nodes[c]["node_type"] == "tensor" for c in n["input_tensors"])
        if n["node_type"] == "function_start":
            depth += 1
            assert n["stacking_level"] == depth
        elif n["node_type"] == "function_end":
            assert n["stacking_level"] == depth and n["duration_ns"] >= 0
            depth -= 1
    assert depth == 0
    json.dumps(nodes)


@pytest.fixture
def official() -> list[dict[str, Any]]:
    return json.loads(OFFICIAL.read_text())  # type: ignore[no-any-return]


def test_a_sum_is_captured_as_the_official_library_captures_it(device: Any, official: list[dict[str, Any]]) -> None:
    """`ttnn.add` of two L1 tensors: the same nodes, levels, parameters and edges, but for addresses, numbers and times."""
    x = tensor(device, 1, 1, 64, 256, memory_config=ttnn.L1_MEMORY_CONFIG)
    y = tensor(device, 1, 1, 64, 256, memory_config=ttnn.L1_MEMORY_CONFIG)
    with captured() as block:
        z = ttnn.add(x, y)
    assert z.is_allocated()
    well_formed(block.nodes)
    ours = [n for n in block.nodes[1:-1] if not (n["node_type"] == "buffer" and n["counter"] < 8)]
    ours = [n for n in ours if n["node_type"] != "sub_device_manager"]
    theirs = official
    assert kinds(ours) == kinds(theirs)
    for a, b in zip(ours, theirs):
        assert a["stacking_level"] == b["stacking_level"], a
        assert len(a["input_tensors"]) == len(b["input_tensors"])
        assert len(a["arguments"]) == len(b["arguments"])
        names = set(b["params"]) - {"program_factory_index", "program_factory_type"}
        assert set(a["params"]) == names or (b["node_type"] == "tensor" and set(a["params"]) >= names), (a, b)
        if a["node_type"] in ("function_start", "function_end"):
            assert a["params"]["name"] == b["params"]["name"]
        for key in (
            "size",
            "page_size",
            "max_size_per_bank",
            "layout",
            "type",
            "buffer_type",
            "num_cores",
            "memory_config",
            "dtype",
            "shape",
        ):
            assert a["params"].get(key) == b["params"].get(key), (key, a, b)
    relative = [
        [theirs.index(next(t for t in theirs if t["counter"] == c)) for c in n["connections"] if any(t["counter"] == c for t in theirs)]
        for n in theirs
    ]
    mine = [[next((i for i, t in enumerate(ours) if t["counter"] == c), -1) for c in n["connections"]] for n in ours]
    assert [[c for c in cs if c >= 0] for cs in mine] == relative


def test_a_small_model(device: Any) -> None:
    x = tensor(device, 1, 1, 64, 128, memory_config=ttnn.L1_MEMORY_CONFIG)
    with captured() as block:
        w = tensor(device, 128, 256, dtype=ttnn.bfloat8_b)
        y = ttnn.matmul(x, w, memory_config=ttnn.L1_MEMORY_CONFIG)
        z = ttnn.relu(y)
        ttnn.deallocate(y)
        s = ttnn.softmax(z, dim=-1)
        out = s + z
    nodes = block.nodes
    well_formed(nodes)
    assert graph.extract_calltrace(nodes) == [
        "ttnn.from_torch",
        "ttnn::convert_python_tensor_to_tt_tensor",
        "Tensor::to_device",
        "ttnn.matmul",
        "MatmulDeviceOperation",
        "tt::tt_metal::create_device_tensor",
        "ttnn.relu",
        "UnaryDeviceOperation",
        "tt::tt_metal::create_device_tensor",
        "ttnn.deallocate",
        "Tensor::deallocate",
        "ttnn.softmax",
        "SoftmaxDeviceOperation",
        "tt::tt_metal::create_device_tensor",
        "ttnn.add",
        "BinaryNgDeviceOperation",
        "tt::tt_metal::create_device_tensor",
    ]
    # x 16384; y, z, s and out 32768 each, y is gone when s is made; the sum has three circular buffers of two tiles.
    assert graph.extract_peak_L1_memory_usage(nodes) == 16384 + 3 * 32768 + 3 * 4096
    assert graph.count_intermediate_and_output_tensors(nodes) == (4, 1)
    (info,) = graph.extract_output_info(nodes)
    assert list(info.shape) == [1, 1, 64, 256] and info.size == 32768 and info.type == "L1"
    (node,) = graph.extract_output_tensors(nodes)
    assert nodes[node]["params"]["tensor_id"] == out.tensor_id
    usage = graph.extract_resource_usage_per_core(nodes)
    assert usage.peak_cb == 3 * 4096 and usage.peak_total == usage.peak_l1 + usage.peak_cb
    matmul = next(n for n in nodes if n["node_type"] == "function_start" and n["params"]["name"] == "MatmulDeviceOperation")
    assert [nodes[i]["params"]["shape"] for i in matmul["input_tensors"]] == ["Shape([1, 1, 64, 128])", "Shape([128, 256])"]
    assert "DataType::BFLOAT8_B" in matmul["arguments"][1] and "ShardSpec" not in matmul["arguments"][1]


def test_sharded_buffers(device: Any) -> None:
    x = tensor(device, 1, 1, 64, 256)
    config = ttnn.create_sharded_memory_config((1, 1, 64, 256), core_grid=ttnn.CoreGrid(x=8, y=1), strategy=ttnn.ShardStrategy.WIDTH)
    with captured() as block:
        ttnn.to_memory_config(x, config)
    made = next(n for n in block.nodes if n["node_type"] == "buffer_allocate")["params"]
    assert (made["layout"], made["num_cores"], made["max_size_per_bank"], made["size"]) == ("WIDTH_SHARDED", 8, 4096, 32768)
    assert "InterleavedToShardedDeviceOperation" in graph.extract_calltrace(block.nodes)


def test_a_dry_run_takes_nothing_and_knows_everything(device: Any) -> None:
    x = tensor(device, 1, 1, 512, 512, memory_config=ttnn.L1_MEMORY_CONFIG)
    before = ttnn.get_memory_view(device, ttnn.BufferType.L1).total_bytes_allocated_per_bank
    with captured(RunMode.NO_DISPATCH) as block:
        y = ttnn.matmul(x, x, memory_config=ttnn.L1_MEMORY_CONFIG)
        z = ttnn.add(y, x, memory_config=ttnn.DRAM_MEMORY_CONFIG)
        ttnn.deallocate(y)
        assert ttnn.get_memory_view(device, ttnn.BufferType.L1).total_bytes_allocated_per_bank == before
    well_formed(block.nodes)
    assert z.is_allocated() and z.buffer_address() == 0 and list(z.shape) == [1, 1, 512, 512]
    sizes = [n["params"]["size"] for n in block.nodes if n["node_type"] == "buffer_allocate"]
    assert sizes == [512 * 512 * 2] * 2
    assert all(n["params"]["address"] == 0 for n in block.nodes if n["node_type"] == "buffer_allocate")
    assert "program_execution" not in kinds(block.nodes)
    assert graph.extract_peak_L1_memory_usage(block.nodes) == 2 * 512 * 512 * 2 + 3 * 4096
    assert sum(k == "buffer_deallocate" for k in kinds(block.nodes)) == 1


def test_a_dry_run_asks_for_more_than_there_is(device: Any) -> None:
    """Compilers ask what would not fit: 1 TiB is planned in no time, and nothing is computed."""
    with captured(RunMode.NO_DISPATCH) as block:
        x = ttnn.empty([1024, 1024, 512, 512], dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)
        ones = ttnn.ones([1024, 1024, 512, 512], dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)
        drawn = ttnn.rand([1024, 1024, 512, 512], dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)
        y = ttnn.exp(ttnn.add(ttnn.add(x, ones), drawn))
    assert graph.extract_output_info(block.nodes)[0].size == 2**40
    assert y.dtype == ttnn.float32
    with pytest.raises(RuntimeError):
        ttnn.empty([1024, 1024, 512, 512], dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)


def test_a_dry_run_writes_into_nothing(device: Any) -> None:
    """Operations in place and with ready-made outputs leave their tensors as they were."""
    x, out = tensor(device, 32, 32), ttnn.zeros([32, 32], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    before = ttnn.to_torch(x)
    with captured(RunMode.NO_DISPATCH):
        ttnn.add_(x, 1.0)
        ttnn.relu(x, output_tensor=out)
        ttnn.full([32, 32], 3.0, optional_tensor=out)
    assert torch.equal(ttnn.to_torch(x), before) and not ttnn.to_torch(out).any()


def test_a_dry_run_refuses_what_the_chip_refuses(device: Any) -> None:
    x, y = tensor(device, 32, 64), tensor(device, 32, 64)
    graph.begin_graph_capture(RunMode.NO_DISPATCH)
    with pytest.raises(RuntimeError, match="width"):
        ttnn.matmul(x, y)
    nodes = graph.end_graph_capture()
    well_formed(nodes)
    error = next(n for n in nodes if n["node_type"] == "error")["params"]
    assert error["error_operation"] == "ttnn.matmul" and error["error_type"] == "RuntimeError"


def test_a_dry_run_is_quick(device: Any) -> None:
    """Well under a millisecond an operation, however much it would compute; here on a tensor of 64 MiB, against computing it once."""
    x = tensor(device, 32, 32)
    with captured(RunMode.NO_DISPATCH):
        big = ttnn.empty([1, 1, 4096, 8192], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
        ttnn.add(big, big)
        best = min(_seconds(lambda: ttnn.add(big, big)) for _ in range(20))
    small = min(_seconds(lambda: torch.exp(torch.ones(1024, 4096))) for _ in range(3))
    assert best < max(1e-3, small), f"{best * 1e6:.0f} us"
    assert x.is_allocated()


def _seconds(run: Any) -> float:
    started = perf_counter()
    run()
    return perf_counter() - started


def test_captures_nest(device: Any) -> None:
    x = tensor(device, 32, 32)
    with captured() as outer:
        ttnn.relu(x)
        with captured() as inner:
            ttnn.exp(x)
    assert "ttnn.exp" in graph.extract_calltrace(outer.nodes) and "ttnn.relu" not in graph.extract_calltrace(inner.nodes)
    well_formed(outer.nodes)
    well_formed(inner.nodes)
    with pytest.raises(RuntimeError, match="begin_graph_capture"):
        graph.end_graph_capture()
    with pytest.raises(TypeError):
        graph.begin_graph_capture(3)


def test_functions_of_the_program(device: Any) -> None:
    x = tensor(device, 32, 32)
    with captured() as block:
        graph.track_function_start("attention")
        ttnn.relu(x)
        graph.track_function_end()
    well_formed(block.nodes)
    levels = {n["params"]["name"]: n["stacking_level"] for n in block.nodes if n["node_type"] == "function_start"}
    assert levels["attention"] == 1 and levels["ttnn.relu"] == 2


def test_what_is_freed_by_nobody_holding_it(device: Any) -> None:
    x = tensor(device, 32, 32)
    with captured() as block:
        y = ttnn.relu(x)
        del y
    nodes = block.nodes
    gone = next(n for n in nodes if n["node_type"] == "buffer_deallocate")
    came = next(n for n in nodes if n["node_type"] == "buffer_allocate")
    assert gone["connections"] == came["connections"] and gone["params"] == came["params"]


def test_levelized(device: Any) -> None:
    x = tensor(device, 32, 32)
    with captured() as block:
        a = ttnn.relu(x)
        b = ttnn.exp(x)
        c = ttnn.add(a, b)
    assert c.is_allocated()
    level = graph.extract_levelized_graph(block.nodes)
    assert [(v["name"], v["in_edges"], v["out_edges"]) for v in level] == [
        ("ttnn.relu", [], [2]),
        ("ttnn.exp", [], [2]),
        ("ttnn.add", [0, 1], []),
    ]
    deep = graph.extract_levelized_graph(block.nodes, 2)
    assert [v["internals"] for v in deep if v["name"] == "ttnn.add"] == [[5]]


def test_durations(device: Any) -> None:
    x = tensor(device, 32, 32)
    with captured() as block:
        y = ttnn.relu(x)
    assert y.is_allocated()
    durations = graph.extract_operation_durations(block.nodes)
    assert len(durations) == 3 and all(0 <= d < 5 for d in durations.values())
    assert graph.extract_total_duration_from_graph(block.nodes) >= max(durations.values())


def test_pictures(device: Any, capsys: pytest.CaptureFixture[str]) -> None:
    x = tensor(device, 32, 32)
    with captured() as block:
        ttnn.relu(x)
    graph.pretty_print(block.nodes)
    text = capsys.readouterr().out
    assert text == graph.pretty_format(block.nodes) + "\n"
    assert "ttnn.relu" in text and "UnaryDeviceOperation (" in text
    pytest.importorskip("graphviz")
    drawing = graph.visualize(block.nodes)
    assert "UnaryDeviceOperation" in drawing.source and "->" in drawing.source


def test_reports(device: Any, tmp_path: Path) -> None:
    x = tensor(device, 32, 32, memory_config=ttnn.L1_MEMORY_CONFIG)
    graph.begin_graph_capture()
    ttnn.relu(x)
    answer = graph.end_graph_capture_to_file(tmp_path / "deep" / "report.json")
    report = json.loads((tmp_path / "deep" / "report.json").read_text())
    assert report == json.loads(json.dumps(answer)) and report["version"] == 1
    assert report["devices"][0]["arch"] == "WORMHOLE_B0" and report["devices"][0]["l1_num_banks"] == 64
    assert set(report["metadata"]) >= {"capture_timestamp_ns", "total_duration_ns", "rank", "world_size"}
    graph.enable_detailed_buffer_tracing()
    with graph.full_graph_capture(tmp_path / "full.json"):
        ttnn.exp(x)
    graph.disable_detailed_buffer_tracing()
    assert json.loads((tmp_path / "full.json").read_text())["buffer_pages"]
    (record,) = json.loads((tmp_path / "full.python_io.json").read_text())
    assert record["name"] == "ttnn.exp" and record["input_tensor_ids"] == [x.tensor_id] and len(record["output_tensor_ids"]) == 1
    assert "test_graph.py" in record["python_stack_trace"][0] or any("test_graph.py" in f for f in record["python_stack_trace"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "full.json", "full.python_io.json"]


def test_databases_come_later() -> None:
    with pytest.raises(NotImplementedError, match="import_report"):
        graph.import_report("a", "b")


def test_threads(device: Any) -> None:
    from threading import Thread

    x = tensor(device, 32, 32)
    with captured() as block:
        threads = [Thread(target=lambda: [ttnn.relu(x) for _ in range(20)]) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert graph.extract_calltrace(block.nodes).count("ttnn.relu") == 60
    assert [n["counter"] for n in block.nodes] == list(range(len(block.nodes)))


def test_an_official_graph_can_be_asked(official: list[dict[str, Any]]) -> None:
    renumbered = {n["counter"]: i for i, n in enumerate(official)}
    nodes = [
        {
            **n,
            "counter": i,
            "connections": [renumbered[c] for c in n["connections"] if c in renumbered],
            "input_tensors": [renumbered[c] for c in n["input_tensors"]],
        }
        for i, n in enumerate(official)
    ]
    assert graph.extract_calltrace(nodes) == ["ttnn.add", "BinaryNgDeviceOperation", "tt::tt_metal::create_device_tensor"]
    assert graph.extract_output_info(nodes)[0].size == 32768
    assert graph.extract_peak_L1_memory_usage(nodes) == 32768 + 3 * 4096
