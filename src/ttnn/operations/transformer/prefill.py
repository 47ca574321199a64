"""Attention of prompts beside the plain form: in chunks against pages, two sequences at once, over a compressed cache; and linear attention."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import attention_forms as engine
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import BufferType, MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require, require_device
from ttnn.operations.transformer.attention import check_operands, check_program, check_shapes

PAGE_DTYPES = (DataType.INT32, DataType.UINT16)


def _place(memory_config: MemoryConfig | None) -> MemoryConfig:
    return memory_config if memory_config is not None else MemoryConfig(buffer_type=BufferType.DRAM)


def _chunked(
    what: str,
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    pages: Tensor,
    start: int | None,
    start_tensor: Tensor | None,
    width: int,
    *,
    scale: float | None,
    memory_config: MemoryConfig | None,
    program_config: Any,
    window: int | None = None,
    sink: Tensor | None = None,
) -> Tensor:
    check_operands(what, q, k, k if v is None else v, None)
    require_device(what, q, pages, start_tensor, sink)
    require(pages.spec.dtype in PAGE_DTYPES, f"{what}: page_table must hold INT32, got {name_of(pages.spec.dtype)}")
    require(pages.spec.layout == Layout.ROW_MAJOR, f"{what}: page_table must be in ROW_MAJOR layout, got {pages.spec.layout}")
    require(len(pages.spec.dims) == 2, f"{what}: page_table must be [batch, pages], got {pages.spec.shape}")
    require(0 not in (*q.spec.dims, *k.spec.dims), f"{what}: operands must not be empty, got {q.spec.shape} and {k.spec.shape}")
    if v is not None:
        require(v.spec.dims[:3] == k.spec.dims[:3], f"{what}: K and V must have the same pages, got {k.spec.shape} and {v.spec.shape}")
    batch, heads, rows, head_width = q.spec.dims
    _, shared, length, key_width = k.spec.dims
    require(pages.spec.dims[0] == batch, f"{what}: page_table must have a line for each of the batch of {batch}, got {pages.spec.shape}")
    require(head_width == key_width, f"{what}: Q and K must have the same head dimension, got {head_width} and {key_width}")
    require(
        shared > 0 and heads % shared == 0,
        f"{what}: Q num_heads must be divisible by K num_heads. Got Q: {heads}, K: {shared}",
    )
    require(start is not None or start_tensor is not None, f"{what}: chunk_start_idx or chunk_start_idx_tensor must be given")
    if start is not None:
        require(start >= 0, f"{what}: chunk_start_idx={start} must not be negative")
        available = pages.spec.dims[1] * length
        require(
            start + rows <= available,
            f"{what}: the chunk ends at {start + rows}, beyond the {available} rows of the pages; chunk_start_idx={start}",
        )
    check_program(what, program_config, q, k, width)
    named = {"v": v, "pages": pages, "start": start_tensor if start is None else None, "sink": sink}
    given = {name: tensor for name, tensor in named.items() if tensor is not None}
    return launch(  # type: ignore[no-any-return]
        "SDPAOperation",
        engine.chunk,
        [q, k, *given.values()],
        like(q, shape=(batch, heads, rows, width), memory_config=_place(memory_config)),
        attributes={"roles": tuple(given), "start": start, "scale": scale, "window": window, "width": width},
        runtime=("start",),
        key=program_config,
    )


def _golden_chunked(
    input_tensor_q: torch.Tensor,
    input_tensor_k: torch.Tensor,
    input_tensor_v: torch.Tensor,
    page_table_tensor: torch.Tensor,
    chunk_start_idx: int = 0,
    *,
    scale: float | None = None,
    **_: Any,
) -> torch.Tensor:
    pages = {"v": input_tensor_v, "pages": page_table_tensor}
    result: torch.Tensor = engine.chunk(
        input_tensor_q, input_tensor_k, *pages.values(), roles=tuple(pages), start=chunk_start_idx, scale=scale
    )
    return result


def _golden_chunked_latent(
    input_tensor_q: torch.Tensor,
    input_tensor_k: torch.Tensor,
    head_dim_v: int,
    page_table_tensor: torch.Tensor,
    chunk_start_idx: int,
    *,
    scale: float | None = None,
    **_: Any,
) -> torch.Tensor:
    values = input_tensor_k[..., :head_dim_v]
    return _golden_chunked(input_tensor_q, input_tensor_k, values, page_table_tensor, chunk_start_idx, scale=scale)


def _golden_joint(*tensors: torch.Tensor, scale: float | None = None, **_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    result: tuple[torch.Tensor, torch.Tensor] = engine.joint(*tensors, scale=scale)
    return result


@operation("ttnn.transformer.chunked_scaled_dot_product_attention", golden=_golden_chunked)
def chunked_scaled_dot_product_attention(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    page_table_tensor: Tensor,
    chunk_start_idx: int | None = None,
    *,
    chunk_start_idx_tensor: Tensor | None = None,
    scale: float | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    paged_cache_geometry: Any = None,
    sliding_window_size: int | None = None,
    attention_sink: Tensor | None = None,
) -> Tensor:
    """A chunk of a prompt against the pages that hold everything up to the chunk's own end."""
    return _chunked(
        "chunked_scaled_dot_product_attention",
        input_tensor_q,
        input_tensor_k,
        input_tensor_v,
        page_table_tensor,
        chunk_start_idx,
        chunk_start_idx_tensor,
        input_tensor_v.spec.dims[-1],
        scale=scale,
        memory_config=memory_config,
        program_config=program_config,
        window=sliding_window_size,
        sink=attention_sink,
    )


@operation("ttnn.transformer.chunked_flash_mla_prefill", golden=_golden_chunked_latent)
def chunked_flash_mla_prefill(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    head_dim_v: int,
    page_table_tensor: Tensor,
    chunk_start_idx: int,
    *,
    scale: float | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The same over a compressed cache whose first `head_dim_v` columns are the values."""
    what = "chunked_flash_mla_prefill"
    _check_width(what, input_tensor_k, head_dim_v)
    return _chunked(
        what,
        input_tensor_q,
        input_tensor_k,
        None,
        page_table_tensor,
        chunk_start_idx,
        None,
        head_dim_v,
        scale=scale,
        memory_config=memory_config,
        program_config=program_config,
    )


def _check_width(what: str, k: Tensor, width: int) -> None:
    require(0 < width <= k.spec.dims[-1], f"{what}: head_dim_v={width} must be at most the keys' width {k.spec.dims[-1]}")
    require(width % 32 == 0, f"{what}: head_dim_v={width} must be a multiple of 32")


def _golden_latent(
    input_tensor_q: torch.Tensor,
    input_tensor_k: torch.Tensor,
    value: Any,
    *,
    attn_mask: torch.Tensor | None = None,
    is_causal: bool = True,
    scale: float | None = None,
    **_: Any,
) -> torch.Tensor:
    named = {"v": value if isinstance(value, torch.Tensor) else None, "mask": attn_mask}
    given = {name: tensor for name, tensor in named.items() if tensor is not None}
    width = value if isinstance(value, int) else None
    result: torch.Tensor = engine.latent(
        input_tensor_q, input_tensor_k, *given.values(), roles=tuple(given), width=width, scale=scale, causal=is_causal
    )
    return result


@operation("ttnn.transformer.flash_mla_prefill", golden=_golden_latent, renames={"head_dim_v": "value", "input_tensor_v": "value"})
def flash_mla_prefill(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    value: int | Tensor,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = True,
    scale: float | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """Attention over compressed keys: the values are a tensor, or the first columns of the keys."""
    what, q, k = "flash_mla_prefill", input_tensor_q, input_tensor_k
    v = value if isinstance(value, Tensor) else None
    check_operands(what, q, k, k if v is None else v, attn_mask)
    check_shapes(what, q, k, k if v is None else v)
    require(not (is_causal and attn_mask is not None), f"{what}: is_causal and attn_mask cannot both be present")
    if is_causal:
        require(
            q.spec.dims[2] == k.spec.dims[2],
            f"{what}: Causal SDPA requires Q and K to have the same sequence length. Got Q: {q.spec.dims[2]}, K: {k.spec.dims[2]}",
        )
    if isinstance(value, Tensor):
        width = value.spec.dims[-1]
    else:
        width = value
        _check_width(what, k, width)
    check_program(what, program_config, q, k, width)
    given = {name: tensor for name, tensor in (("v", v), ("mask", attn_mask)) if tensor is not None}
    return launch(  # type: ignore[no-any-return]
        "SDPAOperation",
        engine.latent,
        [q, k, *given.values()],
        like(q, shape=(*q.spec.dims[:3], width), memory_config=_place(memory_config)),
        attributes={"roles": tuple(given), "width": width, "scale": scale, "causal": is_causal},
        key=program_config,
    )


@operation("ttnn.transformer.joint_scaled_dot_product_attention", golden=_golden_joint)
def joint_scaled_dot_product_attention(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    joint_tensor_q: Tensor,
    joint_tensor_k: Tensor,
    joint_tensor_v: Tensor,
    *,
    joint_strategy: str,
    program_config: Any,
    scale: float | None = None,
    compute_kernel_config: Any = None,
) -> tuple[Tensor, Tensor]:
    """Two sequences that attend to both, as pictures and words in one model."""
    what = "joint_scaled_dot_product_attention"
    require(
        joint_strategy == "rear", f"{what}: joint_strategy={joint_strategy!r} is unknown; the joint sequence stands at the rear ('rear')"
    )
    first, second = (input_tensor_q, input_tensor_k, input_tensor_v), (joint_tensor_q, joint_tensor_k, joint_tensor_v)
    for triple in (first, second):
        check_operands(what, *triple, None)
        check_shapes(what, *triple)
    require_device(what, *first, *second)
    for a, b in zip(first, second):
        same = (a.spec.dims[:2], a.spec.dims[-1]) == (b.spec.dims[:2], b.spec.dims[-1])
        require(same, f"{what}: joint tensors must have the batch, heads and width of the others, got {a.spec.shape} and {b.spec.shape}")
    check_program(what, program_config, input_tensor_q, input_tensor_k, input_tensor_v.spec.dims[-1])
    outs = [like(q, memory_config=_place(None)) for q in (input_tensor_q, joint_tensor_q)]
    results = launch("JointSDPADeviceOperation", engine.joint, [*first, *second], outs, attributes={"scale": scale}, key=program_config)
    return results[0], results[1]
