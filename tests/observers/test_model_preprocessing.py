"""`ttnn.model_preprocessing`: torch modules in, parameters and arguments in the shape of the module out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ttnn
from ttnn.model_preprocessing import (
    Conv2dArgs,
    MaxPool2dArgs,
    ParameterDict,
    ParameterList,
    fold_batch_norm2d_into_conv2d,
    infer_ttnn_module_args,
    load_parameters,
    make_parameter_dict,
    preprocess_linear_bias,
    preprocess_linear_weight,
    preprocess_model,
    preprocess_model_parameters,
)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        self.layers = nn.ModuleList([Block(32), Block(32)])
        self.scale = nn.Parameter(torch.ones(32))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) * self.scale
        for layer in self.layers:
            x = layer(x)
        return x


class Vision(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.layer1 = nn.Sequential(nn.Conv2d(8, 16, (3, 1), padding="same", bias=False), nn.BatchNorm2d(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer1(self.pool(self.conv1(x)))


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    with ttnn.manage_config("model_cache_path", tmp_path), ttnn.manage_config("enable_model_cache", True):
        yield tmp_path


def test_a_language_model_runs_on_its_parameters(device: Any) -> None:
    torch.manual_seed(0)
    model = Language().eval()
    p = preprocess_model_parameters(initialize_model=lambda: model, device=device)
    assert isinstance(p, ParameterDict) and isinstance(p.layers, ParameterList) and len(p.layers) == 2
    assert list(p.layers[0].up.weight.shape) == [32, 64] and list(p.layers[0].up.bias.shape) == [1, 64]
    assert p.words.weight.layout == ttnn.ROW_MAJOR_LAYOUT and p.words.weight.dtype == ttnn.bfloat16
    assert p.layers[0].up.weight.device() is device and list(p.scale.shape) == [32]
    assert "bias" not in p.layers[0].down
    ids = torch.randint(0, 50, (1, 32))
    x = ttnn.from_torch(model.words(ids), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    for layer in p.layers:
        y = ttnn.layer_norm(x, weight=layer.norm.weight, bias=layer.norm.bias)
        y = ttnn.linear(y, layer.up.weight, bias=layer.up.bias, activation="relu")
        x = ttnn.add(x, ttnn.linear(y, layer.down.weight))
    assert ttnn.comparison.comp_pcc(model(ids), ttnn.to_torch(x).float(), 0.999)[0]


def test_which_modules_are_converted() -> None:
    p = preprocess_model_parameters(initialize_model=lambda: Language().eval(), convert_to_ttnn=lambda m, name: name != "layers.1.up")
    assert isinstance(p.layers[0].up.weight, ttnn.Tensor)
    assert isinstance(p.layers[1].up.weight, torch.Tensor) and list(p.layers[1].up.weight.shape) == [64, 32]
    assert isinstance(p.layers[1].down.weight, ttnn.Tensor)


def test_custom_preprocessors() -> None:
    names = []

    def custom(model: nn.Module, name: str) -> dict[str, Any]:
        names.append(name)
        if isinstance(model, Block):
            weight = preprocess_linear_weight(model.up.weight, dtype=ttnn.bfloat8_b)
            return {"up": {"weight": weight, "bias": preprocess_linear_bias(model.up.bias, dtype=ttnn.bfloat8_b)}}
        return {}

    p = preprocess_model_parameters(initialize_model=lambda: Language().eval(), custom_preprocessor=custom, prefix="model")
    assert p.layers[1].up.weight.dtype == ttnn.bfloat8_b and list(p.layers[0]) == ["up"]
    assert names == ["model", "model.words", "model.layers", "model.layers.0", "model.layers.1"]


def test_custom_preprocessors_are_given_the_words_they_know() -> None:
    given = []

    def custom(model: nn.Module, name: str, ttnn_module_args: Any, convert_to_ttnn: Any) -> dict[str, Any]:
        given.append((name, ttnn_module_args))
        return {}

    preprocess_model_parameters(
        initialize_model=lambda: Vision().eval(), custom_preprocessor=custom, run_model=lambda m: m(torch.zeros(1, 3, 32, 32))
    )
    assert dict(given)["layer1.0"].in_channels == 8 and dict(given)["layer1.1"] is None


def test_arguments_of_convolutions_and_poolings(device: Any) -> None:
    args = infer_ttnn_module_args(model=Vision().eval(), run_model=lambda m: m(torch.zeros(2, 3, 32, 48)), device=device)
    assert isinstance(args.conv1, Conv2dArgs) and isinstance(args.pool, MaxPool2dArgs)
    conv = args.conv1
    assert (conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding) == (3, 8, (3, 3), (2, 2), (1, 1))
    assert (conv.batch_size, conv.input_height, conv.input_width, conv.device) == (2, 32, 48, device)
    assert (args.pool.kernel_size, args.pool.stride, args.pool.channels, args.pool.input_width) == ((2, 2), (2, 2), 8, 24)
    assert args.layer1[0].padding == (1, 0) and args.layer1[0].input_height == 8
    assert infer_ttnn_module_args(model=nn.Linear(2, 2), run_model=lambda m: m(torch.zeros(1, 2))) is None


def test_preprocess_model_gives_arguments_with_parameters() -> None:
    p = preprocess_model(initialize_model=lambda: Vision().eval(), run_model=lambda m: m(torch.zeros(1, 3, 32, 32)))
    assert p.conv1.ttnn_module_args.input_height == 32 and list(p.conv1.weight.shape) == [8, 3, 3, 3]
    assert list(p.conv1.bias.shape) == [1, 1, 1, 8] and "bias" not in p.layer1[0]
    assert list(p.layer1[1].running_mean.shape) == [16]


@pytest.mark.parametrize(("bias", "affine"), [(True, True), (False, True), (True, False)])
def test_batch_norms_fold_into_convolutions(bias: bool, affine: bool) -> None:
    torch.manual_seed(0)
    conv, bn = nn.Conv2d(3, 8, 3, bias=bias), nn.BatchNorm2d(8, affine=affine)
    for _ in range(3):
        bn(conv(torch.randn(4, 3, 9, 9)) * 3 + 1)
    if affine:
        nn.init.normal_(bn.weight)
        nn.init.normal_(bn.bias)
    bn.eval()
    weight, folded = fold_batch_norm2d_into_conv2d(conv, bn)
    assert list(folded.shape) == [1, 1, 1, 8] and not weight.requires_grad
    x = torch.randn(2, 3, 9, 9)
    assert torch.allclose(nn.functional.conv2d(x, weight, folded.flatten()), bn(conv(x)), atol=1e-5)


def test_what_cannot_be_folded() -> None:
    with pytest.raises(RuntimeError, match="track_running_stats"):
        fold_batch_norm2d_into_conv2d(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, track_running_stats=False))
    with pytest.raises(RuntimeError, match="4 features"):
        fold_batch_norm2d_into_conv2d(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(4))


def _language() -> nn.Module:
    _made.append(1)
    torch.manual_seed(1)
    return Language().eval()


_made: list[int] = []


def test_the_cache(cache: Path, device: Any) -> None:
    _made.clear()
    keep_up = {"convert_to_ttnn": lambda m, name: name != "layers.1.up"}
    first = preprocess_model_parameters("lang/uage", initialize_model=_language, **keep_up)
    second = preprocess_model_parameters("lang/uage", initialize_model=_language, device=device, **keep_up)
    assert len(_made) == 1 and [p.name for p in cache.iterdir()] == ["lang_uage"]
    for a, b in ((first.words, second.words), (first.layers[0].up, second.layers[0].up)):
        assert torch.equal(ttnn.to_torch(a.weight), ttnn.to_torch(b.weight)) and b.weight.device() is device
    assert torch.equal(first.layers[1].up.weight, second.layers[1].up.weight)
    assert isinstance(load_parameters(cache / "lang_uage").layers, ParameterList)
    # Other functions, other parameters; a damaged cache is made anew.
    preprocess_model_parameters("lang/uage", initialize_model=_language)
    assert len(_made) == 2
    next((cache / "lang_uage").glob("1.tensorbin")).write_bytes(b"short")
    preprocess_model_parameters("lang/uage", initialize_model=_language)
    assert len(_made) == 3
    with ttnn.manage_config("enable_model_cache", False):
        preprocess_model_parameters("lang/uage", initialize_model=_language)
    assert len(_made) == 4


def test_parameter_dicts() -> None:
    p = make_parameter_dict({"a": {"b": [1, {"c": 2}]}})
    assert isinstance(p.a.b, ParameterList) and p.a.b[1].c == 2
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        preprocess_model_parameters(initialize_model=lambda: 3)  # type: ignore[arg-type,return-value]
