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

PAGE_DTYPES = (DataType.INT32, DataType.UINT32, DataType.UINT16)


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
    check_program(what, program_config)
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


@operation("ttnn.transformer.chunked_scaled_dot_product_attention")
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


@operation("ttnn.transformer.chunked_flash_mla_prefill")
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
    check_program(what, program_config)
    given = {name: tensor for name, tensor in (("v", v), ("mask", attn_mask)) if tensor is not None}
    return launch(  # type: ignore[no-any-return]
        "SDPAOperation",
        engine.latent,
        [q, k, *given.values()],
        like(q, shape=(*q.spec.dims[:3], width), memory_config=_place(memory_config)),
        attributes={"roles": tuple(given), "width": width, "scale": scale, "causal": is_causal},
        key=program_config,
    )


@operation("ttnn.transformer.joint_scaled_dot_product_attention")
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
    check_program(what, program_config)
    outs = [like(q, memory_config=_place(None)) for q in (input_tensor_q, joint_tensor_q)]
    results = launch("JointSDPADeviceOperation", engine.joint, [*first, *second], outs, attributes={"scale": scale}, key=program_config)
    return results[0], results[1]


# -- linear attention


def _golden_delta(
    q: Any, k: Any, v: Any, g: Any, beta: Any, *, scale: Any = None, initial_state: Any = None, use_qk_l2norm: bool = False, **_: Any
) -> Any:
    return engine.gated_delta_rule(q, k, v, g, beta, initial_state, scale=scale, normalised=use_qk_l2norm)


def _delta(
    what: str,
    tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    state: Tensor | None,
    output_state: bool,
    memory_config: MemoryConfig | None,
    programs: int,
    **attributes: Any,
) -> tuple[Tensor, Tensor | None]:
    q, k, v, g, beta = tensors
    require_device(what, *tensors, state)
    for tensor in (q, k, v):
        require(len(tensor.spec.dims) == 4, f"{what}: q, k and v must be [batch, steps, heads, width], got {tensor.spec.shape}")
    require(q.spec.dims == k.spec.dims, f"{what}: q and k must have the same shape, got {q.spec.shape} and {k.spec.shape}")
    batch, steps, heads, width = v.spec.dims
    require(k.spec.dims[:2] == (batch, steps), f"{what}: k and v must have the same batch and steps, got {k.spec.shape} and {v.spec.shape}")
    require(heads % k.spec.dims[2] == 0, f"{what}: v's {heads} heads must be a multiple of k's {k.spec.dims[2]}")
    for name, tensor in (("g", g), ("beta", beta)):
        require(tensor.spec.dims == (batch, steps, heads), f"{what}: {name} must be [{batch}, {steps}, {heads}], got {tensor.spec.shape}")
    memory = (batch, heads, k.spec.dims[-1], width)
    if state is not None:
        require(state.spec.dims == memory, f"{what}: initial_state must be {list(memory)}, got {state.spec.shape}")
    place = MemoryConfig() if memory_config is None else memory_config
    shape = (batch, heads, steps, width) if attributes.get("head_major") else (batch, steps, heads, width)
    words = {"dtype": DataType.FLOAT32, "memory_config": place, "layout": Layout.TILE}
    outs = [like(v, shape=shape, **words), like(v, shape=memory, **words)]
    inputs = [*tensors] + ([state] if state is not None else [])
    result, last = launch("GatedDeltaRuleDeviceOperation", engine.gated_delta_rule, inputs, outs, attributes=attributes, programs=programs)
    if not output_state:
        last.buffer.free()
    return result, last if output_state else None


@operation("ttnn.transformer.fused_recurrent_gated_delta_rule", golden=_golden_delta)
def fused_recurrent_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    *,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    initial_state_block_idx: Tensor | None = None,
    output_final_state: bool = False,
    output_per_token_state: bool = False,
    use_qk_l2norm: bool = False,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> tuple[Tensor, Tensor | None]:
    """The gated delta rule, step by step. It is composed of many programs on the chip."""
    what = "fused_recurrent_gated_delta_rule"
    if initial_state_block_idx is not None or output_per_token_state:
        raise NotImplementedError(f"ttnn.transformer.{what}: states in blocks or for each token are not built in Tessera")
    attributes = {"scale": scale, "normalised": use_qk_l2norm}
    return _delta(what, (q, k, v, g, beta), initial_state, output_final_state, memory_config, 15, **attributes)


@operation("ttnn.transformer.chunk_gated_delta_rule", golden=_golden_delta)
def chunk_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    *,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    chunk_size: int = 64,
    use_qk_l2norm: bool = False,
    output_head_major: bool = False,
    program_config: Any = None,
    wy_inverse: Any = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    eye: Tensor | None = None,
    tril: Tensor | None = None,
    ones: Tensor | None = None,
    masks: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The same rule for long sequences. The chip works on chunks; the result is that of the steps."""
    what = "chunk_gated_delta_rule"
    require(chunk_size > 0 and chunk_size % 32 == 0, f"{what}: chunk_size={chunk_size} must be a positive multiple of 32")
    attributes = {"scale": scale, "normalised": use_qk_l2norm, "head_major": output_head_major}
    return _delta(what, (q, k, v, g, beta), initial_state, output_final_state, memory_config, 1, **attributes)
