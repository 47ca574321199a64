"""Reading a folder of operation traces, ours or official: one call after the other, whatever is damaged named and left out."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = re.compile(r"(\d+)_.+\.json")
_TORCH = re.compile(r"torch \w*\[")


@dataclass(frozen=True)
class Call:
    """One traced call."""

    number: int
    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    result: Any
    file: Path

    @property
    def tensors(self) -> list[dict[str, Any]]:
        """The descriptions of all tensors, however nested, results last."""
        return list(tensors_in([self.args, self.kwargs, self.result]))

    @property
    def inputs(self) -> str:
        words = [shown(v) for v in self.args] + [f"{k}={shown(v)}" for k, v in self.kwargs.items()]
        return ", ".join(words)

    @property
    def output(self) -> str:
        return "" if self.result is None else shown(self.result)

    @property
    def signature(self) -> tuple[str, str, str]:
        """What makes two calls the same call. A trace with values does not say what dtype a torch tensor had, so that does not count."""
        return self.name, _TORCH.sub("torch[", self.inputs), _TORCH.sub("torch[", self.output)


class Folder:
    """A folder of traces. `problems` fills while the calls are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []
        found = [(int(match[1]), f) for f in path.iterdir() if (match := NAME.fullmatch(f.name))]
        self.files = sorted(found)

    def __len__(self) -> int:
        return len(self.files)

    def calls(self, progress: Callable[[Iterable[Any]], Iterable[Any]] = iter) -> Iterator[Call]:
        """Every call that can be read, in order. Only one file is held at a time."""
        last = 0
        for number, file in progress(self.files):
            if number > last + 1:
                gap = f"number {last + 1} is missing" if number == last + 2 else f"numbers {last + 1} to {number - 1} are missing"
                self.problems.append(f"{self.path}: {gap}")
            elif number == last:
                self.problems.append(f"{file.name}: number {number} was there already")
            last = number
            try:
                yield read(number, file)
            except (OSError, ValueError) as error:
                self.problems.append(f"{file.name}: {error}")


def read(number: int, file: Path) -> Call:
    data = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise ValueError("it holds no JSON object")
    missing = [key for key in ("operation_name", "args", "kwargs") if key not in data]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    name, args, kwargs = data["operation_name"], data["args"], data["kwargs"]
    if not isinstance(name, str) or not isinstance(args, list) or not isinstance(kwargs, dict):
        raise ValueError("operation_name, args and kwargs are not a string, a list and an object")
    if not all(isinstance(arg, dict) and "position" in arg and "value" in arg for arg in args):
        raise ValueError("an argument lacks its position or value")
    return Call(number, name, [arg["value"] for arg in sorted(args, key=lambda a: a["position"])], kwargs, data.get("return_value"), file)


def is_tensor(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in ("ttnn.Tensor", "torch.Tensor")


def tensors_in(value: Any) -> Iterator[dict[str, Any]]:
    if is_tensor(value):
        yield value
    elif isinstance(value, list):
        for v in value:
            yield from tensors_in(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors_in(v)


def plain(text: Any) -> str:
    """An enum's name without its type, as the guide writes it: `DataType.BFLOAT16` and `bfloat16` are one."""
    return str(text).rpartition(".")[2]


def dtype_of(tensor: dict[str, Any]) -> str:
    return plain(tensor.get("original_dtype", tensor.get("dtype", ""))).lower()


def shape_of(tensor: dict[str, Any]) -> list[int]:
    return list(tensor.get("original_shape", tensor.get("shape", [])))


def shown(value: Any) -> str:
    """An argument in a few words."""
    if is_tensor(value):
        if value["type"] == "torch.Tensor":
            return f"torch {dtype_of(value)}{shape_of(value)}"
        where = ""
        if "storage_type" in value:
            config = value.get("memory_config")
            on_device = "DEVICE" in str(value["storage_type"])
            where = f" {plain(config['buffer_type'])}" if on_device and isinstance(config, dict) else ("" if on_device else " host")
            layout = plain(config["memory_layout"]) if isinstance(config, dict) and "memory_layout" in config else "INTERLEAVED"
            where += "" if layout == "INTERLEAVED" else f" {layout}"
        return f"{dtype_of(value)}{shape_of(value)} {plain(value.get('layout', ''))}{where}".rstrip()
    if isinstance(value, list):
        return f"[{', '.join(shown(v) for v in value)}]"
    if isinstance(value, dict):
        if "memory_layout" in value and "buffer_type" in value:
            return f"{plain(value['buffer_type'])} {plain(value['memory_layout'])}"
        if "math_fidelity" in value:
            return plain(value["math_fidelity"])
        for key in ("repr", "value", "type"):
            if key in value:
                return str(value[key])
        return f"{{{', '.join(f'{k}: {shown(v)}' for k, v in value.items())}}}"
    return str(value)


@dataclass(frozen=True)
class Filter:
    """Which calls are looked at. A shape may hold `*` for any extent."""

    op: str = ""
    dtype: str = ""
    shape: tuple[str, ...] = ()

    def passes(self, call: Call) -> bool:
        if self.op and not (self.op in call.name or fnmatch.fnmatchcase(call.name, self.op)):
            return False
        if not self.dtype and not self.shape:
            return True
        return any(self._fits(t) for t in call.tensors)

    def _fits(self, tensor: dict[str, Any]) -> bool:
        if self.dtype and dtype_of(tensor) != self.dtype.lower():
            return False
        shape = [str(d) for d in shape_of(tensor)]
        return not self.shape or (len(shape) == len(self.shape) and all(want in ("*", got) for want, got in zip(self.shape, shape)))
