"""Relatives of the matrix product: sums with one, products of vectors, of one tensor with many, of chosen pairs only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tessera.engine import products as engine
from tessera.formats.dtype import DataType, Layout
from tessera.formats.shape import Shape
from tessera.memory.config import MemoryConfig, ShardSpec, TensorMemoryLayout
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import REGISTERED_OPERATIONS, operation
from ttnn.operations.matmul.product import check_operands, multiply, product_shape
from ttnn.operations.reshaping import reshape, same_bytes
from ttnn.operations.rules import name_of, require, require_device

OUTER_DTYPES = (DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.FLOAT32, DataType.INT32, DataType.UINT32)
ADDMM_DTYPES = (DataType.BFLOAT16, DataType.FLOAT32, DataType.BFLOAT8_B)


def _golden_outer(input_tensor_a: torch.Tensor, input_tensor_b: torch.Tensor, **_: Any) -> torch.Tensor:
    return input_tensor_a.unsqueeze(-1) * input_tensor_b.unsqueeze(-2)


@operation("ttnn.outer", golden=_golden_outer)
def outer(input_tensor_a: Tensor, input_tensor_b: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """Products of all pairs of elements of the last dimensions; the dimensions before them broadcast."""
    a, b = input_tensor_a, input_tensor_b
    for tensor in (a, b):
        require(
            tensor.spec.dtype in OUTER_DTYPES,
            f"ttnn.outer: unsupported dtype (got {name_of(a.spec.dtype)} and {name_of(b.spec.dtype)}); supported dtypes are "
            f"{', '.join(d.name for d in OUTER_DTYPES)}",
        )
    require(
        a.spec.dtype == b.spec.dtype,
        f"ttnn.outer: inputs must have the same dtype, but got {name_of(a.spec.dtype)} and {name_of(b.spec.dtype)}",
    )
    require_device("outer", a, b)
    require(
        len(a.spec.dims) > 0 and len(b.spec.dims) > 0, f"ttnn.outer: inputs must have a dimension, got {a.spec.shape} and {b.spec.shape}"
    )
    if a.spec.is_sharded or b.spec.is_sharded:
        return _sharded_outer(a, b, memory_config)
    column = reshape(a, (*a.spec.dims, 1))
    row = reshape(b, (*b.spec.dims[:-1], 1, b.spec.dims[-1]))
    return REGISTERED_OPERATIONS["ttnn.multiply"](column, row, memory_config=memory_config)  # type: ignore[no-any-return]


def _sharded_outer(a: Tensor, b: Tensor, memory_config: MemoryConfig | None) -> Tensor:
    """Height shards stay height shards, each of its share of the rows; others are gathered first (one more program) and stay interleaved."""
    left, right = (*a.spec.dims, 1), (*b.spec.dims[:-1], 1, b.spec.dims[-1])
    dims = tuple(torch.broadcast_shapes(left, right))
    plain = MemoryConfig(buffer_type=a.spec.memory_config.buffer_type)
    out = a.spec.replace(shape=Shape.of(dims), memory_config=plain)
    given = (a if a.spec.is_sharded else b).spec.memory_config
    is_high = given.memory_layout == TensorMemoryLayout.HEIGHT_SHARDED and given.shard_spec is not None
    if memory_config is not None and (memory_config.shard_spec is not None or not memory_config.is_sharded()):
        out = out.replace(memory_config=memory_config)
    elif is_high and given.shard_spec is not None:
        rows, columns = out.physical_shape
        share = -(-rows // given.shard_spec.num_cores())
        height = share if out.layout == Layout.ROW_MAJOR else -(-share // out.tile.tile_shape[0]) * out.tile.tile_shape[0]
        shards = ShardSpec(given.shard_spec.grid, [height, columns], given.shard_spec.orientation)
        out = out.replace(memory_config=MemoryConfig(given.memory_layout, given.buffer_type, shards))
    programs = 1 + sum(not same_bytes(t.spec, to) for t, to in ((a, left), (b, right))) + (not is_high)
    return launch("BinaryNgDeviceOperation", engine.outer, [a, b], out, programs=programs)  # type: ignore[no-any-return]


def _golden_addmm(
    input_tensor: torch.Tensor, mat1_tensor: torch.Tensor, mat2_tensor: torch.Tensor, *, alpha: float = 1.0, beta: float = 1.0, **_: Any
) -> torch.Tensor:
    return torch.addmm(input_tensor, mat1_tensor, mat2_tensor, alpha=alpha, beta=beta)


@operation("ttnn.addmm", golden=_golden_addmm)
def addmm(
    input_tensor: Tensor,
    mat1_tensor: Tensor,
    mat2_tensor: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    core_grid: Any = None,
    output_tile: Any = None,
    optional_output_tensor: Tensor | None = None,
) -> Tensor:
    """beta * input_tensor + alpha * (mat1_tensor @ mat2_tensor). With beta=0 the input is not read."""
    what = "addmm"
    check_operands(what, mat1_tensor, mat2_tensor)
    shape = product_shape(what, mat1_tensor.spec, mat2_tensor.spec, False, False)
    require(
        input_tensor.spec.dtype in ADDMM_DTYPES,
        f"{what}: only ttnn.bfloat16, ttnn.float32 and ttnn.bfloat8_b types are supported for input_tensor, got {input_tensor.spec.dtype}",
    )
    if alpha == 1.0 and beta == 0.0:
        return multiply(
            what,
            mat1_tensor,
            mat2_tensor,
            memory_config=memory_config,
            dtype=dtype,
            program_config=program_config,
            compute_kernel_config=compute_kernel_config,
            core_grid=core_grid,
            output_tile=output_tile,
            into=optional_output_tensor,
        )
    require_device(what, input_tensor)
    require(
        beta == 0.0 or input_tensor.spec.dims == shape,
        f"{what}: input_tensor must have shape matching one of result of mat1_tensor @ mat2_tensor; got {input_tensor.spec.shape} and {list(shape)}",
    )
    out_dtype = dtype or mat1_tensor.spec.dtype
    out = TensorSpec.of(Shape.of(shape), out_dtype, Layout.TILE, memory_config or MemoryConfig(), mat1_tensor.spec.tile)
    if optional_output_tensor is not None:
        out = optional_output_tensor.spec
        require(out.dims == shape, f"{what}: Invalid optional output tensor: its shape {out.shape} is not the product's {list(shape)}")
    inputs = [mat1_tensor, mat2_tensor] + ([input_tensor] if beta != 0.0 else [])
    programs = 1 + (alpha != 1.0) + (beta != 0.0) * (1 + (input_tensor.spec.dtype != out.dtype))
    return launch(
        "MatmulDeviceOperation",
        engine.addmm,
        inputs,
        out,
        attributes={"alpha": float(alpha), "beta": float(beta)},
        into=optional_output_tensor,
        programs=programs,
        key=(program_config, core_grid),
    )  # type: ignore[no-any-return]


@operation("ttnn.matmul_batched_weights", golden=lambda a, bs, **_: [torch.matmul(a, b) for b in bs])
def matmul_batched_weights(
    input_tensor_a: Tensor,
    input_tensors_b: Sequence[Tensor],
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    program_config: Any = None,
    activation: Any = None,
    compute_kernel_config: Any = None,
    core_grid: Any = None,
    output_tile: Any = None,
    optional_output_tensor: Tensor | None = None,
    global_cb: Any = None,
    sub_device_id: Any = None,
) -> list[Tensor]:
    """The product of one tensor with each of several."""
    what = "matmul_batched_weights"
    require(memory_config is not None, f"{what}: memory_config must be provided")
    require(program_config is not None, f"{what}: program_config must be provided")
    require(len(input_tensors_b) > 0, f"{what}: input_tensors_b must hold at least one tensor")
    return [
        multiply(
            what,
            input_tensor_a,
            b,
            transpose_a=transpose_a,
            transpose_b=transpose_b,
            memory_config=memory_config,
            dtype=dtype,
            program_config=program_config,
            activation=activation,
            compute_kernel_config=compute_kernel_config,
            core_grid=core_grid,
            output_tile=output_tile,
        )
        for b in input_tensors_b
    ]


def _golden_sparse(
    input_tensor_a: torch.Tensor,
    input_tensor_b: torch.Tensor,
    *,
    sparsity: torch.Tensor,
    is_input_a_sparse: bool = False,
    is_input_b_sparse: bool = True,
    **_: Any,
) -> torch.Tensor:
    result: torch.Tensor = engine.sparse_matmul(
        input_tensor_a, input_tensor_b, sparsity, pairs=not (is_input_a_sparse or not is_input_b_sparse)
    )
    return result


@operation("ttnn.sparse_matmul", golden=_golden_sparse)
def sparse_matmul(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    sparsity: Tensor,
    program_config: Any,
    nnz: int | None = None,
    is_input_a_sparse: bool = False,
    is_input_b_sparse: bool = True,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    compute_kernel_config: Any = None,
    core_grid: Any = None,
    output_tile: Any = None,
    optional_output_tensor: Tensor | None = None,
    global_cb: Any = None,
    sub_device_id: Any = None,
    indices: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Products with a bank of experts where `sparsity` is not zero; the others are zero.

    A dense first operand [.., m, k] meets every expert of the second [1, e, k, n]: [.., 1, e, m, n]. A sparse one [.., e, m, k] meets its own expert: [.., e, m, n].
    """
    what = "sparse_matmul"
    a, b = input_tensor_a, input_tensor_b
    if indices is not None or bias is not None:
        raise NotImplementedError(f"ttnn.{what}: indices and bias are not built in Tessera")
    check_operands(what, a, b)
    require_device(what, sparsity)
    require(is_input_a_sparse or is_input_b_sparse, f"{what}: one of is_input_a_sparse and is_input_b_sparse must be true")
    require(len(a.spec.dims) == 4 and len(b.spec.dims) == 4, f"{what}: both inputs must have rank 4, got {a.spec.shape} and {b.spec.shape}")
    require(sparsity.spec.layout == Layout.ROW_MAJOR, f"{what}: sparsity must be in ROW_MAJOR layout, got {sparsity.spec.layout}")
    (*batch, rows, k), (_, experts, height, columns) = a.spec.dims, b.spec.dims
    require(
        k == height,
        f"{what}: The width of the first tensor must be equal to the height of the second tensor. Mismatch: width={k} height={height}",
    )
    dense = not is_input_a_sparse
    if not dense:
        require(batch[1] == experts, f"{what}: a sparse input A must have one matrix for each of the {experts} experts, got {batch[1]}")
    count = math.prod(batch) * (experts if dense else 1)
    if is_input_a_sparse and is_input_b_sparse:
        count = experts
    require(
        math.prod(sparsity.spec.dims) == count,
        f"{what}: sparsity logical_volume ({math.prod(sparsity.spec.dims)}) must equal batch_length ({count})",
    )
    shape = (*batch, 1, experts, rows, columns) if dense else (*batch, rows, columns)
    out = TensorSpec.of(Shape.of(shape), dtype or a.spec.dtype, Layout.TILE, memory_config or MemoryConfig(), a.spec.tile)
    return launch(
        "SparseMatmulDeviceOperation",
        engine.sparse_matmul,
        [a, b, sparsity],
        out if optional_output_tensor is None else optional_output_tensor.spec,
        attributes={"pairs": dense},
        into=optional_output_tensor,
        key=(program_config, nnz),
    )  # type: ignore[no-any-return]
