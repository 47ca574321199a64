"""Normalisations: softmax and its fused forms, layer and RMS norms, group and batch norms."""

from typing import Any

from ttnn.operations.normalization import distributed as distributed
from ttnn.operations.normalization import fused as fused
from ttnn.operations.normalization import group as group
from ttnn.operations.normalization import layer as layer
from ttnn.operations.normalization import softmax as softmax
from ttnn.operations.normalization import whole as whole


def __getattr__(name: str) -> Any:
    """Program configs and helpers that programs also look for here."""
    import ttnn

    if name.startswith("__") or name not in _ALSO:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(ttnn, name)


_ALSO = frozenset(
    (
        "LayerNormDefaultProgramConfig",
        "LayerNormShardedMultiCoreProgramConfig",
        "SoftmaxDefaultProgramConfig",
        "SoftmaxProgramConfig",
        "SoftmaxShardedMultiCoreProgramConfig",
        "create_group_norm_input_mask",
        "create_group_norm_input_negative_mask",
        "create_group_norm_weight_bias_rm",
        "determine_expected_group_norm_sharded_config_and_grid_size",
        "get_group_norm_cores_across_channel",
    )
)
