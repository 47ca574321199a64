"""What a device is doing, in one place: memory by kind of bank, tensors alive, operations, busy time, programs.

Devices already keep these numbers; nothing here is called when an operation runs. `snapshot` pulls them together when somebody asks. For
other processes (`tt-smi`) a thread of each process with open devices writes its snapshots to a small file, at most twice a second and only when
something changed; `read_all` lists what the living processes say. Imports no torch: a monitor must start at once.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tessera.runtime.device import Device

__all__ = [
    "CLOSED",
    "DeviceSnapshot",
    "MemorySnapshot",
    "ProcessStatus",
    "closed",
    "publish",
    "read_all",
    "run_directory",
    "snapshot",
    "watch",
]

#: Seconds between two writes of the status file.
INTERVAL = 0.5
ENVIRONMENT = "TESSERA_RUN_DIR"
FORMAT = 1

#: Last snapshots of devices that were closed, oldest first: what a program did is still known when it has ended.
CLOSED: deque[DeviceSnapshot] = deque(maxlen=64)


@dataclass(frozen=True)
class MemorySnapshot:
    """One kind of memory on one chip; the chips of a mesh are alike."""

    num_banks: int
    bytes_per_bank: int
    allocated_per_bank: int
    peak_per_bank: int
    buffers: int

    @property
    def total(self) -> int:
        return self.num_banks * self.bytes_per_bank

    @property
    def allocated(self) -> int:
        return self.num_banks * self.allocated_per_bank

    @property
    def peak(self) -> int:
        return self.num_banks * self.peak_per_bank


@dataclass(frozen=True)
class DeviceSnapshot:
    """A device at one moment. `busy_host_seconds` is time the host spent computing, not a chip's time."""

    board: str
    arch: str
    chips: tuple[int, ...]
    mesh_shape: tuple[int, ...]
    is_open: bool
    memory: Mapping[str, MemorySnapshot]
    tensors_alive: int
    operations: Mapping[str, int]
    busy_host_seconds: float
    programs_cached: int
    command_queues: int = 1
    busy_share: float = 0.0
    """Part of the last interval that was spent computing."""

    @property
    def operations_run(self) -> int:
        return sum(self.operations.values())

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DeviceSnapshot:
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        known["chips"], known["mesh_shape"] = tuple(known["chips"]), tuple(known["mesh_shape"])
        known["memory"] = {kind: MemorySnapshot(**m) for kind, m in known["memory"].items()}
        return cls(**known)


@dataclass(frozen=True)
class ProcessStatus:
    """A living process and the devices it holds open."""

    pid: int
    user: str
    command: tuple[str, ...]
    updated: float
    """Seconds since the epoch when the process wrote this."""
    devices: tuple[DeviceSnapshot, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _family(device: Device) -> list[Device]:
    """A device and its submeshes: they share chips, and each counts its own operations."""
    return [device, *(d for child in list(device.children) for d in _family(child))]


def snapshot(device: Device, busy_share: float = 0.0) -> DeviceSnapshot:
    """The numbers of a device now, with those of its submeshes."""
    from tessera.memory.config import BufferType

    operations: dict[str, int] = {}
    family = _family(device)
    for one in family:
        for name, count in one.operations.copy().items():
            operations[name] = operations.get(name, 0) + count
    memory = {}
    for kind in BufferType:
        use = device.memory.use(kind)
        if use.bytes_per_bank:
            memory[kind.name] = MemorySnapshot(use.num_banks, use.bytes_per_bank, use.allocated_per_bank, use.peak_per_bank, use.buffers)
    return DeviceSnapshot(
        board=device.board.name,
        arch=device.board.arch,
        chips=device.chips,
        mesh_shape=tuple(device.mesh_shape),
        is_open=device.is_open,
        memory=memory,
        tensors_alive=sum(one.tensors_alive for one in family),
        operations=operations,
        busy_host_seconds=sum(one.busy_seconds for one in family),
        programs_cached=sum(one.programs.total for one in family),
        command_queues=device.command_queues,
        busy_share=busy_share,
    )


# -- telling other processes -------------------------------------------------


def run_directory() -> Path:
    """The folder of this user's status files: `TESSERA_RUN_DIR`, else the session's runtime folder, else one in the temporary folder."""
    if given := os.environ.get(ENVIRONMENT):
        return Path(given)
    if (session := os.environ.get("XDG_RUNTIME_DIR")) and os.access(session, os.W_OK):
        return Path(session) / "tessera"
    return Path(tempfile.gettempdir()) / f"tessera-{os.getuid()}"


def _own_directory() -> Path | None:
    """The folder, made if need be; None if somebody else owns it or it cannot be made: then there is nothing to publish."""
    folder = run_directory()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if folder.stat().st_uid == os.getuid() else None
    except OSError:
        return None


def _started(pid: int) -> str:
    """When a process started, as the kernel tells it: tells a process from a later one with the same number. Empty if unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


class _Publisher:
    """Writes this process's status file from a thread of its own while devices are open."""

    def __init__(self) -> None:
        self.devices: weakref.WeakSet[Device] = weakref.WeakSet()
        self.wake = threading.Event()
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None
        self.path: Path | None = None
        self.last = ""
        self.busy: dict[int, float] = {}
        self.moment = time.monotonic()
        self.ended = False

    def add(self, device: Device) -> None:
        with self.lock:
            self.devices.add(device)
            if self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self.run, name="tessera-telemetry", daemon=True)
                self.thread.start()
        self.wake.set()

    def run(self) -> None:
        while True:
            self.wake.wait()
            self.wake.clear()
            while self.write():
                time.sleep(INTERVAL)

    def write(self) -> bool:
        """Bring the status file up to date; False when no device is open any more."""
        with self.lock:
            devices = [d for d in self.devices if d.is_open and not self.ended]
            if not devices:
                self.remove()
                return False
            now = time.monotonic()
            span, self.moment = max(now - self.moment, 1e-3), now
            shown, busy = [], {}
            for device in sorted(devices, key=lambda d: d.mesh_id):
                seen = snapshot(device)
                busy[device.mesh_id] = seen.busy_host_seconds
                share = min(1.0, (seen.busy_host_seconds - self.busy.get(device.mesh_id, seen.busy_host_seconds)) / span)
                shown.append(seen.to_dict() | {"busy_share": round(max(share, 0.0), 4)})
            self.busy = busy
            text = json.dumps(shown)
            if text != self.last or self.path is None or not self.path.exists():
                self.put(text)
            return True

    def put(self, devices: str) -> None:
        folder = _own_directory()
        if folder is None:
            return
        head = {
            "format": FORMAT,
            "pid": os.getpid(),
            "started": _started(os.getpid()),
            "command": [sys.executable, *sys.argv],
            "updated": time.time(),
        }
        path = folder / f"{os.getpid()}.json"
        fresh = folder / f".{os.getpid()}.new"
        try:
            fresh.write_text(json.dumps(head)[:-1] + f', "devices": {devices}}}')
            fresh.replace(path)
        except OSError:  # a full disk must not disturb the program
            fresh.unlink(missing_ok=True)
            return
        self.path, self.last = path, devices

    def remove(self) -> None:
        if self.path is not None and self.path.name == f"{os.getpid()}.json":
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
        self.path, self.last = None, ""


_publisher = _Publisher()


def watch(device: Device) -> None:
    """Called when a device opens: other processes see it until it closes."""
    _publisher.add(device)


def closed(device: Device) -> None:
    """Called when a device closes, before it lets go of its memory: keeps its last numbers."""
    if device.parent is None:
        CLOSED.append(snapshot(device))
        _publisher.wake.set()


def publish() -> None:
    """Write the status file now instead of at the next half second."""
    _publisher.write()


def _forget() -> None:
    """A forked child opened nothing: its parent's devices are the parent's to report."""
    global _publisher
    _publisher = _Publisher()
    CLOSED.clear()


@atexit.register
def _at_exit() -> None:
    with _publisher.lock:
        _publisher.ended = True
        _publisher.remove()


os.register_at_fork(after_in_child=_forget)


# -- asking other processes --------------------------------------------------


def _lives(pid: int, started: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    now = _started(pid)
    return not (started and now) or started == now


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _read(path: Path) -> ProcessStatus | None:
    """One status file; None if its process is gone (the file is then removed) or its content is not ours."""
    try:
        data = json.loads(path.read_text())
        pid, started = int(data["pid"]), str(data["started"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        name = path.stem
        if name.isdigit() and not _lives(int(name), ""):
            path.unlink(missing_ok=True)
        return None
    if not _lives(pid, started):
        path.unlink(missing_ok=True)
        return None
    try:
        devices = tuple(DeviceSnapshot.from_dict(d) for d in data["devices"])
        return ProcessStatus(pid, _user(), tuple(map(str, data["command"])), float(data["updated"]), devices)
    except (KeyError, TypeError, ValueError):
        return None  # written by a version that counts differently


def read_all() -> list[ProcessStatus]:
    """Every living process of this user that holds devices open, by process number."""
    try:
        found: Iterable[Path] = sorted(run_directory().glob("*.json"))
    except OSError:
        return []
    statuses = [status for path in found if (status := _read(path)) is not None]
    return sorted(statuses, key=lambda s: s.pid)
