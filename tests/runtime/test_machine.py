"""A device at work, as programs see it: opening, queues, events, traces, sub-devices, memory on paper."""

from __future__ import annotations

import csv
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import ttnn
from tessera.runtime.launch import launch


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    opened = ttnn.open_device(device_id=0, **getattr(request, "param", {}))
    yield opened
    ttnn.close_device(opened)


def on(device: Any, values: torch.Tensor, **options: Any) -> Any:
    return ttnn.from_torch(values, layout=ttnn.TILE_LAYOUT, device=device, **options)


def x(seed: int) -> torch.Tensor:
    return torch.randn(32, 64, generator=torch.Generator().manual_seed(seed)).bfloat16()


# Operations of the test's own: what is under test is how they are launched, not what they compute.


def add(a: Any, b: Any) -> Any:
    return launch("Add", lambda p, q: p.float() + q.float(), [a, b], a.spec)


def multiply(a: Any, b: Any) -> Any:
    return launch("Multiply", lambda p, q: p.float() * q.float(), [a, b], a.spec)


def relu(a: Any) -> Any:
    return launch("Relu", torch.relu, [a], a.spec)


# -- opening and asking


def test_chips_are_numbered_from_zero_and_may_be_opened_again(device: Any) -> None:
    again = ttnn.open_device(device_id=0)
    assert again.id() == device.id() + 2
    ttnn.close_device(again)
    assert device.is_open
    with pytest.raises(RuntimeError, match=r"n150 has 1 chip\(s\)"):
        ttnn.open_device(device_id=1)
    with pytest.raises(RuntimeError, match="num_command_queues=3"):
        ttnn.open_mesh_device(num_command_queues=3)


def test_what_a_device_says_of_itself(device: Any) -> None:
    assert device.arch() is ttnn.Arch.WORMHOLE_B0
    assert ttnn.get_arch_name() == "wormhole_b0"
    assert repr(device.compute_with_storage_grid_size()) == "8-8"
    assert repr(device.dram_grid_size()) == "12-1"
    assert repr(device.worker_core_from_logical_core(ttnn.CoreCoord(0, 0))) == "18-18"
    assert repr(device.logical_core_from_worker_core(ttnn.CoreCoord(18, 19))) == "0-1"
    with pytest.raises(RuntimeError, match="outside the 8x9 worker cores"):
        device.worker_core_from_logical_core(ttnn.CoreCoord(8, 0))
    assert device.sfpu_nan() == 7.0039998997052e19
    assert len(ttnn.get_optimal_dram_bank_to_logical_worker_assignment(device, ttnn.NOC.NOC_0)) == 12
    assert repr(device.get_optimal_dram_bank_to_logical_worker_assignment(ttnn.NOC.NOC_0)[0]) == "3-7"
    assert (ttnn.get_dram_alignment(), ttnn.get_l1_alignment(), ttnn.get_max_worker_l1_unreserved_size()) == (32, 16, 1463968)
    assert ttnn.device.is_wormhole_b0(device)
    assert not ttnn.device.is_blackhole()
    assert ttnn.cluster.get_cluster_type() is ttnn.cluster.ClusterType.N150
    assert ttnn.get_allocator_base_address(device, ttnn.BufferType.DRAM) == 1048640
    assert ttnn.get_allocator_base_address(device, ttnn.BufferType.L1) == 105824


@pytest.mark.parametrize(
    ("board", "cluster", "mesh", "pcie", "last_pcie"),
    [("n300", "N300", [1, 2], [0], 0), ("t3000", "T3K", [2, 4], [0, 2, 4, 6], 6), ("galaxy", "GALAXY", [8, 4], list(range(32)), 31)],
)
def test_boards_of_many_chips(
    monkeypatch: pytest.MonkeyPatch, board: str, cluster: str, mesh: list[int], pcie: list[int], last_pcie: int
) -> None:
    monkeypatch.setenv("TESSERA_BOARD", board)
    chips = mesh[0] * mesh[1]
    assert ttnn.cluster.get_cluster_type().name == cluster
    assert (ttnn.get_num_devices(), ttnn.get_device_ids(), ttnn.get_pcie_device_ids()) == (chips, list(range(chips)), pcie)
    assert ttnn.GetPCIeDeviceID(chips - 1) == last_pcie
    whole = ttnn.open_mesh_device()
    assert list(whole.shape) == mesh
    assert whole.get_device_ids() == list(range(chips))
    halves = whole.create_submeshes(ttnn.MeshShape(mesh[0], mesh[1] // 2))
    assert [len(h.get_device_ids()) for h in halves] == [chips // 2] * 2
    assert whole.get_submeshes() == halves
    with pytest.raises(RuntimeError, match="does not divide"):
        whole.create_submeshes(ttnn.MeshShape(mesh[0], 3))
    whole.reshape(ttnn.MeshShape(1, chips))
    assert list(whole.shape) == [1, chips]
    with pytest.raises(RuntimeError, match="places"):
        whole.reshape(ttnn.MeshShape(1, chips + 1))
    ttnn.close_mesh_device(whole)
    assert not halves[0].is_open
    last = ttnn.open_mesh_device(ttnn.MeshShape(1, 1), offset=ttnn.MeshCoordinate(mesh[0] - 1, mesh[1] - 1))
    assert last.get_device_ids() == [chips - 1]
    ttnn.close_device(last)


def test_dispatch_cores_leave_the_rest_to_compute() -> None:
    columns = ttnn.DispatchCoreConfig(ttnn.DispatchCoreType.WORKER, ttnn.DispatchCoreAxis.COL)
    with_columns = ttnn.open_device(device_id=0, dispatch_core_config=columns)
    assert repr(with_columns.compute_with_storage_grid_size()) == "7-9"
    assert ttnn.get_memory_view(with_columns, ttnn.BufferType.L1).num_banks == 63
    assert ttnn.device.get_dispatch_core_axis(with_columns) is ttnn.DispatchCoreAxis.COL
    ttnn.close_device(with_columns)
    with pytest.raises(RuntimeError, match="COL axis is not supported for ETH"):
        ttnn.DispatchCoreConfig(ttnn.DispatchCoreType.ETH, ttnn.DispatchCoreAxis.COL)
    default = ttnn.DispatchCoreConfig()
    assert (default.type, default.axis) == (ttnn.DispatchCoreType.WORKER, ttnn.DispatchCoreAxis.ROW)


def test_a_grayskull_board_still_says_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_BOARD", "e150")
    with ttnn.manage_device(0) as old:
        assert repr(old.arch()) == "Arch.GRAYSKULL"
        assert "GRAYSKULL" not in ttnn.Arch.__members__
        assert old.arch() is not ttnn.Arch.WORMHOLE_B0


def test_a_closed_device_refuses(device: Any) -> None:
    ttnn.close_device(device)
    ttnn.close_device(device)
    for call in (
        device.clear_program_cache,
        device.get_submeshes,
        lambda: ttnn.synchronize_device(device),
        lambda: ttnn.get_memory_view(device, ttnn.BufferType.L1),
        lambda: ttnn.begin_trace_capture(device),
        lambda: ttnn.record_event(device),
        lambda: on(device, x(0)),
    ):
        with pytest.raises(RuntimeError, match="was closed"):
            call()
    assert device.get_device_ids() == [0]
    assert device.arch() is ttnn.Arch.WORMHOLE_B0
    assert repr(device.compute_with_storage_grid_size()) == "8-8"


# -- memory


def test_memory_view_and_the_tables_on_paper(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    t = on(device, x(0), memory_config=ttnn.L1_MEMORY_CONFIG)
    view = ttnn.get_memory_view(device, ttnn.BufferType.L1)
    assert (view.num_banks, view.total_bytes_per_bank, view.total_bytes_allocated_per_bank) == (64, 1393312, 2048)
    ttnn.dump_device_memory_state(device, prefix="one_")
    folder = tmp_path / "generated/reports"
    assert sorted(p.name for p in folder.iterdir()) == [
        "one_detailed_memory_usage.csv",
        "one_l1_usage_summary.csv",
        "one_memory_usage_summary.csv",
    ]
    detail = list(csv.reader((folder / "one_detailed_memory_usage.csv").read_text().splitlines()))
    assert [row for row in detail if row[3] == "yes"] == [
        ["L1", str(t.buffer_address()), "2048", "yes", "32x64", "BFLOAT16", "INTERLEAVED", "2", "2048"]
    ]
    cores = list(csv.reader((folder / "one_l1_usage_summary.csv").read_text().splitlines()))
    assert [row[:3] for row in cores[1:] if row[1] != "0"] == [["0-0", "1", "2048"], ["1-0", "1", "2048"]]
    ttnn.device.EnableMemoryReports()
    try:
        add(t, t)
    finally:
        ttnn.device.DisableMemoryReports()
    assert len(list(folder.iterdir())) > 3
    ttnn.device.DeallocateBuffers(device)
    assert not t.is_allocated()
    assert ttnn.get_memory_view(device, ttnn.BufferType.L1).total_bytes_allocated_per_bank == 0


# -- queues and events


@pytest.mark.parametrize("device", [{"num_command_queues": 2}], indirect=True)
def test_two_queues_and_events_between_them(device: Any) -> None:
    a = on(device, x(0))
    written = ttnn.record_event(device, 1)
    ttnn.wait_for_event(0, written)
    ttnn.event_synchronize(written)
    ttnn.wait_for_event(cq_id=ttnn.QueueId(1), mesh_event=ttnn.record_event(device))
    with ttnn.command_queue(1):
        assert ttnn.record_event(device).cq_id == 1
    ttnn.synchronize_device(device, cq_id=1)
    with pytest.raises(RuntimeError, match=r"cq_id 2 is out of range: the device was opened with 2 command queue"):
        ttnn.record_event(device, 2)
    with pytest.raises(TypeError, match="MeshEvent"):
        ttnn.wait_for_event(0, a)
    ttnn.close_device(device)
    with pytest.raises(RuntimeError, match="was closed"):
        ttnn.event_synchronize(written)


def test_one_queue_has_number_zero_only(device: Any) -> None:
    with pytest.raises(RuntimeError, match="num_command_queues=2"):
        ttnn.record_event(device, 1)


# -- traces


def run(a: Any, b: Any) -> Any:
    return relu(add(multiply(a, b), a))


def golden(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu((a * b).bfloat16() + a)


def test_a_trace_recomputes_in_the_same_buffers(device: Any) -> None:
    a, b = on(device, x(1)), on(device, x(2))
    run(a, b)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    assert ttnn.is_trace_capture_active(device)
    out = run(a, b)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    assert not ttnn.is_trace_capture_active(device)
    assert not ttnn.to_torch(out).any(), "capturing must not compute"
    where, entries = out.buffer_address(), device.num_program_cache_entries()
    for seed in (3, 4):
        ttnn.copy_host_to_device_tensor(ttnn.from_torch(x(seed), layout=ttnn.TILE_LAYOUT), a)
        ttnn.execute_trace(device, trace, cq_id=0, blocking=False)
        torch.testing.assert_close(ttnn.to_torch(out), golden(x(seed), x(2)), rtol=0, atol=0)
    assert (out.buffer_address(), device.num_program_cache_entries()) == (where, entries)
    ttnn.release_trace(device, trace)
    with pytest.raises(RuntimeError, match="has no such trace"):
        ttnn.execute_trace(device, trace)
    with pytest.raises(RuntimeError, match="has no such trace"):
        ttnn.release_trace(device, trace)


def test_a_trace_gives_its_intermediates_back(device: Any) -> None:
    a, b = on(device, x(1)), on(device, x(2))
    run(a, b)
    gc.collect()
    before = ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank
    trace = ttnn.begin_trace_capture(device)
    middle = add(a, b)
    out = relu(middle)
    ttnn.deallocate(middle)
    ttnn.end_trace_capture(device, trace)
    gc.collect()
    assert ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank == before + 2048
    ttnn.execute_trace(device, trace)
    torch.testing.assert_close(ttnn.to_torch(out), torch.relu(x(1) + x(2)), rtol=0, atol=0)
    del out
    gc.collect()
    ttnn.execute_trace(device, trace)  # nobody looks at the result any more: still a run


def test_an_input_may_be_allocated_anew_at_its_address(device: Any) -> None:
    b = on(device, x(2))
    a = on(device, x(1), memory_config=ttnn.L1_MEMORY_CONFIG)
    add(b, a)
    address = a.buffer_address()
    trace = ttnn.begin_trace_capture(device)
    out = add(b, a)
    ttnn.deallocate(a)
    ttnn.end_trace_capture(device, trace)
    with pytest.raises(RuntimeError, match="deallocated after the capture"):
        ttnn.execute_trace(device, trace)
    a = on(device, x(5), memory_config=ttnn.L1_MEMORY_CONFIG)
    assert a.buffer_address() == address
    ttnn.execute_trace(device, trace)
    torch.testing.assert_close(ttnn.to_torch(out), x(5) + x(2), rtol=0, atol=0)


def test_what_a_capture_refuses(device: Any) -> None:
    a = on(device, x(1))
    event = ttnn.record_event(device)
    add(a, a)
    host = ttnn.from_torch(x(2), layout=ttnn.TILE_LAYOUT)
    trace = ttnn.begin_trace_capture(device)
    with pytest.raises(RuntimeError, match="Reads are not supported during trace capture"):
        ttnn.to_torch(a)
    with pytest.raises(RuntimeError, match="Writes are not supported during trace capture"):
        ttnn.copy_host_to_device_tensor(host, a)
    with pytest.raises(RuntimeError, match="Writes are not supported during trace capture"):
        ttnn.to_device(host, device)
    for call in (lambda: ttnn.synchronize_device(device), lambda: ttnn.event_synchronize(event), lambda: ttnn.wait_for_event(0, event)):
        with pytest.raises(RuntimeError, match="Event Synchronization is not supported during trace capture"):
            call()
    with pytest.raises(RuntimeError, match="Cannot load new binaries during trace capture"):
        multiply(a, a)
    with pytest.raises(RuntimeError, match="capturing a trace already"):
        ttnn.begin_trace_capture(device)
    with pytest.raises(RuntimeError, match="cannot run while"):
        ttnn.execute_trace(device, trace)
    with pytest.raises(RuntimeError, match="is capturing trace"):
        ttnn.end_trace_capture(device, ttnn.MeshTraceId(999))
    ttnn.end_trace_capture(device, trace)
    with pytest.raises(RuntimeError, match="captures no trace"):
        ttnn.end_trace_capture(device, trace)


@pytest.mark.parametrize("device", [{"trace_region_size": 200000}], indirect=True)
def test_traces_fill_the_trace_region(device: Any) -> None:
    a = on(device, x(1))
    add(a, a)
    traces = []
    with pytest.raises(
        RuntimeError, match=r"Creating trace buffers of size 2048B on MeshDevice \d+, but only 200000B is allocated for trace region"
    ):
        for _ in range(10_000):
            traces.append(ttnn.begin_trace_capture(device))
            add(a, a)
            ttnn.end_trace_capture(device, traces[-1])
    assert len(traces) > 10
    ttnn.release_trace(device, traces[0])
    again = ttnn.begin_trace_capture(device)
    add(a, a)
    ttnn.end_trace_capture(device, again)


# -- sub-devices


def cores(*box: int) -> Any:
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(*box[:2]), ttnn.CoreCoord(*box[2:]))])


def test_sub_devices_split_the_grid(device: Any) -> None:
    left, right = ttnn.SubDevice([cores(0, 0, 3, 7)]), ttnn.SubDevice([cores(4, 0, 7, 7)])
    split = device.create_sub_device_manager([left, right], 3200)
    device.load_sub_device_manager(split)
    assert ttnn.get_memory_view(device, ttnn.BufferType.L1).total_bytes_per_bank == 1393312 - 3200
    device.set_sub_device_stall_group([ttnn.SubDeviceId(1)])
    ttnn.synchronize_device(device, sub_device_ids=[ttnn.SubDeviceId(0)])
    with pytest.raises(RuntimeError, match=r"sub-device 2: the device has 2 sub-device\(s\)"):
        ttnn.synchronize_device(device, sub_device_ids=[ttnn.SubDeviceId(2)])
    with pytest.raises(RuntimeError, match="is empty"):
        device.set_sub_device_stall_group([])
    device.reset_sub_device_stall_group()
    with pytest.raises(RuntimeError, match="is loaded"):
        device.remove_sub_device_manager(split)
    device.clear_loaded_sub_device_manager()
    assert ttnn.get_memory_view(device, ttnn.BufferType.L1).total_bytes_per_bank == 1393312
    device.remove_sub_device_manager(split)
    with pytest.raises(RuntimeError, match="no sub-device manager"):
        device.load_sub_device_manager(split)


def test_splits_that_are_refused(device: Any) -> None:
    with pytest.raises(RuntimeError, match="must not share cores: 3-0"):
        device.create_sub_device_manager([ttnn.SubDevice([cores(0, 0, 3, 0)]), ttnn.SubDevice([cores(3, 0, 4, 0)])], 0)
    with pytest.raises(RuntimeError, match="outside the 8x8 worker cores"):
        device.create_sub_device_manager([ttnn.SubDevice([cores(0, 0, 8, 0)])], 0)
    with pytest.raises(RuntimeError, match="local_l1_size=9999999"):
        device.create_sub_device_manager([ttnn.SubDevice([cores(0, 0, 1, 0)])], 9999999)
    with pytest.raises(RuntimeError, match="at least one group"):
        device.create_sub_device_manager([], 0)
    held = on(device, x(0), memory_config=ttnn.L1_MEMORY_CONFIG)
    whole = device.create_sub_device_manager([ttnn.SubDevice([cores(0, 0, 1, 0)])], 1393312)
    with pytest.raises(RuntimeError, match=f"a buffer lives at address {held.buffer_address()}"):
        device.load_sub_device_manager(whole)
    ttnn.deallocate(held)
    device.load_sub_device_manager(whole)
    with pytest.raises(RuntimeError, match="Out of Memory"):
        on(device, x(0), memory_config=ttnn.L1_MEMORY_CONFIG)


# -- chips together


def test_the_fabric_is_switched_off_before_it_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_BOARD", "n300")
    assert ttnn.get_fabric_config() is ttnn.FabricConfig.DISABLED
    ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
    try:
        ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
        with pytest.raises(RuntimeError, match="would override"):
            ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_2D)
        assert ttnn.get_fabric_config() is ttnn.FabricConfig.FABRIC_1D
        assert ttnn.get_physical_mesh_shapes() == {0: [2, 1]}
        assert ttnn.get_all_fabric_mesh_ids() == [ttnn.MeshId(0)]
        mesh = ttnn.open_mesh_device()
        assert ttnn.get_num_links(mesh, 1) == 1
        view = mesh.get_view()
        assert (list(view.shape()), view.num_devices(), view.is_local(ttnn.MeshCoordinate(0, 1))) == ([1, 2], 2, True)
        with pytest.raises(RuntimeError, match="axes 0 to 1"):
            ttnn.get_num_links(mesh, 2)
        assert mesh.get_fabric_node_id(ttnn.MeshCoordinate(0, 1)).chip_id == 1
        assert ttnn.cluster.get_chip_unique_id_from_fabric_node_id(mesh, 0, 1) == 0x14000000001
        with pytest.raises(RuntimeError, match="chip_id=2"):
            ttnn.cluster.get_chip_unique_id_from_fabric_node_id(mesh, 0, 2)
        ttnn.close_mesh_device(mesh)
    finally:
        ttnn.set_fabric_config(ttnn.FabricConfig.DISABLED)


def test_the_cluster_described_as_the_driver_does(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    monkeypatch.setenv("TESSERA_BOARD", "t3000")
    path = Path(ttnn.cluster.serialize_cluster_descriptor())
    described = yaml.safe_load(path.read_text())
    assert len(described["chips"]) == 8
    assert len(described["ethernet_connections"]) == 20
    assert described["chips_with_mmio"] == [{0: 0}, {2: 2}, {4: 4}, {6: 6}]
    path.unlink()
    path.parent.rmdir()


def test_the_cores_that_hold_shards(device: Any) -> None:
    def made(
        layout: str, buffer: str, box: tuple[int, ...], shard: list[int], shape: list[int], orientation: str = "ROW_MAJOR"
    ) -> list[str]:
        spec = ttnn.ShardSpec(cores(*box), shard, getattr(ttnn.ShardOrientation, orientation))
        config = ttnn.MemoryConfig(getattr(ttnn.TensorMemoryLayout, layout), getattr(ttnn.BufferType, buffer), spec)
        tensor = ttnn.allocate_tensor_on_device(ttnn.Shape(shape), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, config)
        return [repr(core) for core in ttnn.get_optimal_worker_cores_for_sharded_tensor(tensor)]

    in_dram = ["3-7", "0-0", "0-4", "2-1", "4-0", "7-7", "4-1", "4-6"]
    assert made("WIDTH_SHARDED", "DRAM", (0, 0, 7, 0), [32, 64], [32, 512]) == in_dram
    assert made("HEIGHT_SHARDED", "L1", (0, 0, 3, 3), [32, 64], [128, 64]) == ["0-0", "1-0", "2-0", "3-0"]
    assert made("BLOCK_SHARDED", "L1", (0, 0, 3, 3), [32, 64], [96, 128]) == ["0-0", "1-0", "0-1", "1-1", "0-2", "1-2"]
    by_columns = ["1-1", "1-2", "2-1", "2-2", "3-1", "3-2"]
    assert made("BLOCK_SHARDED", "L1", (1, 1, 3, 3), [32, 64], [96, 128], "COL_MAJOR") == by_columns
    plain = ttnn.allocate_tensor_on_device(ttnn.Shape([32, 32]), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
    with pytest.raises(RuntimeError, match="must be sharded"):
        ttnn.get_optimal_worker_cores_for_sharded_tensor(plain)


def test_dram_as_the_noc_sees_it(device: Any) -> None:
    assert [repr(device.dram_core_from_logical_core(ttnn.CoreCoord(bank, 0))) for bank in (0, 3, 11)] == ["0-11", "0-7", "5-7"]
    table = ttnn.cluster.get_dram_bank_table(0)
    assert table[3] == {"bank_id": 3, "noc_x": 0, "noc_y": 7, "base_addr": 1073741824, "bank_size": 1073741824}
    assert [row["base_addr"] for row in table[:3]] == [0, 1073741824, 0]
    event = ttnn.record_event(device)
    assert repr(event).startswith(f"MeshEvent(id=0, device_id={device.id()}, mesh_cq_id=0, device_range=MeshCoordinateRange(")
