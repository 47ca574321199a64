"""A small perceptron: torch's weights on the device once, three layers in L1, the answer against torch."""

import torch

import ttnn

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128), torch.nn.GELU(), torch.nn.Linear(128, 10)
).eval()
pictures = torch.rand(64, 784)


class Perceptron:
    """Each layer as (weight, bias, activation); the activation is fused into the matmul's program."""

    def __init__(self, model: torch.nn.Sequential, device: ttnn.MeshDevice) -> None:
        names = {torch.nn.ReLU: "relu", torch.nn.GELU: "gelu"}
        self.layers = []
        for place, layer in enumerate(model):
            if isinstance(layer, torch.nn.Linear):
                after = model[place + 1] if place + 1 < len(model) else None
                weight, bias = (
                    ttnn.from_torch(t.detach(), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
                    for t in (layer.weight.T.contiguous(), layer.bias.reshape(1, -1))
                )
                self.layers.append((weight, bias, names.get(type(after))))

    def __call__(self, x: ttnn.Tensor) -> ttnn.Tensor:
        for weight, bias, activation in self.layers:
            x = ttnn.linear(x, weight, bias=bias, activation=activation, memory_config=ttnn.L1_MEMORY_CONFIG)
        return x


def main() -> None:
    with ttnn.manage_device(device_id=0) as device:
        perceptron = Perceptron(model, device)
        logits = perceptron(ttnn.from_torch(pictures, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device))
        got = ttnn.to_torch(logits).float()
    with torch.no_grad():
        want = model(pictures)
    pcc = ttnn.pearson_correlation_coefficient(want, got)
    same = int((got.argmax(-1) == want.argmax(-1)).sum())
    print(f"MLP: PCC {pcc:.6f}, same class for {same} of {len(pictures)} pictures")
    assert pcc > 0.999


if __name__ == "__main__":
    main()
