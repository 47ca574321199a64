"""Data as the text of a file, in pieces, so that a large tensor never stands in memory as text.

The head of a file is indented for people; each argument stands on one line, since a description is short and the C encoder writes it in
microseconds. Values are nested lists without blanks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from tessera.native import MODULE
from ttnn.tracing.serialize import MARK, encode, numbers

_MARKS = re.compile(f'"{MARK}(\\d+)-"')
#: Elements that are turned into text at a time.
CHUNK = 1 << 14
_native = getattr(MODULE, "json_values", None)
#: How the native writer calls the kinds of numbers.
_KINDS = {
    torch.bfloat16: 0,
    torch.float32: 1,
    torch.float64: 2,
    torch.bool: 3,
    torch.uint8: 4,
    torch.int8: 5,
    torch.int16: 6,
    torch.int32: 7,
    torch.int64: 8,
    torch.uint16: 9,
    torch.uint32: 10,
    torch.uint64: 11,
}


def guide_text(fields: list[tuple[str, str]], args: list[str], words: list[tuple[str, str]]) -> str:
    """The whole file, of values that are JSON already: a line for each field, argument and keyword. `args` and `kwargs` are fields that say
    where the two lists stand."""
    lines = []
    for key, value in fields:
        if key == "args" and args:
            inner = ",\n    ".join([f'{{"position": {i}, "value": {arg}}}' for i, arg in enumerate(args)])
            value = f"[\n    {inner}\n  ]"
        elif key == "kwargs" and words:
            inner = ",\n    ".join([f"{encode(word)}: {arg}" for word, arg in words])
            value = f"{{\n    {inner}\n  }}"
        lines.append(f'  "{key}": {value}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def official_text(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2, allow_nan=False, default=str)


def pieces(text: str, contents: list[torch.Tensor]) -> Iterable[bytes]:
    """The text with each mark replaced by the values it stands for."""
    if not contents:
        return (text.encode(),)
    return _filled(text, contents)


def _filled(text: str, contents: list[torch.Tensor]) -> Iterator[bytes]:
    end = 0
    for mark in _MARKS.finditer(text):
        yield text[end : mark.start()].encode()
        yield from values_text(contents[int(mark[1])])
        end = mark.end()
    yield text[end:].encode()


def values_text(values: torch.Tensor) -> Iterator[bytes]:
    """A tensor as nested lists, a chunk at a time."""
    if values.numel() <= CHUNK or values.dim() == 0:
        yield _nested(values)
    elif values.dim() == 1:
        for start in range(0, len(values), CHUNK):
            yield b"," if start else b"["
            yield _nested(values[start : start + CHUNK])[1:-1]
        yield b"]"
    else:
        # As many rows of the first dimension as make a chunk; a row that is more than a chunk is taken apart itself.
        rows = max(1, CHUNK // max(1, values[0].numel()))
        for start in range(0, len(values), rows):
            yield b"," if start else b"["
            if rows == 1:
                yield from values_text(values[start])
            else:
                yield _nested(values[start : start + rows])[1:-1]
        yield b"]"


def _nested(values: torch.Tensor) -> bytes:
    kind = _KINDS.get(values.dtype)
    if _native is not None and kind is not None:
        return _native(values.data_ptr(), kind, list(values.shape))  # type: ignore[no-any-return]
    listed = values.tolist()
    if values.dtype.is_floating_point and not bool(torch.isfinite(values).all()):
        listed = numbers(listed)
    return json.dumps(listed, separators=(",", ":")).encode()
