"""Linear attention with a memory that forgets: the gated delta rule."""

from __future__ import annotations

from typing import Any

from tessera.engine import attention_forms as engine
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.rules import like, require, require_device


def _golden_delta(
    q: Any, k: Any, v: Any, g: Any, beta: Any, *, scale: Any = None, initial_state: Any = None, use_qk_l2norm: bool = False, **_: Any
) -> Any:
    return engine.gated_delta_rule(q, k, v, g, beta, initial_state, scale=scale, normalised=use_qk_l2norm)


def _delta(
    what: str,
    tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    state: Tensor | None,
    output_state: bool,
    memory_config: MemoryConfig | None,
    programs: int,
    **attributes: Any,
) -> tuple[Tensor, Tensor | None]:
    q, k, v, g, beta = tensors
    require_device(what, *tensors, state)
    for tensor in (q, k, v):
        require(len(tensor.spec.dims) == 4, f"{what}: q, k and v must be [batch, steps, heads, width], got {tensor.spec.shape}")
    require(q.spec.dims == k.spec.dims, f"{what}: q and k must have the same shape, got {q.spec.shape} and {k.spec.shape}")
    batch, steps, heads, width = v.spec.dims
    require(k.spec.dims[:2] == (batch, steps), f"{what}: k and v must have the same batch and steps, got {k.spec.shape} and {v.spec.shape}")
    require(heads % k.spec.dims[2] == 0, f"{what}: v's {heads} heads must be a multiple of k's {k.spec.dims[2]}")
    for name, tensor in (("g", g), ("beta", beta)):
        require(tensor.spec.dims == (batch, steps, heads), f"{what}: {name} must be [{batch}, {steps}, {heads}], got {tensor.spec.shape}")
    memory = (batch, heads, k.spec.dims[-1], width)
    if state is not None:
        require(state.spec.dims == memory, f"{what}: initial_state must be {list(memory)}, got {state.spec.shape}")
    place = MemoryConfig() if memory_config is None else memory_config
    shape = (batch, heads, steps, width) if attributes.get("head_major") else (batch, steps, heads, width)
    words = {"dtype": DataType.FLOAT32, "memory_config": place, "layout": Layout.TILE}
    outs = [like(v, shape=shape, **words), like(v, shape=memory, **words)]
    inputs = [*tensors] + ([state] if state is not None else [])
    result, last = launch("GatedDeltaRuleDeviceOperation", engine.gated_delta_rule, inputs, outs, attributes=attributes, programs=programs)
    if not output_state:
        last.buffer.free()
    return result, last if output_state else None


@operation("ttnn.transformer.fused_recurrent_gated_delta_rule", golden=_golden_delta)
def fused_recurrent_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    *,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    initial_state_block_idx: Tensor | None = None,
    output_final_state: bool = False,
    output_per_token_state: bool = False,
    use_qk_l2norm: bool = False,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> tuple[Tensor, Tensor | None]:
    """The gated delta rule, step by step. It is composed of many programs on the chip."""
    what = "fused_recurrent_gated_delta_rule"
    if initial_state_block_idx is not None or output_per_token_state:
        raise NotImplementedError(f"ttnn.transformer.{what}: states in blocks or for each token are not built in Tessera")
    attributes = {"scale": scale, "normalised": use_qk_l2norm}
    return _delta(what, (q, k, v, g, beta), initial_state, output_final_state, memory_config, 15, **attributes)


@operation("ttnn.transformer.chunk_gated_delta_rule", golden=_golden_delta)
def chunk_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    *,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    chunk_size: int = 64,
    use_qk_l2norm: bool = False,
    output_head_major: bool = False,
    program_config: Any = None,
    wy_inverse: Any = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    eye: Tensor | None = None,
    tril: Tensor | None = None,
    ones: Tensor | None = None,
    masks: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The same rule for long sequences. The chip works on chunks; the result is that of the steps."""
    what = "chunk_gated_delta_rule"
    require(chunk_size > 0 and chunk_size % 32 == 0, f"{what}: chunk_size={chunk_size} must be a positive multiple of 32")
    attributes = {"scale": scale, "normalised": use_qk_l2norm, "head_major": output_head_major}
    return _delta(what, (q, k, v, g, beta), initial_state, output_final_state, memory_config, 1, **attributes)
