"""Compilation: how far it goes, what it reports, and that it is the same every time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml
from torch import nn

import pybuda
from pybuda.config import CompileDepth
from pybuda.verify import VerifyConfig


def encoder():
    return pybuda.PyTorchModule("encoder", nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval())


def compiled(depth=CompileDepth.FULL, module=None, sample=(1, 32, 64), **device):
    config = pybuda.config._get_global_compiler_config()
    config.compile_depth = depth
    tt0 = pybuda.TTDevice("tt0", module=module or encoder(), **device)
    return tt0, pybuda.pybuda_compile(tt0, "encoder", torch.randn(sample))


@pytest.mark.parametrize("depth", [d for d in CompileDepth if d is not CompileDepth.INIT_COMPILE], ids=lambda d: d.name)
def test_stopping_early(depth):
    _, results = compiled(depth)
    assert results.initial_graph is not None
    assert (results.lowered_graph is not None) == (depth.value >= CompileDepth.BUDA_GRAPH_PRE_PLACER.value)
    assert (results.pass_specific_output_kwargs["placer_solution"] is not None) == (depth.value >= CompileDepth.BALANCER_PASS.value)
    assert (results.netlist is not None) == (depth.value >= CompileDepth.GENERATE_NETLIST.value)


def test_a_graph_that_was_not_compiled_whole_does_not_run():
    pybuda.config._get_global_compiler_config().compile_depth = CompileDepth.GENERATE_NETLIST
    tt0 = pybuda.TTDevice("tt0", module=encoder())
    tt0.push_to_inputs(torch.randn(1, 32, 64))
    output_q = pybuda.run_inference()
    with pytest.raises(RuntimeError, match="GENERATE_NETLIST only"):
        output_q.get()


def test_the_netlist_is_yaml_with_the_contracts_names():
    tt0, results = compiled()
    netlist = yaml.safe_load(results.netlist)
    assert list(netlist) == ["devices", "queues", "graphs", "programs", "fused_ops"]
    assert netlist["devices"] == {"arch": "wormhole_b0"}
    queues = netlist["queues"]
    first = queues["src"]
    assert first["input"] == "HOST"
    assert first["type"] == "queue"
    assert first["loc"] == "host"
    assert {"entries", "grid_size", "t", "mblock", "ublock", "ublock_order", "tile_dim", "df", "target_device"} <= set(first)
    weight = queues["linear1.weight"]
    assert weight["type"] == "ram"
    assert weight["loc"] == "dram"
    assert all(0 <= channel < 6 and address >= 0x30000000 for channel, address in weight["dram"])
    graph = netlist["graphs"]["fwd_0_0_temporal_epoch_0"]
    assert graph["target_device"] == 0
    product = next(op for op in graph.values() if isinstance(op, dict) and op["type"] == "matmul")
    assert {
        "grid_loc",
        "grid_size",
        "inputs",
        "t",
        "mblock",
        "ublock",
        "in_df",
        "out_df",
        "intermed_df",
        "acc_df",
        "math_fidelity",
        "buf_size_mb",
        "attributes",
    } <= set(product)
    assert {"m_k", "u_kt"} <= set(product["attributes"])
    program = netlist["programs"][0]["run_fwd_0"]
    assert {next(iter(step)) if isinstance(step, dict) else step for step in program} == {
        "var",
        "staticvar",
        "param",
        "loop",
        "execute",
        "varinst",
        "endloop",
    }
    for op in graph.values():
        if isinstance(op, dict):
            assert all(name in graph or name in queues for name in op["inputs"])
    assert Path(results.netlist_filename).read_text(encoding="utf-8") == results.netlist
    assert tt0.get_device_config()["grid_size"] == [10, 8]


def test_the_netlist_is_the_same_every_time():
    texts = set()
    for _ in range(3):
        pybuda.pybuda_reset()
        torch.manual_seed(0)
        texts.add(compiled()[1].netlist)
    assert len(texts) == 1


def test_training_netlists_have_backward_programs():
    net = nn.Sequential(nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 8))
    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("net", net), optimizer=pybuda.optimizers.SGD(0.1))
    tt0.place_loss_module(pybuda.PyTorchModule("loss", nn.MSELoss()))
    pybuda.initialize_pipeline(training=True, sample_inputs=(torch.randn(2, 64),), sample_targets=(torch.randn(2, 8),))
    netlist = yaml.safe_load(tt0.get_compiled_results().netlist)
    names = [next(iter(p)) for p in netlist["programs"]]
    assert names == ["run_fwd_0", "run_bwd_0", "run_opt_0"]
    step = netlist["graphs"][next(name for name in netlist["graphs"] if name.startswith("opt_"))]
    assert netlist["queues"]["0.weight"]["input"] in step, "what the optimizer makes goes back into the parameter's queue"
    assert any("grad_acc_0.weight" in op["inputs"] for op in step.values() if isinstance(op, dict))
    assert "grad_acc_0.weight" in netlist["queues"]
    param = next(step["param"] for step in netlist["programs"][1]["run_bwd_0"] if isinstance(step, dict) and "param" in step)
    assert param == ["$p_loop_count", "$p_zero_grad"]


@pytest.mark.parametrize(
    "optimizer", [pybuda.optimizers.Adam(0.1), pybuda.optimizers.AdamW(), pybuda.optimizers.LAMB(correction=True), pybuda.optimizers.LARS()]
)
def test_every_optimizer_is_a_graph_that_steps_as_it_does(optimizer):
    from tessera.graph.executor import evaluate_nodes
    from tessera.graph.ir import Kind

    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("net", nn.Linear(8, 4)), optimizer=optimizer)
    tt0.place_loss_module(pybuda.PyTorchModule("loss", nn.MSELoss()))
    pybuda.initialize_pipeline(training=True, sample_inputs=(torch.randn(2, 8),), sample_targets=(torch.randn(2, 4),))
    graph = tt0.get_compiled_results().lowered_graph
    value, gradient = graph["weight"].value.detach(), torch.randn(4, 8)
    state = {k: v + 0.5 if k != "step" else v + 2 for k, v in optimizer.initial_state(value).items()}
    wanted, after = optimizer.step(value, gradient, optimizer.learning_rate, state)
    given = {graph["weight"]: value, graph.gradients["weight"]: gradient, graph["learning_rate"]: torch.tensor(optimizer.learning_rate)}
    given |= {graph[f"weight.{k}"]: v.float() for k, v in state.items()}
    results = evaluate_nodes(graph, given, [graph.optimized["weight"], *(graph.optimized[f"weight.{k}"] for k in state)])
    for got, want in zip(results, [wanted, *(after[k] for k in state)]):
        torch.testing.assert_close(got.float(), want.float(), rtol=1e-5, atol=1e-6)
    assert all(n.kind is Kind.OPTIMIZER for n in graph.nodes if n.name.startswith("weight."))


def test_rectangles_of_an_epoch_do_not_overlap(models):
    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("bert", models.BertEncoder(2, 256, 4, 512).eval()))
    tt0.push_to_inputs(torch.randn(1, 128, 256))
    pybuda.run_inference().get()
    report = pybuda.compile_report()
    assert report["epochs"] >= 2
    taken = set()
    for row in report["placement"]:
        (r, c), (height, width) = row["grid_loc"], row["grid_size"]
        cells = {(row["epoch"], i, j) for i in range(r, r + height) for j in range(c, c + width)}
        assert not cells & taken
        assert r + height <= 10
        assert c + width <= 8
        assert row["l1_bytes"] <= report["memory"]["l1_capacity"]
        taken |= cells
    assert sum(report["ops"].values()) == len(report["placement"])
    assert set(report["memory"]["dram"]) == set(range(6))
    netlist = yaml.safe_load(tt0.get_compiled_results().netlist)
    assert any(name.startswith("e2e_") for name in netlist["queues"])


def test_queues_in_dram_do_not_overlap():
    _, results = compiled()
    placement = results.pass_specific_output_kwargs["placer_solution"]
    spans = sorted(
        (channel, address, address + q.bytes) for q in placement.queues.values() if q.location == "dram" for channel, address in q.addresses
    )
    for (channel, _, end), (other, start, _) in zip(spans, spans[1:]):
        assert channel != other or start >= end


@pytest.mark.parametrize("arch", [pybuda.BackendDevice.Grayskull, pybuda.BackendDevice.Wormhole_B0, pybuda.BackendDevice.Blackhole])
def test_large_models_fit(models, arch):
    """BERT-base with a batch of eight, and ResNet-50 with eight images: the batch is part of every tensor, and is counted once."""
    for model, sample in ((models.BertEncoder(4), (8, 384, 768)), (models.ResNet(), (8, 3, 224, 224))):
        pybuda.pybuda_reset()
        _, results = compiled(CompileDepth.GENERATE_NETLIST, pybuda.PyTorchModule("model", model.eval()), sample, arch=arch)
        placement = results.pass_specific_output_kwargs["placer_solution"]
        assert max(placement.used) <= placement.memory()["dram_capacity"]
        assert placement.memory()["l1_peak"] <= placement.memory()["l1_capacity"]
        assert "input_count: 1" in results.netlist


def test_sizes_and_breaks_are_obeyed():
    module = encoder()
    pybuda.override_op_size("linear_3", (1, 1))
    pybuda.set_epoch_break("linear_3")
    compiled(module=module)
    with pytest.raises(RuntimeError, match="nothing is compiled"):
        pybuda.compile_report()
    tt0 = pybuda.get_tenstorrent_device()
    tt0.push_to_inputs(torch.randn(1, 32, 64))
    pybuda.run_inference().get()
    row = next(r for r in pybuda.compile_report()["placement"] if r["op"] == "linear_3")
    assert row["grid_size"] == [1, 1]
    assert row["epoch"] == 1


def test_an_impossible_size_says_why():
    pybuda.override_op_size("linear_3", (3, 3))
    with pytest.raises(RuntimeError, match="must divide"):
        compiled()


def test_more_than_dram_says_where(monkeypatch):
    from dataclasses import replace

    from tessera.graph.passes import place

    monkeypatch.setitem(
        place.CHIPS, "wormhole_b0", replace(place.CHIPS["wormhole_b0"], channel_bytes=place.CHIPS["wormhole_b0"].dram_base + 8192)
    )
    with pytest.raises(RuntimeError, match="no DRAM channel of wormhole_b0 has that left"):
        compiled()


def test_a_broken_pass_is_caught(monkeypatch):
    from tessera.graph.passes.movement import EraseInverses

    def spoil(self, graph):
        graph.ops("matmul")[0].attrs["activation"] = "relu"

    monkeypatch.setattr(EraseInverses, "apply", spoil)
    tt0 = pybuda.TTDevice("tt0", module=encoder())
    tt0.push_to_inputs(torch.randn(1, 32, 64))
    with pytest.raises(RuntimeError, match="pass 'erase-inverses' changed output 0"):
        pybuda.run_inference(_verify_cfg=VerifyConfig(verify_all=True))


def test_the_state_of_a_compiled_graph():
    tt0 = pybuda.TTDevice("tt0", module=encoder())
    tt0.push_to_inputs(torch.randn(1, 32, 64))
    pybuda.run_inference().get()
    state = tt0._compiled_graph_state
    assert state.ordered_input_names == ["src"]
    assert state.ordered_input_shapes == [[1, 32, 64]]
    assert state.ordered_output_shapes == [[1, 32, 64]]
    assert "linear1.weight" in state.ordered_parameter_node_names
    assert state.to_dict()["ordered_output_data_formats"] == ["Float32"]
    assert tt0._compiled


def test_an_unknown_intermediate():
    pybuda.set_configuration_options(op_intermediates_to_save=["nowhere"])
    with pytest.raises(RuntimeError, match="nowhere"):
        compiled()


@pytest.mark.parametrize("kind", list(pybuda.verify.TestKind))
def test_verify_module(kind):
    class Block(pybuda.PyBudaModule):
        def __init__(self, name):
            super().__init__(name)
            self.weights = pybuda.Parameter(64, 64)

        def forward(self, x):
            return pybuda.op.nn.Softmax("softmax", pybuda.op.Matmul("mm", x, self.weights), dim=-1)

    config = VerifyConfig(test_kind=kind, arch=pybuda.BackendDevice.Wormhole_B0, devtype=pybuda.BackendType.Golden)
    pybuda.verify.verify_module(Block("block"), [(1, 32, 64)], config)
    assert not pybuda.error_raised()


def test_verify_module_finds_a_difference():
    pybuda.set_configuration_options(default_df_override=pybuda.DataFormat.Bfp2_b)
    config = VerifyConfig(arch=pybuda.BackendDevice.Wormhole_B0, pcc=0.99)
    with pytest.raises(RuntimeError, match="differs from PyTorch"):
        pybuda.verify.verify_module(encoder(), [(1, 32, 64)], config, inputs_centered_on_zero=True)


def test_verify_pipeline():
    first, second = (pybuda.PyTorchModule(n, nn.Linear(16, 16)) for n in "ab")
    config = VerifyConfig(arch=pybuda.BackendDevice.Wormhole_B0)
    pybuda.verify.verify_module_pipeline([first, second], [(2, 16)], config, device_types=["TTDevice", "CPUDevice"])
    with pytest.raises(ValueError, match="2 modules and 1"):
        pybuda.verify.verify_module_pipeline([first, second], [(2, 16)], config, device_types=["TTDevice"])


def test_verify_config():
    config = VerifyConfig(epochs=2, steps=3)
    assert config.pcc == 0.99
    assert config.total_number_of_inputs() == 6
    assert not VerifyConfig.disabled().enabled
    with pytest.raises(ValueError, match="Grayskull has no Float32"):
        VerifyConfig(fp32_fallback=pybuda.DataFormat.Float32)
