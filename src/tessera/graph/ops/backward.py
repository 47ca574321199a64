"""Rows that only derivatives need. The backward of an operation is traced from torch's own vector-Jacobian product, which ends in these
overloads; each is a row so that a backward graph is as readable, and as roundable, as a forward one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tessera.graph.ops.table import row

aten = torch.ops.aten

# (overload, several results?)
_BACKWARD: tuple[tuple[str, bool], ...] = (
    ("_softmax_backward_data", False),
    ("_log_softmax_backward_data", False),
    ("_adaptive_avg_pool2d_backward", False),
    ("_adaptive_avg_pool3d_backward", False),
    ("_scaled_dot_product_flash_attention_for_cpu", True),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", True),
    ("avg_pool2d_backward", False),
    ("avg_pool3d_backward", False),
    ("binary_cross_entropy_backward", False),
    ("convolution_backward", True),
    ("elu_backward", False),
    ("embedding_dense_backward", False),
    ("gelu_backward", False),
    ("hardsigmoid_backward", False),
    ("hardswish_backward", False),
    ("hardtanh_backward", False),
    ("huber_loss_backward", False),
    ("leaky_relu_backward", False),
    ("log_sigmoid_backward", False),
    ("log_sigmoid_forward", True),
    ("max_pool2d_with_indices_backward", False),
    ("max_pool3d_with_indices_backward", False),
    ("mish_backward", False),
    ("mse_loss_backward", False),
    ("native_batch_norm_backward", True),
    ("native_dropout_backward", False),
    ("native_group_norm", True),
    ("native_group_norm_backward", True),
    ("native_layer_norm", True),
    ("native_layer_norm_backward", True),
    ("nll_loss_forward", True),
    ("nll_loss_backward", False),
    ("nll_loss2d_forward", True),
    ("nll_loss2d_backward", False),
    ("reflection_pad2d", False),
    ("reflection_pad2d_backward", False),
    ("select_backward", False),
    ("sigmoid_backward", False),
    ("silu_backward", False),
    ("slice_backward", False),
    ("smooth_l1_loss_backward", False),
    ("softplus_backward", False),
    ("tanh_backward", False),
    ("threshold_backward", False),
    ("upsample_nearest2d_backward", False),
    ("upsample_bilinear2d_backward", False),
    ("unfold_backward", False),
    ("col2im", False),
)


def _schema_call(overload: Any) -> Any:
    """An overload called by the rule of the table: tensors by position, the rest by keyword, whatever order its schema has."""
    names = [(a.name, str(a.type) in ("Tensor", "Optional[Tensor]")) for a in overload._schema.arguments]

    def call(*inputs: Tensor, **attrs: Any) -> Any:
        rest = iter(inputs)
        bound = {name: attrs[name] if name in attrs else next(rest) for name, tensor in names if name in attrs or tensor}
        return overload(**bound)

    return call


for _name, _many in _BACKWARD:
    _overload = getattr(aten, _name).default
    row(_name.lstrip("_"), _schema_call(_overload), "backward", _name, many=_many)
