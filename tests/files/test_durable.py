"""Files are written whole or not at all: killed writers, full disks, missing permissions, two writers at once."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tessera.files import durable


def left_in(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def python(code: str, *args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    durable.write_whole(path, [b"old"], 3)
    durable.write_whole(path, [b"ne", memoryview(b"w!")], 4)
    assert path.read_bytes() == b"new!"
    assert left_in(tmp_path) == ["a.bin"]


def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    durable.write_whole(path, [b"old"], 3)

    def pieces() -> Iterator[bytes]:
        yield b"half of the new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        durable.write_whole(path, pieces(), 30)
    assert path.read_bytes() == b"old"
    assert left_in(tmp_path) == ["a.bin"]


WRITER = """
    import sys
    from pathlib import Path
    from tessera.files import durable

    def pieces():
        for number in range(400):
            if number == 3:
                print("writing", flush=True)
            yield bytes([int(sys.argv[2])]) * 250_000

    durable.write_whole(Path(sys.argv[1]), pieces(), 100_000_000)
    print("done", flush=True)
"""


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03, 0.06, 0.1, 0.2])
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    writer = python(WRITER, path, 7)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "writing\n"
    time.sleep(delay)
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=30)
    found = path.read_bytes()
    assert found == b"old" or found == b"\x07" * 100_000_000
    for left in set(left_in(tmp_path)) - {"a.bin"}:  # killed between the file's two names: whole, and cleared away by the next writer
        assert (tmp_path / left).stat().st_size == 100_000_000
    durable.write_whole(path, [b"next"], 4)
    assert left_in(tmp_path) == ["a.bin"], "a killed writer left something behind"


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without names are Linux's")
@pytest.mark.parametrize("delay", [0.0, 0.03, 0.06, 0.1, 0.15])
def test_a_killed_writer_of_a_new_name_leaves_the_whole_file_or_nothing_at_all(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "a.bin"
    writer = python(WRITER, path, 7)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "writing\n"
    time.sleep(delay)
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=30)
    assert left_in(tmp_path) in ([], ["a.bin"])
    assert not path.exists() or path.read_bytes() == b"\x07" * 100_000_000


def test_a_new_name_is_given_without_a_second_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen, link = tmp_path / "a.bin", [], os.link

    def watched(source: str, target: Path, **how: object) -> None:
        seen.append(Path(target).name)
        link(source, target, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", watched)
    durable.write_whole(path, [b"new"], 3)
    assert seen == ["a.bin"]
    durable.write_whole(path, [b"newer"], 5)
    assert seen[1] == "a.bin" and seen[2].endswith(".tmp")
    assert path.read_bytes() == b"newer"
    assert left_in(tmp_path) == ["a.bin"]


def test_what_a_killed_writer_left_is_cleared_away_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    path, dead, living = (tmp_path / name for name in ("a.bin", ".a.bin.1.00000000.tmp", ".a.bin.2.00000000.tmp"))
    dead.write_bytes(b"dead")
    with living.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        durable.write_whole(path, [b"new"], 3)
        assert left_in(tmp_path) == sorted([living.name, "a.bin"])
    durable.write_whole(path, [b"new"], 3)
    assert left_in(tmp_path) == ["a.bin"]


def test_two_writers_of_one_name_cannot_tear_it(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    writers = [python(WRITER, path, n) for n in (1, 2)]
    for writer in writers:
        assert writer.communicate(timeout=60)[0].endswith("done\n")
    assert path.stat().st_size == 100_000_000
    assert len(set(path.read_bytes()[::99_999])) == 1


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    code = """
        import resource, sys
        from pathlib import Path
        from tessera.files import durable
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        try:
            durable.write_whole(Path(sys.argv[1]), [bytes(1 << 21)], 1 << 21)
        except RuntimeError as error:
            print(error)
    """
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    said = python(code, tmp_path / "a.bin").communicate(timeout=30)[0]
    assert "Unable to write the tensor to" in said
    assert "no room is left" in said
    assert left_in(tmp_path) == []


def test_dev_full_speaks_of_room() -> None:
    error = OSError(28, os.strerror(28))
    assert "no room is left" in str(durable.refuse("write the tensor to", Path("/tmp/x.tensorbin"), error))


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"the directory .*nowhere does not exist"):
        durable.write_whole(tmp_path / "nowhere" / "a.bin", [b"x"], 1)


def test_a_directory_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.bin").mkdir()
    with pytest.raises(RuntimeError, match="it is a directory"):
        durable.write_whole(tmp_path / "a.bin", [b"x"], 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(RuntimeError, match="permission denied"):
            durable.write_whole(tmp_path / "a.bin", [b"x"], 1)
    finally:
        tmp_path.chmod(0o700)


def test_permission_errors_are_named_as_such() -> None:
    assert "permission denied" in str(durable.refuse("write the tensor to", Path("/x/a"), PermissionError(13, "Permission denied")))


def test_where_files_without_names_are_unknown_a_hidden_one_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    durable.write_whole(tmp_path / "a.bin", [b"x"], 1)
    assert left_in(tmp_path) == ["a.bin"]


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "a.bin", 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(10):
            with durable.lock(path):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert most == 1
    assert left_in(tmp_path) == []


def test_a_lock_waits_no_longer_than_it_was_told(tmp_path: Path) -> None:
    with durable.lock(tmp_path / "a.bin"):
        with pytest.raises(RuntimeError, match="another process has held"):
            with durable.lock(tmp_path / "a.bin", timeout=0.1):
                pass


def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    code = """
        import os, sys
        from pathlib import Path
        from tessera.files import durable
        with durable.lock(Path(sys.argv[1])):
            os.kill(os.getpid(), 9)
    """
    python(code, tmp_path / "a.bin").communicate(timeout=30)
    with durable.lock(tmp_path / "a.bin", timeout=1):
        pass
