"""Key and value caches: filled by a prompt, updated by a word, plain or in pages. All are written in place and answer the cache itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import caches as engine
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import BufferType, MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from tessera.memory.work import num_cores_to_corerangeset
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require, require_device, require_tile

PLAIN = (DataType.FLOAT32, DataType.BFLOAT16, DataType.BFLOAT8_B)
PAGED = (*PLAIN, DataType.BFLOAT4_B)
INDEXES = (DataType.INT32,)


def _write(
    name: str, compute: Any, cache: Tensor, others: Sequence[Tensor], runtime: Sequence[str], programs: int = 1, **attributes: Any
) -> Tensor:
    attributes["dtype"] = cache.spec.dtype.name
    return launch(
        name,
        compute,
        [cache, *others],
        cache.spec,
        attributes=attributes,
        runtime=runtime,
        into=cache,
        mutates=True,
        programs=programs,
    )  # type: ignore[no-any-return]


def _check_plain(what: str, cache: Tensor, tensor: Tensor) -> None:
    require_device(what, cache, tensor)
    for t in (cache, tensor):
        require(t.spec.layout == Layout.TILE, f"{what}: Inputs to update_cache must be tilized, got {t.spec.layout}")
        require(len(t.spec.dims) == 4, f"{what}: cache and input must have four dimensions, got {t.spec.shape}")
    for role, t in (("Input", tensor), ("Cache", cache)):
        require(
            t.spec.dtype in PLAIN, f"{what}: {role} tensor dtype must be FLOAT32, BFLOAT16, or BFLOAT8_B but got {name_of(t.spec.dtype)}"
        )
    require(
        tensor.spec.dims[-1] == cache.spec.dims[-1],
        f"{what}: Input tensor width ({tensor.spec.dims[-1]}) must equal cache tensor width ({cache.spec.dims[-1]})",
    )
    require(tensor.spec.dims[0] == 1, f"{what}: Input tensor must have a first dimension of 1, got {tensor.spec.shape}")
    require(
        tensor.spec.dims[1] == cache.spec.dims[1],
        f"{what}: Input tensor height ({tensor.spec.dims[1]}) must equal cache tensor height ({cache.spec.dims[1]})",
    )


def _fill(what: str, cache: Tensor, tensor: Tensor, user: int, place: int) -> Tensor:
    _check_plain(what, cache, tensor)
    require(
        tensor.spec.dtype == cache.spec.dtype,
        f"{what}: Input and cache tensors must have same dtype! Got {tensor.spec.dtype} and {cache.spec.dtype}",
    )
    require(
        0 <= user < cache.spec.dims[0], f"{what}: Batch index ({user}) must be less than cache tensor batch size ({cache.spec.dims[0]})"
    )
    require(
        place + tensor.spec.dims[-2] <= cache.spec.padded_dims[-2],
        f"{what}: Input tensor rows ({tensor.spec.dims[-2]}) from update_idx ({place}) on must fit the cache's {cache.spec.dims[-2]}",
    )
    return _write("UpdateKVCacheOperation", engine.fill, cache, [tensor], ("user", "place"), user=user, place=place)


def _golden_fill(cache: torch.Tensor, input: torch.Tensor, batch_index: int, *, update_idx: int = 0, **_: Any) -> torch.Tensor:
    return engine.fill(cache.clone(), input, user=batch_index, place=update_idx, dtype="FLOAT32")


def _golden_update(cache: torch.Tensor, input: torch.Tensor, update_index: int, batch_offset: int = 0, **_: Any) -> torch.Tensor:
    return engine.update(cache.clone(), input, place=update_index, offset=batch_offset, dtype="FLOAT32")


@operation("ttnn.fill_cache", golden=_golden_fill)
def fill_cache(cache_tensor: Tensor, input_tensor: Tensor, batch_idx: int, *, update_idx: int = 0) -> Tensor:
    """Write a user's keys or values, all rows at once."""
    return _fill("fill_cache", cache_tensor, input_tensor, batch_idx, update_idx)


@operation("ttnn.kv_cache.fill_cache_for_user_", golden=_golden_fill)
def fill_cache_for_user_(cache: Tensor, input: Tensor, batch_index: int, *, update_idx: int = 0) -> Tensor:
    """Write a user's keys or values, all rows at once."""
    return _fill("fill_cache_for_user_", cache, input, batch_index, update_idx)


def _update(what: str, cache: Tensor, tensor: Tensor, place: int, offset: int) -> Tensor:
    _check_plain(what, cache, tensor)
    require(offset >= 0, f"{what}: batch_offset={offset} must not be negative")
    return _write("UpdateKVCacheOperation", engine.update, cache, [tensor], ("place", "offset"), place=place, offset=offset)


@operation("ttnn.update_cache", golden=_golden_update)
def update_cache(cache: Tensor, input: Tensor, update_idx: int, *, batch_offset: int = 0, compute_kernel_config: Any = None) -> Tensor:
    """Write one row of every user."""
    return _update("update_cache", cache, input, update_idx, batch_offset)


@operation("ttnn.kv_cache.update_cache_for_token_", golden=_golden_update)
def update_cache_for_token_(
    cache: Tensor, input: Tensor, update_index: int, batch_offset: int = 0, compute_kernel_config: Any = None
) -> Tensor:
    """Write one row of every user."""
    return _update("update_cache_for_token_", cache, input, update_index, batch_offset)


# -- caches in pages


def _check_each(
    what: str,
    cache: Tensor,
    tensor: Tensor,
    places: Sequence[int],
    places_tensor: Tensor | None,
    page_table: Tensor | None,
    shared: bool,
    block: int | None,
) -> None:
    require_device(what, cache, tensor)
    require_tile(what, cache, tensor)
    require(
        cache.spec.dtype in PAGED,
        f"{what}: Data type of cache tensor must be FLOAT32, BFLOAT16, BFLOAT8_B, or BFLOAT4_B and is {name_of(cache.spec.dtype)}",
    )
    require(
        tensor.spec.dtype in (DataType.FLOAT32, DataType.BFLOAT16),
        f"{what}: Data type of input tensor must be FLOAT32 or BFLOAT16 and is {name_of(tensor.spec.dtype)}",
    )
    require(
        len(cache.spec.dims) == 4 and len(tensor.spec.dims) == 4,
        f"{what}: cache and input must have four dimensions, got {cache.spec.shape} and {tensor.spec.shape}",
    )
    require(tensor.spec.is_sharded, f"{what}: Expect input_tensor to be sharded, a shard for each user")
    require(
        bool(places) != (places_tensor is not None),
        f"{what}: Only an update tensor or an update vector can be provided. Not both or neither. Got update_idxs={list(places)}",
    )
    require(page_table is None or places_tensor is not None, f"{what}: a page_table needs update_idxs_tensor")
    users = tensor.spec.dims[1]
    require(
        tensor.spec.dims[0] == 1 and (block is not None or tensor.spec.padded_dims[2] >= cache.spec.dims[1]) and 0 not in tensor.spec.dims,
        f"{what}: the input must be [1, users, heads, width] with the cache's {cache.spec.dims[1]} heads, got {tensor.spec.shape}",
    )
    for role, table, rank in (("update_idxs_tensor", places_tensor, 1), ("page_table", page_table, 2)):
        require(
            table is None or len(table.spec.dims) == rank,
            f"{what}: Expect {role} to have rank {rank}, got {table.spec.shape if table is not None else None}",
        )
    count = places_tensor.spec.dims[-1] if places_tensor is not None else len(places)
    require(count == users, f"{what}: Number of update_idxs ({count}) should match batch size ({users})")
    for role, table in (("update_idxs_tensor", places_tensor), ("page_table", page_table)):
        if table is not None:
            require_device(what, cache, table)
            require(table.spec.layout == Layout.ROW_MAJOR, f"{what}: Expect {role} in ROW_MAJOR layout, got {table.spec.layout}")
            allowed = INDEXES if role == "update_idxs_tensor" else (*INDEXES, DataType.UINT16)
            require(table.spec.dtype in allowed, f"{what}: Expect {role} to have datatype INT32, got {name_of(table.spec.dtype)}")
    if block is None:
        require(
            tensor.spec.dims[-1] == cache.spec.dims[-1],
            f"{what}: Input tensor width ({tensor.spec.dims[-1]}) must equal cache tensor width ({cache.spec.dims[-1]})",
        )
    if page_table is None:
        require(
            shared or cache.spec.dims[0] >= users,
            f"{what}: Expect batch in input tensor ({users}) to be at most the cache's ({cache.spec.dims[0]})",
        )
    else:
        require(page_table.spec.dims[0] >= users, f"{what}: the page_table has {page_table.spec.dims[0]} lines for a batch of {users}")


def _update_each(
    what: str,
    cache: Tensor,
    tensor: Tensor,
    places: Sequence[int],
    places_tensor: Tensor | None,
    page_table: Tensor | None,
    shared: bool | None,
    offset: int,
    modulo: int | None = None,
    block: int | None = None,
    programs: int = 1,
) -> Tensor:
    _check_each(what, cache, tensor, places, places_tensor, page_table, bool(shared), block)
    tables = [t for t in (places_tensor, page_table) if t is not None]
    return _write(
        "PagedUpdateCacheDeviceOperation",
        engine.update_each,
        cache,
        [tensor, *tables],
        ("places", "offset"),
        programs,
        places=tuple(places),
        offset=offset,
        modulo=modulo,
        paged=page_table is not None,
        shared=bool(shared),
        block=block,
    )


@operation("ttnn.experimental.paged_update_cache")
def paged_update_cache(
    cache_tensor: Tensor,
    input_tensor: Tensor,
    *,
    update_idxs: Sequence[int] = (),
    update_idxs_tensor: Tensor | None = None,
    share_cache: bool | None = None,
    page_table: Tensor | None = None,
    batch_offset: int = 0,
    compute_kernel_config: Any = None,
    mesh_coords: Any = None,
    block_size: int | None = None,
    num_kv_heads: int | None = None,
    cache_position_modulo: int | None = None,
) -> Tensor:
    """Write a row of every user at the user's own place, through a page table where there is one."""
    return _update_each(
        "paged_update_cache",
        cache_tensor,
        input_tensor,
        update_idxs,
        update_idxs_tensor,
        page_table,
        share_cache,
        batch_offset,
        cache_position_modulo,
        block_size,
    )


@operation("ttnn.experimental.paged_fused_update_cache")
def paged_fused_update_cache(
    cache_tensor1: Tensor,
    input_tensor1: Tensor,
    cache_tensor2: Tensor,
    input_tensor2: Tensor,
    *,
    update_idxs: Sequence[int] = (),
    update_idxs_tensor: Tensor | None = None,
    share_cache: bool | None = None,
    page_table: Tensor | None = None,
    batch_offset: int = 0,
    compute_kernel_config: Any = None,
    mesh_coords: Any = None,
) -> tuple[Tensor, Tensor]:
    """Two caches in one program: keys and values, whose inputs lie on different cores."""
    what = "paged_fused_update_cache"
    first, second = input_tensor1.spec.memory_config.shard_spec, input_tensor2.spec.memory_config.shard_spec
    if first is not None and second is not None:
        apart = not any(second.grid.contains(core) for core in first.grid.cores())
        require(apart, f"{what}: input_tensor1 and input_tensor2 must not overlap on cores; got {first.grid} and {second.grid}")
    words = (update_idxs, update_idxs_tensor, page_table, share_cache, batch_offset)
    one = _update_each(what, cache_tensor1, input_tensor1, *words)
    two = _update_each(what, cache_tensor2, input_tensor2, *words, programs=0)
    return one, two


def _golden_anywhere(
    cache_tensor1: torch.Tensor,
    input_tensor1: torch.Tensor,
    cache_tensor2: torch.Tensor,
    input_tensor2: torch.Tensor,
    physical_update_idxs_tensor: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = (cache_tensor1, input_tensor1), (cache_tensor2, input_tensor2)
    one, two = (engine.update_anywhere(cache.clone(), rows, physical_update_idxs_tensor, dtype="FLOAT32") for cache, rows in pairs)
    return one, two


@operation("ttnn.experimental.indexed_fused_update_cache", golden=_golden_anywhere)
def indexed_fused_update_cache(
    cache_tensor1: Tensor, input_tensor1: Tensor, cache_tensor2: Tensor, input_tensor2: Tensor, physical_update_idxs_tensor: Tensor
) -> tuple[Tensor, Tensor]:
    """Two caches at places counted over all pages: a page is a place divided by the length of a page."""
    what, places = "indexed_fused_update_cache", physical_update_idxs_tensor
    _check_each(what, cache_tensor1, input_tensor1, (), places, None, True, None)
    _check_each(what, cache_tensor2, input_tensor2, (), places, None, True, None)
    name = "IndexedFusedUpdateCacheDeviceOperation"
    one = _write(name, engine.update_anywhere, cache_tensor1, [input_tensor1, places], ())
    return one, _write(name, engine.update_anywhere, cache_tensor2, [input_tensor2, places], (), 0)


@operation("ttnn.experimental.paged_fill_cache")
def paged_fill_cache(
    cache_tensor: Tensor,
    input_tensor: Tensor,
    page_table: Tensor,
    *,
    batch_idx_tensor: Tensor | None = None,
    batch_idx: int = 0,
    compute_kernel_config: Any = None,
    mesh_coords: Any = None,
    block_size: int | None = None,
    cache_position_modulo: int | None = None,
    valid_seq_len_tensor: Tensor | None = None,
) -> Tensor:
    """Write a user's rows on the pages that the user's line of the table names."""
    what, cache, tensor = "paged_fill_cache", cache_tensor, input_tensor
    require_device(what, cache, tensor, page_table, batch_idx_tensor, valid_seq_len_tensor)
    require_tile(what, cache, tensor)
    require(
        cache.spec.dtype in PAGED,
        f"{what}: Data type of cache tensor must be FLOAT32, BFLOAT16, BFLOAT8_B, or BFLOAT4_B and is {name_of(cache.spec.dtype)}",
    )
    require(
        tensor.spec.dtype == cache.spec.dtype,
        f"{what}: Input and cache tensors must have same dtype! Got {tensor.spec.dtype} and {cache.spec.dtype}",
    )
    require(
        page_table.spec.dtype in INDEXES, f"{what}: Expect page_table_tensor to have datatype INT32, got {name_of(page_table.spec.dtype)}"
    )
    require(
        page_table.spec.layout == Layout.ROW_MAJOR, f"{what}: Expect page_table_tensor in ROW_MAJOR layout, got {page_table.spec.layout}"
    )
    for role, given_tensor, rank in (("cache", cache, 4), ("input", tensor, 4), ("page_table", page_table, 2)):
        require(len(given_tensor.spec.dims) == rank, f"{what}: Expect the {role} tensor to have rank {rank}, got {given_tensor.spec.shape}")
    (_, kv_heads, length, width), (_, heads, _, input_width) = cache.spec.dims, tensor.spec.dims
    viewed = heads * (block_size or length) * input_width
    require(
        kv_heads * length * width == viewed > 0,
        f"{what} geometry mismatch: cache has {kv_heads * length * width} elems/block (kv_heads={kv_heads}, block_size={length}, "
        f"head_dim={width}) but input view is {viewed} (kv_heads={heads}, block_size={block_size or length}, head_dim={input_width}).",
    )
    if batch_idx_tensor is None:
        require(
            0 <= batch_idx < page_table.spec.dims[0],
            f"{what}: Batch idx must be within the page_table batch size; got batch_idx={batch_idx} for {page_table.spec.dims[0]}",
        )
    given = [(n, t) for n, t in (("user", batch_idx_tensor), ("length", valid_seq_len_tensor)) if t is not None]
    return _write(
        "PagedFillCacheDeviceOperation",
        engine.fill_pages,
        cache,
        [tensor, page_table, *(t for _, t in given)],
        ("user",),
        user=batch_idx,
        tensors=tuple(n for n, _ in given),
        block=block_size,
        modulo=cache_position_modulo,
    )


def _rows(values: torch.Tensor, *, start: int, end: int, width: int) -> torch.Tensor:
    found = values[:, :, start:end]
    return torch.nn.functional.pad(found, (0, width - values.shape[-1], 0, end - start - found.shape[-2]))


@operation("ttnn.experimental.nlp_kv_cache_load_slice")
def nlp_kv_cache_load_slice(
    input_tensor: Tensor,
    *,
    seq_len_start: int,
    seq_len_end: int,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """Some rows of a cache, into L1: every user's every head on a core of its own."""
    what, spec = "nlp_kv_cache_load_slice", input_tensor.spec
    require_device(what, input_tensor)
    require_tile(what, input_tensor)
    require(len(spec.dims) == 4, f"{what}: the cache must have four dimensions, got {spec.shape}")
    require(
        seq_len_start % 32 == 0 and seq_len_end % 32 == 0 and 0 <= seq_len_start < seq_len_end <= spec.padded_dims[-2],
        f"{what}: seq_len_start={seq_len_start} and seq_len_end={seq_len_end} must be multiples of 32 inside the cache's {spec.dims[-2]} rows",
    )
    users, heads, _, width = spec.padded_dims
    rows = seq_len_end - seq_len_start
    device = input_tensor.buffer.device
    assert device is not None
    cores = num_cores_to_corerangeset(users * heads, device.grid, True)
    shards = ShardSpec(cores, [rows, width], ShardOrientation.ROW_MAJOR)
    place = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1, shards)
    out = like(input_tensor, shape=(users, heads, rows, width), memory_config=place)
    attributes = {"start": seq_len_start, "end": seq_len_end, "width": width}
    return launch(
        "NlpKVCacheLoadSliceDeviceOperation",
        _rows,
        [input_tensor],
        out if output_tensor is None else output_tensor.spec,
        attributes=attributes,
        into=output_tensor,
    )  # type: ignore[no-any-return]
