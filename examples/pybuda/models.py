"""Six architectures in plain torch, with random weights and sizes from their arguments: what the examples, tests and benchmarks run."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SelfAttention(nn.Module):
    """Attention written out by hand, as older models have it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, n, w = x.shape
        q, k, v = (layer(x).view(b, n, self.heads, w // self.heads).transpose(1, 2) for layer in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(w // self.heads)
        if mask is not None:
            scores = scores + mask
        return torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2).reshape(b, n, w)


class BertLayer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.output = nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.output(self.attention(x, mask)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class BertEncoder(nn.Module):
    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, inner: int = 3072) -> None:
        super().__init__()
        self.layer = nn.ModuleList(BertLayer(width, heads, inner) for _ in range(layers))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for layer in self.layer:
            x = layer(x, mask)
        return x


class Bert(nn.Module):
    def __init__(
        self, vocabulary: int = 1000, layers: int = 2, width: int = 128, heads: int = 4, inner: int = 256, positions: int = 128
    ) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.norm = nn.LayerNorm(width)
        self.encoder = BertEncoder(layers, width, heads, inner)
        self.head = nn.Linear(width, 2)

    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        where = torch.arange(ids.shape[1])
        mask = (1.0 - attention_mask[:, None, None, :].float()) * -1e4
        return self.head(self.encoder(self.norm(self.words(ids) + self.positions(where)), mask))


class ViT(nn.Module):
    def __init__(self, image: int = 32, patch: int = 8, layers: int = 2, width: int = 128, heads: int = 4, classes: int = 10) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.place = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        block = nn.TransformerEncoderLayer(width, heads, width * 4, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bottleneck(nn.Module):
    def __init__(self, inside: int, middle: int, stride: int) -> None:
        super().__init__()
        out = middle * 4
        self.conv1, self.bn1 = nn.Conv2d(inside, middle, 1, bias=False), nn.BatchNorm2d(middle)
        self.conv2, self.bn2 = nn.Conv2d(middle, middle, 3, stride, 1, bias=False), nn.BatchNorm2d(middle)
        self.conv3, self.bn3 = nn.Conv2d(middle, out, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = (
            nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out)) if stride != 1 or inside != out else None
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """ResNet-50 with the default arguments."""

    def __init__(self, blocks: tuple[int, ...] = (3, 4, 6, 3), base: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, base, 7, 2, 3, bias=False), nn.BatchNorm2d(base), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        layers, inside = [], base
        for stage, count in enumerate(blocks):
            for index in range(count):
                middle = base * 2**stage
                layers.append(Bottleneck(inside, middle, 2 if stage and not index else 1))
                inside = middle * 4
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(inside, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.adaptive_avg_pool2d(self.layers(self.stem(x)), 1).flatten(1))


class InvertedResidual(nn.Module):
    def __init__(self, inside: int, out: int, stride: int, factor: int) -> None:
        super().__init__()
        wide = inside * factor
        self.skip = stride == 1 and inside == out
        self.body = nn.Sequential(
            nn.Conv2d(inside, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True),
            nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.skip else self.body(x)


class MobileNet(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        plan = [(16, 24, 2, 4), (24, 24, 1, 4), (24, 32, 2, 4), (32, 32, 1, 4)]
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.body = nn.Sequential(*(InvertedResidual(*p) for p in plan))
        self.head = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.stem(x)).mean((2, 3)))


class UNet(nn.Module):
    def __init__(self, width: int = 16, depth: int = 2, classes: int = 2) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(depth + 1)]
        self.down = nn.ModuleList(self._double(a, b) for a, b in zip([3, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(self._double(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _double(a: int, b: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(a, b, 3, 1, 1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, 1, 1), nn.BatchNorm2d(b), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for level in reversed(range(len(self.up))):
            x = self.join[level](torch.cat([kept[level], self.up[level](x)], 1))
        return self.head(x)


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class LlamaLayer(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, n, w = x.shape
        y = self.norm1(x)
        q = rotate(self.q(y).view(b, n, self.heads, self.size).transpose(1, 2), cos, sin)
        k = rotate(self.k(y).view(b, n, self.groups, self.size).transpose(1, 2), cos, sin)
        v = self.v(y).view(b, n, self.groups, self.size).transpose(1, 2)
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=n > 1).transpose(1, 2).reshape(b, n, w))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(
        self, vocabulary: int = 1000, layers: int = 2, width: int = 128, heads: int = 4, groups: int = 2, inner: int = 256
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaLayer(width, heads, groups, inner) for _ in range(layers))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("rates", 10000.0 ** (-torch.arange(0, width // heads, 2).float() / (width // heads)))

    def forward(self, ids: Tensor) -> Tensor:
        angles = torch.arange(ids.shape[1]).float()[:, None] * self.rates[None]
        angles = torch.cat([angles, angles], -1)
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, angles.cos().to(x.dtype), angles.sin().to(x.dtype))
        return self.head(self.norm(x))
