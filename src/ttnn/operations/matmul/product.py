"""Matrix products: matmul, linear and their relatives.

Shapes follow torch's rules narrowed to what the chip does: batches must be equal, or the second operand must have none. The output has the first
operand's dtype unless another is asked for.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tessera.engine import matmul as engine
from tessera.engine.unary import Program
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.shape import Shape
from tessera.formats.tile import Tile
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.activations import ACTIVATIONS, as_steps
from ttnn.operations.matmul.program import check_config, check_places, check_room, placed, tiles_of
from ttnn.operations.rules import name_of, require


def check_operands(what: str, a: Tensor, b: Tensor) -> None:
    for tensor in (a, b):
        require(
            tensor.buffer.device is not None and tensor.buffer.allocated,
            f"{what}: Operand to matmul must be on device, and allocated; got one that is {'on the host' if tensor.buffer.device is None else 'deallocated'}",
        )
    require(
        len(a.spec.dims) > 0 and len(b.spec.dims) > 0,
        f"ttnn.matmul: Both arguments to matmul need to be at least 1D, but got shapes {a.spec.shape} and {b.spec.shape}",
    )
    for letter, tensor in (("A", a), ("B", b)):
        require(tensor.spec.layout == Layout.TILE, f"{what}: Inputs to matmul must be tilized; input {letter} is in {tensor.spec.layout}")
        require(FORMATS[tensor.spec.dtype].is_float, f"{what}: Unsupported data format for input {letter}: {name_of(tensor.spec.dtype)}")


def product_shape(what: str, a: TensorSpec, b: TensorSpec, transpose_a: bool, transpose_b: bool) -> tuple[int, ...]:
    """The logical shape of the product; vectors are rows on the left and columns on the right, and vanish from the result."""
    left = (1, *a.dims) if len(a.dims) == 1 else a.dims
    right = (*b.dims, 1) if len(b.dims) == 1 else b.dims
    if transpose_a:
        left = (*left[:-2], left[-1], left[-2])
    if transpose_b:
        right = (*right[:-2], right[-1], right[-2])
    require(
        left[-1] == right[-2],
        f"{what}: The width of the first tensor must be equal to the height of the second tensor. Mismatch: width={left[-1]} height={right[-2]}",
    )
    batch_a, batch_b = left[:-2], right[:-2]
    if math.prod(batch_b) != 1:
        if len(right) > len(left):
            require(
                math.prod(right[: len(right) - len(left)]) == 1 and math.prod(batch_b) == 1,
                f"{what}: When in1 rank greater than in0 rank front dimensions need to be 1; got {a.shape} and {b.shape}",
            )
        require(
            len(left) == len(right),
            f"{what}: Batched (non-bcast) matmul requires inputs of the same rank, got a_shape rank: {len(left)} vs b_shape rank: {len(right)}",
        )
        for index, (m, n) in enumerate(zip(batch_a, batch_b)):
            require(
                m == n,
                f"{what}: bmm (non-bcast matmul) expects input tensors of shapes BCMK*BCKN=BCMN or batch dimension {index} mismatch: a={m} vs b={n}",
            )
    batch = batch_a if len(batch_a) >= len(batch_b) else batch_b
    rows = () if len(a.dims) == 1 else (left[-2],)
    columns = () if len(b.dims) == 1 else (right[-1],)
    return (*batch, *rows, *columns)


def fused_program(what: str, activation: Any) -> Program:
    """The elementwise program of an `activation=` argument: a `UnaryWithParam`, or its name in small letters."""
    if activation is None:
        return ()
    if not isinstance(activation, str):
        return as_steps(activation)
    row = ACTIVATIONS.get(_SPELT.get(activation, activation.upper()))
    require(
        row is not None and activation == activation.lower(),
        f"{what}: Unknown unary op: {activation}; activation= takes names such as relu, gelu, silu",
    )
    assert row is not None
    return ((row.step, ()),)


_SPELT = {"gelu_approx": "GELU_TANH", "recip": "RECIP", "swish": "SILU", "sigmoid_approx": "SIGMOID"}


def multiply(
    what: str,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
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
    into: Tensor | None = None,
    first_column: int = 0,
) -> Tensor:
    """The one product that all public forms come down to. `first_column` reads as many columns of `a` from there on as the product needs."""
    check_operands(what, a, b)
    used = a.spec if not first_column else _columns(what, a.spec, b.spec, first_column, transpose_a, transpose_b)
    shape = product_shape(what, used, b.spec, transpose_a, transpose_b)
    if core_grid is not None:
        for word, count in (("columns", core_grid.x), ("rows", core_grid.y)):
            require(count > 0, f"{what}: Number of {word} in matmul compute grid must be greater than 0! Got core_grid={core_grid}")
    program = fused_program(what, getattr(program_config, "fused_activation", None)) + fused_program(what, activation)
    separate = 0
    product = shape
    if program_config is not None and math.prod(shape) > 0:
        device, tiles = a.buffer.device, tiles_of(used, b.spec, product, transpose_a)
        assert device is not None
        place = into.spec.memory_config if into is not None else memory_config or MemoryConfig()
        check_config(what, program_config, device, a.spec, b.spec, tiles, place, compute_kernel_config)
    if bias is not None:
        shape, separate = _with_bias(what, shape, bias)
    if activation is not None and (core_grid is None and program_config is None):
        separate += 1
    if into is not None:
        require(
            into.spec.dims == shape,
            f"{what}: Invalid optional output tensor: its shape {into.spec.shape} is not the product's {list(shape)}",
        )
        out = into.spec
    else:
        out = _output(what, a, b, product, shape, transpose_a, memory_config, dtype, program_config, core_grid, output_tile)
    if program_config is not None and math.prod(shape) > 0:
        assert a.buffer.device is not None
        check_room(what, program_config, a.buffer.device, a.spec, b.spec, out)
    programs = 0 if math.prod(shape) == 0 else 1 + separate
    if len(b.spec.dims) == 1:  # the vector is turned into a column, and the column into a vector again
        programs += 1 + (len(a.spec.dims) > 1) * (4 if FORMATS[out.dtype].is_block else 1)
    inputs = [a, b] if bias is None else [a, b, bias]
    attributes = {
        "transpose_a": transpose_a,
        "transpose_b": transpose_b,
        "activation": program,
        "narrow": out.dtype == DataType.BFLOAT16,
    }
    compute: Any = engine.matmul
    if first_column:
        compute = _from_column
        attributes |= {"first": first_column, "count": used.dims[-1]}
    return launch(
        "MatmulDeviceOperation",
        compute,
        inputs,
        out,
        attributes=attributes,
        into=into,
        programs=programs,
        key=(program_config, core_grid),
    )  # type: ignore[no-any-return]


def _columns(what: str, a: TensorSpec, b: TensorSpec, first: int, transpose_a: bool, transpose_b: bool) -> TensorSpec:
    count = b.dims[-1] if transpose_b else b.dims[-2] if len(b.dims) > 1 else b.dims[-1]
    require(
        not transpose_a and not a.is_sharded,
        f"{what}: in0_column_offset={first} needs a first input that is interleaved and not transposed",
    )
    require(
        first > 0 and first % 32 == 0 and first + count <= a.dims[-1],
        f"{what}: in0_column_offset={first} must be a multiple of 32 and leave {count} of the first input's {a.dims[-1]} columns",
    )
    return a.replace(shape=Shape.of((*a.dims[:-1], count)))


def _from_column(a: torch.Tensor, *operands: torch.Tensor, first: int, count: int, **attributes: Any) -> torch.Tensor:
    result: torch.Tensor = engine.matmul(a[..., first : first + count], *operands, **attributes)
    return result


def _output(
    what: str,
    a: Tensor,
    b: Tensor,
    product: tuple[int, ...],
    shape: tuple[int, ...],
    transpose_a: bool,
    memory_config: MemoryConfig | None,
    dtype: DataType | None,
    program_config: Any,
    core_grid: Any,
    tile: Any,
) -> TensorSpec:
    """The spec of the result: as asked, its shards those of its program."""
    device = a.buffer.device
    assert device is not None
    if memory_config is not None or a.spec.is_sharded:
        check_places(what, a.spec, memory_config or MemoryConfig())
    if memory_config is not None and memory_config.is_sharded() and math.prod(product) > 0:
        tiles = tiles_of(a.spec, b.spec, product, transpose_a)
        memory_config = placed(what, device, a.spec, tiles, memory_config, program_config, core_grid)
    if tile is None:
        (height, _), (_, width) = a.spec.tile.tile_shape, b.spec.tile.tile_shape
        tile = a.spec.tile if [height, width] == a.spec.tile.tile_shape else Tile((height, width))
    layout = Layout.ROW_MAJOR if getattr(program_config, "untilize_out", False) else Layout.TILE
    return TensorSpec.of(Shape.of(shape), dtype or a.spec.dtype, layout, memory_config or MemoryConfig(), tile)


def _with_bias(what: str, shape: tuple[int, ...], bias: Tensor) -> tuple[tuple[int, ...], int]:
    """The shape with a bias added, and how many programs adding it takes: a single row is fused, anything else is an addition after."""
    dims = bias.spec.dims
    require(bias.buffer.device is not None and bias.buffer.allocated, f"{what}: bias must be on device and allocated")
    require(len(dims) > 0, f"{what}: bias must have at least one dimension, got {bias.spec.shape}")
    for index in range(1, min(len(dims), len(shape)) + 1):
        m, n = shape[-index], dims[-index]
        require(
            m == n or n == 1 or m == 1,
            f"{what}: Broadcasting rule violation at dimension index {-index} (output rank {len(shape)}), dim a: {m}, dim b: {n}",
        )
    require(dims[-1] == shape[-1], f"{what}: bias of width {dims[-1]} does not fit a product of width {shape[-1]}")
    joined = tuple(torch.broadcast_shapes(shape, dims))
    row = all(d == 1 for d in dims[:-1])
    if bias.spec.layout != Layout.TILE:
        return joined, 2
    return joined, 0 if row else 1


def _golden_matmul(
    input_tensor_a: torch.Tensor, input_tensor_b: torch.Tensor, *, transpose_a: bool = False, transpose_b: bool = False, **_: Any
) -> torch.Tensor:
    a = input_tensor_a.transpose(-1, -2) if transpose_a else input_tensor_a
    b = input_tensor_b.transpose(-1, -2) if transpose_b else input_tensor_b
    return torch.matmul(a, b)


@operation("ttnn.matmul", golden=_golden_matmul)
def matmul(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
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
    prefetcher_pipes: Any = (),
) -> Tensor:
    """The matrix product of two tensors."""
    return multiply(
        "matmul",
        input_tensor_a,
        input_tensor_b,
        None,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        memory_config=memory_config,
        dtype=dtype,
        program_config=program_config,
        activation=activation,
        compute_kernel_config=compute_kernel_config,
        core_grid=core_grid,
        output_tile=output_tile,
        into=optional_output_tensor,
    )


def _golden_linear(
    input_tensor_a: torch.Tensor, input_tensor_b: torch.Tensor, *, bias: torch.Tensor | None = None, **words: Any
) -> torch.Tensor:
    product = _golden_matmul(input_tensor_a, input_tensor_b, **{k: v for k, v in words.items() if k.startswith("transpose")})
    product = product if bias is None else product + bias
    activation = words.get("activation")
    return getattr(torch.nn.functional, activation)(product) if activation else product


@operation("ttnn.linear", golden=_golden_linear)
def linear(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    bias: Tensor | None = None,
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
    prefetcher_pipes: Any = (),
    in0_column_offset: int | None = None,
) -> Tensor:
    """The matrix product with a bias added."""
    return multiply(
        "linear",
        input_tensor_a,
        input_tensor_b,
        bias,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        memory_config=memory_config,
        dtype=dtype,
        program_config=program_config,
        activation=activation,
        compute_kernel_config=compute_kernel_config,
        core_grid=core_grid,
        output_tile=output_tile,
        into=optional_output_tensor,
        first_column=in0_column_offset or 0,
    )
