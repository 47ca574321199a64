"""The native forms of engine functions: for which inputs a kernel of `tessera._native` takes over.

A form has the arguments of its engine function, checks what it needs to know (bfloat16 on the CPU, contiguous) and calls a kernel, or answers
`NotImplemented`. `FORMS` says in which module of this package the form of an engine function is; a form has the name of its function.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tessera.native import MODULE

#: (module in tessera.engine, engine function) -> module in tessera.engine.native
FORMS: dict[tuple[str, str], str] = {
    ("unary", "elementwise_unary"): "elementwise",
    ("binary", "elementwise_binary"): "elementwise",
    ("binary", "elementwise_scalar"): "elementwise",
    ("ternary", "where"): "elementwise",
    ("norm", "softmax"): "norm",
    ("norm", "scaled_masked_softmax"): "norm",
    ("norm", "layer_norm"): "norm",
    ("norm", "rms_norm"): "norm",
    ("movement", "permute"): "movement",
    ("embedding", "embedding"): "movement",
    ("movement", "transpose"): "movement",
    ("matmul", "matmul"): "matmul",
    ("attention", "scaled_dot_product"): "attention",
    ("convolution", "conv2d"): "convolution",
    **{("reduction", name): "reduction" for name in ("total", "mean", "largest", "smallest", "argmax", "topk", "sort", "running_total")},
}

#: Engine functions whose native forms take inputs as `Packed` bytes, and which.
IMAGES: dict[tuple[str, str], tuple[int, ...]] = {("matmul", "matmul"): (1,), ("reduction", "total"): (0,)}
#: Those of them that can do something with the bytes of any format, not of block floats alone.
ANY_FORMAT = {("reduction", "total")}


def form_of(family: str, name: str) -> Callable[..., Any] | None:
    """The native form of an engine function, or None where there is none or the native part was not built."""
    module = FORMS.get((family, name))
    if module is None or MODULE is None:
        return None
    return getattr(importlib.import_module(f"tessera.engine.native.{module}"), name)  # type: ignore[no-any-return]


def images_of(family: str, name: str) -> tuple[int, ...]:
    """Places of inputs that the native form takes as `Packed`."""
    return IMAGES.get((family, name), ())
