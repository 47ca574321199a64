"""Value types of TT-NN against what the official wheel answered, and the bags' own rules.

`types_values.jsonl` holds expressions that were put to the official 0.81.1 wheel (mock n150): defaults, reprs, orders, refusals.
Where Tessera answers otherwise on purpose, the expression stands in DIFFERENT with the reason.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

import ttnn
from ttnn.bags import Bag, key_of

DATA = Path(__file__).parents[1] / "data" / "behaviour"
ROWS = [json.loads(line) for line in (DATA / "types_values.jsonl").read_text().splitlines()]

DIFFERENT = {
    "data_format": "official TT-NN cannot hand the format back",
    "isinstance(ttnn.WormholeComputeKernelConfig(),ttnn.DeviceComputeKernelConfig)": "here the configs have a common base",
    "ttnn.Layout.INVALID)": "a spec needs a layout",
    "to_numpy()": "official TT-NN answers an array of one foreign object",
    "ttnn.PlacementShard('a')": "checked when it is used",
    "ttnn.PlacementShard(1)==ttnn.PlacementShard(1)": "placements compare by value",
    "ttnn.tile_size(1)": "a number is no dtype",
    "pad([1,1],[0,0],1)": "padding cannot shrink",
    "TILE_LAYOUT)[...,1]": "official TT-NN reads padding here",
    "TILE_LAYOUT)[:,1]": "official TT-NN reads padding here",
    "[[0,1]]": "a list is no index",
    "ttnn.divup": "only in ttnn.core, and so is ours after `import ttnn`",
    "ttnn.roundup": "only in ttnn.core, and so is ours after `import ttnn`",
}


def outcome(expr: str) -> dict[str, str]:
    try:
        return {"repr": repr(eval(expr, {"ttnn": ttnn}))}
    except Exception as error:
        return {"error": type(error).__name__}


def test_values_answer_as_the_official_wheel_does() -> None:
    wrong = [
        (row, got)
        for row in ROWS
        if not any(row["expr"].endswith(d) or d in row["expr"] for d in DIFFERENT)
        and (got := outcome(row["expr"])) != {k: v for k, v in row.items() if k != "expr"}
    ]
    assert not wrong


ENUM_ORDER = {
    "NOC": [("RISCV_0_default", 0), ("RISCV_1_default", 1), ("NOC_0", 0), ("NOC_1", 1)],
    "Topology": [("Ring", 2), ("Linear", 1), ("Mesh", 3), ("Torus", 4)],
    "SigmoidMode": [("Accurate", 2), ("AccurateWithFastExp", 1), ("FastApproximate", 0)],
    "MathFidelity": [("LoFi", 0), ("HiFi2", 2), ("HiFi3", 3), ("HiFi4", 4), ("Invalid", 255)],
}


@pytest.mark.parametrize("name", ENUM_ORDER)
def test_enums_keep_their_order_and_numbers(name: str) -> None:
    assert [(n, m.value) for n, m in getattr(ttnn, name).__members__.items()] == ENUM_ORDER[name]


def test_every_enum_of_the_interface_is_complete() -> None:
    from ttnn.binding import interface

    for full, row in interface().items():
        if row["kind"] == "enum" and full.count(".") == 1:
            members = {n: m.value for n, m in getattr(ttnn, full.split(".")[1]).__members__.items()}
            assert members == row["members"], full


def test_every_plain_class_of_the_interface_has_its_properties() -> None:
    """Config classes hold every official field."""
    from ttnn.binding import interface

    for full, row in interface().items():
        cls = getattr(ttnn, full.removeprefix("ttnn."), None) if full.count(".") == 1 and row["kind"] == "class" else None
        if isinstance(cls, type) and issubclass(cls, Bag):
            official = {n for n, kind in row["members"].items() if kind == "property"}
            have = set(cls.FIELDS) | {n for n in dir(cls) if not n.startswith("_")}
            skipped = {n for n in official if n.startswith(("blaze_", "reload_"))}  # of kernels that Tessera never compiles
            assert official - skipped <= have, full


class TestBags:
    def test_check_types_when_made_and_when_assigned(self) -> None:
        config = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi4)
        config.fp32_dest_acc_en = True
        assert (config.math_fidelity, config.fp32_dest_acc_en) == (ttnn.MathFidelity.HiFi4, True)
        with pytest.raises(TypeError, match="fp32_dest_acc_en"):
            config.fp32_dest_acc_en = 1
        with pytest.raises(AttributeError, match="no attribute 'colour'"):
            config.colour = 1
        with pytest.raises(TypeError, match="math_fidelity"):
            ttnn.WormholeComputeKernelConfig(math_fidelity=4)
        with pytest.raises(TypeError, match="positional"):
            ttnn.WormholeComputeKernelConfig(ttnn.MathFidelity.LoFi)

    def test_compare_by_identity_and_are_keyed_by_value(self) -> None:
        one, other = ttnn.Conv2dConfig(), ttnn.Conv2dConfig()
        assert one != other
        assert key_of(one) == key_of(other)
        other.act_block_w_div = 2
        assert key_of(one) != key_of(other)
        assert key_of(copy.deepcopy(other)) == key_of(other)

    def test_matmul_configs_fill_in_their_blocks_and_round_trip_as_json(self) -> None:
        config = ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
            compute_with_storage_grid_size=(8, 8),
            in0_block_w=2,
            out_subblock_h=1,
            out_subblock_w=1,
            per_core_M=4,
            per_core_N=6,
            transpose_mcast=False,
            fused_activation=(ttnn.UnaryOpType.GELU, True),
        )
        assert (config.out_block_h, config.out_block_w) == (4, 6)
        assert key_of(type(config).from_json(config.to_json())) == key_of(config)

    def test_defaults_are_not_shared(self) -> None:
        ttnn.ProgramDescriptor().kernels.append(None)
        assert ttnn.ProgramDescriptor().kernels == []
        ttnn.LayerNormParams().program_config.use_welford = True
        assert not ttnn.LayerNormParams().program_config.use_welford


def test_programs_are_keyed_by_what_configs_mean() -> None:
    from tessera.runtime.launch import frozen

    assert frozen(ttnn.CoreGrid(x=8, y=8)) == frozen(ttnn.CoreGrid(x=8, y=8))
    assert frozen([ttnn.Conv2dConfig()]) == frozen([ttnn.Conv2dConfig()])


def test_the_compiled_module_answers_for_its_names() -> None:
    import ttnn._ttnn.operations.conv
    from ttnn._ttnn.multi_device import MeshShape
    from ttnn._ttnn.tensor import CoreRange

    assert (CoreRange, MeshShape) == (ttnn.CoreRange, ttnn.MeshShape)
    assert ttnn._ttnn.operations.conv.Conv2dConfig is ttnn.Conv2dConfig
    with pytest.raises(AttributeError):
        _ = ttnn._ttnn.tensor.NoSuchName


def test_the_cluster_is_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    for board, kind in (("n150", "N150"), ("n300", "N300"), ("p150", "P150")):
        monkeypatch.setenv("TESSERA_BOARD", board)
        assert ttnn.cluster.get_cluster_type() is ttnn.cluster.ClusterType[kind]
    assert len(ttnn.cluster.get_dram_bank_table(0)) == 8
