"""Complex tensors: a real and an imaginary tensor under one name, and the operations that take them.

`abs` and `reciprocal`, which real tensors have as well, are declared here for both.
"""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import complex as engine
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.binding import PREDICATES
from ttnn.decorators import operation
from ttnn.operations.activations import fp32
from ttnn.operations.backward import Row as GradientRow
from ttnn.operations.backward import run_unary_backward
from ttnn.operations.rules import require_device
from ttnn.operations.unary import golden_of
from ttnn.operations.unary_rules import output_spec, run_unary


class ComplexTensor:
    """A complex number for each element: two tensors."""

    __slots__ = ("imag", "real")

    def __init__(self, real: Tensor, imag: Tensor) -> None:
        self.real = real
        self.imag = imag

    def __getitem__(self, index: int) -> Tensor:
        if index not in (0, 1):
            raise IndexError(f"a complex tensor has parts 0 (real) and 1 (imag), got {index}")
        return self.imag if index else self.real

    def deallocate(self, force: bool = False) -> None:
        for part in (self.real, self.imag):
            part.buffer.free()

    def __repr__(self) -> str:
        return f"ComplexTensor(real={self.real!r}, imag={self.imag!r})"


ComplexTensor.__module__ = "ttnn"
PREDICATES["ComplexTensor"] = lambda value: isinstance(value, ComplexTensor)


def _golden_complex(real: torch.Tensor, imag: torch.Tensor) -> torch.Tensor:
    return torch.complex(real.float(), imag.float())


@operation("ttnn.complex_tensor", golden=_golden_complex, planned=False)
def complex_tensor(real: Tensor, imag: Tensor) -> ComplexTensor:
    """The two tensors as one complex tensor; nothing is copied."""
    return ComplexTensor(real, imag)


def _run(name: str, op: str, z: ComplexTensor, memory_config: MemoryConfig | None, programs: int) -> Any:
    """A row of the complex table as one launch of several programs."""
    require_device(name, z.real, z.imag)
    spec = output_spec(z.real, memory_config)
    specs = spec if engine.STEPS[op].real else [spec, spec]
    made = launch(name, engine.complex_unary, [z.real, z.imag], specs, attributes={"op": op}, programs=programs)
    return made if engine.STEPS[op].real else ComplexTensor(*made)


def _moved(part: Tensor, memory_config: MemoryConfig | None) -> Tensor:
    """A part as it is, or copied to another memory."""
    if memory_config is None or memory_config == part.spec.memory_config:
        return part
    return run_unary("identity", part, ("IDENTITY",), (("identity", ()),), memory_config)


@operation("ttnn.real", golden=lambda z, **_: torch.real(z), planned=False)
def real(input_tensor: ComplexTensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """The real part."""
    return _moved(input_tensor.real, memory_config)


@operation("ttnn.imag", golden=lambda z, **_: torch.imag(z), planned=False)
def imag(input_tensor: ComplexTensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """The imaginary part."""
    return _moved(input_tensor.imag, memory_config)


@operation("ttnn.angle", golden=lambda z, **_: torch.angle(z), planned=False)
def angle(input_tensor: ComplexTensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """The angle to the positive real axis."""
    result: Tensor = _run("angle", "angle", input_tensor, memory_config, 1)
    return result


def _zero_part(name: str, part: Tensor, memory_config: MemoryConfig | None) -> Tensor:
    require_device(name, part)
    made: Any = launch("UnaryDeviceOperation", engine.is_zero, [part], output_spec(part, memory_config))
    return made  # type: ignore[no-any-return]


@operation("ttnn.is_real", golden=lambda z, **_: torch.isreal(z), planned=False)
def is_real(input_tensor: ComplexTensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """One where the imaginary part is zero."""
    return _zero_part("is_real", input_tensor.imag, memory_config)


@operation("ttnn.is_imag", golden=lambda z, **_: torch.real(z) == 0, planned=False)
def is_imag(input_tensor: ComplexTensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """One where the real part is zero."""
    return _zero_part("is_imag", input_tensor.real, memory_config)


@operation("ttnn.conj", golden=lambda z, **_: torch.conj(z), planned=False)
def conj(input_tensor: ComplexTensor, *, memory_config: MemoryConfig | None = None) -> ComplexTensor:
    """The conjugate: the real part is shared, the imaginary one negated."""
    return ComplexTensor(input_tensor.real, run_unary("conj", input_tensor.imag, ("NEG",), (("neg", ()),), memory_config))


@operation("ttnn.polar", golden=lambda z, **_: torch.polar(z.real, z.imag), planned=False)
def polar(input_tensor: ComplexTensor, *, memory_config: MemoryConfig | None = None) -> ComplexTensor:
    """From (absolute value, angle) to (real, imaginary)."""
    result: ComplexTensor = _run("polar", "polar", input_tensor, memory_config, 3)
    return result


def _golden_abs(input_tensor: torch.Tensor, **_: Any) -> torch.Tensor:
    return torch.abs(input_tensor)


@operation("ttnn.abs", golden=_golden_abs)
def abs(
    input_tensor: Any, *, memory_config: MemoryConfig | None = None, output_tensor: Tensor | None = None, sub_core_grids: Any = None
) -> Tensor:
    """The absolute value, of a complex tensor too."""
    if isinstance(input_tensor, ComplexTensor):
        result: Tensor = _run("abs", "abs", input_tensor, memory_config, 1)
        return result
    return run_unary("abs", input_tensor, ("ABS",), (("abs", ()),), memory_config, output_tensor)


@operation("ttnn.reciprocal", golden=golden_of("reciprocal", ()))
def reciprocal(
    input_tensor: Any, *, memory_config: MemoryConfig | None = None, output_tensor: Tensor | None = None, sub_core_grids: Any = None
) -> Any:
    """1 / x, of a complex tensor too."""
    if isinstance(input_tensor, ComplexTensor):
        moved = memory_config is not None and memory_config != input_tensor.real.spec.memory_config
        return _run("reciprocal", "reciprocal", input_tensor, memory_config, 8 if moved else 6)
    return run_unary("reciprocal", input_tensor, ("RECIP",), (("reciprocal", ()),), memory_config, output_tensor)


# -- gradients


def _complex_golden(op: str) -> Any:
    def golden(grad_tensor: torch.Tensor, input_tensor: torch.Tensor, **_: Any) -> list[torch.Tensor]:
        leaf = input_tensor.detach().clone().requires_grad_()
        engine.STEPS[op].compute(leaf).backward(grad_tensor)
        return [leaf.grad] if leaf.grad is not None else []

    return golden


def _backward(op: str, grad: Any, z: ComplexTensor, memory_config: MemoryConfig | None, programs: int) -> list[ComplexTensor]:
    grads = [grad] if isinstance(grad, Tensor) else [grad.real, grad.imag]
    require_device(f"{op}_bw", *grads, z.real, z.imag)
    spec = output_spec(z.real, memory_config)
    parts = launch(
        f"{op}_bw", engine.complex_unary_backward, [*grads, z.real, z.imag], [spec, spec], attributes={"op": op}, programs=programs
    )
    return [ComplexTensor(*parts)]


ABS = GradientRow("abs", 2)
RECIPROCAL = GradientRow("reciprocal", 5, rows=False)


@operation("ttnn.abs_bw", golden=lambda grad_tensor, input_tensor, **_: [grad_tensor * torch.sgn(input_tensor)])
def abs_bw(grad_tensor: Tensor, input_tensor: Any, *, memory_config: MemoryConfig | None = None) -> list[Any]:
    """The gradient times the sign (the direction, for complex tensors)."""
    if isinstance(input_tensor, ComplexTensor):
        return list(_backward("abs", grad_tensor, input_tensor, memory_config, 5))
    return list(run_unary_backward(ABS, (("abs", ()),), grad_tensor, input_tensor, memory_config, None))


@operation("ttnn.reciprocal_bw", golden=lambda grad_tensor, input_tensor, **_: [-grad_tensor * (1 / (input_tensor * input_tensor)).conj()])
def reciprocal_bw(grad_tensor: Any, input_tensor: Any, *, memory_config: MemoryConfig | None = None) -> list[Any]:
    """The gradient of 1 / x."""
    if isinstance(input_tensor, ComplexTensor):
        return list(_backward("reciprocal", grad_tensor, input_tensor, memory_config, 9))
    from ttnn.operations.activations import INT32, UINT32
    from ttnn.operations.binary_rules import FLOAT32

    mixed = grad_tensor.spec.dtype != input_tensor.spec.dtype
    row = GradientRow("reciprocal", 5 + mixed, rows=False, whole={INT32: (FLOAT32, 1), UINT32: (FLOAT32, 1)})
    return list(run_unary_backward(row, (("reciprocal", ()),), grad_tensor, input_tensor, memory_config, None))


@operation("ttnn.angle_bw", golden=_complex_golden("angle"), planned=False)
def angle_bw(grad_tensor: Tensor, input_tensor: ComplexTensor, *, memory_config: MemoryConfig) -> list[ComplexTensor]:
    """The gradient of the angle."""
    return _backward("angle", grad_tensor, input_tensor, memory_config, 8)


@operation("ttnn.polar_bw", golden=_complex_golden("polar"), planned=False)
def polar_bw(grad_tensor: ComplexTensor, input_tensor: ComplexTensor, *, memory_config: MemoryConfig) -> list[ComplexTensor]:
    """The gradients of absolute value and angle."""
    return _backward("polar", grad_tensor, input_tensor, memory_config, 9)


@operation("ttnn.conj_bw", golden=_complex_golden("conj"), planned=False)
def conj_bw(grad_tensor: ComplexTensor, input_tensor: ComplexTensor, *, memory_config: MemoryConfig) -> list[ComplexTensor]:
    """The conjugate of the gradient."""
    return [conj.function(grad_tensor, memory_config=memory_config)]


def _zeros_like(tensor: Tensor, memory_config: MemoryConfig | None) -> Tensor:
    made: Any = launch("FullLikeDeviceOperation", _zeros, [tensor], output_spec(tensor, memory_config))
    return made  # type: ignore[no-any-return]


def _zeros(values: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(values)


@operation("ttnn.real_bw", golden=_complex_golden("real"), planned=False)
def real_bw(grad_tensor: Tensor, input_tensor: ComplexTensor, *, memory_config: MemoryConfig) -> list[ComplexTensor]:
    """The gradient belongs to the real part."""
    return [ComplexTensor(grad_tensor, _zeros_like(grad_tensor, memory_config))]


@operation("ttnn.imag_bw", golden=_complex_golden("imag"), planned=False)
def imag_bw(grad_tensor: Tensor, input_tensor: ComplexTensor, *, memory_config: MemoryConfig) -> list[ComplexTensor]:
    """The gradient belongs to the imaginary part."""
    return [ComplexTensor(_zeros_like(grad_tensor, memory_config), grad_tensor)]


def complex_sum_bw(grad: ComplexTensor, factor: float) -> list[ComplexTensor]:
    """The gradients of a + factor * b."""
    program = (("multiply", (fp32(factor),)),)
    parts = [run_unary("mul", part, ("MUL_UNARY_SFPU",), program) for part in (grad.real, grad.imag)]
    return [grad, ComplexTensor(*parts)]


def _product_bw(
    name: str, grad: ComplexTensor, a: ComplexTensor, b: ComplexTensor, memory_config: MemoryConfig | None, programs: int
) -> list[ComplexTensor]:
    parts = [grad.real, grad.imag, a.real, a.imag, b.real, b.imag]
    require_device(name, *parts)
    spec = output_spec(a.real, memory_config)
    found = launch(name, engine.complex_product_backward, parts, [spec] * 4, attributes={"divide": name == "div_bw"}, programs=programs)
    return [ComplexTensor(found[0], found[1]), ComplexTensor(found[2], found[3])]


def complex_mul_bw(grad: ComplexTensor, a: ComplexTensor, b: ComplexTensor, memory_config: MemoryConfig | None) -> list[ComplexTensor]:
    return _product_bw("mul_bw", grad, a, b, memory_config, 4)


def complex_div_bw(grad: ComplexTensor, a: ComplexTensor, b: ComplexTensor, memory_config: MemoryConfig | None) -> list[ComplexTensor]:
    return _product_bw("div_bw", grad, a, b, memory_config, 12)
