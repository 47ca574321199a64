"""RMS norm over rows that a line of chips holds together, sums and gather in one operation."""

from __future__ import annotations

from typing import Any

import torch

from tessera.engine import norm as engine
from tessera.formats.dtype import DataType, Layout
from tessera.memory.config import MemoryConfig
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.fabric import get_fabric_config
from ttnn.operations.normalization.layer import check_sharded_config, check_vector
from ttnn.operations.normalization.softmax import require_float
from ttnn.operations.rules import like, require, require_device
from ttnn.types import FabricConfig


def _golden(
    input_tensor: torch.Tensor,
    *_: Any,
    residual_input_tensor: torch.Tensor | None = None,
    epsilon: float = 1e-12,
    weight: torch.Tensor | None = None,
    **__: Any,
) -> torch.Tensor:
    """The whole rows at once."""
    x = input_tensor if residual_input_tensor is None else input_tensor + residual_input_tensor
    found = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)
    return found if weight is None else found * weight.reshape(-1)


@operation("ttnn.fused_rms_minimal", golden=_golden, planned=False)
def fused_rms_minimal(
    input_tensor: Tensor,
    program_config: Any,
    cluster_axis: int,
    mesh_device: Any,
    global_semaphore: Any,
    *,
    persistent_output_tensor: Tensor | None = None,
    num_links: int | None = None,
    topology: Any = None,
    subdevice_id: Any = None,
    dtype: DataType | None = None,
    compute_kernel_config: Any = None,
    memory_config: MemoryConfig | None = None,
    residual_input_tensor: Tensor | None = None,
    epsilon: float = 1e-12,
    weight: Tensor | None = None,
    stats: Tensor | None = None,
    use_noc1_only: bool = False,
) -> Tensor:
    """Each chip's part of rows that lie along one axis of the mesh, over the root of the whole rows' mean square. The input is added to
    a residual where that stands."""
    what, x, residual = "fused_rms_minimal", input_tensor, residual_input_tensor
    require_float(what, x)
    require_device(what, x, residual, weight)
    require(x.spec.layout == Layout.TILE, f"{what}: the input must be in TILE layout, got {x.spec.layout}")
    require(x.spec.is_sharded, f"{what}: the input must be width-sharded in L1")
    device = x.buffer.device
    assert device is not None
    mesh = tuple(device.mesh_shape)
    require(0 <= cluster_axis < len(mesh), f"{what}: cluster_axis={cluster_axis} must be one of the {len(mesh)} axes of the mesh")
    require(
        mesh[cluster_axis] == 1 or get_fabric_config() != FabricConfig.DISABLED,
        f"{what}: Trying to get un-initialized fabric context; call ttnn.set_fabric_config before opening the mesh",
    )
    if hasattr(program_config, "block_w"):
        check_sharded_config(what, x, program_config)
    roles, inputs = [], [x]
    if residual is not None:
        require(
            residual.spec.dims == x.spec.dims, f"{what}: Input and residual shapes must match, got {x.spec.shape} and {residual.spec.shape}"
        )
        roles.append("residual")
        inputs.append(residual)
    if weight is not None:
        check_vector(what, "gamma", weight, x)
        roles.append("weight")
        inputs.append(weight)
    out = like(x, dtype=dtype, memory_config=memory_config) if persistent_output_tensor is None else persistent_output_tensor.spec
    words: dict[str, Any] = {"mesh": mesh, "axis": cluster_axis, "roles": tuple(roles)}
    result = launch(
        "RMSAllGatherDeviceOperation",
        engine.rms_norm_across,
        inputs,
        out,
        attributes={**words, "epsilon": epsilon},
        across=True,
        into=persistent_output_tensor,
    )
    if residual is not None:
        launch("RMSAllGatherResidual", engine.added, [residual, x], residual.spec, into=residual, programs=0)
    return result  # type: ignore[no-any-return]
