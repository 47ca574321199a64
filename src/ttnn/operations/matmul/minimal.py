"""Experimental products: the streaming `minimal_matmul`, and those that attention over cached keys is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import products as engine
from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.activations import as_steps
from ttnn.operations.circular import require_circular_room
from ttnn.operations.matmul.product import multiply
from ttnn.operations.rules import like, name_of, require, require_device, require_tile

MINIMAL_DTYPES = (DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.BFLOAT4_B, DataType.FLOAT32)
#: Blocks of minimal_matmul along M, K and N, in tiles, when no config says otherwise.
BLOCK = 8


def _minimal(
    what: str,
    tensor: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    activation: Any,
    config: Any,
    memory_config: MemoryConfig | None,
    dtype: DataType | None,
    chunks: int,
    swiglu: bool,
) -> Any:
    a, b = tensor.spec, weight.spec
    require_device(what, tensor, weight, bias)
    require_tile(what, tensor, weight, bias)
    require(len(a.dims) >= 2 and len(b.dims) >= 2, f"{what}: inputs must be matrices, got {a.shape} and {b.shape}")
    for spec in (a, b):
        require(
            spec.dtype in MINIMAL_DTYPES,
            f"minimal_matmul supports only {', '.join(d.name for d in MINIMAL_DTYPES)} for inputs, got {name_of(spec.dtype)}",
        )
    require(a.dims[-1] == b.dims[-2], f"minimal_matmul inner dimensions must match, got K={a.dims[-1]} and K_w={b.dims[-2]}")
    require(all(d == 1 for d in b.dims[:-2]), f"{what}: the weight must not be batched, got {b.shape}")
    width = b.dims[-1]
    if bias is not None:
        require(all(d == 1 for d in bias.spec.dims[:-1]), f"{what}: bias must be one row, got {bias.spec.shape}")
        require(bias.spec.dims[-1] == width, f"{what}: bias of width {bias.spec.dims[-1]} does not fit a product of width {width}")
    if swiglu:
        require(width % 64 == 0, f"{what}: fuse_swiglu pairs halves of whole tiles, got a width of {width}")
        width //= 2
    require(
        width % chunks == 0 and (chunks == 1 or (width // chunks) % 32 == 0),
        f"{what}: a width of {width} does not split into {chunks} chunks of whole tiles",
    )
    out = TensorSpec.of(Shape.of((*a.dims[:-1], width // chunks)), dtype or a.dtype, Layout.TILE, memory_config or MemoryConfig(), a.tile)
    inputs = [tensor, weight] + ([bias] if bias is not None else [])
    attributes = {"activation": as_steps(activation) if activation is not None else (), "chunks": chunks, "swiglu": swiglu}
    outs: Any = [out] * chunks if chunks > 1 else out
    result = launch("MinimalMatmulDeviceOperation", engine.minimal_matmul, inputs, outs, attributes=attributes, key=config)
    _check_room(what, tensor, weight, bias, out, config)
    return result


def _check_room(what: str, tensor: Tensor, weight: Tensor, bias: Tensor | None, out: TensorSpec, config: Any) -> None:
    """Both operands and the result are double-buffered; what is accumulated is kept once, in fp32 where an operand is."""

    def block(name: str) -> int:
        return getattr(config, name, 0) or BLOCK

    def tile(spec: TensorSpec) -> int:
        return spec.tile.get_tile_size(spec.dtype)

    m, k, n = block("M_block_size"), block("K_block_size"), block("N_block_size")
    device = tensor.buffer.device
    assert device is not None
    grid = getattr(config, "compute_with_storage_grid_size", device.grid)
    size = 2 * m * k * tile(tensor.spec) + 2 * k * n * tile(weight.spec) + 2 * m * n * tile(out)
    size += m * n * (4096 if tensor.spec.dtype == DataType.FLOAT32 else 2048)
    if bias is not None:
        size += n * tile(bias.spec)
    require_circular_room(what, device, grid, size)


def _golden_minimal(
    input_tensor: torch.Tensor, weight_tensor: torch.Tensor, *, bias_tensor: torch.Tensor | None = None, **_: Any
) -> torch.Tensor:
    product = torch.matmul(input_tensor, weight_tensor)
    return product if bias_tensor is None else product + bias_tensor


@operation("ttnn.experimental.minimal_matmul", golden=_golden_minimal)
def minimal_matmul(
    input_tensor: Tensor | Sequence[Tensor],
    weight_tensor: Tensor,
    *,
    bias_tensor: Tensor | None = None,
    fused_activation: Any = None,
    config: Any = None,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    compute_kernel_config: Any = None,
    fuse_swiglu: bool = False,
) -> Tensor:
    """A matrix product streamed through blocks of fixed size, with bias and activation."""
    what = "minimal_matmul"
    if not isinstance(input_tensor, Tensor):
        require(len(input_tensor) == 1, f"{what}: a list of inputs to concatenate must hold one tensor, got {len(input_tensor)}")
        input_tensor = input_tensor[0]
    return _minimal(what, input_tensor, weight_tensor, bias_tensor, fused_activation, config, memory_config, dtype, 1, fuse_swiglu)  # type: ignore[no-any-return]


@operation("ttnn.experimental.minimal_matmul_split")
def minimal_matmul_split(
    input_tensor: Tensor,
    weight_tensor: Tensor,
    *,
    chunks: int = 3,
    dim: int = -1,
    bias_tensor: Tensor | None = None,
    fused_activation: Any = None,
    config: Any = None,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    compute_kernel_config: Any = None,
    fuse_swiglu: bool = False,
) -> list[Tensor]:
    """The same product, handed out in equal parts of its width."""
    what = "minimal_matmul_split"
    require(dim == -1, f"{what}: dim={dim}; only the last dimension (dim=-1) can be split")
    require(chunks >= 1, f"{what}: chunks={chunks} must be at least 1")
    result = _minimal(what, input_tensor, weight_tensor, bias_tensor, fused_activation, config, memory_config, dtype, chunks, fuse_swiglu)
    return result if isinstance(result, list) else [result]


# -- attention against cached keys and values: [1, heads, users, k] with [users, shared heads, k, n]


def _golden_heads(input_tensor_a: torch.Tensor, input_tensor_b: torch.Tensor, **_: Any) -> torch.Tensor:
    result: torch.Tensor = engine.users_matmul(input_tensor_a, input_tensor_b)
    return result


def _users(what: str, a: Tensor, b: Tensor, columns: int, inner: int) -> tuple[int, int, int, int]:
    require_device(what, a, b)
    require_tile(what, a, b)
    require(
        len(a.spec.dims) == 4 and len(b.spec.dims) == 4, f"{what}: inputs must have four dimensions, got {a.spec.shape} and {b.spec.shape}"
    )
    one, heads, users, k = a.spec.dims
    require(one == 1, f"{what}: input A must be [1, heads, users, k], got {a.spec.shape}")
    require(
        k == inner,
        f"{what}: The width of the first tensor must be equal to the height of the second tensor. Mismatch: width={k} height={inner}",
    )
    require(users == b.spec.dims[0], f"{what}: Num of users must match! Input A has {users}, input B {b.spec.dims[0]}")
    return one, heads, users, columns


@operation("ttnn.experimental.attn_matmul", golden=_golden_heads)
def attn_matmul(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    compute_with_storage_grid_size: Any,
    dtype: DataType | None = None,
    compute_kernel_config: Any = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """Every user's row of every head times the user's own matrix, which all heads share."""
    what = "attn_matmul"
    shape = _users(what, input_tensor_a, input_tensor_b, input_tensor_b.spec.dims[-1], input_tensor_b.spec.dims[-2])
    require(
        input_tensor_b.spec.dims[1] == 1,
        f"{what}: Number of kv heads must be 1 (use group_attn_matmul for more), got {input_tensor_b.spec.dims[1]}",
    )
    out = like(input_tensor_a, shape=shape, dtype=dtype, memory_config=memory_config or MemoryConfig())
    out = out if output_tensor is None else output_tensor.spec
    inputs = [input_tensor_a, input_tensor_b]
    return launch("AttnMatmulDeviceOperation", engine.users_matmul, inputs, out, into=output_tensor)  # type: ignore[no-any-return]


@operation("ttnn.experimental.attn_matmul_from_cache")
def attn_matmul_from_cache(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    num_tokens: int,
    transpose_hw: bool,
    compute_with_storage_grid_size: Any,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    compute_kernel_config: Any = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """The same against the first tokens of a cache (rounded up to whole tiles), which may be read turned around."""
    what = "attn_matmul_from_cache"
    tokens, width = -(-num_tokens // 32) * 32, input_tensor_b.spec.dims[-1]
    require(
        0 < tokens <= input_tensor_b.spec.padded_dims[-2],
        f"{what}: num_tokens={num_tokens} must be at least 1 and at most the cache's {input_tensor_b.spec.dims[-2]}",
    )
    columns, inner = (tokens, width) if transpose_hw else (width, tokens)
    shape = _users(what, input_tensor_a, input_tensor_b, columns, inner)
    out = like(input_tensor_a, shape=shape, dtype=dtype, memory_config=memory_config or MemoryConfig())
    return launch(
        "AttnMatmulDeviceOperation",
        engine.users_matmul,
        [input_tensor_a, input_tensor_b],
        out if output_tensor is None else output_tensor.spec,
        attributes={"tokens": tokens, "transpose": transpose_hw},
        into=output_tensor,
    )  # type: ignore[no-any-return]


@operation("ttnn.experimental.group_attn_matmul", golden=_golden_heads)
def group_attn_matmul(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    compute_with_storage_grid_size: Any,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    compute_kernel_config: Any = None,
    optional_output_tensor: Tensor | None = None,
) -> Tensor:
    """Every user's row of every head times the matrix of the user and of the head's group."""
    what = "group_attn_matmul"
    a, b = input_tensor_a, input_tensor_b
    shape = _users(what, a, b, b.spec.dims[-1], b.spec.dims[-2])
    require(
        shape[1] % b.spec.dims[1] == 0, f"{what}: Number of q heads ({shape[1]}) must be divisible by number of kv heads ({b.spec.dims[1]})"
    )
    out = like(a, shape=shape, dtype=dtype, memory_config=memory_config or MemoryConfig())
    out = out if optional_output_tensor is None else optional_output_tensor.spec
    return launch("GroupAttnMatmulDeviceOperation", engine.users_matmul, [a, b], out, into=optional_output_tensor)  # type: ignore[no-any-return]


@operation("ttnn.experimental.matmul_decode", golden=_golden_minimal)
def matmul_decode(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    partial_width_sharded: bool = False,
    dtype: DataType | None = None,
    output_mem_config: MemoryConfig | None = None,
) -> Tensor:
    """The product of a few rows with a large weight."""
    return multiply("matmul_decode", input_tensor_a, input_tensor_b, dtype=dtype, memory_config=output_mem_config)
