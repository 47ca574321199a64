"""Heads: a projection split into queries, keys and values, and attended heads joined again, in the forms that models use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import heads as engine
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import BufferType, MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from tessera.memory.geometry import CoreRangeSet
from tessera.memory.spec import TensorSpec
from tessera.memory.work import num_cores_to_corerangeset
from tessera.runtime.device import Device
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require, require_device

HEIGHT = TensorMemoryLayout.HEIGHT_SHARDED
JOINED = (DataType.FLOAT32, DataType.BFLOAT16, DataType.BFLOAT8_B)
Heads = tuple[Tensor, Tensor, Tensor]


def check_rank(what: str, tensor: Tensor, rank: int = 4) -> None:
    require_device(what, tensor)
    require(len(tensor.spec.dims) == rank, f"{what}: Input tensor must have rank {rank}. Shape: {tensor.spec.shape}")


def check_tile(what: str, tensor: Tensor) -> None:
    require(tensor.spec.layout == Layout.TILE, f"{what}: Input tensor layout must be TILE but got {name_of(tensor.spec.layout)}")


def device_of(tensor: Tensor) -> Device:
    device = tensor.buffer.device
    assert device is not None
    return device


def spec_of(tensor: Tensor, shape: tuple[int, ...], memory_config: MemoryConfig | None, cores: CoreRangeSet | None = None) -> TensorSpec:
    """An output's spec. Height shards without a spec are one head of one batch to a core."""
    config = memory_config if memory_config is not None else tensor.spec.memory_config
    if config.is_sharded() and config.memory_layout == HEIGHT and config.shard_spec is None:
        plain = like(tensor, shape=shape, memory_config=MemoryConfig())
        rows, width = plain.padded_dims[-2:]
        grid = cores or num_cores_to_corerangeset(shape[0] * shape[1], device_of(tensor).grid, True)
        config = MemoryConfig(HEIGHT, config.buffer_type, ShardSpec(grid, [rows, width], ShardOrientation.ROW_MAJOR))
    return like(tensor, shape=shape, memory_config=config)


def _three(
    name: str,
    compute: Any,
    inputs: Sequence[Tensor],
    shapes: Sequence[tuple[int, ...]],
    memory_config: MemoryConfig | None,
    outputs: Sequence[Tensor | None] | None = None,
    cores: Sequence[CoreRangeSet | None] = (None, None, None),
    **attributes: Any,
) -> Heads:
    specs = [spec_of(inputs[0], shape, memory_config, grid) for shape, grid in zip(shapes, cores)]
    given = list(outputs or [None] * len(specs))
    specs = [spec if out is None else out.spec for spec, out in zip(specs, given)]
    return tuple(launch(name, compute, inputs, specs, attributes=attributes, into=given))  # type: ignore[return-value]


def _shapes(batch: int, heads: int, shared: int, rows: int, width: int, turn: bool) -> list[tuple[int, ...]]:
    key = (batch, shared, width, rows) if turn else (batch, shared, rows, width)
    return [(batch, heads, rows, width), key, (batch, shared, rows, width)]


# -- ttnn.transformer


def _golden_split(
    input_tensor: torch.Tensor,
    kv_input_tensor: torch.Tensor | None = None,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_key: bool = True,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    shared = num_kv_heads or num_heads
    width = input_tensor.shape[-1] // (num_heads if kv_input_tensor is not None else num_heads + 2 * shared)
    return engine.query_key_value(input_tensor, kv_input_tensor, heads=num_heads, shared=shared, width=width, turn_keys=transpose_key)


@operation("ttnn.transformer.split_query_key_value_and_split_heads", golden=_golden_split)
def split_query_key_value_and_split_heads(
    input_tensor: Tensor,
    kv_input_tensor: Tensor | None = None,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_key: bool = True,
    memory_config: MemoryConfig | None = None,
    use_falcon7b_backend: bool = False,
) -> Heads:
    """[batch, rows, width] as heads of queries, keys (turned unless told otherwise) and values."""
    what = "split_query_key_value_and_split_heads"
    require_device(what, input_tensor, kv_input_tensor)
    require(
        len(input_tensor.spec.dims) == 3, f"{what}: Invalid input tensor: expected 3 dimensions, but found {len(input_tensor.spec.dims)}."
    )
    require(
        input_tensor.spec.layout == Layout.TILE,
        f"{what}: Invalid layout: input tensor must use TILE_LAYOUT, but found {input_tensor.spec.layout}",
    )
    batch, rows, total = input_tensor.spec.dims
    shared = num_kv_heads or num_heads
    if kv_input_tensor is not None:
        width = total // num_heads
        other = kv_input_tensor.spec.dims[-1]
        require(other % (2 * shared) == 0, f"{what}: KV dimension ({other}) must be divisible by 2 * num_kv_heads ({2 * shared}).")
        require(
            other // (2 * shared) == width,
            f"{what}: Dimension mismatch: KV head size ({other // (2 * shared)}) must be equal to query head size ({width}).",
        )
    else:
        width = total // (num_heads + 2 * shared)
    require(
        width > 0 and width % 32 == 0,
        f"{what}: Invalid head size: {width}. The head size must be a multiple of the tile width (32). Please adjust the dimensions accordingly.",
    )
    inputs = [input_tensor] if kv_input_tensor is None else [input_tensor, kv_input_tensor]
    return _three(
        "NlpCreateHeadsDeviceOperation",
        engine.query_key_value,
        inputs,
        _shapes(batch, num_heads, shared, rows, width, transpose_key),
        memory_config,
        heads=num_heads,
        shared=shared,
        width=width,
        turn_keys=transpose_key,
    )


# -- ttnn.experimental: one tensor [batch, 1, rows, width]


def _golden_create(
    input: torch.Tensor,
    input_kv: torch.Tensor | None = None,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_k_heads: bool = True,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _golden_split(input, input_kv, num_heads=num_heads, num_kv_heads=num_kv_heads, transpose_key=transpose_k_heads)


def _head_width(what: str, tensor: Tensor, further: Tensor | None, heads: int, shared: int, tied: bool) -> int:
    total, copies = tensor.spec.dims[-1], 1 if tied else 2
    require(heads > 0 and shared > 0, f"{what}: num_heads={heads} and num_kv_heads={shared} must be greater than 0")
    if further is not None:
        width, other = total // heads, further.spec.dims[-1]
        require(
            width * heads == total and width * copies * shared == other,
            f"{what}: Head dims must be the same for Q and K, V; got {width} and {other // (copies * shared)}",
        )
        return width
    count = heads + copies * shared
    require(
        total % count == 0,
        f"{what}: Unsupported input shape {tensor.spec.shape}: its width must be divisible by the {count} heads of Q, K and V",
    )
    return total // count


@operation("ttnn.experimental.nlp_create_qkv_heads", golden=_golden_create)
def nlp_create_qkv_heads(
    input: Tensor,
    input_kv: Tensor | None = None,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_k_heads: bool = True,
    kv_tied: bool = False,
    memory_config: MemoryConfig | None = None,
    output_tensors: Sequence[Tensor | None] | None = None,
) -> Heads:
    """Heads of queries, keys (turned unless told otherwise) and values."""
    what = "nlp_create_qkv_heads"
    require_device(what, input, input_kv)
    check_rank(what, input)
    shared = num_heads if num_kv_heads is None else num_kv_heads
    width = _head_width(what, input, input_kv, num_heads, shared, kv_tied)
    check_tile(what, input)
    batch, _, rows, _ = input.spec.dims
    return _three(
        "NlpCreateHeadsDeviceOperation",
        engine.query_key_value,
        [input] if input_kv is None else [input, input_kv],
        _shapes(batch, num_heads, shared, rows, width, transpose_k_heads),
        memory_config,
        output_tensors,
        heads=num_heads,
        shared=shared,
        width=width,
        turn_keys=transpose_k_heads,
        tied=kv_tied,
    )


def _create_grouped(
    what: str,
    tensor: Tensor,
    further: Tensor | None,
    heads: int,
    shared: int,
    turn: bool,
    memory_config: MemoryConfig | None,
    outputs: Sequence[Tensor] | None,
) -> Heads:
    require_device(what, tensor, further)
    check_rank(what, tensor)
    width = _head_width(what, tensor, further, heads, shared, False)
    check_tile(what, tensor)
    require(heads % shared == 0, f"{what}: num_heads={heads} must be divisible by num_kv_heads={shared}")
    for operand in (tensor, further):
        require(
            operand is None or operand.spec.is_sharded, f"{what}: operands must be sharded, got {tensor.spec.memory_config.memory_layout}"
        )
    batch, _, rows, _ = tensor.spec.dims
    return _three(
        "CreateQKVHeadsDeviceOperation",
        engine.grouped_query_key_value,
        [tensor] if further is None else [tensor, further],
        _shapes(batch, heads, shared, rows, width, turn),
        memory_config,
        outputs,
        heads=heads,
        shared=shared,
        width=width,
        turn_keys=turn,
    )


@operation("ttnn.experimental.create_qkv_heads")
def create_qkv_heads(
    input: Tensor,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_k_heads: bool = True,
    memory_config: MemoryConfig | None = None,
    output_tensors: Sequence[Tensor] | None = None,
) -> Heads:
    """Heads from shards in which each group of queries stands beside its keys and values."""
    shared = num_heads if num_kv_heads is None else num_kv_heads
    return _create_grouped("create_qkv_heads", input, None, num_heads, shared, transpose_k_heads, memory_config, output_tensors)


def _golden_grouped(
    input: torch.Tensor,
    input_kv: torch.Tensor | None = None,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_k_heads: bool = True,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    shared = num_kv_heads or num_heads
    width = input.shape[-1] // (num_heads if input_kv is not None else num_heads + 2 * shared)
    return engine.grouped_query_key_value(input, input_kv, heads=num_heads, shared=shared, width=width, turn_keys=transpose_k_heads)


@operation("ttnn.experimental.create_qkv_heads_from_separate_tensors", golden=_golden_grouped)
def create_qkv_heads_from_separate_tensors(
    input: Tensor,
    input_kv: Tensor,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_k_heads: bool = True,
    memory_config: MemoryConfig | None = None,
    output_tensors: Sequence[Tensor] | None = None,
) -> Heads:
    """The same with keys and values in a tensor of their own."""
    shared = num_heads if num_kv_heads is None else num_kv_heads
    what = "create_qkv_heads_from_separate_tensors"
    return _create_grouped(what, input, input_kv, num_heads, shared, transpose_k_heads, memory_config, output_tensors)


@operation("ttnn.experimental.nlp_create_qkv_heads_boltz")
def nlp_create_qkv_heads_boltz(
    input: Tensor,
    input_kv: Tensor | None = None,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_k_heads: bool = True,
    memory_config: MemoryConfig | None = None,
    output_tensors: Sequence[Tensor | None] | None = None,
) -> Heads:
    """[1, a, b, width] as heads in front: [heads, a, b, width of a head]."""
    what = "nlp_create_qkv_heads_boltz"
    require_device(what, input, input_kv)
    check_rank(what, input)
    shared = num_heads if num_kv_heads is None else num_kv_heads
    width = _head_width(what, input, input_kv, num_heads, shared, False)
    check_tile(what, input)
    _, a, b, _ = input.spec.dims
    key = (shared, a, width, b) if transpose_k_heads else (shared, a, b, width)
    return _three(
        "NlpCreateHeadsBoltzDeviceOperation",
        engine.split_first,
        [input] if input_kv is None else [input, input_kv],
        [(num_heads, a, b, width), key, (shared, a, b, width)],
        memory_config,
        output_tensors,
        heads=num_heads,
        shared=shared,
        width=width,
        turn_keys=transpose_k_heads,
    )


def _fixed(
    name: str, tensor: Tensor, heads: int, shared: int, width: int, memory_config: MemoryConfig | None, outputs: Any = None
) -> Heads:
    """A model's own numbers of heads."""
    what = name.rpartition(".")[2]
    check_rank(what, tensor)
    check_tile(what, tensor)
    batch, _, rows, total = tensor.spec.dims
    require(
        total == (heads + 2 * shared) * width,
        f"{what}: Unsupported input shape {tensor.spec.shape}: its width must be {(heads + 2 * shared) * width}",
    )
    shapes = _shapes(batch, heads, shared, rows, width, False)
    return _three(name, engine.query_key_value, [tensor], shapes, memory_config, outputs, heads=heads, shared=shared, width=width)


@operation("ttnn.experimental.nlp_create_qkv_heads_falcon7b")
def nlp_create_qkv_heads_falcon7b(input: Tensor, *, memory_config: MemoryConfig | None = None) -> Heads:
    """Falcon 7B: 71 heads of queries and one of keys and values, 64 wide."""
    return _fixed("NlpCreateHeadsFalcon7BDeviceOperation", input, 71, 1, 64, memory_config)


@operation("ttnn.experimental.nlp_create_qkv_heads_vit")
def nlp_create_qkv_heads_vit(
    input: Tensor, *, memory_config: MemoryConfig | None = None, output_tensors: Sequence[Tensor | None] | None = None
) -> Heads:
    """ViT: 12 heads of each, 64 wide."""
    return _fixed("NlpCreateHeadsVitDeviceOperation", input, 12, 12, 64, memory_config, output_tensors)


def _three_times(values: torch.Tensor, *, heads: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    (parts,) = engine.split(values, (heads,), 32)
    return parts, parts, parts


@operation("ttnn.experimental.nlp_create_qkv_heads_segformer")
def nlp_create_qkv_heads_segformer(
    input: Tensor, *, memory_config: MemoryConfig | None = None, output_tensors: Sequence[Tensor | None] | None = None
) -> Heads:
    """Segformer projects separately: the input is split into heads 32 wide, for each of the three outputs."""
    what = "nlp_create_qkv_heads_segformer"
    check_rank(what, input)
    check_tile(what, input)
    batch, _, rows, total = input.spec.dims
    require(total % 32 == 0, f"{what}: Unsupported input shape {input.spec.shape}: its width must be divisible by 32")
    shapes = [(batch, total // 32, rows, 32)] * 3
    return _three("NlpCreateHeadsSegformerDeviceOperation", _three_times, [input], shapes, memory_config, output_tensors, heads=total // 32)


def _split_width(values: torch.Tensor, *, heads: int, width: int, first: int) -> tuple[torch.Tensor, torch.Tensor]:
    (parts,) = engine.split(values, (heads,), width)
    return parts[..., :first], parts[..., first:]


@operation("ttnn.experimental.nlp_create_q_heads_split")
def nlp_create_q_heads_split(
    input: Tensor, *, num_heads: int, split_head_dim: int, memory_config: MemoryConfig | None = None
) -> tuple[Tensor, Tensor]:
    """Heads of queries, each cut in two: the part without and the part with a rotary embedding."""
    what = "nlp_create_q_heads_split"
    check_rank(what, input)
    check_tile(what, input)
    batch, _, rows, total = input.spec.dims
    require(total % num_heads == 0, f"{what}: the width {total} must be divisible by num_heads={num_heads}")
    width = total // num_heads
    require(0 < split_head_dim < width, f"{what}: split_head_dim={split_head_dim} must be inside a head of {width}")
    shapes = [(batch, num_heads, rows, split_head_dim), (batch, num_heads, rows, width - split_head_dim)]
    return _three(  # type: ignore[return-value]
        "NlpCreateQHeadsSplitDeviceOperation",
        _split_width,
        [input],
        shapes,
        memory_config,
        heads=num_heads,
        width=width,
        first=split_head_dim,
    )


@operation("ttnn.experimental.nlp_create_qkv_heads_decode")
def nlp_create_qkv_heads_decode(
    input_tensor: Tensor,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    output_tensors: Sequence[Tensor] | None = None,
    overlap_qk_coregrid: bool | None = True,
    batch_offset: Tensor | None = None,
    slice_size: int | None = None,
    memory_config: MemoryConfig | None = None,
) -> Heads:
    """One row for each user as heads, each user on a core of its own."""
    what = "nlp_create_qkv_heads_decode"
    require_device(what, input_tensor, batch_offset)
    check_rank(what, input_tensor)
    check_tile(what, input_tensor)
    shared = num_heads if num_kv_heads is None else num_kv_heads
    total = input_tensor.spec.padded_dims[-1]
    count = num_heads + 2 * shared
    require(total % count == 0, f"{what}: Input shape {total} must be divisible by num_heads + 2*num_kv_heads = {count}")
    width = total // count
    users = slice_size if slice_size is not None else input_tensor.spec.dims[-2]
    require(
        memory_config is None or memory_config.memory_layout == HEIGHT, f"{what}: the output must be HEIGHT_SHARDED, got {memory_config}"
    )
    grid = device_of(input_tensor).grid
    first = num_cores_to_corerangeset(users, grid, True)
    second = first
    if overlap_qk_coregrid is False:
        require(
            2 * users <= grid.x * grid.y,
            f"{what}: {users} users need {2 * users} cores for Q and K that do not overlap; there are {grid.x * grid.y}",
        )
        second = num_cores_to_corerangeset(2 * users, grid, True).subtract(first)
    config = memory_config or MemoryConfig(HEIGHT, BufferType.L1)
    if config.shard_spec is not None:
        config = MemoryConfig(HEIGHT, config.buffer_type)
    return _three(
        "NLPCreateQKVHeadsDecodeDeviceOperation",
        engine.users_query_key_value,
        [input_tensor] if batch_offset is None else [input_tensor, batch_offset],
        [(1, users, n, width) for n in (num_heads, shared, shared)],
        config,
        output_tensors,
        (first, second, first),
        heads=num_heads,
        shared=shared,
        width=width,
        users=users,
    )


# -- BERT large, whose kernels are laid out for 12 columns of cores and a row of them for each sentence


def check_bert(what: str, tensor: Tensor, grid: Any) -> None:
    require_device(what, tensor)
    batch = tensor.spec.dims[0] if tensor.spec.dims else 0
    require(7 <= batch <= 9, f"{what}: Input batch size must be between 7 to 9 for bert large TM ops! Got {batch}")
    device = device_of(tensor)
    require(grid.x <= device.grid.x and grid.y <= device.grid.y, f"{what}: Unsupported grid shape {grid}; the device has {device.grid}")
    require(
        device.grid.x >= 12 and device.grid.y >= batch,
        f"{what}: needs 12 columns and {batch} rows of cores, which is outside the worker grid {device.grid.x}x{device.grid.y}",
    )


def _golden_bert(input_tensor: torch.Tensor, *_: Any, num_heads: int = 16, **__: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _golden_split(input_tensor, num_heads=num_heads)


@operation("ttnn.experimental.split_query_key_value_and_split_heads", golden=_golden_bert)
def bert_split_heads(
    input_tensor: Tensor,
    compute_with_storage_grid_size: Any,
    *,
    memory_config: MemoryConfig | None = None,
    num_heads: int = 16,
    output_tensors: Sequence[Tensor | None] | None = None,
) -> Heads:
    """BERT large: [batch, 1, 384, 3072] as heads, keys turned."""
    what = "split_query_key_value_and_split_heads"
    check_bert(what, input_tensor, compute_with_storage_grid_size)
    require(
        input_tensor.spec.dims[1:] == (1, 384, 3072),
        f"{what}: Unsupported input shape {input_tensor.spec.shape}, expected [batch, 1, 384, 3072]",
    )
    require(1024 % num_heads == 0, f"{what}: num_heads={num_heads} must divide 1024")
    batch, width = input_tensor.spec.dims[0], 1024 // num_heads
    return _three(
        "SplitFusedQKVAndSplitHeadsDeviceOperation",
        engine.query_key_value,
        [input_tensor],
        _shapes(batch, num_heads, num_heads, 384, width, True),
        memory_config,
        output_tensors,
        heads=num_heads,
        shared=num_heads,
        width=width,
        turn_keys=True,
    )
