"""Running pipelines: devices, queues, modes and what comes back."""

from __future__ import annotations

import queue
import threading
import time

import pytest
import torch
from torch import nn

import pybuda


class Two(pybuda.PyBudaModule):
    def __init__(self, name):
        super().__init__(name)
        self.weights = pybuda.Parameter(torch.randn(32, 32))

    def forward(self, first, second):
        return pybuda.op.Add("sum", pybuda.op.Matmul("mm1", first, self.weights), pybuda.op.Matmul("mm2", second, self.weights))


def pair():
    return torch.randn(1, 32, 32), torch.randn(1, 32, 32)


def expected(module, a, b):
    w = module.weights.value()
    return a @ w + b @ w


@pytest.mark.parametrize("sequential", [True, False])
def test_a_module_runs_on_a_device_made_for_it(sequential):
    module, (a, b) = Two("direct"), pair()
    output_q = pybuda.run_inference(module, inputs=[(a, b)], _sequential=sequential)
    output = output_q.get()
    assert isinstance(output, list)
    torch.testing.assert_close(output[0].value(), expected(module, a, b), rtol=1e-5, atol=1e-5)
    assert pybuda.get_tenstorrent_device().name == "auto_tt0"


def test_the_same_module_resumes_on_the_same_queue_without_compiling_again():
    module = Two("again")
    first = pybuda.run_inference(module, inputs=[pair()])
    first.get()
    compiled = pybuda.get_tenstorrent_device()._compile_output
    a, b = pair()
    second = pybuda.run_inference(module, inputs=[(a, b)])
    assert second is first
    torch.testing.assert_close(second.get()[0].value(), expected(module, a, b), rtol=1e-5, atol=1e-5)
    assert pybuda.get_tenstorrent_device()._compile_output is compiled


def test_another_module_takes_the_device_over():
    pybuda.run_inference(Two("one"), inputs=[pair()]).get()
    other, (a, b) = Two("two"), pair()
    out = pybuda.run_inference(other, inputs=[(a, b)]).get()
    torch.testing.assert_close(out[0].value(), expected(other, a, b), rtol=1e-5, atol=1e-5)
    assert pybuda.get_tenstorrent_device().modules == [other]


def test_inputs_may_come_after_the_call():
    module = Two("late")
    device = pybuda.TTDevice("tt0", module=module)
    inputs = [pair() for _ in range(3)]
    device.push_to_inputs(inputs[0])
    output_q = pybuda.run_inference(input_count=3)
    for one in inputs[1:]:
        time.sleep(0.01)
        device.push_to_inputs(one)
    for a, b in inputs:
        torch.testing.assert_close(output_q.get()[0].value(), expected(module, a, b), rtol=1e-5, atol=1e-5)


def test_inputs_may_come_from_another_thread_and_run_for_ever():
    module = Two("ever")
    device = pybuda.TTDevice("tt0", module=module)
    inputs = [pair() for _ in range(4)]
    device.push_to_inputs(inputs[0])
    output_q = pybuda.run_inference(input_count=0)
    feeder = threading.Thread(target=lambda: [device.push_to_inputs(i) for i in inputs[1:]])
    feeder.start()
    got = [output_q.get(timeout=20)[0].value() for _ in inputs]
    feeder.join()
    for value, (a, b) in zip(got, inputs):
        torch.testing.assert_close(value, expected(module, a, b), rtol=1e-5, atol=1e-5)


def test_what_would_wait_for_an_endless_run_is_refused():
    device = pybuda.TTDevice("tt0", module=Two("ever"))
    device.push_to_inputs(pair())
    pybuda.run_inference(input_count=0).get()
    for call in (pybuda.sync, pybuda.get_parameter_checkpoint, pybuda.run_inference):
        with pytest.raises(RuntimeError, match="input_count=0"):
            call()
    pybuda.shutdown()


def test_inputs_by_name_in_any_order():
    module = Two("named")
    a, b = pair()
    device = pybuda.TTDevice("tt0", module=module)
    device.push_to_inputs({"second": b, "first": a})
    torch.testing.assert_close(pybuda.run_inference().get()[0].value(), expected(module, a, b), rtol=1e-5, atol=1e-5)
    device.push_to_inputs({"first": a, "second": b * 2})
    torch.testing.assert_close(pybuda.run_inference().get()[0].value(), expected(module, a, b * 2), rtol=1e-5, atol=1e-5)


def test_named_inputs_of_a_torch_module():
    class Masked(nn.Module):
        def forward(self, hidden, scale=None, mask=None):
            return hidden * mask if scale is None else hidden * scale * mask

    hidden, mask = torch.randn(2, 8), torch.ones(2, 8)
    device = pybuda.TTDevice("tt0", module=pybuda.PyTorchModule("masked", Masked()))
    device.push_to_inputs({"mask": mask * 3, "hidden": hidden})
    torch.testing.assert_close(pybuda.run_inference().get()[0].value(), hidden * 3)


def test_looking_at_a_queue_takes_nothing():
    module, (a, b) = Two("peek"), pair()
    output_q = pybuda.run_inference(module, inputs=[(a, b)])
    peeked = output_q[0].to_framework("pytorch")
    assert torch.equal(output_q.get()[0].to_pytorch(), peeked)
    assert torch.equal(output_q[0].to_pytorch(), peeked), "with nothing left, the last item taken is meant"
    with pytest.raises(RuntimeError, match="tensorflow"):
        output_q[0].to_framework("numpy")


def test_a_queue_of_the_users_own():
    mine = queue.Queue()
    module, (a, b) = Two("own"), pair()
    assert pybuda.run_inference(module, inputs=[(a, b)], output_queue=mine) is mine
    torch.testing.assert_close(mine.get(timeout=20)[0].value(), expected(module, a, b), rtol=1e-5, atol=1e-5)


def test_waiting_on_a_queue_that_nothing_will_fill_is_an_error():
    output_q = pybuda.run_inference(Two("empty"), inputs=[pair()])
    output_q.get()
    with pytest.raises(RuntimeError, match="nothing is running"):
        output_q.get()
    with pytest.raises(queue.Empty):
        output_q.get(block=False)


@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("order", ["tt-cpu", "cpu-tt", "tt-cpu-tt"])
def test_a_pipeline_of_devices(order, sequential):
    layers = [nn.Linear(16, 16) for _ in order.split("-")]
    for index, (kind, layer) in enumerate(zip(order.split("-"), layers)):
        module = pybuda.PyTorchModule(f"layer{index}", layer)
        (pybuda.TTDevice if kind == "tt" else pybuda.CPUDevice)(f"{kind}{index}", module=module)
    inputs = [torch.randn(4, 16) for _ in range(3)]
    output_q = pybuda.run_inference(inputs=inputs, _sequential=sequential)
    for x in inputs:
        for layer in layers:
            x = layer(x)
        torch.testing.assert_close(output_q.get()[0].value(), x, rtol=1e-5, atol=1e-5)


def test_the_order_of_the_pipeline_can_be_set():
    tt0, cpu0 = pybuda.TTDevice("tt0"), pybuda.CPUDevice("cpu0")
    cpu0.place_module(pybuda.PyTorchModule("first", nn.Linear(8, 16)))
    tt0.place_module(pybuda.PyTorchModule("second", nn.Linear(16, 4)))
    pybuda.set_device_pipeline([cpu0, tt0])
    assert pybuda.run_inference(inputs=[torch.randn(2, 8)]).get()[0].shape == (2, 4)
    with pytest.raises(RuntimeError, match="takes devices"):
        pybuda.set_device_pipeline([cpu0, "tt0"])


def test_several_modules_on_one_device_are_chained():
    first, second = nn.Linear(8, 16), nn.Linear(16, 4)
    tt0 = pybuda.TTDevice("tt0", module=[pybuda.PyTorchModule("first", first), pybuda.PyTorchModule("second", second)])
    x = torch.randn(2, 8)
    tt0.push_to_inputs(x)
    torch.testing.assert_close(pybuda.run_inference().get()[0].value(), second(first(x)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("devtype", list(pybuda.BackendType))
def test_every_backend_type_is_the_same_software_device(devtype):
    module, (a, b) = Two("backend"), pair()
    tt0 = pybuda.TTDevice("tt0", devtype=devtype, arch=pybuda.BackendDevice.Wormhole_B0, module=module)
    tt0.push_to_inputs(a, b)
    if devtype is pybuda.BackendType.NoBackend:
        with pytest.raises(RuntimeError, match="cannot run"):
            pybuda.run_inference().get()
        return
    torch.testing.assert_close(pybuda.run_inference().get()[0].value(), expected(module, a, b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("arch", [pybuda.BackendDevice.Grayskull, pybuda.BackendDevice.Wormhole_B0, pybuda.BackendDevice.Blackhole])
def test_every_chip(arch):
    module, (a, b) = Two("chip"), pair()
    tt0 = pybuda.TTDevice("tt0", arch=arch, module=module)
    tt0.push_to_inputs(a, b)
    got = pybuda.run_inference().get()[0]
    grayskull = arch is pybuda.BackendDevice.Grayskull
    assert got.data_format is (pybuda.DataFormat.Float16_b if grayskull else pybuda.DataFormat.Float32), "Grayskull has no Float32"
    assert pybuda.verify.calculate_pcc(expected(module, a, b), got.value()) > 0.999


def test_initialize_then_forward():
    tt0 = pybuda.TTDevice("tt0", module=Two("init"))
    output_q = pybuda.initialize_pipeline(training=False, sample_inputs=pair())
    for _ in range(2):
        tt0.push_to_inputs(pair())
    pybuda.run_forward(input_count=2)
    assert [output_q.get()[0].shape.dims for _ in range(2)] == [(1, 32, 32)] * 2
    pybuda.sync()
    assert not pybuda.error_raised()


def test_generate_needs_a_place_to_write():
    tt0 = pybuda.TTDevice("tt0", module=Two("generate"))
    output_q = pybuda.initialize_pipeline(training=False, sample_inputs=pair())
    tt0.push_to_inputs(pair())
    with pytest.raises(RuntimeError, match="write_index"):
        pybuda.run_generate(input_count=1)
    pybuda.run_generate(input_count=1, write_index=0)
    assert output_q.get()[0].shape == (1, 32, 32)
    pybuda.config._get_global_compiler_config().loopback_outputs = {"first": 0}
    with pytest.raises(NotImplementedError, match="loopback"):
        pybuda.run_generate(input_count=1, write_index=0)


def test_intermediates_are_collected():
    module, (a, b) = Two("middle"), pair()
    pybuda.set_configuration_options(op_intermediates_to_save=["mm1", "mm2"])
    pybuda.run_inference(module, inputs=[(a, b)]).get()
    first, second = pybuda.get_intermediates_queue().get()
    w = module.weights.value()
    torch.testing.assert_close(first.value(), a @ w, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(second.value(), b @ w, rtol=1e-5, atol=1e-5)


def test_after_shutdown_a_new_pipeline_starts():
    module = Two("first")
    pybuda.run_inference(module, inputs=[pair()]).get()
    assert pybuda.shutdown() is True
    tt0 = pybuda.TTDevice("tt0", module=module)
    a, b = pair()
    tt0.push_to_inputs(a, b)
    torch.testing.assert_close(pybuda.run_inference().get()[0].value(), expected(module, a, b), rtol=1e-5, atol=1e-5)


def test_module_run():
    module, (a, b) = Two("run"), pair()
    torch.testing.assert_close(module.run(a, b)[0].value(), expected(module, a, b), rtol=1e-5, atol=1e-5)


def test_devices_and_chips():
    assert pybuda.detect_available_devices() == [pybuda.BackendDevice.Wormhole_B0]
    assert pybuda.TTDevice("a", num_chips=3).chip_ids == [0, 1, 2]
    assert pybuda.TTDevice("b", chip_ids=[0, 2, 3]).chip_ids == [0, 2, 3]
    assert pybuda.TTDevice("c", num_chips=0).chip_ids == [0]
    with pytest.raises(RuntimeError, match="disagree"):
        pybuda.TTDevice("d", num_chips=2, chip_ids=[1])
    assert pybuda.is_silicon() is False
    assert pybuda.get_tenstorrent_device().name == "a"


def test_a_push_costs_little():
    """Not a benchmark: a bound ten times what a push takes, so that something quadratic would be seen."""
    module = Two("fast")
    device = pybuda.TTDevice("tt0", module=module)
    inputs = pair()
    device.push_to_inputs(inputs)
    output_q = pybuda.run_inference()
    output_q.get()

    def once() -> float:
        start = time.perf_counter()
        device.push_to_inputs(inputs)
        pybuda.run_inference().get()
        return time.perf_counter() - start

    assert min(once() for _ in range(200)) < 1e-3
