"""Comparing what a device computes with what PyTorch computes."""

from pybuda.verify.backend import verify_module, verify_module_pipeline
from pybuda.verify.compare import calculate_pcc, compare_tensor_to_golden
from pybuda.verify.config import NebulaGalaxy, TestKind, VerifyConfig

__all__ = [
    "NebulaGalaxy",
    "TestKind",
    "VerifyConfig",
    "calculate_pcc",
    "compare_tensor_to_golden",
    "verify_module",
    "verify_module_pipeline",
]
