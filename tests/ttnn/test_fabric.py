"""What the fabric answers, and what is said of programs that only a card could run; the figures are the official wheel's on mock boards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ttnn

RING, LINEAR, MESH, TORUS = ttnn.Topology.Ring, ttnn.Topology.Linear, ttnn.Topology.Mesh, ttnn.Topology.Torus


@pytest.fixture
def fabric() -> Iterator[None]:
    yield
    ttnn.set_fabric_config(ttnn.FabricConfig.DISABLED)


def box(*corners: int) -> Any:
    return ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(*corners[:2]), ttnn.CoreCoord(*corners[2:]))])


def some(device: Any) -> Any:
    return ttnn.zeros((64, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)


@pytest.mark.parametrize(
    ("config", "found", "header"), [("FABRIC_1D", LINEAR, 48), ("FABRIC_1D_RING", LINEAR, 48), ("FABRIC_2D", MESH, 96)]
)
def test_two_chips_are_no_ring(monkeypatch, fabric, config, found, header) -> None:
    monkeypatch.setenv("TESSERA_BOARD", "n300")
    ttnn.set_fabric_config(getattr(ttnn.FabricConfig, config))
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2))
    x = some(mesh)
    assert [ttnn.get_usable_topology(x), ttnn.get_usable_topology(x, cluster_axis=1)] == [found, found]
    assert [ttnn.get_usable_topology(x, RING), ttnn.get_usable_topology(x, TORUS, 0)] == [LINEAR, MESH]
    assert (ttnn.get_tt_fabric_max_payload_size_bytes(), ttnn.get_tt_fabric_packet_header_size_bytes()) == (4352, header)
    assert ttnn.get_all_mgd_fabric_types() == [ttnn.FabricType.MESH]
    ttnn.close_mesh_device(mesh)


def test_one_chip_without_a_fabric() -> None:
    with ttnn.manage_device(0) as device:
        x = some(device)
        assert [ttnn.get_usable_topology(x, t) for t in (LINEAR, RING, MESH, TORUS)] == [LINEAR, RING, MESH, TORUS]
        assert [ttnn.get_usable_topology(x, RING, 0), ttnn.get_usable_topology(x, TORUS, 1)] == [LINEAR, MESH]
        with pytest.raises(RuntimeError, match="un-initialized fabric context"):
            ttnn.get_usable_topology(x)
        with pytest.raises(RuntimeError, match="index out of range"):
            ttnn.get_usable_topology(x, RING, 2)
        with pytest.raises(RuntimeError, match="requires a device tensor"):
            ttnn.get_usable_topology(x.cpu())
    with pytest.raises(RuntimeError, match="un-initialized fabric context"):
        ttnn.get_tt_fabric_max_payload_size_bytes()


def test_a_wired_torus_keeps_its_rings(monkeypatch) -> None:
    monkeypatch.setenv("TESSERA_BOARD", "galaxy")
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(8, 4))
    x = some(mesh)
    assert [ttnn.get_usable_topology(x, RING, axis) for axis in (0, 1)] == [RING, RING]
    ttnn.close_mesh_device(mesh)


def test_the_machine_is_shown_without_opening_it(monkeypatch, capsys) -> None:
    monkeypatch.setenv("TESSERA_BOARD", "t3000")
    ttnn.visualize_system_mesh()
    shown = capsys.readouterr().out
    assert all(f"device {chip}" in shown for chip in range(8))
    assert "(1, 3)" in shown


class TestProgramDescriptors:
    def program(self, *cores: Any) -> Any:
        return ttnn.ProgramDescriptor(kernels=[ttnn.KernelDescriptor(kernel_source="k.cpp", core_ranges=c) for c in cores])

    def test_are_joined_where_cores_are_apart(self) -> None:
        joined = ttnn.merge_program_descriptors([self.program(box(0, 0, 1, 1)), self.program(box(2, 2, 3, 3), box(2, 2, 3, 3))])
        assert [str(k.core_ranges) for k in joined.kernels] == ["{[0-0 - 1-1]}", "{[2-2 - 3-3]}", "{[2-2 - 3-3]}"]
        assert ttnn.merge_program_descriptors([]).kernels == []
        with pytest.raises(RuntimeError, match="overlapping kernel core ranges between descriptor 0 and 1"):
            ttnn.merge_program_descriptors([self.program(box(0, 0, 1, 1)), self.program(box(1, 1, 2, 2))])

    def test_circular_buffers_lie_over_shards(self) -> None:
        with ttnn.manage_device(0) as device:
            shard = ttnn.ShardSpec(box(0, 0, 1, 0), [32, 64], ttnn.ShardOrientation.ROW_MAJOR)
            config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, shard)
            x = ttnn.zeros((64, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=config)
            whole = ttnn.cb_descriptor_from_sharded_tensor(3, x)
            (form,) = whole.format_descriptors
            assert (whole.total_size, str(whole.core_ranges), form.buffer_index, form.page_size) == (4096, "{[0-0 - 1-0]}", 3, 2048)
            assert ttnn.get_cb_address(whole) == whole.buffer_address() == x.buffer_address() == 1495040
            piece = ttnn.cb_descriptor_from_sharded_tensor(3, x, address_offset=64, total_size=2048, core_ranges=box(0, 0, 0, 0))
            assert (piece.total_size, ttnn.get_cb_address(piece)) == (2048, 1495104)
            with pytest.raises(RuntimeError, match=r"Address offset \+ total size exceeds buffer size"):
                ttnn.cb_descriptor_from_sharded_tensor(3, x, total_size=99999)
            with pytest.raises(RuntimeError, match="must be sharded"):
                ttnn.cb_descriptor_from_sharded_tensor(3, some(device))


@pytest.mark.parametrize(
    "name", ["types.Tensor", "types.MemoryConfig", "distributed.MeshDevice", "distributed.open_mesh_device", "types.OverlappedTensor"]
)
def test_official_modules_show_names_of_each_other(name) -> None:
    module, last = name.split(".")
    assert getattr(getattr(ttnn, module), last) is getattr(ttnn, last)
