"""Turns torch modules into what TT-NN programs take: their parameters as TT-NN tensors, and the arguments of their convolutions and poolings.

The result has the shape of the module: `parameters.encoder.layer[0].attention.weight`. Linear weights are transposed, biases are rows, embeddings
stand in rows. What a module needs beyond that, a *custom preprocessor* says.
"""

from __future__ import annotations

from ttnn.model_preprocessing.arguments import Conv2dArgs, GroupNormArgs, MaxPool2dArgs, ModuleArgs, infer_ttnn_module_args
from ttnn.model_preprocessing.parameters import (
    ParameterDict,
    ParameterList,
    convert_torch_model_to_ttnn_model,
    default_preprocessor,
    make_parameter_dict,
    move_to_device,
    preprocess_model,
    preprocess_model_parameters,
)
from ttnn.model_preprocessing.rows import (
    fold_batch_norm2d_into_conv2d,
    preprocess_conv2d,
    preprocess_embedding_weight,
    preprocess_layernorm_parameter,
    preprocess_linear_bias,
    preprocess_linear_weight,
)
from ttnn.model_preprocessing.stored import dump_parameters, load_parameters

__all__ = [
    "Conv2dArgs",
    "GroupNormArgs",
    "MaxPool2dArgs",
    "ModuleArgs",
    "ParameterDict",
    "ParameterList",
    "convert_torch_model_to_ttnn_model",
    "default_preprocessor",
    "dump_parameters",
    "fold_batch_norm2d_into_conv2d",
    "infer_ttnn_module_args",
    "load_parameters",
    "make_parameter_dict",
    "move_to_device",
    "preprocess_conv2d",
    "preprocess_embedding_weight",
    "preprocess_layernorm_parameter",
    "preprocess_linear_bias",
    "preprocess_linear_weight",
    "preprocess_model",
    "preprocess_model_parameters",
]
