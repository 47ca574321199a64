"""Files that are written whole or not at all.

The bytes go into a file without a name in the target's folder (so that a killed writer leaves nothing behind; where the file
system knows no such files, into a hidden one beside the target), are synced, and take the target's name in one step. At any
moment the target is the old file, the new one, or absent. A new name is given to the file directly. An old one can only be taken over by a file
that has a name already, so replacing takes a second one for an instant; if a writer is killed in just that instant, the next writer of the
same file clears it away.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - no advisory locks on this system: the rename alone protects
    fcntl = None  # type: ignore[assignment]

#: What can be written: anything contiguous that shows its bytes.
Piece = bytes | memoryview

_CHUNK = 1 << 26
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_PERMISSION = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_UNNAMED_FILES = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.EISNAM}


def refuse(action: str, path: Path, error: OSError) -> RuntimeError:
    """The sentence for what the operating system said about `path`."""
    if error.errno in _NO_ROOM:
        why = f"no room is left for it ({error.strerror})"
        with contextlib.suppress(OSError):
            room = os.statvfs(path.parent)
            why = f"no room is left for it ({error.strerror}; {room.f_bavail * room.f_frsize} bytes are free in {path.parent})"
    elif error.errno in _NO_PERMISSION:
        why = f"permission denied ({error.strerror})"
    elif error.errno == errno.ENOENT:
        why = f"the directory {path.parent} does not exist" if not path.parent.is_dir() else "The file does not exist."
    else:
        why = error.strerror or str(error)
    return RuntimeError(f"Unable to {action} {path}.  {why}")


def write_whole(path: Path, pieces: Iterable[Piece], size: int) -> None:
    """Make `path` hold the bytes of `pieces` (`size` of them in all), or leave it as it was and raise RuntimeError."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise refuse("write the tensor to", path, error) from error
    hidden = path.parent / f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a directory")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "the file exists and is read-only")
        _sweep(path)
        file, named = _open(path.parent, hidden)
        try:
            _try_lock(file)
            _fill(file, pieces, size)
            os.fsync(file)
            if named:
                os.replace(hidden, path)
            else:
                _name(file, folder, hidden, path)
        finally:
            os.close(file)
        with contextlib.suppress(OSError):  # not every file system syncs a folder
            os.fsync(folder)
    except OSError as error:
        raise refuse("write the tensor to", path, error) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        os.close(folder)


def _open(folder: Path, hidden: Path) -> tuple[int, bool]:
    """A new file in `folder`, and whether it has a name already."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        try:
            return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666), False
        except OSError as error:
            if error.errno not in _NO_UNNAMED_FILES:
                raise
    return os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666), True


def _name(file: int, folder: int, hidden: Path, path: Path) -> None:
    """Give a file without a name that of the target, whether that is taken or not."""
    unnamed = f"/proc/self/fd/{file}"
    with contextlib.suppress(FileExistsError):
        os.link(unnamed, path, src_dir_fd=folder, follow_symlinks=True)
        return
    os.link(unnamed, hidden, src_dir_fd=folder, follow_symlinks=True)
    os.replace(hidden, path)  # at once: a writer killed between its two names would leave the hidden one


def _try_lock(file: int) -> bool:
    """Mark a file as being written, for as long as the writer lives; False if somebody else does."""
    if fcntl is None:  # pragma: no cover
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(path: Path) -> None:
    """Remove what killed writers of `path` left: hidden files that nobody holds."""
    head = f".{path.name}."
    with os.scandir(path.parent) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(head) and entry.name.endswith(".tmp")]
    for name in left:
        with contextlib.suppress(OSError):
            file = os.open(name, os.O_RDWR)
            try:
                if _try_lock(file):
                    os.unlink(name)
            finally:
                os.close(file)


def _fill(file: int, pieces: Iterable[Piece], size: int) -> None:
    if size > _CHUNK and hasattr(os, "posix_fallocate"):  # ask for all the room before the first byte
        try:
            os.posix_fallocate(file, 0, size)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise
    for piece in pieces:
        rest = memoryview(piece).cast("B")
        while rest:
            rest = rest[os.write(file, rest[:_CHUNK]) :]


@contextlib.contextmanager
def lock(path: Path, *, timeout: float = 600.0) -> Iterator[None]:
    """Hold `path` against other processes that also ask. The lock file disappears with its last holder; a dead holder lets go."""
    if fcntl is None:  # pragma: no cover
        yield
        return
    place = path.with_name(f".{path.name}.lock")
    deadline = time.monotonic() + timeout
    while True:
        try:
            file = os.open(place, os.O_CREAT | os.O_RDWR, 0o666)
        except OSError as error:
            raise refuse("lock", path, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            if time.monotonic() > deadline:
                raise RuntimeError(f"Unable to lock {path}: another process has held {place} for {timeout:.0f} s") from None
            time.sleep(0.02)
            continue
        except OSError:  # a file system without locks: the rename alone protects
            pass
        if _is_still(place, file):
            break
        os.close(file)  # the holder before us removed it; what we hold is a file without a name
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(place)
        os.close(file)


def _is_still(place: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(place), os.fstat(file))
    except FileNotFoundError:
        return False
