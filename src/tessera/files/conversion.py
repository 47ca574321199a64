"""Tensor files from and to safetensors and npy.

Values go over exactly: block floats and bfloat16 become BF16 in safetensors and float32 in npy, which knows no bfloat16. What safetensors cannot
say of a tensor (dtype, layout, tile, memory config) stands in its metadata for people to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from tessera.files import inspection, tensors
from tessera.files.durable import write_whole
from tessera.files.tensors import EXTENSION
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.rounding import host_convert
from tessera.formats.shape import Shape
from tessera.memory.spec import TensorSpec
from tessera.runtime.tensor import Tensor

#: Called with the name of what was done and its bytes.
Progress = Callable[[str, int], None]

_KINDS: dict[torch.dtype, DataType] = {
    torch.bfloat16: DataType.BFLOAT16,
    torch.float16: DataType.FLOAT32,
    torch.float32: DataType.FLOAT32,
    torch.float64: DataType.FLOAT32,
    torch.int8: DataType.INT8,
    torch.int16: DataType.INT32,
    torch.int32: DataType.INT32,
    torch.int64: DataType.INT32,
    torch.uint8: DataType.UINT8,
    torch.bool: DataType.UINT8,
    torch.uint16: DataType.UINT16,
    torch.uint32: DataType.UINT32,
}
#: The torch dtype in which the values of a dtype leave.
_LEAVE: dict[DataType, torch.dtype] = {DataType.UINT16: torch.uint16, DataType.UINT32: torch.uint32}


def to_file(values: torch.Tensor, path: Path, dtype: DataType | None = None, layout: Layout | None = None) -> None:
    """Write a plain torch tensor as a `.tensorbin`."""
    kind = dtype or _KINDS.get(values.dtype)
    if kind is None:
        raise RuntimeError(f"{path}: torch dtype {values.dtype} has no counterpart; say which with --dtype")
    if values.dtype in (torch.int64, torch.float64) and dtype is None:
        narrow = values.to(FORMATS[kind].values)
        if not torch.equal(narrow.to(values.dtype).nan_to_num(0), values.nan_to_num(0)):
            raise RuntimeError(f"{path}: values of {values.dtype} do not fit {kind}; say which dtype with --dtype")
    if layout is None:
        layout = Layout.TILE if FORMATS[kind].is_block else Layout.ROW_MAJOR
    spec = TensorSpec.of(Shape(list(values.shape)), kind, layout)
    plain = values if values.dtype not in (torch.uint16, torch.uint32, torch.bool) else values.to(torch.int64)
    on_grid = host_convert(plain.contiguous(), kind, spec.tile if layout is Layout.TILE else None)
    tensors.dump(path, tensors.stored(Tensor.on_host(spec, [on_grid.reshape(spec.dims)])))


def values_of(path: Path) -> torch.Tensor:
    """The values of a `.tensorbin`, its parts put together, in a torch dtype that other formats know."""
    found = tensors.read(path)
    values = inspection.whole(found)
    return values.to(_LEAVE.get(found.spec.dtype, values.dtype))


def export(sources: list[Path], target: Path, done: Progress) -> None:
    """Tensor files into one `.safetensors` (each under its name without suffix), or one of them into a `.npy`."""
    if target.suffix == ".npy":
        if len(sources) != 1:
            raise RuntimeError(f"{target}: an npy file holds one tensor, and {len(sources)} were given; use .safetensors")
        values = values_of(sources[0])
        plain = values.float() if values.dtype is torch.bfloat16 else values
        _save_npy(plain.contiguous(), target)
        done(sources[0].name, sources[0].stat().st_size)
        return
    from safetensors.torch import save

    named, words = {}, {}
    for source in sources:
        if source.stem in named:
            raise RuntimeError(f"{target}: two sources are called {source.stem!r}")
        named[source.stem] = values_of(source).contiguous()
        words[source.stem] = repr(tensors.read(source).spec)
        done(source.name, source.stat().st_size)
    content = save(named, metadata=words)
    write_whole(target, [content], len(content))


def _save_npy(values: torch.Tensor, target: Path) -> None:
    import io

    start = io.BytesIO()
    array = values.numpy()
    np.lib.format.write_array_header_2_0(start, np.lib.format.header_data_from_array_1_0(array))
    write_whole(target, [start.getvalue(), array.reshape(-1).data.cast("B")], start.tell() + array.nbytes)


def contents(source: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a `.safetensors` or `.npy` file by name, one at a time."""
    if source.suffix == ".npy":
        try:
            array = np.load(source, mmap_mode="c", allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise RuntimeError(f"{source} cannot be read as npy: {error}") from error
        yield source.stem, torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape))
        return
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(source, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - the file is not a dictionary
                yield name, file.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise RuntimeError(f"{source} cannot be read as safetensors: {error}") from error


def convert(source: Path, target: Path, dtype: DataType | None, layout: Layout | None, done: Progress) -> None:
    """A `.safetensors` or `.npy` file into a `.tensorbin`, or into a folder with one for each tensor."""
    if target.suffix == EXTENSION:
        found = list(contents(source))
        if len(found) != 1:
            raise RuntimeError(f"{source} holds {len(found)} tensors; name a folder to write them to")
        to_file(found[0][1], target, dtype, layout)
        done(*_size(*found[0]))
        return
    target.mkdir(parents=True, exist_ok=True)
    for name, values in contents(source):
        if not name or name != Path(name).name or name in (".", ".."):
            raise RuntimeError(f"{source}: the name {name!r} cannot be a file's; nothing is written outside {target}")
        to_file(values, target / f"{name}{EXTENSION}", dtype, layout)
        done(*_size(name, values))


def _size(name: str, values: torch.Tensor) -> tuple[str, int]:
    return name, values.nbytes
