"""A folder that traces are written to: numbers without gaps or clashes, whoever writes.

Several threads and several processes may trace into one folder. The last number given out is kept in a small file of the user's runtime folder
(not in the trace folder, which holds traces and nothing else), under a lock. The first process to come to a folder sets it to what the
folder holds, so numbering goes on where the files end, and starts at 1 in an empty folder.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from loguru import logger

from tessera.runtime.telemetry import run_directory

_NUMBERED = re.compile(r"(\d+)_.*\.json")


class Numbers:
    """The last number of one folder, shared with every process that writes there."""

    def __init__(self, folder: Path, identity: tuple[int, int]) -> None:
        self.last = 0
        self.shared: int | None = None
        self.users: int | None = None
        self.files: tuple[Path, ...] = ()
        self.process = os.getpid()
        try:
            place = run_directory()
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if place.stat().st_uid != os.getuid():
                raise PermissionError(f"{place} belongs to somebody else")
            name = f"trace-{identity[0]:x}-{identity[1]:x}"
            self.files = (place / f"{name}.number", place / f"{name}.users")
            self._join(folder)
        except OSError as error:
            self._drop()
            self.last = highest(folder)
            logger.warning(f"operation tracing: numbers in {folder} are not shared with other processes: {error}")

    def _join(self, folder: Path) -> None:
        """Open the two files. `users` is locked by everybody who traces here: whoever is alone sets the number to what the folder holds."""
        while True:
            self.shared, self.users = (os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) for file in self.files)
            fcntl.flock(self.shared, fcntl.LOCK_EX)
            if self._are_ours():
                break
            self._drop()  # the last user before us was just taking them away
        try:
            try:
                fcntl.flock(self.users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._put(highest(folder))
            except BlockingIOError:
                pass
            fcntl.flock(self.users, fcntl.LOCK_SH)
        finally:
            fcntl.flock(self.shared, fcntl.LOCK_UN)

    def _are_ours(self) -> bool:
        """Whether the names still lead to the files that we opened."""
        try:
            return all(os.path.samestat(os.stat(file), os.fstat(handle)) for file, handle in zip(self.files, self._handles()))
        except FileNotFoundError:
            return False

    def _handles(self) -> list[int]:
        return [handle for handle in (self.shared, self.users) if handle is not None]

    def _drop(self) -> None:
        for handle in self._handles():
            os.close(handle)
        self.shared = self.users = None

    def close(self) -> None:
        """Leave; the last user takes the files away. A forked child only lets go of what it inherited."""
        if self.shared is not None and self.users is not None and self.process == os.getpid():
            with contextlib.suppress(OSError):
                fcntl.flock(self.shared, fcntl.LOCK_EX)
                fcntl.flock(self.users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._are_ours():
                    for file in self.files:
                        file.unlink()
        self._drop()

    @contextlib.contextmanager
    def next(self, above: int = 0) -> Iterator[int]:
        """The next number. It counts as given when the block ends well."""
        if self.shared is None:
            given = max(self.last, above) + 1
            yield given
            self.last = given
            return
        fcntl.flock(self.shared, fcntl.LOCK_EX)
        try:
            given = max(self._get(), above) + 1
            yield given
            self._put(given)
        finally:
            fcntl.flock(self.shared, fcntl.LOCK_UN)

    def take_back(self, number: int) -> None:
        """A number whose file could not be written, if it is still the last."""
        if self.shared is None:
            self.last -= self.last == number
            return
        fcntl.flock(self.shared, fcntl.LOCK_EX)
        try:
            if self._get() == number:
                self._put(number - 1)
        finally:
            fcntl.flock(self.shared, fcntl.LOCK_UN)

    def _get(self) -> int:
        assert self.shared is not None
        return int(os.pread(self.shared, 24, 0) or 0)

    def _put(self, number: int) -> None:
        assert self.shared is not None
        os.pwrite(self.shared, b"%-20d" % number, 0)


def highest(folder: Path) -> int:
    """The largest number of a trace file in a folder."""
    with os.scandir(folder) as entries:
        return max((int(found[1]) for entry in entries if (found := _NUMBERED.fullmatch(entry.name))), default=0)


class Folder:
    """An open trace folder. It is this one as long as its path leads to the same directory."""

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        path.mkdir(parents=True, exist_ok=True)
        self.handle = os.open(
            path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        )  # while it is open its number is not given to another directory
        state = os.fstat(self.handle)
        self.identity = (state.st_dev, state.st_ino)
        self.numbers = Numbers(path, self.identity)
        self.process = os.getpid()

    @property
    def is_current(self) -> bool:
        try:
            state = os.stat(self.path)
        except OSError:
            return False
        return (state.st_dev, state.st_ino) == self.identity and self.process == os.getpid()

    def close(self) -> None:
        self.numbers.close()
        os.close(self.handle)


_open: dict[str, Folder] = {}
_lock = threading.Lock()
#: Folders kept open at a time: a test suite may use thousands, one after the other.
KEPT = 16
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def _folder(path: str) -> Folder:
    """The open folder at a path, as the last used."""
    folder = _open.pop(path, None)
    if folder is not None and not folder.is_current:
        folder.close()
        folder = None
    folder = _open[path] = folder if folder is not None else Folder(Path(path))
    while len(_open) > KEPT:
        _open.pop(next(iter(_open))).close()
    return folder


def write(path: str, rest: str, pieces: Callable[[int], Iterable[bytes]], above: int = 0) -> int:
    """Write the file `{number}{rest}`. `pieces` is told the number, which is larger than `above`. Answers the number."""
    with _lock:
        folder = _folder(path)
        with folder.numbers.next(above) as number:
            handle = os.open(f"{number}{rest}", _NEW, 0o644, dir_fd=folder.handle)
    try:
        try:
            for piece in pieces(number):
                view = memoryview(piece)
                while view:
                    view = view[os.write(handle, view) :]
        finally:
            os.close(handle)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(f"{path}/{number}{rest}")
        with _lock, contextlib.suppress(OSError):
            folder.numbers.take_back(number)
        raise
    return number


@atexit.register
def _leave() -> None:
    while _open:
        _open.popitem()[1].close()
