"""Every example runs."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

import pytest

import pybuda

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "pybuda"
FILES = sorted(p.name for p in FOLDER.glob("*.py") if p.name != "models.py")


@pytest.mark.parametrize("name", FILES)
def test_example(name, monkeypatch, capsys):
    if name == "onnx_model.py":
        pytest.importorskip("onnx")
    monkeypatch.syspath_prepend(str(FOLDER))
    sys.modules.pop("models", None)
    try:
        runpy.run_path(str(FOLDER / name), run_name="__main__")
    finally:
        sys.modules.pop("models", None)
        pybuda.pybuda_reset()
    assert capsys.readouterr().out


def test_the_quick_start_runs_without_transformers(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.syspath_prepend(str(FOLDER))
    runpy.run_path(str(FOLDER / "quick_start.py"), run_name="__main__")
    sys.modules.pop("models", None)


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
def test_bert_made_by_transformers():
    import torch
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=128, vocab_size=100)).eval()
    ids, mask = torch.randint(0, 100, (2, 16)), torch.ones(2, 16, dtype=torch.long)
    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("bert", model))
    tt0.push_to_inputs({"input_ids": ids, "attention_mask": mask})
    got = pybuda.run_inference().get()
    with torch.no_grad():
        want = model(input_ids=ids, attention_mask=mask)
    torch.testing.assert_close(got[0].value(), want.last_hidden_state, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(got[1].value(), want.pooler_output, rtol=1e-5, atol=1e-5)
    pybuda.config.configure_mixed_precision(
        name_regex="layer.*.attention.self.(query|value|key).weight", output_df=pybuda.DataFormat.Bfp8_b
    )
    pybuda.shutdown()
    pybuda.run_inference(pybuda.PyTorchModule("encoder", model.encoder), inputs=[torch.randn(1, 16, 64)]).get()
    narrow = [n.name for n in pybuda.get_tenstorrent_device().graph.nodes if n.format is pybuda.DataFormat.Bfp8_b]
    assert len(narrow) == 6


def test_the_demo(capsys):
    from pybuda import demo

    assert demo.main() == 0
    assert "PCC" in capsys.readouterr().out
