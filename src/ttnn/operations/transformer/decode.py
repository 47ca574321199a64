"""Attention of one word of every user against a cache: plain, in pages, with a compressed cache (MLA)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import attention_forms as engine
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import BufferType, MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.circular import require_circular_room
from ttnn.operations.rules import like, name_of, require, require_device

FLOATS = (DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.BFLOAT4_B)
#: A head's partial results are joined as a tree of at most six rounds.
MOST_CORES_PER_HEAD = 64


def _check(what: str, q: Tensor, k: Tensor, v: Tensor | None, pages: Tensor | None, others: Sequence[Tensor | None]) -> None:
    require_device(what, q, k, v, pages)
    require_device(what, q, *others)
    for tensor in (q, k, v):
        if tensor is None:
            continue
        require(len(tensor.spec.dims) == 4, f"{what}: Input tensors must be 4D, got {tensor.spec.shape}")
        require(
            tensor.spec.dtype in FLOATS,
            f"{what}: Data type of input tensor must be BFLOAT16, BFLOAT8_B, or BFLOAT4_B and is {name_of(tensor.spec.dtype)}",
        )
        require(
            tensor.spec.layout == Layout.TILE or (tensor is q and q.spec.dtype == DataType.BFLOAT16),
            f"{what}: Inputs to SDPA decode must be tilized, got {tensor.spec.layout}",
        )
    one, users, heads, width = q.spec.dims
    require(one == 1, f"{what}: Q must be [1, users, heads, width], got {q.spec.shape}")
    shared = k.spec.dims[1]
    require(0 not in (*q.spec.dims, *k.spec.dims), f"{what}: operands must not be empty, got {q.spec.shape} and {k.spec.shape}")
    require(heads % shared == 0, f"{what}: GQA expects Q to have a multiple of K heads, but got {heads} and {shared}")
    require(width == k.spec.dims[-1], f"{what}: Q and K must have the same head dimension, got {width} and {k.spec.dims[-1]}")
    if v is not None:
        require(k.spec.dims[:3] == v.spec.dims[:3], f"{what}: K and V must have the same shape, got {k.spec.shape} and {v.spec.shape}")
    if pages is not None:
        require(len(pages.spec.dims) == 2, f"{what}: page_table must be [users, pages], got {pages.spec.shape}")
        require(
            pages.spec.dtype in (DataType.INT32, DataType.UINT16),
            f"{what}: page_table must hold INT32, got {name_of(pages.spec.dtype)}",
        )
        require(pages.spec.layout == Layout.ROW_MAJOR, f"{what}: page_table must be in ROW_MAJOR layout, got {pages.spec.layout}")
        require(pages.spec.dims[0] >= users, f"{what}: page_table has {pages.spec.dims[0]} lines for {users} users")
    else:
        require(k.spec.dims[0] in (1, users), f"{what}: K must have a batch of {users}, got {k.spec.dims[0]}")


def _check_work(what: str, q: Tensor, k: Tensor, pages: Tensor | None, config: Any, width: int | None) -> None:
    """How a head's keys are spread over cores and cut into chunks."""
    device = q.buffer.device
    assert device is not None
    users, shared = q.spec.dims[1], k.spec.dims[1]
    grid = getattr(config, "compute_with_storage_grid_size", device.grid)
    cores = max(grid.x * grid.y // users // shared, 1)
    if config is not None:
        cores = min(cores, config.max_cores_per_head_batch)
    require(
        cores <= MOST_CORES_PER_HEAD,
        f"{what}: Tree reduction max 6 rounds ({MOST_CORES_PER_HEAD} cores/head), got {cores} cores/head; set max_cores_per_head_batch in the program config",
    )
    length = k.spec.dims[-2] * (pages.spec.dims[-1] if pages is not None else 1)
    chunk = min(length & -length, 512) if length else 32
    if config is not None and config.k_chunk_size:
        chunk = config.k_chunk_size
    require(chunk % 32 == 0, f"{what}: Chunk size must be multiple of 32, but the maximum calculated k_chunk_size is: {chunk}")
    if width is None:
        return
    # A compressed cache has rows so wide that partial results of many cores overflow L1.
    high, wide, out, keys = -(-q.spec.dims[2] // 32), -(-q.spec.dims[-1] // 32), -(-width // 32), chunk // 32
    tiles = cores * (out + 2) * high + 2 * keys * (wide + out) + high * (wide + 2 * keys + 5 * out + 14)
    require_circular_room(what, device, grid, tiles * 2048)


def _attend(
    what: str,
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    *,
    pages: Tensor | None = None,
    width: int | None = None,
    is_causal: bool,
    attn_mask: Tensor | None,
    cur_pos: Sequence[int] = (),
    cur_pos_tensor: Tensor | None = None,
    attention_sink: Tensor | None = None,
    scale: float | None,
    sliding_window_size: int | None,
    memory_config: MemoryConfig | None,
    program_config: Any,
    modulo: int | None = None,
    geometry: Any = None,
) -> Tensor:
    _check(what, q, k, v, pages, (attn_mask, cur_pos_tensor, attention_sink))
    require(not (is_causal and attn_mask is not None), f"{what}: attn_mask is not allowed with is_causal=True")
    if is_causal:
        require(
            bool(cur_pos) != (cur_pos_tensor is not None) or (not cur_pos and cur_pos_tensor is not None),
            f"{what}: is_causal=True needs cur_pos or cur_pos_tensor, one of them",
        )
        if cur_pos_tensor is not None:
            words = cur_pos_tensor.spec
            require(
                words.dtype == DataType.INT32 and words.layout == Layout.ROW_MAJOR and len(words.dims) > 0,
                f"{what}: cur_pos_tensor must hold INT32 in ROW_MAJOR layout, got {words.dtype} in {words.layout} of shape {words.shape}",
            )
        count = len(cur_pos) if cur_pos else (cur_pos_tensor.spec.dims[-1] if cur_pos_tensor is not None else 0)
        require(count >= q.spec.dims[1], f"{what}: {count} positions were given for {q.spec.dims[1]} users")
    _check_work(what, q, k, pages, program_config, width)
    if attn_mask is not None:
        keys = k.spec.dims[-2] * (pages.spec.dims[-1] if pages is not None else 1)
        fits = len(attn_mask.spec.dims) == 4 and attn_mask.spec.dims[-1] >= keys and attn_mask.spec.dims[2] in (1, q.spec.dims[2])
        require(
            fits and attn_mask.spec.dims[0] in (1, q.spec.dims[1]),
            f"{what}: attn_mask must be [users, 1, heads, keys] for {q.spec.dims[1]} users, {q.spec.dims[2]} heads and {keys} keys, got {attn_mask.spec.shape}",
        )
    if width is not None:
        require(0 < width <= k.spec.dims[-1], f"{what}: head_dim_v={width} must be at most the keys' width {k.spec.dims[-1]}")
    named = {"v": v, "pages": pages, "places": cur_pos_tensor, "mask": attn_mask, "sink": attention_sink}
    given = {name: tensor for name, tensor in named.items() if tensor is not None}
    columns = width if width is not None else (v.spec.dims[-1] if v is not None else q.spec.dims[-1])
    out = like(
        q, shape=(*q.spec.dims[:3], columns), layout=Layout.TILE, memory_config=memory_config or MemoryConfig(buffer_type=BufferType.DRAM)
    )
    attributes = {
        "roles": tuple(given),
        "places": tuple(cur_pos),
        "scale": scale,
        "causal": is_causal,
        "window": sliding_window_size,
        "width": width,
        "modulo": modulo,
        "heads": getattr(geometry, "num_kv_heads", None) or None,
        "block": getattr(geometry, "block_size", None) or None,
    }
    return launch(  # type: ignore[no-any-return]
        "SdpaDecodeDeviceOperation",
        engine.decode,
        [q, k, *given.values()],
        out,
        attributes=attributes,
        runtime=("places",),
        key=program_config,
    )


def _golden(
    input_tensor_q: torch.Tensor,
    input_tensor_k: torch.Tensor,
    input_tensor_v: torch.Tensor,
    *,
    is_causal: bool = True,
    attn_mask: torch.Tensor | None = None,
    cur_pos: Sequence[int] = (),
    cur_pos_tensor: torch.Tensor | None = None,
    page_table_tensor: torch.Tensor | None = None,
    attention_sink: torch.Tensor | None = None,
    scale: float | None = None,
    sliding_window_size: int | None = None,
    **_: Any,
) -> torch.Tensor:
    named = {"v": input_tensor_v, "pages": page_table_tensor, "places": cur_pos_tensor, "mask": attn_mask, "sink": attention_sink}
    given = {name: tensor for name, tensor in named.items() if tensor is not None}
    result: torch.Tensor = engine.decode(
        input_tensor_q,
        input_tensor_k,
        *given.values(),
        roles=tuple(given),
        places=cur_pos,
        scale=scale,
        causal=is_causal,
        window=sliding_window_size,
    )
    return result


@operation("ttnn.transformer.scaled_dot_product_attention_decode", golden=_golden)
def scaled_dot_product_attention_decode(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    *,
    is_causal: bool = True,
    attn_mask: Tensor | None = None,
    cur_pos: Sequence[int] = (),
    cur_pos_tensor: Tensor | None = None,
    attention_sink: Tensor | None = None,
    scale: float | None = None,
    sliding_window_size: int | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    share_cache: bool | None = None,
) -> Tensor:
    """One word of every user, [1, users, heads, width], against the user's cache up to the user's place."""
    return _attend(
        "scaled_dot_product_attention_decode",
        input_tensor_q,
        input_tensor_k,
        input_tensor_v,
        is_causal=is_causal,
        attn_mask=attn_mask,
        cur_pos=cur_pos,
        cur_pos_tensor=cur_pos_tensor,
        attention_sink=attention_sink,
        scale=scale,
        sliding_window_size=sliding_window_size,
        memory_config=memory_config,
        program_config=program_config,
    )


def _golden_paged(
    input_tensor_q: torch.Tensor, input_tensor_k: torch.Tensor, input_tensor_v: torch.Tensor, page_table_tensor: torch.Tensor, **words: Any
) -> torch.Tensor:
    return _golden(input_tensor_q, input_tensor_k, input_tensor_v, page_table_tensor=page_table_tensor, **words)


def _golden_latent(
    input_tensor_q: torch.Tensor,
    input_tensor_k: torch.Tensor,
    input_tensor_v: torch.Tensor | None = None,
    head_dim_v: int = 0,
    *rest: Any,
    **words: Any,
) -> torch.Tensor:
    if rest:
        words["page_table_tensor"] = rest[0]
    values = input_tensor_k[..., :head_dim_v] if input_tensor_v is None else input_tensor_v
    return _golden(input_tensor_q, input_tensor_k, values, **words)


@operation("ttnn.transformer.paged_scaled_dot_product_attention_decode", golden=_golden_paged)
def paged_scaled_dot_product_attention_decode(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    page_table_tensor: Tensor,
    *,
    is_causal: bool = True,
    attn_mask: Tensor | None = None,
    cur_pos_tensor: Tensor | None = None,
    attention_sink: Tensor | None = None,
    scale: float | None = None,
    sliding_window_size: int | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    paged_cache_geometry: Any = None,
    cache_position_modulo: int | None = None,
    spec_multi_pos_tiles: int = 0,
) -> Tensor:
    """The same where every user's cache is a list of pages."""
    what = "paged_scaled_dot_product_attention_decode"
    if spec_multi_pos_tiles:
        raise NotImplementedError(f"ttnn.transformer.{what}: spec_multi_pos_tiles={spec_multi_pos_tiles} is not built in Tessera")
    return _attend(
        what,
        input_tensor_q,
        input_tensor_k,
        input_tensor_v,
        pages=page_table_tensor,
        is_causal=is_causal,
        attn_mask=attn_mask,
        cur_pos_tensor=cur_pos_tensor,
        attention_sink=attention_sink,
        scale=scale,
        sliding_window_size=sliding_window_size,
        memory_config=memory_config,
        program_config=program_config,
        modulo=cache_position_modulo,
        geometry=paged_cache_geometry,
    )


@operation("ttnn.transformer.flash_multi_latent_attention_decode", golden=_golden_latent)
def flash_multi_latent_attention_decode(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor | None = None,
    head_dim_v: int = 0,
    *,
    is_causal: bool = True,
    attn_mask: Tensor | None = None,
    cur_pos: Sequence[int] = (),
    cur_pos_tensor: Tensor | None = None,
    attention_sink: Tensor | None = None,
    scale: float | None = None,
    sliding_window_size: int | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The same against a compressed cache whose first `head_dim_v` columns are the values."""
    return _attend(
        "flash_multi_latent_attention_decode",
        input_tensor_q,
        input_tensor_k,
        input_tensor_v,
        width=head_dim_v,
        is_causal=is_causal,
        attn_mask=attn_mask,
        cur_pos=cur_pos,
        cur_pos_tensor=cur_pos_tensor,
        attention_sink=attention_sink,
        scale=scale,
        sliding_window_size=sliding_window_size,
        memory_config=memory_config,
        program_config=program_config,
    )


@operation("ttnn.transformer.paged_flash_multi_latent_attention_decode", golden=_golden_latent)
def paged_flash_multi_latent_attention_decode(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor | None = None,
    head_dim_v: int = 0,
    page_table_tensor: Tensor | None = None,
    *,
    is_causal: bool = True,
    attn_mask: Tensor | None = None,
    cur_pos_tensor: Tensor | None = None,
    attention_sink: Tensor | None = None,
    scale: float | None = None,
    sliding_window_size: int | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The same where the compressed cache is in pages."""
    return _attend(
        "paged_flash_multi_latent_attention_decode",
        input_tensor_q,
        input_tensor_k,
        input_tensor_v,
        pages=page_table_tensor,
        width=head_dim_v,
        is_causal=is_causal,
        attn_mask=attn_mask,
        cur_pos_tensor=cur_pos_tensor,
        attention_sink=attention_sink,
        scale=scale,
        sliding_window_size=sliding_window_size,
        memory_config=memory_config,
        program_config=program_config,
    )
