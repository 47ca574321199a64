"""A Llama-like decoder: RMS norm, rotary embedding, grouped-query attention, a KV cache on the device, greedy decoding.

The prompt is read in one pass that fills the cache; every further word is one pass over one row, attending to the cache. The words must be
those that torch finds in fp32 by reading the whole text again each time.
"""

import torch

import ttnn

VOCABULARY, WIDTH, HEADS, KV_HEADS, HEAD, HIDDEN, LAYERS, LONGEST = 320, 256, 4, 2, 64, 512, 2, 64
PROMPT, NEW, THETA, EPSILON = 32, 8, 10000.0, 1e-5
Weights = dict[str, torch.Tensor]


def make_weights() -> Weights:
    torch.manual_seed(3)
    shapes = {"words": (VOCABULARY, WIDTH), "head": (WIDTH, VOCABULARY)}
    for i in range(LAYERS):
        shapes |= {
            f"{i}.qkv": (WIDTH, (HEADS + 2 * KV_HEADS) * HEAD),
            f"{i}.out": (HEADS * HEAD, WIDTH),
            f"{i}.gate": (WIDTH, HIDDEN),
            f"{i}.up": (WIDTH, HIDDEN),
            f"{i}.down": (HIDDEN, WIDTH),
        }
    weights = {name: torch.randn(shape) / shape[0] ** 0.5 for name, shape in shapes.items()}
    weights["words"] = torch.randn(VOCABULARY, WIDTH)
    return weights | {name: torch.rand(WIDTH) + 0.5 for name in ["norm", *(f"{i}.norm{j}" for i in range(LAYERS) for j in (1, 2))]}


def rotary_tables() -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.outer(torch.arange(LONGEST).float(), THETA ** -(torch.arange(0, HEAD, 2).float() / HEAD))
    angles = torch.cat([angles, angles], dim=-1).reshape(1, 1, LONGEST, HEAD)
    return angles.cos(), angles.sin()


# -- the reference


def torch_logits(words: torch.Tensor, w: Weights) -> torch.Tensor:
    """Logits after the last word, all in fp32 and with nothing remembered."""
    cos, sin = (table[:, :, : len(words)] for table in rotary_tables())
    norm = torch.nn.functional.rms_norm

    def turned(x: torch.Tensor) -> torch.Tensor:
        low, high = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-high, low], dim=-1) * sin

    def heads(x: torch.Tensor, count: int) -> torch.Tensor:
        return x.reshape(1, len(words), count, HEAD).transpose(1, 2)

    x = w["words"][words][None]
    for i in range(LAYERS):
        q, k, v = (norm(x, (WIDTH,), w[f"{i}.norm1"], EPSILON) @ w[f"{i}.qkv"]).split(
            [HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD], dim=-1
        )
        attended = torch.nn.functional.scaled_dot_product_attention(
            turned(heads(q, HEADS)), turned(heads(k, KV_HEADS)), heads(v, KV_HEADS), is_causal=True, enable_gqa=True
        )
        x = x + attended.transpose(1, 2).reshape(1, len(words), WIDTH) @ w[f"{i}.out"]
        normed = norm(x, (WIDTH,), w[f"{i}.norm2"], EPSILON)
        x = x + (torch.nn.functional.silu(normed @ w[f"{i}.gate"]) * (normed @ w[f"{i}.up"])) @ w[f"{i}.down"]
    return (norm(x[:, -1], (WIDTH,), w["norm"], EPSILON) @ w["head"])[0]


# -- on the device


class Decoder:
    def __init__(self, weights: Weights, device: ttnn.MeshDevice) -> None:
        self.device = device
        self.weights = {name: self.put(w) for name, w in weights.items() if name != "words"}
        self.words = self.put(weights["words"], layout=ttnn.ROW_MAJOR_LAYOUT)
        self.cos, self.sin = map(self.put, rotary_tables())
        self.caches = [tuple(self.put(torch.zeros(1, KV_HEADS, LONGEST, HEAD)) for _ in range(2)) for _ in range(LAYERS)]

    def put(self, tensor: torch.Tensor, dtype: ttnn.DataType = ttnn.bfloat16, layout: ttnn.Layout = ttnn.TILE_LAYOUT) -> ttnn.Tensor:
        return ttnn.from_torch(tensor, dtype=dtype, layout=layout, device=self.device)

    def norm(self, x: ttnn.Tensor, name: str) -> ttnn.Tensor:
        return ttnn.rms_norm(x, weight=self.weights[name], epsilon=EPSILON, memory_config=ttnn.L1_MEMORY_CONFIG)

    def embed(self, words: list[int]) -> ttnn.Tensor:
        indices = self.put(torch.tensor([words], dtype=torch.int32), dtype=ttnn.uint32, layout=ttnn.ROW_MAJOR_LAYOUT)
        return ttnn.reshape(ttnn.embedding(indices, self.words, layout=ttnn.TILE_LAYOUT), (1, 1, len(words), WIDTH))

    def __call__(self, words: list[int], start: int) -> torch.Tensor:
        """Logits after the last of `words`, which stand at `start` in the text; the cache knows what came before."""
        x = self.embed(words)
        for i in range(LAYERS):
            qkv = ttnn.linear(self.norm(x, f"{i}.norm1"), self.weights[f"{i}.qkv"], memory_config=ttnn.L1_MEMORY_CONFIG)
            query, key, value = ttnn.experimental.nlp_create_qkv_heads(qkv, num_heads=HEADS, num_kv_heads=KV_HEADS, transpose_k_heads=False)
            token = None if len(words) > 1 else start
            query, key = (ttnn.experimental.rotary_embedding(t, self.cos, self.sin, token) for t in (query, key))
            attended = self.prefill(i, query, key, value) if len(words) > 1 else self.decode(i, query, key, value, start)
            x = ttnn.add(x, ttnn.linear(attended, self.weights[f"{i}.out"]))
            normed = self.norm(x, f"{i}.norm2")
            gate = ttnn.linear(normed, self.weights[f"{i}.gate"], activation="silu", memory_config=ttnn.L1_MEMORY_CONFIG)
            up = ttnn.linear(normed, self.weights[f"{i}.up"], memory_config=ttnn.L1_MEMORY_CONFIG)
            x = ttnn.add(x, ttnn.linear(ttnn.mul(gate, up), self.weights[f"{i}.down"]))
        last = ttnn.slice(x, [0, 0, len(words) - 1, 0], [1, 1, len(words), WIDTH])
        return ttnn.to_torch(ttnn.linear(self.norm(last, "norm"), self.weights["head"])).float().flatten()

    def prefill(self, layer: int, query: ttnn.Tensor, key: ttnn.Tensor, value: ttnn.Tensor) -> ttnn.Tensor:
        for cache, fresh in zip(self.caches[layer], (key, value), strict=True):
            ttnn.kv_cache.fill_cache_for_user_(cache, fresh, 0)
        attended = ttnn.transformer.scaled_dot_product_attention(query, key, value, is_causal=True)
        return ttnn.experimental.nlp_concat_heads(attended)

    def decode(self, layer: int, query: ttnn.Tensor, key: ttnn.Tensor, value: ttnn.Tensor, place: int) -> ttnn.Tensor:
        keys, values = self.caches[layer]
        for cache, fresh in ((keys, key), (values, value)):
            # The rotary embedding of one word answers a whole tile of rows; the cache takes the first.
            row = ttnn.slice(fresh, [0, 0, 0, 0], [1, KV_HEADS, 1, HEAD])
            ttnn.kv_cache.update_cache_for_token_(cache, row, place)
        row = ttnn.slice(query, [0, 0, 0, 0], [1, HEADS, 1, HEAD])
        one_row = ttnn.permute(row, (0, 2, 1, 3))  # (1, users, heads, head)
        attended = ttnn.transformer.scaled_dot_product_attention_decode(one_row, keys, values, cur_pos=[place])
        return ttnn.reshape(attended, (1, 1, 1, HEADS * HEAD))


def main() -> None:
    weights = make_weights()
    words = torch.randint(0, VOCABULARY, (PROMPT,), generator=torch.Generator().manual_seed(1)).tolist()
    worst, same = 1.0, 0
    with ttnn.manage_device(device_id=0) as device:
        decoder = Decoder(weights, device)
        logits = decoder(words, 0)
        for _ in range(NEW):
            want = torch_logits(torch.tensor(words), weights)
            worst = min(worst, ttnn.pearson_correlation_coefficient(want, logits))
            same += int(want.argmax() == logits.argmax())
            words.append(int(logits.argmax()))
            logits = decoder(words[-1:], len(words) - 1)
    print(f"Llama-like decoder: {NEW} words after a prompt of {PROMPT}, {same} as torch chooses, worst PCC of the logits {worst:.6f}")
    assert worst > 0.998


if __name__ == "__main__":
    main()
