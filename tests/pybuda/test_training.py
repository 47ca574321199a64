"""Training equals PyTorch's: losses and weights over fifty steps, gradients, checkpoints, updates from the host."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import pybuda
from pybuda import DataFormat
from pybuda.optimizers import LAMB, LARS, SGD, Adam, AdamW
from pybuda.schedulers import LearningRateScheduler
from pybuda.torch_schedulers import TorchLearningRateScheduler

STEPS = 50


def transformer():
    return (
        nn.Sequential(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), nn.Linear(32, 8)),
        lambda: torch.randn(2, 16, 32),
        lambda: torch.randn(2, 16, 8),
        nn.MSELoss(),
    )


def cnn():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    return net, lambda: torch.randn(4, 3, 16, 16), lambda: torch.randint(0, 10, (4,)), nn.CrossEntropyLoss()


def reference(net, loss, optimizer, data):
    losses = []
    for x, target in data:
        optimizer.zero_grad()
        value = loss(net(x), target)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def train(net, loss, data, where, **device):
    """Fifty steps in a pipeline; the losses and the last checkpoint."""
    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("net", net), **device)
    last = tt0 if where == "tt" else pybuda.CPUDevice("cpu0")
    last.place_loss_module(pybuda.PyTorchModule("loss", loss))
    for x, target in data:
        tt0.push_to_inputs(x)
        last.push_to_target_inputs(target)
    checkpoints = pybuda.run_training(steps=len(data))
    weights = checkpoints.get(timeout=60)[0]
    return [pybuda.get_loss_queue().get()[0] for _ in data], weights


@pytest.mark.parametrize("where", ["tt", "cpu"])
@pytest.mark.parametrize(
    ("build", "ours", "theirs"),
    [
        (transformer, lambda: SGD(0.05), lambda p: torch.optim.SGD(p, 0.05)),
        (transformer, lambda: AdamW(1e-3), lambda p: torch.optim.AdamW(p, 1e-3)),
        (cnn, lambda: SGD(0.05), lambda p: torch.optim.SGD(p, 0.05)),
        (cnn, lambda: Adam(1e-3, weight_decay=0.01), lambda p: torch.optim.Adam(p, 1e-3, weight_decay=0.01)),
    ],
    ids=["transformer-sgd", "transformer-adamw", "cnn-sgd", "cnn-adam"],
)
def test_fifty_steps(build, ours, theirs, where):
    net, x, target, loss = build()
    data = [(x(), target()) for _ in range(STEPS)]
    twin = copy.deepcopy(net).train()
    wanted = reference(twin, loss, theirs(twin.parameters()), data)
    losses, weights = train(net, loss, data, where, optimizer=ours())
    assert losses == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    for name, value in twin.state_dict().items():
        if value.is_floating_point():
            # Adam divides by the size of the gradient, so where the gradient is noise the step is too: bounded by a few steps of lr.
            tolerance = 1e-5 if "sgd" in str(ours()).lower() else 2e-3
            torch.testing.assert_close(weights[name].value(), value, rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize("build", [transformer, cnn])
def test_fifty_steps_in_float16_b(build):
    net, x, target, loss = build()
    data = [(x(), target()) for _ in range(STEPS)]
    twin = copy.deepcopy(net).train()
    wanted = reference(twin, loss, torch.optim.SGD(twin.parameters(), 0.05), data)
    pybuda.set_configuration_options(default_df_override=DataFormat.Float16_b)
    losses, weights = train(net, loss, data, "tt", optimizer=SGD(0.05))
    assert losses == pytest.approx(wanted, rel=0.03)
    for name, value in twin.named_parameters():
        assert weights[name].value().dtype is torch.bfloat16
        # Each of the fifty updates rounds to eight bits of mantissa, and small ones are lost altogether.
        assert (weights[name].value().float() - value).abs().max() < 0.01 + value.abs().max() * 2**-8 * 7


def test_native_modules_train_too():
    class Native(pybuda.PyBudaModule):
        def __init__(self, name):
            super().__init__(name)
            self.first, self.second = pybuda.op.nn.Linear("a", 16, 32), pybuda.op.nn.Linear("b", 32, 4)

        def forward(self, x):
            return self.second(pybuda.op.Gelu("gelu", self.first(x)))

    net = Native("native")
    values = {p.get_name(): p.value().clone().requires_grad_(True) for p in net.get_parameters()}
    tt0 = pybuda.TTDevice("tt0", module=net, optimizer=SGD(0.1))
    tt0.place_loss_module(pybuda.op.loss.L1Loss("l1"))
    data = [(torch.randn(1, 8, 16), torch.randn(1, 8, 4)) for _ in range(5)]
    for x, target in data:
        tt0.push_to_inputs(x)
        tt0.push_to_target_inputs(target)
    got = pybuda.run_training(steps=5).get()[0]
    for x, target in data:
        hidden = torch.nn.functional.gelu(x @ values["native.first.weights"] + values["native.first.bias"])
        out = hidden @ values["native.second.weights"] + values["native.second.bias"]
        (out - target).abs().mean().backward()
        with torch.no_grad():
            for value in values.values():
                value -= 0.1 * value.grad
                value.grad = None
    for name, value in values.items():
        torch.testing.assert_close(got[name].value(), value.detach(), rtol=1e-5, atol=1e-5)


def manual(accumulate=1):
    net, loss = nn.Linear(8, 4), nn.MSELoss()
    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("net", net), optimizer=SGD(0.1))
    tt0.place_loss_module(pybuda.PyTorchModule("loss", loss))
    data = [(torch.randn(2, 8), torch.randn(2, 4)) for _ in range(accumulate)]
    for x, target in data:
        tt0.push_to_inputs(x)
        tt0.push_to_target_inputs(target)
    pybuda.initialize_pipeline(training=True)
    return tt0, net, loss, data


@pytest.mark.parametrize("sequential", [True, False])
def test_a_loop_by_hand(sequential):
    net, loss = nn.Linear(8, 4), nn.MSELoss()
    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("net", net), optimizer=SGD(0.1))
    tt0.place_loss_module(pybuda.PyTorchModule("loss", loss))
    checkpoints = pybuda.initialize_pipeline(
        training=True, sample_inputs=(torch.randn(2, 8),), sample_targets=(torch.randn(2, 4),), _sequential=sequential
    )
    data = [(torch.randn(2, 8), torch.randn(2, 4)) for _ in range(4)]
    for x, target in data:
        tt0.push_to_inputs(x)
        tt0.push_to_target_inputs(target)
    for _step in range(2):
        for acc_step in range(2):
            pybuda.run_forward(input_count=1)
            pybuda.run_backward(input_count=1, zero_grad=(acc_step == 0))
        pybuda.run_optimizer(checkpoint=True)
    first, second = (checkpoints.get()[0] for _ in range(2))
    assert not torch.equal(first["weight"].value(), second["weight"].value())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(2):
        optimizer.zero_grad()
        for x, target in data[2 * step : 2 * step + 2]:
            loss(net(x), target).backward()
        optimizer.step()
    torch.testing.assert_close(second["weight"].value(), net.weight.detach())


def test_gradients_are_read_and_accumulate():
    _, net, loss, data = manual(accumulate=2)
    pybuda.run_forward(input_count=2)
    pybuda.run_backward(input_count=2, zero_grad=True)
    got = pybuda.get_parameter_gradients()[0]
    for x, target in data:
        loss(net(x), target).backward()
    torch.testing.assert_close(got["weight"].value(), net.weight.grad)
    torch.testing.assert_close(got["bias"].value(), net.bias.grad)


def test_weights_updated_from_the_host():
    tt0, net, _, _ = manual()
    saved = pybuda.get_parameter_checkpoint(tt0)[0]
    assert torch.equal(saved["weight"].value(), net.weight)
    pybuda.update_device_parameters(tt0, [{"weight": torch.zeros(4, 8)}])
    pybuda.run_forward()
    pybuda.run_backward(zero_grad=True)
    pybuda.run_optimizer()
    pybuda.update_device_parameters(parameters=[saved])
    assert torch.equal(pybuda.get_parameter_checkpoint()[0]["weight"].value(), net.weight)
    for wrong, words in (([{"w": torch.zeros(1)}], "no parameter 'w'"), ([{"weight": torch.zeros(1)}], "shape"), ([], "one for each")):
        with pytest.raises(RuntimeError, match=words):
            pybuda.update_device_parameters(parameters=wrong)
        if words != "one for each":
            pybuda.pybuda_reset()
            manual()


def test_weights_of_an_inference_device_are_updated_where_they_were_folded():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)).eval()
    x = torch.randn(1, 3, 8, 8)
    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("net", net))
    tt0.push_to_inputs(x)
    pybuda.run_inference().get()
    weight = torch.randn_like(net[0].weight)
    pybuda.update_device_parameters(parameters=[{"0.weight": weight}])
    tt0.push_to_inputs(x)
    with torch.no_grad():
        net[0].weight.copy_(weight)
    torch.testing.assert_close(pybuda.run_inference().get()[0].value(), net(x), rtol=1e-5, atol=1e-5)


def test_checkpoints_at_an_interval():
    net, x, target, loss = transformer()
    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("net", net), optimizer=SGD(0.1))
    tt0.place_loss_module(pybuda.PyTorchModule("loss", loss))
    for _ in range(5):
        tt0.push_to_inputs(x())
        tt0.push_to_target_inputs(target())
    checkpoints = pybuda.run_training(steps=5, checkpoint_interval=2)
    got = [checkpoints.get(timeout=60) for _ in range(3)]
    assert set(got[0][0]) == set(dict(net.named_parameters()))
    with pytest.raises(RuntimeError, match="checkpoint queue is empty"):
        checkpoints.get()


def test_a_frozen_parameter_stays():
    net = nn.Linear(8, 4)
    net.bias.requires_grad_(False)
    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("net", net), optimizer=SGD(0.1))
    tt0.place_loss_module(pybuda.PyTorchModule("loss", nn.MSELoss()))
    tt0.push_to_inputs(torch.randn(2, 8))
    tt0.push_to_target_inputs(torch.randn(2, 4))
    got = pybuda.run_training().get()[0]
    assert torch.equal(got["bias"].value(), net.bias)
    assert not torch.equal(got["weight"].value(), net.weight)


def test_a_cpu_device_trains_its_own_part():
    torch.manual_seed(1)
    head, tail = nn.Linear(8, 16), nn.Linear(16, 4)
    both = copy.deepcopy(nn.Sequential(head, tail))
    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("head", head), optimizer=SGD(0.1))
    cpu0 = pybuda.CPUDevice("cpu0", module=pybuda.PyTorchModule("tail", tail), optimizer_f=lambda m: torch.optim.SGD(m.parameters(), 0.1))
    cpu0.place_loss_module(pybuda.PyTorchModule("loss", nn.MSELoss()))
    data = [(torch.randn(2, 8), torch.randn(2, 4)) for _ in range(4)]
    for x, target in data:
        tt0.push_to_inputs(x)
        cpu0.push_to_target_inputs(target)
    first, second = pybuda.run_training(steps=4).get(timeout=60)
    reference(both, nn.MSELoss(), torch.optim.SGD(both.parameters(), 0.1), data)
    torch.testing.assert_close(first["weight"].value(), both[0].weight.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(second["weight"].value(), both[1].weight.detach(), rtol=1e-5, atol=1e-5)


def test_inference_after_training_uses_the_trained_weights():
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    twin = copy.deepcopy(net).train()
    data = [(torch.randn(4, 8), torch.randn(4, 4)) for _ in range(3)]
    train(net, nn.MSELoss(), data, "tt", optimizer=SGD(0.1))
    reference(twin, nn.MSELoss(), torch.optim.SGD(twin.parameters(), 0.1), data)
    tt0, x = pybuda.get_tenstorrent_device(), torch.randn(4, 8)
    tt0.push_to_inputs(x)
    torch.testing.assert_close(pybuda.run_inference().get()[0].value(), twin.eval()(x).detach(), rtol=1e-5, atol=1e-5)


class Forked(nn.Module):
    """Three outputs: one that is used, one that is not, one that is no function of the weights."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x), self.layer(x) * 2, x * 1.0


class Joined(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, a, unused, x):
        return self.layer(a + x)


@pytest.mark.parametrize("kinds", ["tt-tt", "tt-cpu", "cpu-tt"])
def test_gradients_cross_devices_when_some_outputs_go_nowhere(kinds):
    first, second = Forked(), Joined()
    twins = copy.deepcopy((first, second))
    made = []
    for index, (kind, module) in enumerate(zip(kinds.split("-"), (first, second))):
        wrapped = pybuda.PyTorchModule(f"part{index}", module)
        if kind == "tt":
            made.append(pybuda.TTDevice(f"d{index}", module=wrapped, optimizer=SGD(0.1)))
        else:
            made.append(pybuda.CPUDevice(f"d{index}", module=wrapped, optimizer_f=lambda m: torch.optim.SGD(m.parameters(), 0.1)))
    made[-1].place_loss_module(pybuda.PyTorchModule("loss", nn.MSELoss()))
    data = [(torch.randn(2, 8), torch.randn(2, 4)) for _ in range(3)]
    for x, target in data:
        made[0].push_to_inputs(x)
        made[-1].push_to_target_inputs(target)
    got = pybuda.run_training(steps=3).get(timeout=60)
    optimizer = torch.optim.SGD([p for t in twins for p in t.parameters()], 0.1)
    reference(lambda x: twins[1](*twins[0](x)), nn.MSELoss(), optimizer, data)
    for checkpoint, twin in zip(got, twins):
        torch.testing.assert_close(checkpoint["layer.weight"].value(), twin.layer.weight.detach(), rtol=1e-5, atol=1e-5)


class Halving(LearningRateScheduler):
    def get_lr(self):
        return self.base_lr * 0.5**self.last_epoch


def test_schedulers():
    optimizer = SGD(0.4)
    net = nn.Linear(8, 4)
    tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("net", net), optimizer=optimizer, scheduler=Halving(optimizer))
    tt0.place_loss_module(pybuda.PyTorchModule("loss", nn.MSELoss()))
    pybuda.initialize_pipeline(training=True, sample_inputs=(torch.randn(2, 8),), sample_targets=(torch.randn(2, 4),))
    for _ in range(2):
        pybuda.run_schedulers()
    pybuda.sync()
    assert optimizer.learning_rate == pytest.approx(0.1)
    optimizer.set_optimizer_parameters(learning_rate=0)
    assert optimizer.learning_rate == 0
    torch_optimizer = torch.optim.SGD(net.parameters(), 0.4)
    schedule = Halving(SGD(0.4)).get_pytorch_scheduler(torch_optimizer)
    torch_optimizer.step()
    schedule.step()
    assert torch_optimizer.param_groups[0]["lr"] == pytest.approx(0.2)

    class Tenth(TorchLearningRateScheduler):
        def get_lr(self):
            return [0.1 for _ in self.base_lrs]

    assert Tenth(torch_optimizer).get_last_lr() == [0.1]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
        (Adam(0.01), lambda p: torch.optim.Adam(p, 0.01)),
        (Adam(0.01, weight_decay=0.1), lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.1)),
        (AdamW(0.01, weight_decay=0.1), lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1)),
    ],
)
def test_optimizers_step_as_torchs_do(ours, theirs):
    value = torch.randn(4, 8)
    twin = nn.Parameter(value.clone())
    optimizer = theirs([twin])
    for _ in range(5):
        gradient = torch.randn(4, 8)
        twin.grad = gradient.clone()
        optimizer.step()
        value = ours.torch_parameter_update(parameter_name="p", parameter=value, gradient=gradient)
    torch.testing.assert_close(value, twin.detach(), rtol=1e-5, atol=1e-6)
    assert type(ours.get_pytorch_optimizer([nn.Parameter(torch.ones(1))])).__name__.lower() == ours.get_type()


@pytest.mark.parametrize(
    "optimizer", [LAMB(0.05), LAMB(0.05, correction=True), LARS(0.5, lars_coeff=0.1), LARS(0.5, lars_coeff=0.1, nesterov=True)]
)
def test_layerwise_optimizers_descend(optimizer):
    value, target = torch.ones(8), torch.full((8,), -1.0)
    start = (value - target).norm()
    for _ in range(100):
        value = optimizer.torch_parameter_update(parameter_name="p", parameter=value, gradient=value - target)
    assert (value - target).norm() < start * 0.7
    with pytest.raises(NotImplementedError, match="optimizer_f"):
        optimizer.get_pytorch_optimizer([value])


def test_lars_rate_is_the_ratio_of_norms():
    value, gradient = torch.full((4,), 2.0), torch.full((4,), 0.5)
    updated, _ = LARS(1.0, momentum=0.0, weight_decay=0.0, lars_coeff=0.01, epsilon=0.0).step(
        value, gradient, 1.0, LARS().initial_state(value)
    )
    torch.testing.assert_close(updated, value - gradient * (0.01 * 4.0 / 1.0))


def test_dropout_is_off_in_training_unless_asked_for():
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
    x, target = torch.ones(4, 8), torch.zeros(4, 8)
    losses = {}
    for asked in (False, True):
        pybuda.pybuda_reset()
        pybuda.config._get_global_compiler_config().enable_tvm_dropout = asked
        tt0 = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("net", net))
        tt0.place_loss_module(pybuda.PyTorchModule("loss", nn.MSELoss()))
        tt0.push_to_inputs(x)
        tt0.push_to_target_inputs(target)
        pybuda.run_training()
        losses[asked] = pybuda.get_loss_queue().get()[0]
        for module in tt0.remove_modules():
            module._set_device(None)
    assert losses[False] == pytest.approx(net[0](x).pow(2).mean().item(), rel=1e-5)
    assert losses[True] != pytest.approx(losses[False], rel=1e-3)
