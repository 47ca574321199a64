"""Quick Start: wrap a model, create a device, run. A BERT encoder with random weights, made from a configuration; nothing is downloaded."""

import torch

import pybuda

try:
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(num_hidden_layers=2, hidden_size=128, num_attention_heads=4, intermediate_size=512)).eval()
    encoder, hidden_size = model.encoder, model.config.hidden_size
except ImportError:  # the transformers package is only one way to come by a model
    from models import BertEncoder

    encoder, hidden_size = BertEncoder(layers=2, width=128, heads=4, inner=512).eval(), 128

module = pybuda.PyTorchModule("bert_encoder", encoder)

tt0 = pybuda.TTDevice(
    "tt0",
    module=module,
    arch=pybuda.BackendDevice.Wormhole_B0,
    devtype=pybuda.BackendType.Silicon,
)

seq_len = 128
input = torch.randn(1, seq_len, hidden_size)

output_queue = pybuda.run_inference(inputs=[input])
output = output_queue.get()
print(output)

with torch.no_grad():
    expected = encoder(input)
expected = expected if isinstance(expected, torch.Tensor) else expected[0]
assert torch.allclose(output[0].value(), expected, atol=1e-5)
