"""Layer norm and group norm that answer their moments, and their gradients from these.

Answers are lists with None for what was not asked for: layer norm writes moments into given tensors, group norm makes those that
`are_required_outputs` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tessera.engine import moreh as engine
from tessera.engine.choice import EngineFunction
from tessera.formats.dtype import Layout
from tessera.memory.config import MemoryConfig
from tessera.memory.spec import TensorSpec
from tessera.runtime.launch import launch
from tessera.runtime.tensor import Tensor
from ttnn.decorators import operation
from ttnn.operations.moreh import goldens
from ttnn.operations.moreh.rules import BF16, check, fitting
from ttnn.operations.rules import require

Outputs = list[Tensor | None]


def _affine(what: str, count: int, **vectors: Tensor | None) -> tuple[tuple[str, ...], list[Tensor]]:
    given = {name: t for name, t in vectors.items() if t is not None}
    for name, tensor in given.items():
        require(tensor.spec.volume == count, f"{what}: {name} must hold {count} elements, got {tensor.spec.shape}")
    return tuple(given), list(given.values())


def _choose(
    name: str, compute: EngineFunction, inputs: list[Tensor], wanted: list[TensorSpec | None], into: Outputs, **attributes: Any
) -> Outputs:
    """Launch for the outputs that are wanted, each in its place."""
    places = tuple(i for i, spec in enumerate(wanted) if spec is not None)
    made = launch(
        name,
        compute,
        inputs,
        [spec for spec in wanted if spec is not None],
        attributes={**attributes, "wanted": places},
        into=[into[i] for i in places],
    )
    found: Outputs = [None] * len(wanted)
    for place, tensor in zip(places, made):
        found[place] = tensor
    return found


# -- layer norm


def _check_dims(what: str, spec: TensorSpec, count: int) -> None:
    rank = len(spec.dims)
    require(count > 0, f"{what}: normalized_dims should > 0. Got: {count}")
    require(count <= max(rank, 2), f"{what}: normalized_dims should <= input rank ({max(rank, 2)}). Got: {count}")
    require(count <= rank, f"{what}: normalized_dims={count} is out of range for a tensor of rank {rank}")


@operation("ttnn.moreh_layer_norm", golden=goldens.layer_norm)
def moreh_layer_norm(
    input: Tensor,
    normalized_dims: int,
    eps: float = 1e-5,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    output: Tensor | None = None,
    mean: Tensor | None = None,
    rstd: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Outputs:
    """Layer norm over the last dimensions; `mean` and `rstd` are filled where they are given."""
    what, spec = "moreh_layer_norm", input.spec
    check(what, BF16, input=input, gamma=gamma, beta=beta, mean=mean, rstd=rstd)
    _check_dims(what, spec, normalized_dims)
    outer, inner = spec.dims[:-normalized_dims], spec.dims[-normalized_dims:]
    require(mean is None or len(spec.dims) > 1, f"{what}: the input must have two dimensions for mean and rstd, got {spec.shape}")
    roles, vectors = _affine(what, _product(inner), gamma=gamma, beta=beta)
    for name, tensor in (("mean", mean), ("rstd", rstd)):
        require(tensor is None or tensor.spec.volume == _product(outer), f"{what}: {name} must hold one element for each of {outer}")
    wanted = [fitting(what, spec, spec.dims, output, memory_config), *(None if t is None else t.spec for t in (mean, rstd))]
    return _choose(
        "MorehLayerNormOperation",
        engine.layer_norm,
        [input, *vectors],
        wanted,
        count=normalized_dims,
        epsilon=eps,
        roles=roles,
        into=[output, mean, rstd],
    )


def _product(dims: Sequence[int]) -> int:
    count = 1
    for d in dims:
        count *= d
    return count


@operation("ttnn.moreh_layer_norm_backward", golden=goldens.layer_norm_backward)
def moreh_layer_norm_backward(
    output_grad: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    normalized_dims: int,
    *,
    gamma: Tensor | None = None,
    input_grad: Tensor | None = None,
    gamma_grad: Tensor | None = None,
    beta_grad: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Outputs:
    """The gradients for which tensors are given; that of the input when none is."""
    what, spec = "moreh_layer_norm_backward", input.spec
    check(what, BF16, output_grad=output_grad, input=input, mean=mean, rstd=rstd, gamma=gamma)
    _check_dims(what, spec, normalized_dims)
    require(len(spec.dims) > 1, f"{what}: the input must have at least two dimensions, got {spec.shape}")
    require(output_grad.spec.dims == spec.dims, f"{what}: output_grad must have the input's shape {spec.shape}")
    found: Outputs = [None, None, None]
    affine = gamma_grad is not None or beta_grad is not None
    if input_grad is not None or not affine:
        inputs = [output_grad, input, mean, rstd, *([] if gamma is None else [gamma])]
        out = fitting(what, spec, spec.dims, input_grad, memory_config)
        attributes = {"count": normalized_dims}
        name = "MorehLayerNormBackwardInputGradOperation"
        found[0] = launch(name, engine.layer_norm_input_grad, inputs, out, attributes=attributes, into=input_grad)
    if affine:
        found[1:] = _choose(
            "MorehLayerNormBackwardGammaBetaGradOperation",
            engine.layer_norm_affine_grads,
            [output_grad, input, mean, rstd],
            [None if t is None else t.spec for t in (gamma_grad, beta_grad)],
            count=normalized_dims,
            into=[gamma_grad, beta_grad],
        )
    return found


# -- group norm


@operation("ttnn.moreh_group_norm", golden=goldens.group_norm)
def moreh_group_norm(
    input: Tensor,
    num_groups: int,
    eps: float = 1e-5,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    are_required_outputs: Sequence[bool] = (True, False, False),
    output: Tensor | None = None,
    mean: Tensor | None = None,
    rstd: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    mean_memory_config: MemoryConfig | None = None,
    rstd_memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Outputs:
    """Group norm of [N, C, ...], with the moments of each group as [1, 1, N, groups]."""
    what, spec = "moreh_group_norm", input.spec
    check(what, BF16, input=input, gamma=gamma, beta=beta)
    rank = len(spec.dims)
    channels = spec.dims[1] if rank > 1 else 1
    require(
        num_groups > 0 and channels % num_groups == 0,
        f"{what}: input_shape[1] must be divisible by num_groups. {channels} and {num_groups}",
    )
    require(rank >= 4, f"{what}: the input must have at least four dimensions, got {spec.shape}")
    roles, vectors = _affine(what, channels, gamma=gamma, beta=beta)
    wanted: list[TensorSpec | None] = [fitting(what, spec, spec.dims, output, memory_config)]
    moments = (1, 1, spec.dims[0], num_groups)
    for ready, needed, config in zip((mean, rstd), tuple(are_required_outputs)[1:], (mean_memory_config, rstd_memory_config)):
        wanted.append(fitting(what, spec, moments, ready, config) if needed or ready is not None else None)
    return _choose(
        "MorehGroupNormOperation",
        engine.group_norm,
        [input, *vectors],
        wanted,
        groups=num_groups,
        epsilon=eps,
        roles=roles,
        into=[output, mean, rstd],
    )


@operation("ttnn.moreh_group_norm_backward", golden=goldens.group_norm_backward)
def moreh_group_norm_backward(
    output_grad: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    num_groups: int,
    *,
    are_required_outputs: Sequence[bool] = (True, False, False),
    gamma: Tensor | None = None,
    input_grad: Tensor | None = None,
    gamma_grad: Tensor | None = None,
    beta_grad: Tensor | None = None,
    input_grad_memory_config: MemoryConfig | None = None,
    gamma_grad_memory_config: MemoryConfig | None = None,
    beta_grad_memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Outputs:
    """The gradients that are required; those of gamma and beta as [1, 1, 1, C]."""
    what, spec = "moreh_group_norm_backward", input.spec
    check(what, BF16, output_grad=output_grad, input=input, mean=mean, rstd=rstd, gamma=gamma)
    require(len(spec.dims) >= 4, f"{what}: the input must have at least four dimensions, got {spec.shape}")
    require(output_grad.spec.dims == spec.dims, f"{what}: output_grad must have the input's shape {spec.shape}")
    require(num_groups > 0 and spec.dims[1] % num_groups == 0, f"{what}: input_shape[1] must be divisible by num_groups. Got {num_groups}")
    for name, moment in (("mean", mean), ("rstd", rstd)):
        require(moment.spec.volume == spec.dims[0] * num_groups, f"{what}: {name} must have shape [1, 1, {spec.dims[0]}, {num_groups}]")
    needed = tuple(are_required_outputs)
    found: Outputs = [None, None, None]
    if needed[0]:
        inputs = [output_grad, input, mean, rstd, *([] if gamma is None else [gamma])]
        out = fitting(what, spec, spec.dims, input_grad, input_grad_memory_config)
        attributes = {"groups": num_groups}
        name = "MorehGroupNormBackwardInputGradOperation"
        found[0] = launch(name, engine.group_norm_input_grad, inputs, out, attributes=attributes, into=input_grad)
    if needed[1] or needed[2]:
        shape = (1, 1, 1, spec.dims[1])
        rows = zip(needed[1:], (gamma_grad, beta_grad), (gamma_grad_memory_config, beta_grad_memory_config))
        found[1:] = _choose(
            "MorehGroupNormBackwardGammaBetaGradOperation",
            engine.group_norm_affine_grads,
            [output_grad, input, mean, rstd],
            [fitting(what, spec.replace(layout=Layout.TILE), shape, ready, config) if need else None for need, ready, config in rows],
            groups=num_groups,
            into=[gamma_grad, beta_grad],
        )
    return found
