"""PyBuda: the machine spoken to in graphs. Importing it imports torch and numpy, and no other framework."""

import atexit as _atexit

from pybuda import config, op, optimizers, pybudaglobal, query, run, schedulers, tensor, transformers, verify
from pybuda._C import DataFormat, MathFidelity, k_dim
from pybuda._C.backend_api import BackendDevice, BackendType
from pybuda.compile import compile_report, pybuda_compile
from pybuda.compiled_graph_state import CompiledGraphState
from pybuda.config import (
    CompileDepth,
    CompilerConfig,
    PerfTraceLevel,
    _internal_insert_fj_buffering_nop,
    configure_mixed_precision,
    insert_buffering_nop,
    insert_nop,
    override_dram_queue_placement,
    override_op_size,
    set_chip_break,
    set_configuration_options,
    set_epoch_break,
)
from pybuda.cpudevice import CPUDevice
from pybuda.device import Device
from pybuda.gpudevice import GPUDevice
from pybuda.module import JaxModule, Module, MXNetModule, OnnxModule, PyBudaModule, PyTorchModule, TFGraphDefModule, TFLiteModule, TFModule
from pybuda.optimizers import LAMB, LARS, SGD, Adam, AdamW
from pybuda.parameter import Parameter
from pybuda.pybudaglobal import get_tenstorrent_device, is_silicon, pybuda_reset, set_device_pipeline
from pybuda.run import (
    detect_available_devices,
    error_raised,
    get_intermediates_queue,
    get_loss_queue,
    get_parameter_checkpoint,
    get_parameter_gradients,
    initialize_pipeline,
    run_backward,
    run_forward,
    run_generate,
    run_generative_inference,
    run_inference,
    run_optimizer,
    run_schedulers,
    run_training,
    shutdown,
    sync,
    update_device_parameters,
)
from pybuda.tensor import SomeTensor, Tensor, TensorShape
from pybuda.torch_compile import compile_torch
from pybuda.ttdevice import TTCluster, TTDevice
from pybuda.tti import TTDeviceImage
from pybuda.verify import VerifyConfig

__version__ = "0.1.0"

_atexit.register(shutdown)

__all__ = [
    "LAMB",
    "LARS",
    "SGD",
    "Adam",
    "AdamW",
    "BackendDevice",
    "BackendType",
    "CPUDevice",
    "CompileDepth",
    "CompiledGraphState",
    "CompilerConfig",
    "DataFormat",
    "Device",
    "GPUDevice",
    "JaxModule",
    "MXNetModule",
    "MathFidelity",
    "Module",
    "OnnxModule",
    "Parameter",
    "PerfTraceLevel",
    "PyBudaModule",
    "PyTorchModule",
    "SomeTensor",
    "TFGraphDefModule",
    "TFLiteModule",
    "TFModule",
    "TTCluster",
    "TTDevice",
    "TTDeviceImage",
    "Tensor",
    "TensorShape",
    "VerifyConfig",
    "_internal_insert_fj_buffering_nop",
    "compile_report",
    "compile_torch",
    "config",
    "configure_mixed_precision",
    "detect_available_devices",
    "error_raised",
    "get_intermediates_queue",
    "get_loss_queue",
    "get_parameter_checkpoint",
    "get_parameter_gradients",
    "get_tenstorrent_device",
    "initialize_pipeline",
    "insert_buffering_nop",
    "insert_nop",
    "is_silicon",
    "k_dim",
    "op",
    "optimizers",
    "override_dram_queue_placement",
    "override_op_size",
    "pybuda_compile",
    "pybuda_reset",
    "pybudaglobal",
    "query",
    "run",
    "run_backward",
    "run_forward",
    "run_generate",
    "run_generative_inference",
    "run_inference",
    "run_optimizer",
    "run_schedulers",
    "run_training",
    "schedulers",
    "set_chip_break",
    "set_configuration_options",
    "set_device_pipeline",
    "set_epoch_break",
    "shutdown",
    "sync",
    "tensor",
    "torch_compile",
    "transformers",
    "update_device_parameters",
    "verify",
]
