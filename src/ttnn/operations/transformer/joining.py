"""Attended heads joined again into one row for each word."""

from __future__ import annotations

from typing import Any

from tessera.engine import heads as engine
from tessera.formats.dtype import DataType
from tessera.memory.config import BufferType, MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from tessera.memory.geometry import CoreRangeSet
from tessera.memory.work import num_cores_to_corerangeset, num_cores_to_corerangeset_in_subcoregrids
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, name_of, require
from ttnn.operations.transformer.heads import HEIGHT, JOINED, check_bert, check_rank, check_tile, device_of, spec_of


@operation("ttnn.transformer.concatenate_heads", golden=lambda input_tensor, **_: engine.join(input_tensor))
def concatenate_heads(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """[batch, heads, rows, width] as [batch, rows, heads * width]."""
    what = "concatenate_heads"
    check_rank(what, input_tensor)
    batch, heads, rows, width = input_tensor.spec.dims
    require(
        width % 32 == 0,
        f"{what}: Head size must be a multiple of 32 but was found to be {width}. Pad the weights of the product that made the heads.",
    )
    check_tile(what, input_tensor)
    require(input_tensor.spec.dtype in JOINED, f"{what}: Unsupported data format {name_of(input_tensor.spec.dtype)}")
    out = spec_of(input_tensor, (batch, rows, heads * width), memory_config)
    return launch("NLPConcatHeadsDeviceOperation", engine.join, [input_tensor], out)  # type: ignore[no-any-return]


def _join(
    name: str, compute: Any, tensor: Tensor, shape: tuple[int, ...], memory_config: MemoryConfig | None, into: Tensor | None
) -> Tensor:
    out = spec_of(tensor, shape, memory_config) if into is None else into.spec
    return launch(name, compute, [tensor], out, into=into)  # type: ignore[no-any-return]


@operation("ttnn.experimental.nlp_concat_heads", golden=lambda input_tensor, **_: engine.join(input_tensor).unsqueeze(1))
def nlp_concat_heads(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """[batch, heads, rows, width] as [batch, 1, rows, heads * width]."""
    what = "nlp_concat_heads"
    check_rank(what, input_tensor)
    check_tile(what, input_tensor)
    batch, heads, rows, width = input_tensor.spec.dims
    config = memory_config
    if config is None and input_tensor.spec.is_sharded:
        config = MemoryConfig(buffer_type=input_tensor.spec.memory_config.buffer_type)
    return _join("NLPConcatHeadsDeviceOperation", engine.join, input_tensor, (batch, 1, rows, heads * width), config, None)


@operation("ttnn.experimental.nlp_concat_heads_boltz", golden=lambda input_tensor, **_: engine.join_first(input_tensor))
def nlp_concat_heads_boltz(
    input_tensor: Tensor, *, memory_config: MemoryConfig | None = None, output_tensor: Tensor | None = None
) -> Tensor:
    """[heads, a, b, width] as [1, a, b, heads * width]."""
    what = "nlp_concat_heads_boltz"
    check_rank(what, input_tensor)
    check_tile(what, input_tensor)
    heads, a, b, width = input_tensor.spec.dims
    return _join(
        "NLPConcatHeadsBoltzDeviceOperation", engine.join_first, input_tensor, (1, a, b, heads * width), memory_config, output_tensor
    )


@operation("ttnn.experimental.nlp_concat_heads_decode")
def nlp_concat_heads_decode(
    input_tensor: Tensor,
    *,
    num_heads: int,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    sub_core_grids: CoreRangeSet | None = None,
) -> Tensor:
    """[1, users, heads, width], a user to a core, as one row for each user; every head's columns on a core."""
    what = "nlp_concat_heads_decode"
    check_rank(what, input_tensor)
    check_tile(what, input_tensor)
    spec = input_tensor.spec
    require(
        spec.dtype in (DataType.FLOAT32, DataType.BFLOAT16),
        f"{what}: Unsupported data format {name_of(spec.dtype)}; rows of heads are moved whole",
    )
    require(
        spec.is_sharded and spec.memory_config.memory_layout == HEIGHT,
        f"{what}: the input must be HEIGHT_SHARDED, got {name_of(spec.memory_config.memory_layout)}",
    )
    one, users, heads, width = spec.dims
    require(one == 1 and users <= 32, f"{what}: the input must be [1, users, heads, width] with at most 32 users, got {spec.shape}")
    require(0 < num_heads <= max(heads, 32), f"{what}: num_heads={num_heads} must be at most the input's {heads}")
    cores = num_cores_to_corerangeset(num_heads, device_of(input_tensor).grid, True)
    if sub_core_grids is not None:
        cores = num_cores_to_corerangeset_in_subcoregrids(sub_core_grids.cores()[0], num_heads, sub_core_grids, True)
    shards = ShardSpec(cores, [32, spec.padded_dims[-1]], ShardOrientation.ROW_MAJOR)
    place = MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, BufferType.L1, shards)
    out = like(input_tensor, shape=(1, 1, 32, num_heads * width), memory_config=place) if output_tensor is None else output_tensor.spec
    attributes = {"heads": num_heads, "users": 32}
    return launch(  # type: ignore[no-any-return]
        "NLPConcatHeadsDecodeDeviceOperation", engine.join_users, [input_tensor], out, attributes=attributes, into=output_tensor
    )


@operation("ttnn.experimental.concatenate_heads", golden=lambda input_tensor, *_, **__: engine.join(input_tensor).unsqueeze(1))
def bert_concatenate_heads(
    input_tensor: Tensor,
    compute_with_storage_grid_size: Any,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """BERT large: [batch, 16, 384, 64] as [batch, 1, 384, 1024]."""
    what = "concatenate_heads"
    check_bert(what, input_tensor, compute_with_storage_grid_size)
    require(
        input_tensor.spec.dims[1:] == (16, 384, 64),
        f"{what}: Unsupported input shape {input_tensor.spec.shape}, expected [batch, 16, 384, 64]",
    )
    shape = (input_tensor.spec.dims[0], 1, 384, 1024)
    return _join("ConcatenateHeadsDeviceOperation", engine.join, input_tensor, shape, memory_config, output_tensor)
