"""Mixtures of experts over a mesh: tokens sent to the chips of their experts, results brought back, routing weights cut to each chip's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import experts as engine
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.collectives import group_size
from ttnn.operations.rules import like, require, require_device


def _rows(what: str, **tensors: Tensor) -> None:
    require_device(what, *tensors.values())
    for name, tensor in tensors.items():
        require(tensor.spec.layout == Layout.ROW_MAJOR, f"{what}: {name} must be in ROW_MAJOR layout, got {tensor.spec.layout}")
        require(len(tensor.spec.dims) == 4, f"{what}: {name} must have four dimensions, got {tensor.spec.shape}")


def _same_tokens(what: str, tokens: Tensor, choices: Tensor) -> None:
    require(
        tokens.spec.dims[-3:-1] == choices.spec.dims[-3:-1] and tokens.spec.dims[0] == choices.spec.dims[0],
        f"{what}: tokens {tokens.spec.shape} and their experts {choices.spec.shape} must agree in all but the last dimension",
    )


def _golden_dispatch(
    input_tensor: Sequence[torch.Tensor],
    expert_indices_tensor: Sequence[torch.Tensor],
    expert_mapping_tensor: Sequence[torch.Tensor],
    *,
    output_concat_dim: int = 1,
    **_: Any,
) -> list[list[torch.Tensor]]:
    """Of the parts of a line of chips."""
    parts = [list(t) for t in (input_tensor, expert_indices_tensor, expert_mapping_tensor)]
    return list(engine.dispatch(*parts, mesh=(len(parts[0]),), axis=None, dim=output_concat_dim))


@operation("ttnn.all_to_all_dispatch", golden=_golden_dispatch)
def all_to_all_dispatch(
    input_tensor: Tensor,
    expert_indices_tensor: Tensor,
    expert_mapping_tensor: Tensor,
    *,
    cluster_axis: int | None = None,
    output_tensors: Sequence[Tensor] | None = None,
    memory_config: MemoryConfig | None = None,
    output_concat_dim: int | None = 1,
    **_: Any,
) -> list[Tensor]:
    """[the tokens of all chips whose experts are here, zeros at the places of the others; the experts of all tokens]."""
    what = "all_to_all_dispatch"
    _rows(what, input_tensor=input_tensor, expert_indices_tensor=expert_indices_tensor, expert_mapping_tensor=expert_mapping_tensor)
    _same_tokens(what, input_tensor, expert_indices_tensor)
    mesh, count = group_size(what, input_tensor, cluster_axis)
    require(output_concat_dim in (1, 2), f"{what}: output_concat_dim={output_concat_dim} must be 1 (batch) or 2 (sequence)")
    batch, _one, length, width = input_tensor.spec.dims
    dims = [1, batch * count, length] if output_concat_dim == 1 else [1, batch, length * count]
    outs = [
        like(input_tensor, shape=[*dims, width], memory_config=memory_config),
        like(expert_indices_tensor, shape=[*dims, expert_indices_tensor.spec.dims[-1]], memory_config=memory_config),
    ]
    for given, out in zip(output_tensors or (), outs):
        require(given.spec.dims == out.dims, f"{what}: an output tensor of shape {given.spec.shape} must have {out.shape}")
    made = launch(
        "AllToAllDispatchDeviceOperation",
        engine.dispatch,
        [input_tensor, expert_indices_tensor, expert_mapping_tensor],
        outs,
        attributes={"mesh": mesh, "axis": cluster_axis, "dim": output_concat_dim},
        across=True,
        into=list(output_tensors) if output_tensors is not None else None,
    )
    return list(made)


def _golden_combine(
    input_tensor: Sequence[torch.Tensor],
    expert_metadata_tensor: Sequence[torch.Tensor],
    expert_mapping_tensor: Sequence[torch.Tensor],
    *,
    local_reduce: bool = False,
    output_shard_dim: int = 1,
    **_: Any,
) -> list[torch.Tensor]:
    """Of the parts of a line of chips."""
    parts = [list(t) for t in (input_tensor, expert_metadata_tensor, expert_mapping_tensor)]
    return engine.combine(*parts, mesh=(len(parts[0]),), axis=None, dim=output_shard_dim, local_reduce=local_reduce)


@operation("ttnn.all_to_all_combine", golden=_golden_combine)
def all_to_all_combine(
    input_tensor: Tensor,
    expert_metadata_tensor: Tensor,
    expert_mapping_tensor: Tensor,
    *,
    local_reduce: bool = False,
    output_shard_dim: int | None = 1,
    cluster_axis: int | None = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    **_: Any,
) -> Tensor:
    """What each token's experts made of it, [chosen experts, batch, sequence, width], on the chip that the token came from."""
    what = "all_to_all_combine"
    _rows(what, input_tensor=input_tensor, expert_metadata_tensor=expert_metadata_tensor, expert_mapping_tensor=expert_mapping_tensor)
    mesh, count = group_size(what, input_tensor, cluster_axis)
    require(output_shard_dim in (1, 2), f"{what}: output_shard_dim={output_shard_dim} must be 1 (batch) or 2 (sequence)")
    assert output_shard_dim is not None
    _experts, batch, length, width = input_tensor.spec.dims
    dims = [expert_metadata_tensor.spec.dims[-1], batch, length, width]
    require(
        dims[output_shard_dim] % count == 0,
        f"{what}: Invalid shape at index {output_shard_dim}: {dims[output_shard_dim]} must be divisible by the {count} chips that share it",
    )
    dims[output_shard_dim] //= count
    out = like(input_tensor, shape=dims, memory_config=memory_config)
    if output_tensor is not None:
        require(output_tensor.spec.dims == out.dims, f"{what}: output_tensor of shape {output_tensor.spec.shape} must have {out.shape}")
    return launch(  # type: ignore[no-any-return]
        "AllToAllCombineDeviceOperation",
        engine.combine,
        [input_tensor, expert_metadata_tensor, expert_mapping_tensor],
        out,
        attributes={"mesh": mesh, "axis": cluster_axis, "dim": output_shard_dim, "local_reduce": local_reduce},
        across=True,
        into=output_tensor,
    )


def _golden_remap(
    topk_tensor: torch.Tensor,
    expert_mapping_tensor: torch.Tensor,
    expert_metadata_tensor: torch.Tensor,
    *,
    reduction_size: int = 16,
    **_: Any,
) -> list[torch.Tensor]:
    """Of the first chip."""
    local, used = engine.remap([topk_tensor], [expert_mapping_tensor], [expert_metadata_tensor], reduction=reduction_size)
    return [local[0], used[0]]


@operation("ttnn.moe_expert_token_remap", golden=_golden_remap)
def moe_expert_token_remap(
    topk_tensor: Tensor,
    expert_mapping_tensor: Tensor,
    expert_metadata_tensor: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    optional_output_mapping_tensor: Tensor | None = None,
    optional_output_reduced_tensor: Tensor | None = None,
    reduction_size: int = 16,
) -> list[Tensor]:
    """[the weights of this chip's experts where a token chose them; which experts each group of `reduction_size` tokens uses]."""
    what = "moe_expert_token_remap"
    _rows(what, topk_tensor=topk_tensor, expert_mapping_tensor=expert_mapping_tensor, expert_metadata_tensor=expert_metadata_tensor)
    require(reduction_size > 0, f"{what}: reduction_size={reduction_size} must be positive")
    batch, length = expert_metadata_tensor.spec.dims[-3:-1]
    experts, chips = expert_mapping_tensor.spec.dims[-2:]
    require(
        topk_tensor.spec.dims[-1] == experts,
        f"{what}: topk_tensor {topk_tensor.spec.shape} must have a weight for each of the {experts} experts of expert_mapping_tensor",
    )
    require(experts % chips == 0, f"{what}: {experts} experts do not divide among {chips} chips")
    mine = experts // chips
    outs = [
        like(topk_tensor, shape=[1, batch, length, mine], memory_config=memory_config),
        like(topk_tensor, shape=[1, 1, -(-batch * length // reduction_size), mine], dtype=DataType.UINT16, memory_config=memory_config),
    ]
    given = (optional_output_mapping_tensor, optional_output_reduced_tensor)
    made = launch(
        "MoeExpertTokenRemapDeviceOperation",
        engine.remap,
        [topk_tensor, expert_mapping_tensor, expert_metadata_tensor],
        outs,
        attributes={"reduction": reduction_size},
        across=True,
        into=list(given) if all(t is not None for t in given) else None,
    )
    return list(made)
