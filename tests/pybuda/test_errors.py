"""Wrong use: every mistake raises, at once or at the next call, and says what to do."""

from __future__ import annotations

import traceback

import pytest
import torch
from torch import nn

import pybuda


def linear(name="linear"):
    return pybuda.PyTorchModule(name, nn.Linear(8, 4))


class Fails(nn.Module):
    """Exports well, and raises on a CPU device when asked to."""

    def forward(self, x):
        if x.abs().max() > 100:
            raise ValueError("the sky fell")
        return x


def test_pushing_before_placing():
    tt0 = pybuda.TTDevice("tt0")
    with pytest.raises(RuntimeError, match="place_module first"):
        tt0.push_to_inputs(torch.randn(1, 8))


def test_running_without_anything():
    with pytest.raises(RuntimeError, match="create a TTDevice"):
        pybuda.run_inference()
    pybuda.TTDevice("tt0")
    with pytest.raises(RuntimeError, match="place_module first"):
        pybuda.run_inference()
    with pytest.raises(RuntimeError, match="initialize_pipeline first"):
        pybuda.run_forward()


def test_running_without_inputs():
    pybuda.TTDevice("tt0", module=linear())
    with pytest.raises(RuntimeError, match="push_to_inputs first"):
        pybuda.run_inference()


def test_a_batch_of_another_size():
    tt0 = pybuda.TTDevice("tt0", module=linear())
    tt0.push_to_inputs(torch.randn(2, 8))
    with pytest.raises(RuntimeError, match="Batch size mismatch between first input and current input"):
        tt0.push_to_inputs(torch.randn(3, 8))


def test_another_shape_or_count():
    tt0 = pybuda.TTDevice("tt0", module=linear())
    tt0.push_to_inputs(torch.randn(2, 8))
    with pytest.raises(RuntimeError, match="shape mismatch"):
        tt0.push_to_inputs(torch.randn(2, 9))
    with pytest.raises(RuntimeError, match="2"):
        tt0.push_to_inputs(torch.randn(2, 8), torch.randn(2, 8))


def test_placing_twice():
    module = linear()
    pybuda.TTDevice("tt0", module=module)
    other = pybuda.TTDevice("tt1")
    with pytest.raises(RuntimeError, match="already placed on TTDevice 'tt0'"):
        other.place_module(module)
    with pytest.raises(RuntimeError, match="Module names should be unique"):
        other.place_module([linear("same"), linear("same")])


def test_placing_what_is_no_module():
    tt0 = pybuda.TTDevice("tt0")
    with pytest.raises(RuntimeError, match="PyTorchModule"):
        tt0.place_module(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match=r"torch\.nn\.Module"):
        pybuda.PyTorchModule("f", lambda x: x)


def test_two_devices_of_one_name():
    pybuda.TTDevice("tt0")
    with pytest.raises(RuntimeError, match="another name"):
        pybuda.CPUDevice("tt0")


def test_a_native_module_on_a_cpu():
    class Native(pybuda.PyBudaModule):
        def forward(self, x):
            return x

    cpu0 = pybuda.CPUDevice("cpu0")
    with pytest.raises(RuntimeError, match="place it on a TTDevice"):
        cpu0.place_module(Native("native"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_says_what_it_needs():
    with pytest.raises(RuntimeError, match="needs a CUDA GPU"):
        pybuda.GPUDevice("gpu0")


def test_training_without_a_loss():
    tt0 = pybuda.TTDevice("tt0", module=linear())
    tt0.push_to_inputs(torch.randn(2, 8))
    with pytest.raises(RuntimeError, match="The last device in pipeline must have a loss module to be able to train"):
        pybuda.run_training()


def test_training_without_targets():
    tt0 = pybuda.TTDevice("tt0", module=linear())
    tt0.place_loss_module(pybuda.PyTorchModule("loss", nn.L1Loss()))
    tt0.push_to_inputs(torch.randn(2, 8))
    with pytest.raises(RuntimeError, match="push_to_target_inputs"):
        pybuda.run_training()


def test_backward_after_compiling_for_inference():
    tt0 = pybuda.TTDevice("tt0", module=linear())
    pybuda.initialize_pipeline(training=False, sample_inputs=(torch.randn(2, 8),))
    assert tt0._compiled
    for call in (pybuda.run_backward, pybuda.run_optimizer, pybuda.get_parameter_gradients):
        with pytest.raises(RuntimeError, match="training=True"):
            call()


def test_input_count_that_does_not_match():
    with pytest.raises(RuntimeError, match="input_count=3 does not match the 2 inputs"):
        pybuda.run_inference(linear(), inputs=[torch.randn(2, 8)] * 2, input_count=3)


def test_for_ever_in_sequential_mode():
    tt0 = pybuda.TTDevice("tt0", module=linear())
    tt0.push_to_inputs(torch.randn(2, 8))
    with pytest.raises(RuntimeError, match="concurrent mode"):
        pybuda.run_inference(input_count=0, _sequential=True)


def test_sequential_mode_does_not_wait_for_inputs():
    tt0 = pybuda.TTDevice("tt0", module=linear())
    tt0.push_to_inputs(torch.randn(2, 8))
    with pytest.raises(RuntimeError, match="no input left"):
        pybuda.run_inference(input_count=2, _sequential=True)


class Unsupported(nn.Module):
    def forward(self, x):
        y = torch.linalg.svd(x)[0]
        return y + torch.fft.fft(x).real


def test_unsupported_operators_are_all_named_with_their_lines():
    with pytest.raises(RuntimeError) as caught:
        pybuda.run_inference(pybuda.PyTorchModule("odd", Unsupported()), inputs=[torch.randn(4, 4)])
    text = str(caught.value)
    assert "linalg_svd" in text
    assert "fft_fft" in text
    assert "test_errors.py" in text
    assert "torch.linalg.svd(x)" in text
    assert "CPUDevice" in text


def test_control_flow_that_depends_on_values():
    class Branches(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(RuntimeError, match="depends on the values"):
        pybuda.run_inference(pybuda.PyTorchModule("branches", Branches()), inputs=[torch.randn(4, 4)])


@pytest.mark.parametrize("sequential", [True, False])
def test_an_error_in_a_worker_is_raised_in_the_caller_with_its_traceback(sequential):
    tt0 = pybuda.TTDevice("tt0", module=linear())
    pybuda.CPUDevice("cpu0", module=pybuda.PyTorchModule("fails", Fails()))
    tt0.push_to_inputs(torch.zeros(2, 8))
    output_q = pybuda.run_inference(_sequential=sequential)
    output_q.get()
    tt0.push_to_inputs(torch.full((2, 8), 1e6))
    with pytest.raises(ValueError, match="the sky fell") as caught:
        pybuda.run_inference().get(timeout=20)
    assert any(
        frame.name == "forward" and frame.filename.endswith("test_errors.py") for frame in traceback.extract_tb(caught.value.__traceback__)
    )
    assert pybuda.error_raised()
    for call in (lambda: tt0.push_to_inputs(torch.zeros(2, 8)), pybuda.run_forward, pybuda.sync, pybuda.get_parameter_checkpoint):
        with pytest.raises(ValueError, match="the sky fell"):
            call()


@pytest.mark.parametrize("recover", [pybuda.shutdown, pybuda.pybuda_reset])
def test_recovery_after_an_error(recover):
    cpu0 = pybuda.CPUDevice("cpu0", module=pybuda.PyTorchModule("fails", Fails()))
    cpu0.push_to_inputs(torch.zeros(2, 8))
    pybuda.run_inference().get()
    cpu0.push_to_inputs(torch.full((2, 8), 1e6))
    with pytest.raises(ValueError, match="the sky fell"):
        pybuda.run_inference().get(timeout=20)
    recover()
    assert not pybuda.error_raised()
    x = torch.randn(2, 8)
    module = linear("after")
    torch.testing.assert_close(pybuda.run_inference(module, inputs=[x]).get()[0].value(), module.module(x), rtol=1e-5, atol=1e-5)


def test_a_reader_in_another_thread_is_woken():
    import threading

    cpu0 = pybuda.CPUDevice("cpu0", module=pybuda.PyTorchModule("fails", Fails()))
    cpu0.push_to_inputs(torch.zeros(2, 8))
    output_q = pybuda.run_inference(input_count=0)
    output_q.get()
    seen: list[BaseException] = []

    def read() -> None:
        try:
            output_q.get()
        except BaseException as error:
            seen.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    cpu0.push_to_inputs(torch.full((2, 8), 1e6))
    reader.join(20)
    assert not reader.is_alive()
    assert isinstance(seen[0], ValueError)


def test_dtypes_without_a_format():
    with pytest.raises(RuntimeError, match="float64"):
        pybuda.Tensor.create_from_torch(torch.randn(2, dtype=torch.float64))


def test_parts_that_are_not_built_say_so():
    tt0 = pybuda.TTDevice("tt0", module=linear())
    for call in (
        lambda: tt0.compile_to_image(img_path="x.tti"),
        lambda: pybuda.TTDevice.load_image(img_path="x.tti"),
        lambda: pybuda.TTDeviceImage.load_from_disk("x.tti"),
        lambda: pybuda.TFModule("tf", None),
        lambda: pybuda.JaxModule("jax", None),
        lambda: pybuda.TTCluster("c"),
        lambda: pybuda.compile_torch(None, None),
        pybuda.run_generative_inference,
    ):
        with pytest.raises(NotImplementedError, match="not built"):
            call()
