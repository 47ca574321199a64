"""What TT-NN's convolutions, poolings and group norms must be told and torch's find out: the shapes that come in. The model is run once to see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import ttnn
from ttnn.dot_access import DotAccessDict

__all__ = ["Conv2dArgs", "GroupNormArgs", "MaxPool2dArgs", "ModuleArgs", "infer_ttnn_module_args"]


class ModuleArgs(DotAccessDict):
    """The arguments of one module, or of those inside it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.items())})"


class Conv2dArgs(ModuleArgs):
    """Of a convolution."""


class MaxPool2dArgs(ModuleArgs):
    """Of a pooling."""


class GroupNormArgs(ModuleArgs):
    """Of a group norm."""


def _pair(value: Any) -> tuple[int, int]:
    return (int(value[0]), int(value[1])) if isinstance(value, (tuple, list)) else (int(value), int(value))


def _padding(module: torch.nn.Conv2d) -> tuple[int, int]:
    if module.padding == "valid":
        return (0, 0)
    if module.padding == "same":
        return tuple(d * (k - 1) // 2 for d, k in zip(module.dilation, module.kernel_size))  # type: ignore[return-value]
    return _pair(module.padding)


def _conv2d(module: torch.nn.Conv2d, shape: torch.Size, device: Any) -> ModuleArgs:
    return Conv2dArgs(
        in_channels=module.in_channels,
        out_channels=module.out_channels,
        kernel_size=_pair(module.kernel_size),
        stride=_pair(module.stride),
        padding=_padding(module),
        dilation=_pair(module.dilation),
        groups=module.groups,
        padding_mode=module.padding_mode,
        batch_size=shape[0],
        input_height=shape[-2],
        input_width=shape[-1],
        math_fidelity=ttnn.MathFidelity.HiFi4,
        dtype=ttnn.bfloat16,
        weights_dtype=ttnn.bfloat16,
        device=device,
    )


def _max_pool2d(module: torch.nn.MaxPool2d, shape: torch.Size, device: Any) -> ModuleArgs:
    return MaxPool2dArgs(
        kernel_size=_pair(module.kernel_size),
        stride=_pair(module.stride if module.stride is not None else module.kernel_size),
        padding=_pair(module.padding),
        dilation=_pair(module.dilation),
        channels=shape[-3],
        batch_size=shape[0],
        input_height=shape[-2],
        input_width=shape[-1],
        dtype=ttnn.bfloat16,
        device=device,
    )


def _group_norm(module: torch.nn.GroupNorm, shape: torch.Size, device: Any) -> ModuleArgs:
    return GroupNormArgs(
        num_groups=module.num_groups,
        num_channels=module.num_channels,
        eps=module.eps,
        affine=module.affine,
        batch_size=shape[0],
        input_height=shape[-2] if len(shape) > 2 else 1,
        input_width=shape[-1],
        dtype=ttnn.bfloat16,
        device=device,
    )


INFER: dict[type[torch.nn.Module], Callable[[Any, torch.Size, Any], ModuleArgs]] = {
    torch.nn.Conv2d: _conv2d,
    torch.nn.MaxPool2d: _max_pool2d,
    torch.nn.GroupNorm: _group_norm,
}


def infer_ttnn_module_args(*, model: torch.nn.Module, run_model: Callable[[torch.nn.Module], Any], device: Any = None) -> ModuleArgs | None:
    """Run the model and see what goes into its modules. The answer has the shape of the model; members of containers have numbers."""
    seen: dict[str, ModuleArgs] = {}
    handles = []

    def watch(name: str, module: torch.nn.Module, infer: Callable[[Any, torch.Size, Any], ModuleArgs]) -> None:
        def hear(_: Any, inputs: tuple[Any, ...]) -> None:
            seen[name] = infer(module, inputs[0].shape, device)

        handles.append(module.register_forward_pre_hook(hear))

    for name, module in model.named_modules():
        infer = next((INFER[kind] for kind in type(module).__mro__ if kind in INFER), None)
        if infer is not None:
            watch(name, module, infer)
    try:
        with torch.no_grad():
            run_model(model)
    finally:
        for handle in handles:
            handle.remove()
    if not seen:
        return None
    if "" in seen:
        return seen[""]
    root = ModuleArgs()
    for name, args in seen.items():
        *above, last = [int(w) if w.isdigit() else w for w in name.split(".")]
        place = root
        for word in above:
            place = place.setdefault(word, ModuleArgs())
        place[last] = args
    return root
