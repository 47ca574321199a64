"""Rotary embeddings in the forms that models use: halves turned (GPT-NeoX, Hugging Face) or neighbours (Llama's own)."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import rotary as engine
from tessera.formats.dtype import DataType
from tessera.memory.config import MemoryConfig, TensorMemoryLayout
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require, require_device, require_tile


def _check(what: str, tensor: Tensor, cos: Tensor, sin: Tensor) -> None:
    require_device(what, tensor, cos, sin)
    require_tile(what, tensor, cos, sin)
    require(len(tensor.spec.dims) == 4, f"{what}: the input must have four dimensions, got {tensor.spec.shape}")
    require(cos.spec.dims == sin.spec.dims, f"{what}: cos and sin must have the same shape, got {cos.spec.shape} and {sin.spec.shape}")
    require(
        cos.spec.padded_dims[-1] == tensor.spec.padded_dims[-1],
        f"{what}: cos must be as wide as the input ({tensor.spec.dims[-1]}), got {cos.spec.dims[-1]}",
    )


def _check_halves(what: str, tensor: Tensor) -> None:
    width = tensor.spec.padded_dims[-1]
    require(width % 64 == 0, f"{what}: Input X dimension ({width}) must be divisible by 64 for tiling: its halves are whole tiles")


def _golden_halves(
    input_tensor: torch.Tensor, cos_cache: torch.Tensor, sin_cache: torch.Tensor, token_index: int | None = None, **_: Any
) -> torch.Tensor:
    rows, width = input_tensor.shape[-2:]
    result: torch.Tensor = engine.rotary(input_tensor, cos_cache, sin_cache, rows=rows, width=width, token=token_index)
    return result


def _halves(
    input_tensor: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    token_index: int | None = None,
    *,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """x cos + [-high, low] sin. With `token_index` that row of the tables serves all rows. The result is whole tiles."""
    what = "rotary_embedding"
    _check(what, input_tensor, cos_cache, sin_cache)
    _check_halves(what, input_tensor)
    rows, width = input_tensor.spec.padded_dims[-2:]
    if token_index is None:
        require(
            cos_cache.spec.padded_dims[-2] >= rows,
            f"{what}: cos has {cos_cache.spec.dims[-2]} rows for an input of {input_tensor.spec.dims[-2]}",
        )
    else:
        require(
            0 <= token_index < cos_cache.spec.dims[-2],
            f"{what}: token_index={token_index} must be one of the {cos_cache.spec.dims[-2]} rows of cos",
        )
    out = like(input_tensor, shape=(*input_tensor.spec.dims[:-2], rows, width), memory_config=memory_config)
    return launch(  # type: ignore[no-any-return]
        "RotaryEmbeddingDeviceOperation",
        engine.rotary,
        [input_tensor, cos_cache, sin_cache],
        out,
        attributes={"rows": rows, "width": width, "token": token_index},
        runtime=("token",),
        key=token_index is None,
    )


#: The guide calls it by the name of the library's transformer module; the library registers it as experimental.
NAMES = ("ttnn.experimental.rotary_embedding", "ttnn.transformer.rotary_embedding")
rotary_embedding, transformer_rotary_embedding = (operation(name, golden=_golden_halves)(_halves) for name in NAMES)


@operation("ttnn.experimental.rotary_embedding_hf", golden=_golden_halves)
def rotary_embedding_hf(
    input_tensor: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    *,
    is_decode_mode: bool = False,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The same as Hugging Face's models have it. In decode mode rows are heads, and every user has a row of the tables."""
    what = "rotary_embedding_hf"
    _check(what, input_tensor, cos_cache, sin_cache)
    _check_halves(what, input_tensor)
    if is_decode_mode:
        _check_decode(what, input_tensor, cos_cache, sin_cache)
    rows, width = input_tensor.spec.padded_dims[-2:]
    return launch(  # type: ignore[no-any-return]
        "RotaryEmbeddingHfDeviceOperation",
        engine.rotary,
        [input_tensor, cos_cache, sin_cache],
        like(input_tensor, memory_config=memory_config),
        attributes={"rows": rows, "width": width, "first_row": is_decode_mode, "whole": False},
    )


def _check_decode(what: str, *tensors: Tensor) -> None:
    for tensor in tensors:
        layout = tensor.spec.memory_config.memory_layout
        require(
            layout == TensorMemoryLayout.HEIGHT_SHARDED,
            f"{what}: Sharded inputs for RoPE must be HEIGHT_SHARDED in decode mode, got {name_of(layout)}",
        )


def _check_matrix(what: str, tensor: Tensor, cos: Tensor, sin: Tensor, matrix: Tensor, decode: bool) -> None:
    require_device(what, tensor, cos, sin, matrix)
    for t in (tensor, cos, sin, matrix):
        require(t.spec.dtype == DataType.BFLOAT16, f"{what}: All input tensors must have dtype = bfloat16, got {t.spec.dtype}")
    _check(what, tensor, cos, sin)
    require_tile(what, matrix)
    require(
        matrix.spec.dims[-2:] == (32, 32) and 0 not in matrix.spec.dims,
        f"{what}: trans_mat must be one tile, 32 by 32, got {matrix.spec.shape}",
    )
    if decode:
        _check_decode(what, tensor, cos, sin, matrix)


def _golden_neighbours(
    input_tensor: torch.Tensor,
    cos_cache: torch.Tensor,
    sin_cache: torch.Tensor,
    trans_mat: torch.Tensor,
    *,
    is_decode_mode: bool = False,
    **_: Any,
) -> torch.Tensor:
    result: torch.Tensor = engine.rotary_by_matrix(input_tensor, cos_cache, sin_cache, trans_mat, first_row=is_decode_mode)
    return result


@operation("ttnn.experimental.rotary_embedding_llama", golden=_golden_neighbours)
def rotary_embedding_llama(
    input_tensor: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    trans_mat: Tensor,
    *,
    is_decode_mode: bool = False,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """x cos + (x trans_mat) sin: the matrix turns pairs of neighbours. In decode mode rows are heads, and every user has a row of the tables."""
    what = "rotary_embedding_llama"
    _check_matrix(what, input_tensor, cos_cache, sin_cache, trans_mat, is_decode_mode)
    return launch(  # type: ignore[no-any-return]
        "RotaryEmbeddingLlamaDeviceOperation",
        engine.rotary_by_matrix,
        [input_tensor, cos_cache, sin_cache, trans_mat],
        like(input_tensor, memory_config=memory_config),
        attributes={"first_row": is_decode_mode},
    )


def _of_pair(values: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, matrix: torch.Tensor, *, which: int, users: int) -> torch.Tensor:
    """The tables of a pair stand one after the other: first those of the queries' users, then those of the keys'."""
    start = which * users if cos.shape[1] >= 2 * users else 0
    cut = slice(start, start + users)
    result: torch.Tensor = engine.rotary_by_matrix(values, cos[:, cut], sin[:, cut], matrix, first_row=True)
    return result


@operation("ttnn.experimental.rotary_embedding_llama_fused_qk")
def rotary_embedding_llama_fused_qk(
    q_input_tensor: Tensor,
    k_input_tensor: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    trans_mat: Tensor,
    *,
    compute_kernel_config: Any = None,
) -> tuple[Tensor, Tensor]:
    """Queries and keys of a decode step in one program, on cores of their own."""
    what = "rotary_embedding_llama_fused_qk"
    results = []
    for which, tensor in enumerate((q_input_tensor, k_input_tensor)):
        _check_matrix(what, tensor, cos_cache, sin_cache, trans_mat, True)
        results.append(
            launch(
                "RotaryEmbeddingLlamaFusedQKDeviceOperation",
                _of_pair,
                [tensor, cos_cache, sin_cache, trans_mat],
                tensor.spec,
                attributes={"which": which, "users": tensor.spec.dims[1]},
                programs=1 - which,
            )
        )
    return results[0], results[1]


@operation("ttnn.experimental.rotate_half", golden=lambda input, **_: engine.turned(input))
def rotate_half(input: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """[low, high] as [-high, low]."""
    what = "rotate_half"
    require_device(what, input)
    require_tile(what, input)
    _check_halves(what, input)
    width = input.spec.padded_dims[-1]
    return launch(  # type: ignore[no-any-return]
        "RotateHalfDeviceOperation", engine.rotate_half, [input], like(input, memory_config=memory_config), attributes={"width": width}
    )
