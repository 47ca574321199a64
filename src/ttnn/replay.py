"""Runs traced calls again: on the values that were recorded, or on random ones of the recorded specs.

What a trace says of an argument is turned back into the argument; a call with one that cannot be (an object of which only a name was written) is
left out and says so. Results are checked where values were recorded and the operation is a function of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import torch

import ttnn
from tessera.formats.dtype import FORMATS
from ttnn.comparison import comp_pcc
from ttnn.decorators import REGISTERED_OPERATIONS

#: Correlation of a result with the recorded one, below which it differs.
PCC = 0.999
#: Operations whose result is chance.
CHANCE = re.compile(r"rand|bernoulli|uniform|dropout")


class Traced(Protocol):
    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    result: Any


@dataclass(frozen=True)
class Outcome:
    """How a call went: "ran", "agrees", "differs", "failed" or "skipped"."""

    outcome: str
    seconds: float | None = None
    why: str = ""


class Unknown(Exception):
    """What a trace says of an argument is not enough to make it."""


def replay(calls: Iterable[Any], *, repeat: int = 1, seed: int = 0) -> Iterator[tuple[Any, Outcome]]:
    """Run calls in order, each on its own arguments."""
    player = Player(seed)
    try:
        for call in calls:
            yield call, player.run(call, repeat)
    finally:
        player.close()


class Player:
    def __init__(self, seed: int = 0) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.device: Any = None

    def close(self) -> None:
        if self.device is not None:
            ttnn.close_device(self.device)
            self.device = None

    def run(self, call: Traced, repeat: int) -> Outcome:
        seconds = []
        try:
            operation = find(call.name)
            result = None
            for _ in range(repeat):  # arguments are made anew: an operation may free them or write into them
                args = [self.argument(a) for a in call.args]
                kwargs = {word: self.argument(a) for word, a in call.kwargs.items()}
                if call.name == "ttnn.Tensor.__getitem__":
                    args[1] = tuple(args[1]) if isinstance(args[1], list) else args[1]
                started = perf_counter()
                result = operation(*args, **kwargs)
                seconds.append(perf_counter() - started)
        except Unknown as why:
            return Outcome("skipped", None, str(why))
        except Exception as error:
            return Outcome("failed", None, f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}")
        return self.checked(call, result, min(seconds))

    def checked(self, call: Traced, result: Any, seconds: float) -> Outcome:
        in_place = call.name.endswith("_") and not call.name.endswith("__")  # what it was given was written down after it ran
        if in_place or CHANCE.search(call.name) or not _recorded([*call.args, *call.kwargs.values()]):
            return Outcome("ran", seconds)
        pairs = list(_pairs(call.result, result))
        if not pairs:
            return Outcome("ran", seconds)
        worst = 1.0
        for recorded, got in pairs:
            expected = torch.tensor(_finite(recorded), dtype=torch.float64)
            found = (ttnn.to_torch(got) if isinstance(got, ttnn.Tensor) else got).to(torch.float64)
            if expected.numel() != found.numel():
                return Outcome("differs", seconds, f"shape {list(found.shape)} instead of {list(expected.shape)}")
            worst = min(worst, comp_pcc(expected.reshape(found.shape), found, PCC)[1])
        return Outcome("agrees" if worst >= PCC else "differs", seconds, "" if worst == 1.0 else f"pcc {worst:.6f}")

    def opened(self) -> Any:
        if self.device is None:
            self.device = ttnn.open_device(device_id=0)
        return self.device

    # -- arguments, from what was written of them

    def argument(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.argument(v) for v in value]
        if not isinstance(value, dict):
            return NUMBERS.get(value, value) if isinstance(value, str) else value
        kind = value.get("type")
        if kind == "ttnn.Tensor":
            return self.tensor(value)
        if kind == "torch.Tensor":
            return self.values(value, _torch_dtype(value))
        if kind == "MeshDevice":
            return self.opened()
        if "memory_layout" in value and "buffer_type" in value:
            return memory_config(value)
        if "math_fidelity" in value:
            return compute_config(value)
        if isinstance(kind, str) and kind.endswith("ProgramConfig"):
            return _program_config(kind, value)
        text = value.get("repr", value.get("value"))
        if kind is None:
            return {k: self.argument(v) for k, v in value.items()}
        return _named(str(kind), str(text))

    def tensor(self, value: dict[str, Any]) -> Any:
        dtype = getattr(ttnn.DataType, _plain(value.get("original_dtype", value["dtype"])).upper())
        layout = getattr(ttnn.Layout, _plain(value.get("layout", "TILE")).upper())
        if len(value.get("mesh_device", {}).get("device_ids", [0])) > 1:
            raise Unknown("it ran on several chips")
        row = FORMATS[dtype]
        values = self.values(value, torch.float32 if row.is_float else torch.int64, bits=0 if row.is_float else row.bits)
        on_device = "DEVICE" in str(value.get("storage_type", "DEVICE"))
        config = memory_config(value["memory_config"]) if on_device and isinstance(value.get("memory_config"), dict) else None
        return ttnn.from_torch(values, dtype=dtype, layout=layout, device=self.opened() if on_device else None, memory_config=config)

    def values(self, value: dict[str, Any], dtype: torch.dtype, bits: int = 0) -> torch.Tensor:
        if "values" in value:
            return torch.tensor(_finite(value["values"]), dtype=dtype).reshape(value["shape"])
        shape = value.get("original_shape", value["shape"])
        if dtype.is_floating_point:
            return torch.randn(shape, generator=self.generator).to(dtype)
        if dtype is torch.bool:
            return torch.randint(0, 2, shape, generator=self.generator).bool()
        return torch.randint(0, 32 if bits != 8 else 16, shape, generator=self.generator).to(dtype)


NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def find(name: str) -> Any:
    """The operation of this name. Only registered operations run: a trace is a file, and a file may say anything."""
    found = REGISTERED_OPERATIONS.get(name)
    if found is None and name == "ttnn.Tensor.__getitem__":
        return ttnn.Tensor.__getitem__  # type: ignore[attr-defined]
    if found is None:
        raise Unknown(f"{name} is no operation here")
    return found


def _plain(text: Any) -> str:
    return str(text).rpartition(".")[2]


def _torch_dtype(value: dict[str, Any]) -> torch.dtype:
    found = getattr(torch, _plain(value["dtype"]), None)
    if not isinstance(found, torch.dtype):
        raise Unknown(f"dtype {value['dtype']} is not torch's")
    return found


def _finite(values: Any) -> Any:
    """Nested lists with the strings for NaN and the infinities as numbers again."""
    if isinstance(values, list):
        return [_finite(v) for v in values]
    return NUMBERS.get(values, values) if isinstance(values, str) else values


def _core_ranges(text: str) -> Any:
    corners = [(int(x), int(y)) for x, y in re.findall(r'"x":(\d+),"y":(\d+)', text)]
    pairs = zip(corners[::2], corners[1::2])
    return ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(*start), ttnn.CoreCoord(*end)) for start, end in pairs})


def memory_config(value: dict[str, Any]) -> Any:
    layout = getattr(ttnn.TensorMemoryLayout, _plain(value["memory_layout"]))
    kind = getattr(ttnn.BufferType, _plain(value["buffer_type"]))
    text = str(value.get("shard_spec", "None"))
    if text == "None":
        return ttnn.MemoryConfig(layout, kind)
    shape, orientation = re.search(r"shape=\[(\d+), (\d+)\]", text), re.search(r"orientation=ShardOrientation::(\w+)", text)
    if shape is None or orientation is None:
        raise Unknown(f"shard spec {text} cannot be read")
    spec = ttnn.ShardSpec(_core_ranges(text), [int(shape[1]), int(shape[2])], getattr(ttnn.ShardOrientation, orientation[1]))
    return ttnn.MemoryConfig(layout, kind, spec)


def compute_config(value: dict[str, Any]) -> Any:
    def flag(name: str) -> bool:
        return str(value.get(name, "False")) == "True"

    return ttnn.WormholeComputeKernelConfig(
        math_fidelity=getattr(ttnn.MathFidelity, _plain(value["math_fidelity"])),
        math_approx_mode=flag("math_approx_mode"),
        fp32_dest_acc_en=flag("fp32_dest_acc_en"),
        packer_l1_acc=flag("packer_l1_acc"),
        dst_full_sync_en=flag("dst_full_sync_en"),
    )


def _program_config(kind: str, value: dict[str, Any]) -> Any:
    import json

    found = getattr(ttnn, kind, None)
    if found is None or not hasattr(found, "from_json"):
        raise Unknown(f"program config {kind} is not known here")
    return found.from_json(json.dumps({k: v for k, v in value.items() if k != "type"}))


def _named(kind: str, text: str) -> Any:
    """An enum member, or one of the few things whose text says all."""
    owner = getattr(ttnn, kind, None)
    member = getattr(owner, text.rpartition(".")[2].rpartition("::")[2], None) if owner is not None else None
    if member is not None and isinstance(member, owner):
        return member
    numbers = [None if n == "None" else int(n) for n in re.findall(r"-?\d+|None", text)]
    if kind == "slice":
        return slice(*numbers)
    if kind == "CoreGrid":
        return ttnn.CoreGrid(x=int(re.search(r"x=(\d+)", text)[1]), y=int(re.search(r"y=(\d+)", text)[1]))  # type: ignore[index]
    if kind == "Shape":
        return ttnn.Shape([int(n) for n in re.findall(r"\d+", text)])
    if kind == "ellipsis":
        return ...
    if kind == "dtype" and isinstance(getattr(torch, _plain(text), None), torch.dtype):
        return getattr(torch, _plain(text))
    raise Unknown(f"an argument of type {kind} was written as {text!r} only")


def _recorded(arguments: Iterable[Any]) -> bool:
    """Whether the values of every tensor among the arguments were recorded."""
    for value in arguments:
        if isinstance(value, dict):
            if value.get("type") in ("ttnn.Tensor", "torch.Tensor"):
                if "values" not in value:
                    return False
            elif not _recorded(value.values()):
                return False
        elif isinstance(value, list) and not _recorded(value):
            return False
    return True


def _pairs(recorded: Any, got: Any) -> Iterator[tuple[Any, Any]]:
    """Recorded values beside the tensors that came out."""
    if isinstance(recorded, dict) and "values" in recorded:
        yield recorded["values"], got
    elif isinstance(recorded, list) and isinstance(got, (list, tuple)):
        for r, g in zip(recorded, got):
            yield from _pairs(r, g)
