"""The training operations against torch and its autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

import ttnn


def put(values: torch.Tensor, device: Any, dtype: Any = ttnn.bfloat16, layout: Any = ttnn.TILE_LAYOUT) -> Any:
    return ttnn.from_torch(values.detach(), dtype=dtype, layout=layout, device=device)


def some(*shape: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def leaf(values: torch.Tensor) -> torch.Tensor:
    return values.detach().double().requires_grad_()


def close(found: Any, exact: torch.Tensor, tolerance: float = 0.01) -> None:
    values = ttnn.to_torch(found).double()
    assert torch.allclose(
        values.reshape(exact.shape), exact.detach().double(), rtol=tolerance, atol=tolerance * float(exact.detach().abs().max())
    )


@pytest.mark.parametrize("dim", [None, 0, 1, 2, [0, 1], [1, 2]], ids=str)
@pytest.mark.parametrize("name", ["moreh_sum", "moreh_mean", "moreh_norm"])
def test_reductions_and_their_gradients(device: Any, name: str, dim: Any) -> None:
    values = leaf(some(3, 33, 65))
    dims = (0, 1, 2) if dim is None else dim
    kept = torch.Size([1 if k in ((dims,) if isinstance(dims, int) else dims) else d for k, d in enumerate(values.shape)])
    references = {
        "moreh_sum": lambda: values.sum(dims, keepdim=True),
        "moreh_mean": lambda: values.mean(dims, keepdim=True),
        "moreh_norm": lambda: torch.linalg.vector_norm(values, 3.0, dims, keepdim=True),
    }
    exact = references[name]()
    words: dict[str, Any] = {"dim": dim, "keepdim": True}
    tensor = put(values, device)
    found = getattr(ttnn, name)(tensor, *([3.0] if name == "moreh_norm" else []), **words)
    assert torch.Size(tuple(found.shape)) == kept
    close(found, exact)
    grad = some(*kept, seed=5)
    exact.backward(grad.double())
    if name == "moreh_sum":
        back = ttnn.moreh_sum_backward(put(grad, device), input=tensor, **words)
    elif name == "moreh_mean":
        back = ttnn.moreh_mean_backward(put(grad, device), input_grad_shape=ttnn.Shape([3, 33, 65]), **words)
    else:
        back = ttnn.moreh_norm_backward(tensor, found, put(grad, device), 3.0, **words)
    assert values.grad is not None
    close(back, values.grad, 0.03)


def test_matrices_stay_matrices(device: Any) -> None:
    tensor = put(some(2, 3, 33, 65), device)
    assert tuple(ttnn.moreh_sum(tensor, 3).shape) == (2, 3, 33, 1)
    assert tuple(ttnn.moreh_sum(tensor, 0).shape) == (3, 33, 65)
    assert tuple(ttnn.moreh_sum(tensor).shape) == (1, 1)
    with pytest.raises(RuntimeError, match="dim must be between 0 and 8"):
        ttnn.moreh_sum(tensor, -1)
    with pytest.raises(RuntimeError, match="only supports specific data types"):
        ttnn.moreh_sum(put(some(32, 32), device, ttnn.float32), 0)


def test_names_without_the_prefix(device: Any) -> None:
    moreh = ttnn.operations.moreh
    assert moreh.sum is ttnn.moreh_sum and moreh.softmax_backward is ttnn.moreh_softmax_backward
    values = some(33, 5)
    found = moreh.softmax(put(values, device), 1, op=moreh.SoftmaxOp.SOFTMIN, strategy=moreh.SoftmaxOpParallelizationStrategy.NONE)
    close(found, torch.softmax(-values.double(), 1))


def test_whole_numbers(device: Any) -> None:
    values = torch.arange(33 * 65, dtype=torch.int32).reshape(33, 65)
    assert torch.equal(ttnn.to_torch(ttnn.moreh_sum(put(values, device, ttnn.int32), 0)), values.sum(0, keepdim=True).int())


def test_running_sums(device: Any) -> None:
    values = some(3, 5, 40)
    close(ttnn.moreh_cumsum(put(values, device), 2), values.double().cumsum(2))
    close(ttnn.moreh_cumsum_backward(put(values, device), 1), values.double().flip(1).cumsum(1).flip(1))


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("moreh_softmax", torch.softmax),
        ("moreh_softmin", lambda x, d: torch.softmax(-x, d)),
        ("moreh_logsoftmax", torch.log_softmax),
    ],
    ids=["max", "min", "log"],
)
def test_soft_maxima(device: Any, name: str, reference: Any, dim: int) -> None:
    values, grad = leaf(some(3, 33, 5)), some(3, 33, 5, seed=5)
    exact = reference(values, dim)
    found = getattr(ttnn, name)(put(values, device), dim)
    close(found, exact)
    exact.backward(grad.double())
    assert values.grad is not None
    close(getattr(ttnn, f"{name}_backward")(found, put(grad, device), dim), values.grad, 0.03)
    with pytest.raises(TypeError):
        getattr(ttnn, name)(put(values, device), -1)


@pytest.mark.parametrize("count", [1, 2])
def test_layer_norm(device: Any, count: int) -> None:
    x, gamma, beta = leaf(some(3, 33, 65)), leaf(some(*(3, 33, 65)[-count:], seed=4)), leaf(some(*(3, 33, 65)[-count:], seed=5))
    exact = F.layer_norm(x, x.shape[-count:], gamma, beta, 1e-3)
    moments = (3, 33, 65)[:-count]
    mean, rstd = put(torch.zeros(moments), device), put(torch.zeros(moments), device)
    tensors = [put(t, device) for t in (x, gamma, beta)]
    found = ttnn.moreh_layer_norm(tensors[0], count, 1e-3, tensors[1], tensors[2], mean=mean, rstd=rstd)
    assert found[1] is mean and found[2] is rstd
    close(found[0], exact)
    assert ttnn.moreh_layer_norm(tensors[0], count)[1:] == [None, None]
    grad = some(3, 33, 65, seed=6)
    exact.backward(grad.double())
    zeros = [put(torch.zeros(t.shape), device) for t in (x, gamma, beta)]
    words = {"gamma": tensors[1], "input_grad": zeros[0], "gamma_grad": zeros[1], "beta_grad": zeros[2]}
    back = ttnn.moreh_layer_norm_backward(put(grad, device), tensors[0], mean, rstd, count, **words)
    for mine, theirs in zip(back, (x, gamma, beta)):
        assert theirs.grad is not None
        close(mine, theirs.grad, 0.03)


def test_group_norm(device: Any) -> None:
    x, gamma, beta = leaf(some(2, 4, 33, 5)), leaf(some(4, seed=4)), leaf(some(4, seed=5))
    exact = F.group_norm(x, 2, gamma, beta, 1e-3)
    tensors = [put(t, device) for t in (x, gamma.reshape(1, 1, 1, 4), beta.reshape(1, 1, 1, 4))]
    out, mean, rstd = ttnn.moreh_group_norm(tensors[0], 2, 1e-3, tensors[1], tensors[2], are_required_outputs=[True, True, True])
    assert tuple(mean.shape) == (1, 1, 2, 2)
    close(out, exact)
    grad = some(2, 4, 33, 5, seed=6)
    exact.backward(grad.double())
    back = ttnn.moreh_group_norm_backward(
        put(grad, device), tensors[0], mean, rstd, 2, are_required_outputs=[True, True, True], gamma=tensors[1]
    )
    for mine, theirs in zip(back, (x, gamma, beta)):
        assert theirs.grad is not None
        close(mine, theirs.grad, 0.03)


def test_products(device: Any) -> None:
    a, b, bias = some(2, 3, 33, 65), some(65, 5, seed=4), some(1, 5, seed=5)
    close(ttnn.moreh_matmul(put(a, device), put(b, device), bias=put(bias, device)), a.double() @ b.double() + bias.double())
    turned = ttnn.moreh_matmul(put(a.mT.contiguous(), device), put(b.mT.contiguous(), device), transpose_input=True, transpose_other=True)
    close(turned, a.double() @ b.double())
    close(ttnn.moreh_bmm(put(a[0], device), put(a[1].mT.contiguous(), device)), a[0].double() @ a[1].double().mT)
    close(
        ttnn.moreh_linear(put(a, device), put(b.mT.contiguous(), device), bias=put(bias, device)), a.double() @ b.double() + bias.double()
    )
    v, w = some(1, 1, 1, 50), some(1, 1, 1, 50, seed=4)
    close(ttnn.moreh_dot(put(v, device), put(w, device)), (v.double() * w.double()).sum().reshape(1, 1, 1, 1))
    with pytest.raises(RuntimeError, match="k must be the same"):
        ttnn.moreh_matmul(put(a, device), put(b, device), transpose_input=True)


def test_gradients_of_products(device: Any) -> None:
    x, weight, bias = leaf(some(2, 33, 65)), leaf(some(5, 65, seed=4)), leaf(some(1, 5, seed=5))
    exact = F.linear(x, weight, bias.reshape(-1))
    grad = some(2, 33, 5, seed=6)
    exact.backward(grad.double())
    zeros = [put(torch.zeros(t.shape), device) for t in (x, weight, bias)]
    words = {"bias": put(bias, device), "input_grad": zeros[0], "weight_grad": zeros[1], "bias_grad": zeros[2]}
    back = ttnn.moreh_linear_backward(put(grad, device), put(x, device), put(weight, device), **words)
    for mine, theirs, ready in zip(back, (x, weight, bias), zeros):
        assert mine is ready and theirs.grad is not None
        close(mine, theirs.grad, 0.03)
    a, b = leaf(some(1, 33, 65)), leaf(some(1, 65, 5, seed=4))
    (a @ b).backward(grad[:1].double())
    ready = put(torch.zeros(1, 33, 65), device)
    words = {"are_required_outputs": [True, False], "input_grad": ready}
    back = ttnn.moreh_bmm_backward(put(grad[:1], device), put(a, device), put(b, device), **words)
    assert back[1] is None and a.grad is not None
    close(back[0], a.grad, 0.03)
    v, w = some(1, 1, 1, 50), some(1, 1, 1, 50, seed=4)
    ready = [put(torch.zeros(1, 1, 1, 50), device) for _ in range(2)]
    ttnn.moreh_dot_backward(
        put(torch.full((1, 1, 1, 1), 2.0), device), put(v, device), put(w, device), input_grad=ready[0], other_grad=ready[1]
    )
    close(ready[0], 2 * w.double())


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("name", ["moreh_adam", "moreh_adamw"])
def test_adam(device: Any, name: str, amsgrad: bool) -> None:
    param, grad = leaf(some(33, 65)), some(33, 65, seed=4)
    kind = torch.optim.Adam if name == "moreh_adam" else torch.optim.AdamW
    optimizer = kind([param], lr=0.1, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1, amsgrad=amsgrad)
    before, zeros = put(param, device), [put(torch.zeros(33, 65), device) for _ in range(3)]
    param.grad = grad.double()
    optimizer.step()
    words: dict[str, Any] = {"lr": 0.1, "beta1": 0.8, "beta2": 0.9, "eps": 1e-6, "weight_decay": 0.1, "step": 1, "amsgrad": amsgrad}
    if amsgrad:
        words["max_exp_avg_sq_in"] = zeros[2]
    found = getattr(ttnn, name)(before, put(grad, device), zeros[0], zeros[1], **words)
    assert (found[3] is None) is not amsgrad
    close(found[0], param)
    close(found[2], optimizer.state[param]["exp_avg_sq"])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_gradient_descent(device: Any, momentum: float) -> None:
    param, grad = leaf(some(33, 65)), some(33, 65, seed=4)
    optimizer = torch.optim.SGD([param], lr=0.1, momentum=momentum, weight_decay=0.1)
    tensors = [put(param, device), None]
    for step in range(2):
        param.grad = grad.double()
        optimizer.step()
        words = {"momentum_buffer_in": tensors[1], "lr": 0.1, "momentum": momentum, "weight_decay": 0.1, "momentum_initialized": step > 0}
        tensors = ttnn.moreh_sgd(tensors[0], put(grad, device), **words)
    assert (tensors[1] is None) is (momentum == 0.0)
    close(tensors[0], param)


def test_clipping(device: Any) -> None:
    grads = [some(2, 3, 33, 5), some(1, 4, 7, seed=4)]
    tensors = [put(g, device) for g in grads]
    total = torch.cat([g.double().reshape(-1) for g in grads]).norm()
    close(ttnn.moreh_clip_grad_norm(tensors, 1.0), total.reshape(1, 1))
    for tensor, grad in zip(tensors, grads):
        close(tensor, grad.double() / total)
    broken = put(torch.full((1, 1, 3), float("nan")), device)
    with pytest.raises(RuntimeError, match="non-finite"):
        ttnn.moreh_clip_grad_norm([broken], 1.0, 2.0, True)


@pytest.mark.parametrize("shape", [(5, 10), (5, 10, 4, 3)], ids=str)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_negative_log_likelihood(device: Any, reduction: str, shape: tuple[int, ...]) -> None:
    x, weight = leaf(torch.log_softmax(some(*shape).float(), 1).bfloat16()), some(10, seed=4).abs()
    places = (shape[0], *shape[2:])
    target = torch.randint(0, 10, places, generator=torch.Generator().manual_seed(1))
    target.view(-1)[0] = 3
    exact = F.nll_loss(x, target, weight.double(), ignore_index=3, reduction=reduction)
    divisor = put(torch.zeros(1), device)
    words = {"weight_tensor": put(weight, device), "ignore_index": 3}
    targets = put(target.int(), device, ttnn.int32)
    close(ttnn.moreh_nll_loss(put(x, device), targets, reduction, divisor_tensor=divisor, **words), exact)
    grad = torch.ones(()) if reduction != "none" else some(*places, seed=6)
    exact.backward(grad.double())
    ready = put(torch.zeros(shape), device)
    if reduction == "none":
        ttnn.moreh_nll_loss_unreduced_backward(targets, put(grad, device), input_grad_tensor=ready, **words)
    else:
        words |= {"input_grad_tensor": ready, "divisor_tensor": divisor}
        ttnn.moreh_nll_loss_backward(targets, put(grad.reshape(1), device), reduction == "mean", **words)
    assert x.grad is not None
    close(ready, x.grad, 0.03)


def test_making_and_picking(device: Any) -> None:
    assert ttnn.to_torch(ttnn.moreh_arange(0, 10, 3, device, dtype=ttnn.int32)).tolist() == [[0, 3, 6, 9]]
    assert ttnn.to_torch(ttnn.moreh_arange(10, 0, -4, device, untilize_out=True)).tolist() == [10.0, 6.0, 2.0]
    assert torch.equal(ttnn.to_torch(ttnn.moreh_full([3, 5], 2.5, device)), torch.full((3, 5), 2.5).bfloat16())
    values = some(7, 33, 5)
    tensor = put(values, device)
    assert bool((ttnn.to_torch(ttnn.moreh_full_like(tensor, -3)) == -3.0).all())
    index = torch.tensor([3, 0, 3, -1], dtype=torch.int32)
    rows = put(index, device, ttnn.int32, ttnn.ROW_MAJOR_LAYOUT)
    assert torch.equal(ttnn.to_torch(ttnn.moreh_getitem(tensor, [rows], [1])), values[:, index.long()])
    patches = some(2, 12, 4)
    found = ttnn.moreh_fold(put(patches, device, layout=ttnn.ROW_MAJOR_LAYOUT), None, [4, 4], [2, 2], [1, 1], [0, 0], [2, 2])
    close(found, F.fold(patches.double(), (4, 4), (2, 2), 1, 0, 2))
    close(ttnn.moreh_abs_pow(tensor, 2.5), values.double().abs().pow(2.5))


def golden_cases() -> dict[str, tuple[list[Any], dict[str, Any]]]:
    x, grad = some(2, 4, 33, 5), some(2, 4, 33, 5, seed=4)
    moment, share = some(1, 1, 2, 2, seed=5), some(1, 1, 2, 2, seed=6).abs()
    matrix = some(33, 65)
    return {
        "moreh_layer_norm": ([x, 2], {}),
        "moreh_group_norm": ([x, 2], {"are_required_outputs": [True, True, True]}),
        "moreh_group_norm_backward": ([grad, x, moment, share, 2], {"are_required_outputs": [True, True, True]}),
        "moreh_mean_backward": ([some(1, 65)], {"dim": 0, "keepdim": True, "input_grad_shape": [33, 65]}),
        "moreh_norm_backward": ([matrix, some(33, 1).abs(), some(33, 1, seed=4), 2.0], {"dim": 1, "keepdim": True}),
        "moreh_adam": ([matrix] * 2 + [some(33, 65, seed=4), matrix.abs()], {"step": 3, "lr": 0.1}),
        "moreh_adamw": ([matrix] * 2 + [some(33, 65, seed=4), matrix.abs()], {"step": 3, "amsgrad": True}),
        "moreh_sgd": ([matrix, some(33, 65, seed=4)], {"lr": 0.1, "momentum_initialized": False}),
        "moreh_full_like": ([matrix, 2.5], {}),
        "moreh_cumsum": ([matrix, 1], {}),
        "moreh_softmin": ([matrix, 1], {}),
    }


@pytest.mark.parametrize("name", sorted(golden_cases()))
def test_golden_functions_agree(device: Any, name: str) -> None:
    args, words = golden_cases()[name]
    operation = getattr(ttnn, name)
    exact = ttnn.get_golden_function(operation)(*args, **words)
    tensors = [put(a, device) if isinstance(a, torch.Tensor) else a for a in args]
    if "input_grad_shape" in words:
        words = words | {"input_grad_shape": ttnn.Shape(words["input_grad_shape"])}
    found = operation(*tensors, **words)
    if not isinstance(found, list):
        found, exact = [found], [exact]
    assert len(found) == len(exact)
    for mine, theirs in zip(found, exact):
        if mine is not None:
            close(mine, theirs)
