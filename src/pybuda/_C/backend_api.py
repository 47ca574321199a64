"""Backends and chips by the names of the original runtime. Here all backends are the one software device."""

from __future__ import annotations

from pybuda._C.enums import JsonEnum


class BackendType(JsonEnum):
    Golden = 0
    Model = 1
    Versim = 2
    Emulation = 3
    NoBackend = 4
    Silicon = 5


class BackendDevice(JsonEnum):
    Grayskull = 0
    Wormhole_B0 = 1
    Blackhole = 2
    Invalid = 0xFF


class DeviceMode(JsonEnum):
    CompileAndRun = 0
    CompileOnly = 1
    RunOnly = 2


__all__ = ["BackendDevice", "BackendType", "DeviceMode"]
