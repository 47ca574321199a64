"""Gates of two tensors, and pairs that are no arithmetic: membership, and a complex product given by its parts."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import bits as engine
from tessera.engine.binary import elementwise_binary
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations import binary_rules as rules
from ttnn.operations.activations import fp32
from ttnn.operations.binary_rules import Options, run_binary
from ttnn.operations.rules import name_of, require, require_device
from ttnn.operations.unary import check_softcap


def _golden_silu_glu(gate: torch.Tensor, up: torch.Tensor, limit: float, **_: Any) -> torch.Tensor:
    return elementwise_binary.torch(gate, up, op="clamped_silu_glu", params=(limit,)).to(gate.dtype)  # type: ignore[no-any-return]


@operation("ttnn.clamped_silu_glu", golden=_golden_silu_glu)
def clamped_silu_glu(
    gate: Tensor,
    up: Tensor,
    limit: float,
    *,
    memory_config: MemoryConfig | None = None,
    sub_core_grids: Any = None,
    sub_device_id: Any = None,
) -> Tensor:
    """silu of the gate kept below the limit, times the other half kept within it."""
    options = Options(memory_config=memory_config)
    return run_binary("clamped_silu_glu", "clamped_silu_glu", "MUL", rules.MULTIPLICATION, gate, up, options, params=(fp32(limit),))


def _golden_situ_glu(gate: torch.Tensor, up: torch.Tensor, beta1: float, beta2: float, **_: Any) -> torch.Tensor:
    return elementwise_binary.torch(gate, up, op="situ_glu", params=(beta1, beta2)).to(gate.dtype)  # type: ignore[no-any-return]


@operation("ttnn.situ_glu", golden=_golden_situ_glu)
def situ_glu(
    gate: Tensor,
    up: Tensor,
    beta1: float,
    beta2: float,
    *,
    memory_config: MemoryConfig | None = None,
    sub_core_grids: Any = None,
    sub_device_id: Any = None,
) -> Tensor:
    """A soft-capped gate under its sigmoid, times the soft-capped other half."""
    require_device("situ_glu", gate, up)
    for tensor in (gate, up):
        check_softcap(tensor)
    programs = 4 if beta1 == beta2 else 5
    options = Options(memory_config=memory_config)
    return run_binary(
        "situ_glu", "situ_glu", "SITU_GLU", rules.FLOAT_ONLY, gate, up, options, params=(fp32(beta1), fp32(beta2)), programs=programs
    )


def _golden_isin(elements: torch.Tensor, test_elements: torch.Tensor, *, invert: bool = False, **_: Any) -> torch.Tensor:
    return torch.isin(elements, test_elements, invert=invert)


@operation("ttnn.experimental.isin", golden=_golden_isin)
def isin(
    elements: Tensor, test_elements: Tensor, *, assume_unique: bool = False, invert: bool = False, out: Tensor | None = None
) -> Tensor:
    """All bits set where an element is one of the tested ones (is none of them when inverted)."""
    require_device("isin", elements, test_elements)
    first, second = elements.spec.dtype, test_elements.spec.dtype
    require(first == second, f"isin: elements and test_elements must have one dtype, got {name_of(first)} and {name_of(second)}")
    require(out is None or out.spec.dims == elements.spec.dims, f"isin: out must have the shape of the elements, {elements.spec.shape}")
    spec = out.spec if out is not None else elements.spec.replace(dtype=DataType.UINT32)
    made: Any = launch("IsInDeviceOperation", engine.isin, [elements, test_elements], spec, attributes={"invert": bool(invert)}, into=out)
    return made  # type: ignore[no-any-return]


@operation("ttnn.experimental.complex_mul", planned=False)
def complex_mul(a_real: Tensor, a_imag: Tensor, b_real: Tensor, b_imag: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary part of (a_real + i a_imag)(b_real + i b_imag)."""
    tensors = [a_real, a_imag, b_real, b_imag]
    require_device("complex_mul", *tensors)
    require(
        all(t.spec.layout == Layout.ROW_MAJOR for t in tensors),
        "complex_mul: only ROW_MAJOR layout is supported. Convert the parts with ttnn.to_layout",
    )
    require(
        len({t.spec.dims for t in tensors}) == 1,
        "complex_mul: all four parts must have one shape, got " + ", ".join(str(t.spec.shape) for t in tensors),
    )
    made = launch("ComplexMulDeviceOperation", engine.complex_multiply, tensors, [a_real.spec, a_real.spec])
    return made[0], made[1]
