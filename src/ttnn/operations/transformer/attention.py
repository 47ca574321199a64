"""Scaled dot-product attention."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import attention as engine
from tessera.engine import attention_forms as forms
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import BufferType, MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.circular import require_circular_room
from ttnn.operations.rules import like, name_of, require, require_device

FLOATS = (DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.BFLOAT4_B)


def check_operands(what: str, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> None:
    """What every form of attention asks of its operands."""
    require_device(what, q, k, v, mask)
    for tensor in (q, k, v):
        require(
            len(tensor.spec.dims) == 4, f"{what}: operands have four dimensions [batch, heads, sequence, width], got {tensor.spec.shape}"
        )
        require(
            tensor.spec.dtype in FLOATS,
            f"{what}: Data type of input tensor must be BFLOAT16, BFLOAT8_B, or BFLOAT4_B and is {name_of(tensor.spec.dtype)}",
        )
        require(tensor.spec.layout == Layout.TILE, f"{what}: Inputs to SDPA must be tilized, got {tensor.spec.layout}")
        require(not tensor.spec.is_sharded, f"{what}: operands to SDPA must be interleaved")
    require(q.spec.dims[-1] % 32 == 0, f"{what}: Padding is not supported on the head_dim dimension, got a width of {q.spec.dims[-1]}")


def check_shapes(what: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    (batch, heads, _, width), (kb, kh, ks, kw) = q.spec.dims, k.spec.dims
    require(batch == kb == v.spec.dims[0], f"{what}: K, V and Q must have the same batch size, got {kb}, {v.spec.dims[0]} and {batch}")
    require(k.spec.dims[1] == v.spec.dims[1], f"{what}: K and V must have the same number of heads, got {kh} and {v.spec.dims[1]}")
    require(ks == v.spec.dims[2], f"{what}: K and V must have the same sequence length, got {ks} and {v.spec.dims[2]}")
    require(width == kw, f"{what}: Q and K must have the same head dimension, got {width} and {kw}")
    require(
        kh > 0 and heads >= kh and heads % kh == 0,
        f"{what}: Q num_heads must be >= K num_heads and divisible by K num_heads, and K num_heads must be greater than 0. Got Q: {heads}, K: {kh}",
    )


def check_program(what: str, program_config: Any, q: Tensor, k: Tensor, width: int) -> None:
    """Chunks are whole tiles, and what a core holds of them fits in L1: queries, keys and values twice, scores once, results twice. `width` is that of the
    values."""
    if program_config is None:
        return
    for name in ("q_chunk_size", "k_chunk_size"):
        size = getattr(program_config, name)
        require(size > 0 and size % 32 == 0, f"{what}: {name} must be a positive multiple of TILE_SIZE. Got {name}: {size}, TILE_SIZE: 32")
    device = q.buffer.device
    assert device is not None
    rows, keys = program_config.q_chunk_size // 32, program_config.k_chunk_size // 32
    head, value = -(-q.spec.dims[-1] // 32), -(-width // 32)
    own, other = (t.spec.tile.get_tile_size(t.spec.dtype) for t in (q, k))
    size = (2 * rows * (head + value) + rows * keys) * own + 2 * keys * (head + value) * other
    require_circular_room(what, device, program_config.compute_with_storage_grid_size, size)


def _golden(
    input_tensor_q: torch.Tensor,
    input_tensor_k: torch.Tensor,
    input_tensor_v: torch.Tensor,
    *,
    attn_mask: torch.Tensor | None = None,
    is_causal: bool = True,
    scale: float | None = None,
    sliding_window_size: int | None = None,
    **_: Any,
) -> torch.Tensor:
    result: torch.Tensor = engine.scaled_dot_product.torch(
        input_tensor_q, input_tensor_k, input_tensor_v, attn_mask, scale=scale, causal=is_causal, window=sliding_window_size
    )
    return result


@operation("ttnn.transformer.scaled_dot_product_attention", golden=_golden)
def scaled_dot_product_attention(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = True,
    scale: float | None = None,
    sliding_window_size: int | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    attention_sink: Tensor | None = None,
    cu_window_seqlens: Tensor | None = None,
    windowed_q_token_offset: int = 0,
    windowed_q_token_offset_tensor: Tensor | None = None,
    output_concat_heads: bool = False,
    attn_mask_block_map: Tensor | None = None,
) -> Tensor:
    """Attention of queries to keys and values: causal unless said otherwise, with a mask, a window, shared heads."""
    what = "scaled_dot_product_attention"
    q, k, v = input_tensor_q, input_tensor_k, input_tensor_v
    if attn_mask_block_map is not None:
        raise NotImplementedError(f"ttnn.transformer.{what}: attn_mask_block_map is not built in Tessera")
    check_operands(what, q, k, v, attn_mask)
    check_shapes(what, q, k, v)
    require(
        not (is_causal and attn_mask is not None),
        f"{what}: is_causal and attn_mask cannot both be present. Got is_causal: true, attn_mask: true",
    )
    if is_causal:
        require(
            q.spec.dims[2] == k.spec.dims[2],
            f"{what}: Causal SDPA requires Q and K to have the same sequence length. Got Q: {q.spec.dims[2]}, K: {k.spec.dims[2]}",
        )
    if attn_mask is not None:
        dims, fits = attn_mask.spec.dims, (q.spec.dims[0], q.spec.dims[1], q.spec.dims[2], k.spec.dims[2])
        require(
            len(dims) == 4 and dims[2:] == fits[2:] and dims[0] in (1, fits[0]) and dims[1] in (1, fits[1]),
            f"{what}: attn_mask must be [1 or batch, 1 or heads, {fits[2]}, {fits[3]}], got {attn_mask.spec.shape}",
        )
    check_program(what, program_config, q, k, v.spec.dims[-1])
    out_config = memory_config if memory_config is not None else MemoryConfig(buffer_type=BufferType.DRAM)
    batch, heads, rows, _ = q.spec.dims
    width = v.spec.dims[-1]
    shape = (batch, 1, rows, heads * width) if output_concat_heads else (batch, heads, rows, width)
    out = like(q, shape=shape, memory_config=out_config)
    named = {
        "mask": attn_mask,
        "sink": attention_sink,
        "borders": cu_window_seqlens,
        "first": windowed_q_token_offset_tensor if cu_window_seqlens is not None else None,
    }
    given = {name: tensor for name, tensor in named.items() if tensor is not None}
    require_device(what, q, *given.values())
    attributes = {"scale": scale, "causal": is_causal, "window": sliding_window_size, "joined": output_concat_heads}
    compute: Any = _attend
    if attention_sink is not None or cu_window_seqlens is not None:
        require(
            cu_window_seqlens is None or not is_causal,
            f"{what}: cu_window_seqlens goes with is_causal=False; every window sees all of itself",
        )
        compute = _attend_with
        attributes |= {"roles": tuple(given), "first": windowed_q_token_offset}
    programs = 1 + (attn_mask is not None)  # where a mask hides whole blocks is found first
    inputs = [q, k, v, *given.values()]
    return launch("SDPAOperation", compute, inputs, out, attributes=attributes, programs=programs, key=program_config)  # type: ignore[no-any-return]


def _attend_with(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *further: torch.Tensor, joined: bool, **attributes: Any
) -> torch.Tensor:
    result: torch.Tensor = forms.prompt(q, k, v, *further, **attributes)
    return result.transpose(1, 2).flatten(-2).unsqueeze(1) if joined else result


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None, *, joined: bool, **attributes: Any
) -> torch.Tensor:
    result: torch.Tensor = engine.scaled_dot_product(q, k, v, mask, **attributes)
    return result.transpose(1, 2).flatten(-2).unsqueeze(1) if joined else result
