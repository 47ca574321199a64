"""Layer norm and RMS norm over the last dimension, with weight, bias and residual."""

from __future__ import annotations

import math
from typing import Any

import torch

from tessera.engine import norm as engine
from tessera.engine.choice import EngineFunction
from tessera.formats.dtype import Layout
from tessera.memory.config import MemoryConfig, ShardOrientation, TensorMemoryLayout
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.circular import require_circular_room
from ttnn.operations.normalization.softmax import require_float
from ttnn.operations.rules import like, require


def check_vector(what: str, role: str, vector: Tensor, x: Tensor) -> None:
    """A weight or bias: one row of the input's width in TILE, or rows of one tile's width in ROW_MAJOR."""
    require(vector.buffer.device is not None, f"{what}: Device Operations expect device tensors as inputs; {role} is on the host")
    require(len(vector.spec.dims) > 0, f"{what}: {role} must have a dimension, got a scalar")
    width, padded = x.spec.dims[-1], x.spec.padded_shape[-1]
    if vector.spec.layout == Layout.TILE:
        height = vector.spec.padded_shape[-2] if len(vector.spec.padded_shape) > 1 else 32
        require(
            vector.spec.padded_shape[-1] == padded and vector.spec.dims[-1] >= width,
            f"{what}: Input and {role} padded widths must match and {role} logical width must be >= input logical width; got {vector.spec.shape} for {x.spec.shape}",
        )
        require(
            height == x.spec.tile.tile_shape[0],
            f"{what}: {role.capitalize()} tensor height must equal tile height ({x.spec.tile.tile_shape[0]}), got: {height}",
        )
    else:
        require(
            vector.spec.dims[-1] == x.spec.tile.tile_shape[1] and math.prod(vector.spec.dims) == padded,
            f"{what}: {role.capitalize()} tensor dimensions must align with input tensor. A ROW_MAJOR {role} has rows of 32 and {padded} elements; got {vector.spec.shape}",
        )


def check_sharded_config(what: str, x: Tensor, config: Any) -> None:
    """The blocks of a program config must be the shards of the input."""
    shard = x.spec.memory_config.shard_spec
    if shard is None:
        return
    box, grid = shard.grid.bounding_box().grid_size(), config.compute_with_storage_grid_size
    require(
        box.x <= grid.x and box.y <= grid.y,
        f"{what}: shard_spec.grid size {box.x}x{box.y} does not fit within program_config grid {grid.x}x{grid.y}",
    )
    tile_height, tile_width = x.spec.tile.tile_shape
    turned = shard.orientation == ShardOrientation.COL_MAJOR
    rows, columns = (box.x, box.y) if turned else (box.y, box.x)
    if x.spec.memory_config.memory_layout == TensorMemoryLayout.WIDTH_SHARDED:
        rows, columns = 1, shard.grid.num_cores()
    height, width = x.spec.physical_shape
    wide = math.ceil(width // tile_width / columns)
    require(config.block_w == wide, f"{what}: block_w ({config.block_w}) must equal to K (in tiles) / num_cores_c ({wide})")
    high = math.ceil(height // tile_height / rows)
    require(config.block_h == high, f"{what}: block_h ({config.block_h}) must equal to M (in tiles) / num_cores_r ({high})")
    require(
        config.subblock_w > 0 and config.block_w % config.subblock_w == 0,
        f"{what}: block_w ({config.block_w}) must be divisible by subblock_w ({config.subblock_w})",
    )
    # Two blocks stand beside the shard while it is normalised: the values less their mean, and the squares of those.
    device = x.buffer.device
    assert device is not None
    block = config.block_h * config.block_w * x.spec.tile.get_tile_size(x.spec.dtype)
    require_circular_room(what, device, grid, 2 * block)


def _normalize(
    what: str,
    engine_function: EngineFunction,
    x: Tensor,
    epsilon: float,
    weight: Tensor | None,
    bias: Tensor | None,
    residual: Tensor | None,
    memory_config: MemoryConfig | None,
    program_config: Any,
) -> Tensor:
    require_float(what, x)
    require(len(x.spec.dims) > 0, f"{what}: LayerNorm operation not supported for 0D tensors. (rank={len(x.spec.dims)})")
    roles, inputs = [], [x]
    for role, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None:
            check_vector(what, {"weight": "gamma", "bias": "beta"}[role], tensor, x)
            roles.append(role)
            inputs.append(tensor)
    if residual is not None:
        require(
            residual.spec.dims == x.spec.dims,
            f"{what}: Input and residual logical and padded shapes must match, got {x.spec.shape} and {residual.spec.shape}",
        )
        roles.append("residual")
        inputs.append(residual)
    layout = x.spec.memory_config.memory_layout
    if x.spec.is_sharded:
        require(layout != TensorMemoryLayout.HEIGHT_SHARDED, f"{what}: Height sharded inputs are not supported.")
        require(memory_config is None or memory_config.is_sharded(), f"{what}: Sharded inputs require sharded outputs.")
        if hasattr(program_config, "block_w"):
            check_sharded_config(what, x, program_config)
    elif hasattr(program_config, "block_w"):
        require(False, f"{what}: a LayerNormShardedMultiCoreProgramConfig is for sharded inputs; this one is interleaved")
    out = like(x, memory_config=memory_config)
    in_place = x.spec.is_sharded and getattr(program_config, "inplace", False)
    return launch(  # type: ignore[no-any-return]
        "LayerNormDeviceOperation",
        engine_function,
        inputs,
        out,
        attributes={"epsilon": epsilon, "roles": tuple(roles)},
        into=x if in_place else None,
        key=(what, program_config),
    )


def _golden_layer_norm(
    input_tensor: torch.Tensor,
    *,
    epsilon: float = 1e-12,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    residual_input_tensor: torch.Tensor | None = None,
    **_: Any,
) -> torch.Tensor:
    x = input_tensor if residual_input_tensor is None else input_tensor + residual_input_tensor
    flat = [None if v is None else v.reshape(-1) for v in (weight, bias)]
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), flat[0], flat[1], epsilon)


@operation("ttnn.layer_norm", golden=_golden_layer_norm)
def layer_norm(
    input_tensor: Tensor,
    *,
    epsilon: float = 1e-12,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    residual_input_tensor: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    recip_tensor: Tensor | None = None,
) -> Tensor:
    """Each row less its mean, over its deviation, times weight, plus bias."""
    return _normalize(
        "layer_norm", engine.layer_norm, input_tensor, epsilon, weight, bias, residual_input_tensor, memory_config, program_config
    )


def _golden_rms_norm(
    input_tensor: torch.Tensor,
    *,
    epsilon: float = 1e-12,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    residual_input_tensor: torch.Tensor | None = None,
    **_: Any,
) -> torch.Tensor:
    x = input_tensor if residual_input_tensor is None else input_tensor + residual_input_tensor
    result = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)
    result = result if weight is None else result * weight.reshape(-1)
    return result if bias is None else result + bias.reshape(-1)


@operation("ttnn.rms_norm", golden=_golden_rms_norm)
def rms_norm(
    input_tensor: Tensor,
    *,
    epsilon: float = 1e-12,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    residual_input_tensor: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    use_2d_core_grid: Any = None,
) -> Tensor:
    """Each row over the root of its mean square, times weight, plus bias."""
    if not input_tensor.spec.dims:
        return _scalar(input_tensor, epsilon, weight, bias, memory_config)
    require(input_tensor.spec.layout == Layout.TILE, "rms_norm: ttnn::rms_norm does not support ROW_MAJOR input tensors. Use TILE layout.")
    return _normalize(
        "rms_norm", engine.rms_norm, input_tensor, epsilon, weight, bias, residual_input_tensor, memory_config, program_config
    )


def _scalar(x: Tensor, epsilon: float, weight: Tensor | None, bias: Tensor | None, memory_config: MemoryConfig | None) -> Tensor:
    """A scalar over its own size: the chip makes this of four elementwise programs."""
    require_float("rms_norm", x)
    further = [t for t in (weight, bias) if t is not None]
    shape = max((t.spec.dims for t in further), key=len, default=())
    roles = tuple(r for r, t in (("weight", weight), ("bias", bias)) if t is not None)
    out = like(x, shape=shape, memory_config=memory_config)
    attributes = {"epsilon": epsilon, "roles": roles, "shape": shape}
    return launch("RmsScalarDeviceOperation", engine.rms_scalar, [x, *further], out, attributes=attributes, programs=4)  # type: ignore[no-any-return]
