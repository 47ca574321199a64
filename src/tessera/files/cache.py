"""One entry of a cache of converted tensors: its file name, when it may be used, and who may write it.

The file is the whole entry: an entry that does not hold what was asked for is replaced, with a warning that says why.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from loguru import logger

from tessera.files import durable, tensors
from tessera.files.tensors import Stored
from tessera.formats.dtype import FORMATS, DataType, Layout
from tessera.formats.packing import pack, unpack
from tessera.memory.config import DRAM, MemoryConfig
from tessera.memory.mesh import SINGLE, TensorTopology


def _shown(value: object) -> object:
    """A shape as programs write it; anything else as it is."""
    return list(value) if isinstance(value, tuple) else value


@dataclass
class Entry:
    """What a caller wants under a name. `shape` is that of a part; None leaves it open. `miss` says why the last look was in vain."""

    name: str
    dtype: DataType | None
    layout: Layout | None
    memory_config: MemoryConfig | None = None
    shape: tuple[int, ...] | None = None
    topology: TensorTopology | None = None
    miss: str = field(default="", init=False)

    @property
    def path(self) -> Path:
        return self._named(self.dtype.name if self.dtype is not None else "None")

    def _named(self, dtype: str) -> Path:
        layout = self.layout.name if self.layout is not None else "None"
        return Path(f"{self.name}_dtype_{dtype}_layout_{layout}{tensors.EXTENSION}")

    def find(self) -> Stored | None:
        """What the cache holds, in the memory config that is asked for; None, and `miss`, when it holds nothing of use."""
        lower = self._named(self.dtype.name.lower() if self.dtype is not None else "None")
        path = lower if lower.is_file() and not self.path.is_file() else self.path
        if not path.exists():
            self.miss = "it was not generated yet"
            return None
        try:
            found = tensors.read(path)
        except RuntimeError as error:
            self._refuse(path, str(error))
            return None
        spec = found.spec
        for what, got, wanted in (
            ("dtype", spec.dtype, self.dtype),
            ("layout", spec.layout, self._layout()),
            ("shape", spec.dims, self.shape),
        ):
            if wanted is not None and got != wanted:
                self._refuse(path, f"it holds {what} {_shown(got)}, and {what} {_shown(wanted)} was asked for")
                return None
        wanted_topology = self.topology or SINGLE
        if (found.topology.shape, found.topology.placed) != (wanted_topology.shape, wanted_topology.placed):
            self._refuse(path, f"it holds {len(found.images)} shards as {found.topology}, and {wanted_topology} was asked for")
            return None
        return with_memory_config(found, self.memory_config or DRAM)

    def _layout(self) -> Layout | None:
        return Layout.TILE if self.dtype is not None and FORMATS[self.dtype].is_block else self.layout

    def _refuse(self, path: Path, why: str) -> None:
        self.miss = why
        logger.warning(f"The cache file {path} cannot be used and is generated again: {why}")

    @contextlib.contextmanager
    def writing(self, *, shared: bool) -> Iterator[Stored | None]:
        """Hold the entry while it is made. Yields what another process made while we waited. Processes that write together (`shared`)
        write once by themselves and hold nothing."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise durable.refuse("create the directory of", self.path, error) from error
        if shared:
            yield None
            return
        before = _identity(self.path)
        with durable.lock(self.path):
            yield self.find() if _identity(self.path) != before else None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def with_memory_config(found: Stored, config: MemoryConfig) -> Stored:
    """The same content for another place. Its bytes stay as they are unless the place pads differently."""
    if found.spec.memory_config == config:
        return found
    spec = found.spec.replace(memory_config=config)
    if spec.padded_dims == found.spec.padded_dims:
        return replace(found, spec=spec)
    made = {id(image): pack(unpack(image, found.spec), spec) for image in found.images}
    return replace(found, spec=spec, images=tuple(made[id(image)] for image in found.images))
