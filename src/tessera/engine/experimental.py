"""What the experimental operations compute: scans, sums over blocks, Fourier transforms. In fp32, rounded once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tessera.engine.choice import engine_function
from tessera.engine.matmul import matmul
from tessera.engine.norm import rms_norm
from tessera.engine.unary import Program, elementwise_unary
from tessera.engine.widening import widened


@engine_function
def total(values: torch.Tensor, *, dims: Sequence[int], shape: Sequence[int]) -> torch.Tensor:
    """The sum over dims, which stay as ones; what `shape` has beyond the sum is zero."""
    result = widened(values).sum(tuple(dims), keepdim=True)
    missing = [n for have, want in zip(reversed(result.shape), reversed(shape)) for n in (0, want - have)]
    return torch.nn.functional.pad(result, missing) if any(missing) else result


@engine_function
def total_in_parts(values: torch.Tensor, *, dim: int, sizes: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """The sum over one dimension, cut along the last into parts of these sizes."""
    return tuple(widened(values).sum(dim, keepdim=True).split(list(sizes), dim=-1))


@engine_function
def prefix_scan(a: torch.Tensor, bx: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """h[t] = a[t] h[t-1] + bx[t] along dimension -2, from `before` on."""
    gain, gift = widened(a), widened(bx)
    state = widened(before).expand(*gain.shape[:-2], 1, gain.shape[-1])[..., 0, :]
    rows = []
    for t in range(gain.shape[-2]):
        state = gain[..., t, :] * state + gift[..., t, :]
        rows.append(state)
    return torch.stack(rows, dim=-2) if rows else gain


@engine_function
def block_sum(values: torch.Tensor, *, block: int) -> torch.Tensor:
    """Sums of consecutive blocks of the last dimension."""
    return widened(values).unflatten(-1, (-1, block)).sum(-1)


@engine_function
def repeat_and_interleave(a: torch.Tensor, b: torch.Tensor, *, repeats: int, each: int) -> torch.Tensor:
    """a over and over, times every element of b so many times."""
    return widened(a).repeat(*[1] * (a.dim() - 1), repeats) * widened(b).repeat_interleave(each, dim=-1)


@engine_function
def moving_average(values: torch.Tensor, *, alpha: float) -> torch.Tensor:
    """y[t] = alpha y[t-1] + (1 - alpha) x[t] along the last dimension, from zero on."""
    wide = widened(values)
    state = torch.zeros_like(wide[..., 0]) if wide.shape[-1] else wide
    rows = []
    for t in range(wide.shape[-1]):
        state = alpha * state + (1.0 - alpha) * wide[..., t]
        rows.append(state)
    return torch.stack(rows, dim=-1) if rows else wide


@engine_function
def fourier(
    real: torch.Tensor, imag: torch.Tensor | None = None, *, inverse: bool = False, length: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The discrete Fourier transform along the last dimension, in fp64, as real and imaginary parts."""
    values = torch.complex(real.to(torch.float64), torch.zeros_like(real, dtype=torch.float64) if imag is None else imag.to(torch.float64))
    result = torch.fft.ifft(values, n=length) if inverse else torch.fft.fft(values, n=length)
    return result.real.to(torch.float32), result.imag.to(torch.float32)


@engine_function
def integral_image(values: torch.Tensor) -> torch.Tensor:
    """Every pixel the sum of those above and left of it, itself included: [batch, height, width, channels]."""
    return values.to(torch.float64).cumsum(-3).cumsum(-2).to(torch.float32)


@engine_function
def largest_places(values: torch.Tensor, *, k: int, valid: int | None = None) -> torch.Tensor:
    """Places of the k largest along the last dimension, of the first `valid`; places that are not there repeat the last."""
    count = values.shape[-1] if valid is None else valid
    found = widened(values)[..., :count].topk(min(k, count), dim=-1, sorted=True).indices
    return torch.nn.functional.pad(found, (0, k - found.shape[-1]), value=2**32 - 1)


@engine_function
def matmul_addcmul(
    a: torch.Tensor, b: torch.Tensor, term: torch.Tensor, factor: torch.Tensor, bias: torch.Tensor | None = None, *, scalar: float
) -> torch.Tensor:
    """term + scalar * (a @ b + bias) * factor."""
    product: torch.Tensor = matmul(a, b.reshape(b.shape[-2:]), bias)
    return widened(term) + scalar * product * widened(factor)


@engine_function
def rms_norm_unary(
    values: torch.Tensor, *further: torch.Tensor, epsilon: float, roles: Sequence[str] = (), activation: Program = ()
) -> torch.Tensor:
    """RMS norm, then an activation."""
    result: torch.Tensor = rms_norm(values, *further, epsilon=epsilon, roles=roles)
    return elementwise_unary(widened(result), program=activation) if activation else result


def write_slice(
    target: torch.Tensor, values: torch.Tensor, *, start: Sequence[int], end: Sequence[int], step: Sequence[int], dtype: str
) -> torch.Tensor:
    """Write values into a box of the target, in place."""
    target[tuple(slice(a, b, s) for a, b, s in zip(start, end, step))] = values.to(target.dtype)
    return target
