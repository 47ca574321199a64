"""Six architectures with random weights: as exact as PyTorch in fp32, and close in the chip's formats, checked after every pass."""

from __future__ import annotations

import pytest
import torch

import pybuda
from pybuda import DataFormat
from pybuda.verify import VerifyConfig, calculate_pcc


def build(models, name):
    ids = torch.randint(0, 1000, (2, 32))
    images = lambda n, s: torch.randn(n, 3, s, s)  # noqa: E731
    made = {
        "bert": lambda: (models.Bert(), (ids, torch.ones(2, 32, dtype=torch.long))),
        "vit": lambda: (models.ViT(), (images(2, 32),)),
        "resnet": lambda: (models.ResNet((1, 1, 1, 1), 16, 10), (images(2, 64),)),
        "mobilenet": lambda: (models.MobileNet(), (images(2, 64),)),
        "unet": lambda: (models.UNet(), (images(1, 32),)),
        "llama": lambda: (models.Llama(), (ids,)),
    }[name]()
    model, inputs = made
    with torch.no_grad():  # statistics of something, instead of zeros and ones
        for _ in range(2):
            model.train()(*inputs)
    return model.eval(), inputs


MODELS = ["bert", "vit", "resnet", "mobilenet", "unet", "llama"]


def run(model, inputs, df, check=True):
    pybuda.set_configuration_options(default_df_override=df)
    module = pybuda.PyTorchModule("model", model)
    outputs = pybuda.run_inference(module, inputs=[inputs], _verify_cfg=VerifyConfig(verify_all=check)).get(timeout=60)
    with torch.no_grad():
        return outputs[0].value().float(), model(*inputs)


@pytest.mark.parametrize("name", MODELS)
def test_float32_is_torch(models, name):
    got, wanted = run(*build(models, name), None)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("df", "pcc"), [(DataFormat.Float16_b, 0.999), (DataFormat.Float16, 0.9999), (DataFormat.Bfp8_b, 0.995)])
def test_formats(models, name, df, pcc):
    got, wanted = run(*build(models, name), df, check=False)
    assert calculate_pcc(wanted, got) >= pcc
    assert not torch.equal(got, wanted), "a narrower format changes values"


def test_narrower_formats_lose_more(models):
    model, inputs = build(models, "vit")
    lost = []
    for df in (DataFormat.Float16_b, DataFormat.Bfp8_b, DataFormat.Bfp4_b, DataFormat.Bfp2_b):
        pybuda.pybuda_reset()
        got, wanted = run(model, inputs, df, check=False)
        lost.append(1 - calculate_pcc(wanted, got))
    assert lost == sorted(lost)
    assert lost[0] < lost[1] < lost[2]


def test_values_lie_on_the_grid_of_their_format(models):
    """Values at every edge lie on the grid of the format that the edge has."""
    model, inputs = build(models, "bert")
    pybuda.set_configuration_options(default_df_override=DataFormat.Bfp8_b, op_intermediates_to_save=["layer_norm"])
    pybuda.run_inference(pybuda.PyTorchModule("bert", model), inputs=[inputs]).get()
    value = pybuda.get_intermediates_queue().get()[0].value()
    from tessera.graph.formats import quantize

    assert torch.equal(quantize(value, DataFormat.Bfp8_b), value)


def test_mixed_precision_rules_apply_where_they_fit(models):
    model, inputs = build(models, "bert")
    pybuda.config.configure_mixed_precision(name_regex=r".*attention\.(query|value|key)\.weight", output_df=DataFormat.Bfp8_b)
    pybuda.config.configure_mixed_precision(op_type="matmul", math_fidelity=pybuda.MathFidelity.HiFi2, accumulate_df=DataFormat.Float16_b)
    pybuda.run_inference(pybuda.PyTorchModule("bert", model), inputs=[inputs]).get()
    graph = pybuda.get_tenstorrent_device().graph
    narrow = {n.name for n in graph.nodes if n.format is DataFormat.Bfp8_b and n.kind.value == "parameter"}
    assert len(narrow) == 6
    assert all(n.fidelity is pybuda.MathFidelity.HiFi2 and n.accumulate is DataFormat.Float16_b for n in graph.ops("matmul"))
    assert all(n.fidelity is pybuda.MathFidelity.HiFi3 for n in graph.ops("layernorm"))


@pytest.mark.parametrize("default", [None, DataFormat.Float16_b])
def test_amp_level(models, monkeypatch, default):
    monkeypatch.setenv("PYBUDA_AMP_LEVEL", "1")
    pybuda.pybuda_reset()
    model, inputs = build(models, "bert")
    got, wanted = run(model, inputs, default, check=False)
    graph = pybuda.get_tenstorrent_device().graph
    assert {n.format for n in graph.ops("layernorm")} == {DataFormat.Float16_b}
    assert {(n.format, n.fidelity.name) for n in graph.ops("matmul")} == {(DataFormat.Bfp8_b, "HiFi2")}
    assert {n.format for n in graph.ops("add")} == {default or DataFormat.Bfp8_b}, "the rest is in eight bits, or what the user chose"
    assert calculate_pcc(wanted, got) > 0.995


@pytest.mark.parametrize(("level", "df", "fidelity"), [("1", DataFormat.Bfp8_b, "HiFi2"), ("2", DataFormat.Bfp4_b, "LoFi")])
def test_amp_light(models, monkeypatch, level, df, fidelity):
    monkeypatch.setenv("PYBUDA_AMP_LIGHT", level)
    pybuda.pybuda_reset()
    model, inputs = build(models, "bert")
    got, wanted = run(model, inputs, DataFormat.Float16_b, check=False)
    products = pybuda.get_tenstorrent_device().graph.ops("matmul")
    assert {n.inputs[1].format for n in products if n.inputs[1].kind.value == "parameter"} == {df}
    assert {n.fidelity.name for n in products} == {fidelity}
    assert calculate_pcc(wanted, got) > 0.9
