"""The outer shape of a tensor file: a length, a header, a data region.

    8 bytes     size of the header, little endian
    header      a FlatBuffer, zeros behind it up to the next multiple of 64 of the file
    data        the buffers of the shards, each from a multiple of 64

Opening a file maps it: nothing is read but the header, the pages of the data come when a value is used, and all processes
that map the file share them. The map is private, so that nobody can write into the file through a tensor, and it holds no
descriptor: a folder of a thousand weights does not run into the limit of open files.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tessera.files import durable
from tessera.files.reading import read
from tessera.files.writing import write

#: Official files start the data region and every buffer at multiples of this.
ALIGNMENT = 64
#: Readers need no more than this of the data region (guide, section 3.2).
LEAST_ALIGNMENT = 8
_LARGEST_HEADER = 1 << 26


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Source:
    """Where mapped bytes come from. The image of a buffer carries it as its attribute `source`, for as long as it is the file's."""

    path: Path
    identity: tuple[int, ...]
    """Device, inode, size and time of change when it was mapped."""
    start: int
    size: int

    def require_whole(self) -> None:
        """Refuse a file that was cut short since it was mapped: touching its lost pages would kill the process."""
        try:
            now = os.stat(self.path)
        except OSError:
            return  # its name is gone, its bytes are not
        device, inode, size, _ = self.identity
        if (now.st_dev, now.st_ino) == (device, inode) and now.st_size < size:
            raise RuntimeError(
                f'Tensor file "{self.path}" is truncated or corrupt: it had {size} bytes when it was loaded and has {now.st_size} now. '
                "Load it again once it is whole; a file in use is replaced, never cut"
            )

    def again(self) -> torch.Tensor | None:
        """The same bytes through a map of its own, which may be written to; None where the name now means another file."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            if _identity(os.fstat(file)) != self.identity:
                return None
            return _map(self.path, file, self.identity[2])[self.start : self.start + self.size]
        except (OSError, RuntimeError):
            return None
        finally:
            os.close(file)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _map(path: Path, file: int, size: int) -> torch.Tensor:
    """The bytes of an open file as a private map."""
    opened = f"/proc/self/fd/{file}"  # the very file whose header was read, whatever its name means by now
    pages = torch.UntypedStorage.from_file(opened if os.path.exists(opened) else str(path), shared=False, nbytes=size)
    return torch.empty(0, dtype=torch.uint8).set_(pages)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Mapped:
    """An open file: what its header says, and its data region as a one-dimensional uint8 tensor over the mapped pages."""

    path: Path
    root: Any
    data: torch.Tensor
    identity: tuple[int, ...]
    header_size: int

    @property
    def file_size(self) -> int:
        return self.identity[2]

    def at(self, offset: int, size: int) -> torch.Tensor:
        image = self.data[offset : offset + size]
        image.source = Source(self.path, self.identity, 8 + self.header_size + offset, size)  # type: ignore[attr-defined]
        return image


def check_name(path: Path, extension: str) -> None:
    if path.suffix != extension:
        raise RuntimeError(f"File {path} must have {extension} extension")


def header_of(path: Path, file: int, file_size: int) -> bytes:
    """The bytes of the header, once its length has been believed."""
    start = os.pread(file, 8, 0)
    if len(start) < 8:
        raise RuntimeError(
            f'Tensor file "{path}" is truncated or corrupt (header_size=unknown, file_size={file_size}): no room for a length'
        )
    (size,) = struct.unpack("<Q", start)
    where = f"(header_size={size}, file_size={file_size})"
    if size > file_size - 8:
        raise RuntimeError(f'Tensor file "{path}" is truncated or corrupt {where}: the header does not fit in the file')
    if size % LEAST_ALIGNMENT or size < 8:
        raise RuntimeError(f'Tensor file "{path}" is truncated or corrupt {where}: a header is a multiple of {LEAST_ALIGNMENT} bytes')
    if size > _LARGEST_HEADER:
        raise RuntimeError(f'Tensor file "{path}" is truncated or corrupt {where}: no header is larger than {_LARGEST_HEADER} bytes')
    header = os.pread(file, size, 8)
    if len(header) < size:
        raise RuntimeError(f'Tensor file "{path}" is truncated or corrupt {where}: the file ends inside the header')
    return header


def open_file(path: Path, root: str = "Tensor") -> Mapped:
    """Map `path` and read its header as table `root`. RuntimeError says what is wrong with a file that is not one."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise RuntimeError(f"Unable to load the tensor from {path}.  The file does not exist.") from None
    except OSError as error:
        raise durable.refuse("load the tensor from", path, error) from error
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise RuntimeError(f"Unable to load the tensor from {path}.  It is not a regular file.")
        header = header_of(path, file, status.st_size)
        try:
            record = read(header, root)
        except RuntimeError as error:
            raise RuntimeError(f'Tensor file "{path}": {error}') from None
        data = _map(path, file, status.st_size)[8 + len(header) :]
    except OSError as error:
        raise durable.refuse("load the tensor from", path, error) from error
    finally:
        os.close(file)
    return Mapped(path, record, data, _identity(status), len(header))


def layout(sizes: Sequence[int]) -> list[int]:
    """Where buffers of these sizes lie in the data region, one behind the other."""
    places, end = [], 0
    for size in sizes:
        places.append(aligned(end))
        end = places[-1] + size
    return places


def save(path: Path, root: Any, buffers: Sequence[memoryview]) -> None:
    """Write a file: `root` is the header's record, `buffers` are the content of the data region as `layout` places them."""
    header = write(root)
    header += bytes(aligned(8 + len(header)) - 8 - len(header))
    pieces: list[durable.Piece] = [struct.pack("<Q", len(header)) + header]
    sizes = [memoryview(b).nbytes for b in buffers]
    end = 0
    for place, size, buffer in zip(layout(sizes), sizes, buffers):
        pieces += [bytes(place - end), buffer]
        end = place + size
    durable.write_whole(path, pieces, 8 + len(header) + end)
