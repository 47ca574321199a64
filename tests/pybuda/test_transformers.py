"""Architectures as the transformers library writes them, from small configurations with random weights."""

from __future__ import annotations

import pytest
import torch

import pybuda
from pybuda.verify import calculate_pcc

T = pytest.importorskip("transformers")

SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
TOKENS = {**SMALL, "vocab_size": 100, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
IDS, IMAGE = torch.randint(3, 100, (1, 16)), torch.randn(1, 3, 64, 64)
MODELS = {
    "llama": (lambda: T.LlamaForCausalLM(T.LlamaConfig(**TOKENS, num_key_value_heads=2, use_cache=False)), {"input_ids": IDS}),
    "gpt2": (lambda: T.GPT2LMHeadModel(T.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100, bos_token_id=1, eos_token_id=2, use_cache=False)), {"input_ids": IDS}),
    "roberta": (lambda: T.RobertaModel(T.RobertaConfig(**TOKENS)), {"input_ids": IDS, "attention_mask": torch.ones(1, 16, dtype=torch.long)}),
    "t5 encoder": (lambda: T.T5EncoderModel(T.T5Config(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=100)), {"input_ids": IDS}),
    "vit": (lambda: T.ViTModel(T.ViTConfig(**SMALL, image_size=64)), {"pixel_values": IMAGE}),
    "resnet": (lambda: T.ResNetModel(T.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 1, 1])), {"pixel_values": IMAGE}),
    "mobilenet": (lambda: T.MobileNetV2Model(T.MobileNetV2Config(image_size=64)), {"pixel_values": IMAGE}),
    "swin": (lambda: T.SwinModel(T.SwinConfig(image_size=64, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4)), {"pixel_values": IMAGE}),
    "convnext": (lambda: T.ConvNextModel(T.ConvNextConfig(hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 1, 1])), {"pixel_values": IMAGE}),
    "segformer": (
        lambda: T.SegformerModel(T.SegformerConfig(hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4])),
        {"pixel_values": IMAGE},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_model(name):
    build, inputs = MODELS[name]
    model = build().eval()
    with torch.no_grad():
        wanted = [t for t in torch.utils._pytree.tree_leaves(model(**inputs)) if isinstance(t, torch.Tensor)]
    for df, pcc in ((None, 0.9999999), (pybuda.DataFormat.Float16_b, 0.999)):
        pybuda.pybuda_reset()
        pybuda.set_configuration_options(default_df_override=df)
        tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("model", model))
        tt0.push_to_inputs(inputs)
        got = pybuda.run_inference().get(timeout=60)
        assert len(got) == len(wanted)
        for value, want in zip(got, wanted):
            assert calculate_pcc(want, value.value().float()) >= pcc
