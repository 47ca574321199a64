"""A BERT encoder: embeddings, padded sequences under a mask, attention with fused heads, post-norm residuals."""

import torch

import ttnn

VOCABULARY, WIDTH, HEADS, HIDDEN, LAYERS, TOKENS, BATCH = 500, 256, 4, 1024, 2, 64, 2
EPSILON = 1e-12


class TorchEncoder(torch.nn.Module):
    """The reference, with torch's own encoder layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Embedding(TOKENS, WIDTH)
        self.norm = torch.nn.LayerNorm(WIDTH, eps=EPSILON)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, 0.0, "gelu", EPSILON, batch_first=True) for _ in range(LAYERS)
        )

    def forward(self, words: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.words(words) + self.places.weight)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=padding)
        return x


class Encoder:
    def __init__(self, model: TorchEncoder, device: ttnn.MeshDevice) -> None:
        self.device = device
        self.words = self.put(model.words.weight, layout=ttnn.ROW_MAJOR_LAYOUT)
        self.places = self.put(model.places.weight.unsqueeze(0))
        self.norm = self.pair(model.norm)
        self.layers = [self.layer(layer) for layer in model.layers]

    def put(self, tensor: torch.Tensor, dtype: ttnn.DataType = ttnn.bfloat16, layout: ttnn.Layout = ttnn.TILE_LAYOUT) -> ttnn.Tensor:
        return ttnn.from_torch(tensor.detach().contiguous(), dtype=dtype, layout=layout, device=self.device)

    def pair(self, module: torch.nn.Module) -> tuple[ttnn.Tensor, ttnn.Tensor]:
        """Weight and bias, matrices turned so that the chip multiplies from the right."""
        return self.matrix(module.weight, module.bias)

    def matrix(self, weight: torch.Tensor, bias: torch.Tensor) -> tuple[ttnn.Tensor, ttnn.Tensor]:
        return self.put(weight.T if weight.dim() == 2 else weight), self.put(bias.reshape(1, -1) if weight.dim() == 2 else bias)

    def layer(self, layer: torch.nn.TransformerEncoderLayer) -> dict[str, tuple[ttnn.Tensor, ttnn.Tensor]]:
        attention = layer.self_attn
        return {
            "qkv": self.matrix(attention.in_proj_weight, attention.in_proj_bias),
            "out": self.pair(attention.out_proj),
            "attention_norm": self.pair(layer.norm1),
            "up": self.pair(layer.linear1),
            "down": self.pair(layer.linear2),
            "norm": self.pair(layer.norm2),
        }

    def __call__(self, words: torch.Tensor, padding: torch.Tensor) -> ttnn.Tensor:
        indices = ttnn.from_torch(words.to(torch.int32), dtype=ttnn.uint32, device=self.device)
        mask = self.put(torch.zeros(BATCH, 1, 1, TOKENS).masked_fill(padding[:, None, None, :], -1e9).expand(-1, -1, TOKENS, -1))
        x = ttnn.add(ttnn.embedding(indices, self.words, layout=ttnn.TILE_LAYOUT), self.places)
        x = self.normalised(x, self.norm)
        for layer in self.layers:
            qkv = ttnn.linear(x, layer["qkv"][0], bias=layer["qkv"][1], memory_config=ttnn.L1_MEMORY_CONFIG)
            query, key, value = ttnn.transformer.split_query_key_value_and_split_heads(qkv, num_heads=HEADS, transpose_key=True)
            scores = ttnn.matmul(query, key, memory_config=ttnn.L1_MEMORY_CONFIG)
            shares = ttnn.transformer.attention_softmax(scores, head_size=WIDTH // HEADS, attention_mask=mask)
            context = ttnn.transformer.concatenate_heads(ttnn.matmul(shares, value))
            x = self.normalised(ttnn.add(x, ttnn.linear(context, layer["out"][0], bias=layer["out"][1])), layer["attention_norm"])
            up = ttnn.linear(x, layer["up"][0], bias=layer["up"][1], activation="gelu", memory_config=ttnn.L1_MEMORY_CONFIG)
            x = self.normalised(ttnn.add(x, ttnn.linear(up, layer["down"][0], bias=layer["down"][1])), layer["norm"])
        return x

    def normalised(self, x: ttnn.Tensor, norm: tuple[ttnn.Tensor, ttnn.Tensor]) -> ttnn.Tensor:
        return ttnn.layer_norm(x, weight=norm[0], bias=norm[1], epsilon=EPSILON)


def main() -> None:
    torch.manual_seed(0)
    model = TorchEncoder().eval()
    words, lengths = torch.randint(0, VOCABULARY, (BATCH, TOKENS)), torch.tensor([TOKENS, 40])
    padding = torch.arange(TOKENS)[None] >= lengths[:, None]
    with ttnn.manage_device(device_id=0) as device:
        got = ttnn.to_torch(Encoder(model, device)(words, padding)).float()
    with torch.no_grad():
        want = model(words, padding)
    pcc = ttnn.pearson_correlation_coefficient(want[~padding], got[~padding])
    print(f"BERT encoder of {LAYERS} layers, {int((~padding).sum())} words in {BATCH} sentences: PCC {pcc:.6f}")
    assert pcc > 0.999


if __name__ == "__main__":
    main()
