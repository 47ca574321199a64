"""ResNet-18, channels last: batch norms folded into the convolutions, max pool, residuals in L1, a classifier at the end."""

from __future__ import annotations

import torch

import ttnn

SIDE, CLASSES = 64, 10
WIDTHS = (64, 128, 256, 512)


class TorchBlock(torch.nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.first_norm = torch.nn.BatchNorm2d(outside)
        self.second = torch.nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.second_norm = torch.nn.BatchNorm2d(outside)
        self.shortcut = torch.nn.Conv2d(inside, outside, 1, stride, bias=False) if stride > 1 else None
        self.shortcut_norm = torch.nn.BatchNorm2d(outside) if stride > 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first_norm(self.first(x)))
        y = self.second_norm(self.second(y))
        return torch.relu(y + (self.shortcut_norm(self.shortcut(x)) if self.shortcut else x))


class TorchResNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.stem_norm = torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(64)
        places = list(zip((64, *WIDTHS), WIDTHS, (1, 2, 2, 2)))
        self.blocks = torch.nn.ModuleList(b for i, o, s in places for b in (TorchBlock(i, o, s), TorchBlock(o, o, 1)))
        self.classifier = torch.nn.Linear(512, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.max_pool2d(torch.relu(self.stem_norm(self.stem(x))), 3, 2, 1)
        for block in self.blocks:
            x = block(x)
        return self.classifier(x.mean(dim=(2, 3)))


class Convolution:
    """A convolution with its batch norm folded in. Pictures are (1, 1, N*H*W, C); it answers the new picture and its sides."""

    def __init__(self, conv: torch.nn.Conv2d, norm: torch.nn.BatchNorm2d) -> None:
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        bias = norm.bias - norm.running_mean * scale
        self.weight = ttnn.from_torch((conv.weight * scale.reshape(-1, 1, 1, 1)).detach(), dtype=ttnn.bfloat16)
        self.bias = ttnn.from_torch(bias.detach().reshape(1, 1, 1, -1), dtype=ttnn.bfloat16)
        self.conv = conv

    def __call__(self, x: ttnn.Tensor, batch: int, sides: tuple[int, int], *, relu: bool) -> tuple[ttnn.Tensor, tuple[int, int]]:
        activation = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU) if relu else None
        return ttnn.conv2d(
            input_tensor=x,
            weight_tensor=self.weight,
            bias_tensor=self.bias,
            device=x.device(),
            in_channels=self.conv.in_channels,
            out_channels=self.conv.out_channels,
            batch_size=batch,
            input_height=sides[0],
            input_width=sides[1],
            kernel_size=self.conv.kernel_size,
            stride=self.conv.stride,
            padding=self.conv.padding,
            conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat16, activation=activation),
            memory_config=ttnn.L1_MEMORY_CONFIG,
            return_output_dim=True,
        )


class Block:
    def __init__(self, block: TorchBlock) -> None:
        self.first = Convolution(block.first, block.first_norm)
        self.second = Convolution(block.second, block.second_norm)
        self.shortcut = Convolution(block.shortcut, block.shortcut_norm) if block.shortcut else None

    def __call__(self, x: ttnn.Tensor, batch: int, sides: tuple[int, int]) -> tuple[ttnn.Tensor, tuple[int, int]]:
        y, smaller = self.first(x, batch, sides, relu=True)
        y, smaller = self.second(y, batch, smaller, relu=False)
        if self.shortcut:
            x, _ = self.shortcut(x, batch, sides, relu=False)
        return ttnn.relu(ttnn.add(y, x, memory_config=ttnn.L1_MEMORY_CONFIG)), smaller


class ResNet:
    def __init__(self, model: TorchResNet, device: ttnn.MeshDevice) -> None:
        self.device = device
        self.stem = Convolution(model.stem, model.stem_norm)
        self.blocks = [Block(block) for block in model.blocks]
        put = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, "device": device}
        self.weight = ttnn.from_torch(model.classifier.weight.detach().T.contiguous(), **put)
        self.bias = ttnn.from_torch(model.classifier.bias.detach().reshape(1, -1), **put)

    def __call__(self, pictures: torch.Tensor) -> ttnn.Tensor:
        batch, sides = pictures.shape[0], (SIDE, SIDE)
        pixels = pictures.permute(0, 2, 3, 1).reshape(1, 1, -1, 3)
        x = ttnn.from_torch(pixels, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=self.device)
        x, sides = self.stem(x, batch, sides, relu=True)
        x = ttnn.max_pool2d(x, batch, *sides, 64, [3, 3], [2, 2], [1, 1], [1, 1])
        sides = tuple((side - 1) // 2 + 1 for side in sides)
        x = ttnn.to_layout(ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG), ttnn.TILE_LAYOUT)  # its shards are no whole tiles
        for block in self.blocks:
            x, sides = block(x, batch, sides)
        x = ttnn.reshape(ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT), (batch, 1, sides[0] * sides[1], 512))
        x = ttnn.mean(ttnn.to_layout(x, ttnn.TILE_LAYOUT), dim=-2)
        return ttnn.linear(x, self.weight, bias=self.bias)


def settle(model: TorchResNet) -> TorchResNet:
    """Batch norms that have seen something, as in a trained model."""
    with torch.no_grad():
        model.train()
        for _ in range(3):
            model(torch.randn(8, 3, SIDE, SIDE))
    return model.eval()


def main() -> None:
    torch.manual_seed(0)
    model, pictures = settle(TorchResNet()), torch.randn(2, 3, SIDE, SIDE)
    device = ttnn.open_device(device_id=0, l1_small_size=16384)  # convolutions and pools keep their tables in L1_SMALL
    got = ttnn.to_torch(ResNet(model, device)(pictures)).float().reshape(2, CLASSES)
    ttnn.close_device(device)
    with torch.no_grad():
        want = model(pictures)
    pcc = ttnn.pearson_correlation_coefficient(want, got)
    print(f"ResNet-18 on pictures of {SIDE} x {SIDE}: PCC {pcc:.6f}")
    assert pcc > 0.999


if __name__ == "__main__":
    main()
