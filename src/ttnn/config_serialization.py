"""Configurations as plain data: what traces and reports write for memory, compute and program configurations."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Any

from tessera.memory.config import MemoryConfig

__all__ = ["compute_kernel_config_to_dict", "memory_config_to_dict", "program_config_to_dict"]


def stable_hash(text: str) -> int:
    """A number that is the same in every process, unlike `hash`."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


@lru_cache(maxsize=1024)
def _memory_config(config: MemoryConfig) -> dict[str, Any]:
    return {
        "memory_layout": str(config.memory_layout),
        "buffer_type": str(config.buffer_type),
        "shard_spec": str(config.shard_spec),
        "is_sharded": config.is_sharded(),
        "interleaved": not config.is_sharded(),
        "hash": stable_hash(repr(config)),
    }


def memory_config_to_dict(memory_config: MemoryConfig) -> dict[str, Any]:
    return dict(_memory_config(memory_config))


def compute_kernel_config_to_dict(compute_kernel_config: Any) -> dict[str, Any]:
    config = compute_kernel_config
    return {
        "math_fidelity": str(config.math_fidelity),
        "math_approx_mode": str(config.math_approx_mode),
        "fp32_dest_acc_en": config.fp32_dest_acc_en,
        "packer_l1_acc": config.packer_l1_acc,
        "dst_full_sync_en": config.dst_full_sync_en,
        "throttle_level": str(config.throttle_level),
    }


def program_config_to_dict(program_config: Any) -> dict[str, Any]:
    return {**json.loads(program_config.to_json()), "type": type(program_config).__name__}
