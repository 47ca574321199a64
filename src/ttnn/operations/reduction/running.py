"""Running totals: cumulative sums and products.

The chip accumulates along the outermost of four dimensions; others are brought there and back. Sums of bfloat16 over height or width have a kernel.
"""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import reduction as engine
from tessera.engine.choice import EngineFunction
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import Operation, operation
from ttnn.operations.rules import like, name_of, require, require_device

ROWS: dict[str, tuple[EngineFunction, Any]] = {
    "cumsum": (engine.running_total, torch.cumsum),
    "cumprod": (engine.running_product, torch.cumprod),
}


def accumulate(
    what: str,
    tensor: Tensor,
    dim: int,
    dtype: DataType | None,
    reverse_order: bool,
    out: Tensor | None,
    memory_config: MemoryConfig | None,
) -> Tensor:
    """The one body of both."""
    spec, rank = tensor.spec, len(tensor.spec.dims)
    require_device(what, tensor)
    require(spec.layout == Layout.TILE, f"{what}: the input tensor has a non-tile layout: {spec.layout}")
    require(not spec.is_sharded, f"{what}: accumulation operations (cumprod, cumsum) do not support sharded input tensors")
    require(
        rank == 0 or -rank <= dim < rank,
        f"{what}: The requested accumulation axis is {dim}, while the input tensor has rank {rank}",
    )
    if out is not None:
        require(
            out.spec.dims == spec.dims,
            f"{what}: Shape mismatch: input tensor shape {spec.shape} does not match output tensor shape {out.spec.shape}",
        )
        require(dtype is None or dtype == out.spec.dtype, f"{what}: dtype={dtype} is not the dtype of out, {name_of(out.spec.dtype)}")
    target = like(tensor, dtype=dtype, memory_config=memory_config) if out is None else out.spec
    axis = dim - rank if dim >= 0 else dim
    direct = (
        rank == 0
        or axis <= -4
        or (what == "cumsum" and spec.dtype == DataType.BFLOAT16 and axis >= -2 and not reverse_order and dtype is None)
    )
    turned = 3 if not (spec.dtype == DataType.BFLOAT8_B and axis >= -2 and rank <= 4) else 7  # a permutation of blocks is three programs
    converted = 0 if dtype in (None, spec.dtype) else 4 if FORMATS[target.dtype].is_block else 1
    return launch(  # type: ignore[no-any-return]
        "AccumulationDeviceOperation",
        ROWS[what][0],
        [tensor],
        target,
        attributes={"dim": dim if rank else 0, "reverse": reverse_order},
        into=out,
        key=what,
        programs=(1 if direct else turned) + converted,
    )


def _golden(name: str) -> Any:
    def golden(*operands: Any, dtype: torch.dtype | None = None, reverse_order: bool = False, **words: Any) -> torch.Tensor:
        given = [*operands, *(words[w] for w in ("input", "input_tensor", "dim") if w in words)]
        values, dim = given[0], int(given[1])
        found: torch.Tensor = ROWS[name][1](values.flip(dim) if reverse_order else values, dim, dtype=dtype)
        return found.flip(dim) if reverse_order else found

    return golden


def _declare(name: str) -> Operation:
    def body(
        input_tensor: Tensor,
        dim: int,
        *,
        dtype: DataType | None = None,
        reverse_order: bool = False,
        out: Tensor | None = None,
        memory_config: MemoryConfig | None = None,
        disable_compensated_sum: bool = False,
    ) -> Tensor:
        return accumulate(name, input_tensor, dim, dtype, reverse_order, out, memory_config)

    body.__doc__ = f"The running {'sum' if name == 'cumsum' else 'product'} along a dimension, or from its end."
    return operation(f"ttnn.{name}", golden=_golden(name), renames={"input": "input_tensor"})(body)


for _name in ROWS:
    _declare(_name)
