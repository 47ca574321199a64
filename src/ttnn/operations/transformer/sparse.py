"""Attention to chosen blocks of keys, and attention of one chip's share of a long prompt."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import attention_forms as engine
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import BufferType, MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require, require_device, require_tile
from ttnn.operations.transformer.attention import check_operands, check_program, check_shapes


def _golden_blocks(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, indices: torch.Tensor, *, scale: float | None = None, block_size: int = 128, **_: Any
) -> torch.Tensor:
    result: torch.Tensor = engine.chosen_blocks(q, k, v, indices, block=block_size, start=None, scale=scale)
    return result


@operation("ttnn.transformer.sparse_sdpa_msa", golden=_golden_blocks)
def sparse_sdpa_msa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    indices: Tensor,
    *,
    scale: float | None = None,
    block_size: int = 128,
    compute_kernel_config: Any = None,
    cache_batch_idx: int | None = None,
    chunk_start_idx: int | None = None,
    cluster_axis: int | None = None,
    block_cyclic_sp_axis: int | None = None,
    block_cyclic_chunk_local: int | None = None,
    enable_kv_block_cache: bool = False,
) -> Tensor:
    """Every query attends to the blocks of keys that `indices` [1, shared heads, queries, n] names for it."""
    what = "sparse_sdpa_msa"
    require_device(what, q, k, v, indices)
    device = q.buffer.device
    assert device is not None
    require(device.board.arch == "BLACKHOLE", f"{what} is only supported on Blackhole architecture, got {device.board.arch.lower()}")
    for tensor in (q, indices):
        require(tensor.spec.layout == Layout.ROW_MAJOR, f"{what} q/indices must be ROW_MAJOR, got {tensor.spec.layout}")
    require_tile(what, k, v)
    if block_cyclic_sp_axis is not None or cluster_axis is not None:
        raise NotImplementedError(f"ttnn.transformer.{what}: keys spread over chips are not built in Tessera")
    require(indices.spec.dtype == DataType.UINT32, f"{what}: indices must be UINT32, got {name_of(indices.spec.dtype)}")
    for tensor in (q, k, v, indices):
        require(len(tensor.spec.dims) == 4, f"{what}: operands must have four dimensions, got {tensor.spec.shape}")
    (batch, heads, rows, width), (_, shared, _, key_width) = q.spec.dims, k.spec.dims
    require(width == key_width, f"{what}: q and k must have the same width, got {width} and {key_width}")
    require(heads % shared == 0, f"{what}: q's {heads} heads must be a multiple of k's {shared}")
    require(indices.spec.dims[2] == rows, f"{what}: indices must have a line for each of the {rows} queries, got {indices.spec.shape}")
    require(block_size > 0 and block_size % 32 == 0, f"{what}: block_size={block_size} must be a positive multiple of 32")
    out = like(q, shape=(batch, heads, rows, v.spec.dims[-1]), memory_config=MemoryConfig())
    attributes = {"block": block_size, "start": chunk_start_idx, "scale": scale, "user": cache_batch_idx}
    return launch("SparseSDPAMsaOperation", engine.chosen_blocks, [q, k, v, indices], out, attributes=attributes, runtime=("start", "user"))  # type: ignore[no-any-return]


def _share(
    q: list[torch.Tensor], k: list[torch.Tensor], v: list[torch.Tensor], *, size: int, place: int | None, scale: float | None
) -> list[torch.Tensor]:
    return [
        engine.ring_share(*parts, size=size, place=index % size if place is None else place, scale=scale)
        for index, parts in enumerate(zip(q, k, v))
    ]


def _golden_share(
    input_tensor_q: torch.Tensor,
    input_tensor_k: torch.Tensor,
    input_tensor_v: torch.Tensor,
    ring_size: int,
    ring_id: int = 0,
    *,
    scale: float | None = None,
    **_: Any,
) -> torch.Tensor:
    result: torch.Tensor = engine.ring_share(input_tensor_q, input_tensor_k, input_tensor_v, size=ring_size, place=ring_id, scale=scale)
    return result


@operation("ttnn.transformer.ring_distributed_scaled_dot_product_attention", golden=_golden_share)
def ring_distributed_scaled_dot_product_attention(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    ring_size: int,
    ring_id: int | None = None,
    *,
    scale: float | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    page_table: Tensor | None = None,
    chunk_start_idx: int | None = None,
) -> Tensor:
    """Causal attention of a chip's share of the queries: of twice as many stretches as chips, one from the front and its mirror from the back."""
    what = "ring_distributed_scaled_dot_product_attention"
    q, k, v = input_tensor_q, input_tensor_k, input_tensor_v
    if page_table is not None or chunk_start_idx is not None:
        raise NotImplementedError(f"ttnn.transformer.{what}: chunks in pages are not built in Tessera")
    check_operands(what, q, k, v, None)
    check_shapes(what, q, k, v)
    check_program(what, program_config, q, k, v.spec.dims[-1])
    batch, heads, rows, _ = q.spec.dims
    require(
        ring_size > 0 and rows % (2 * ring_size * 32) == 0,
        f"{what}: {rows} queries do not split into 2 * {ring_size} stretches of whole tiles",
    )
    require(
        rows == k.spec.dims[2], f"{what}: Causal SDPA requires Q and K to have the same sequence length. Got Q: {rows}, K: {k.spec.dims[2]}"
    )
    require(ring_id is None or 0 <= ring_id < ring_size, f"{what}: ring_id={ring_id} must be below ring_size={ring_size}")
    place = memory_config if memory_config is not None else MemoryConfig(buffer_type=BufferType.DRAM)
    out = like(q, shape=(batch, heads, rows // ring_size, v.spec.dims[-1]), memory_config=place)
    attributes = {"size": ring_size, "place": ring_id, "scale": scale}
    return launch("RingDistributedSDPADeviceOperation", _share, [q, k, v], out, attributes=attributes, key=program_config, across=True)  # type: ignore[no-any-return]
