"""What devices did, for people: the tables that end `tessera run` and `tessera demo`. All numbers are telemetry's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from tessera.cli.terminal import Table, amount, duration, show
from tessera.runtime import telemetry
from tessera.runtime.telemetry import DeviceSnapshot

#: Operations a table shows before it sums up the rest.
MOST_ROWS = 24
MOST_DEVICES = 4


def devices() -> list[DeviceSnapshot]:
    """Every device of this process, closed ones first. Submeshes are counted with their mesh."""
    from tessera.runtime.device import OPEN

    return [*telemetry.CLOSED, *(telemetry.snapshot(device) for device in OPEN if device.parent is None)]


def operation_table(snapshots: Iterable[DeviceSnapshot]) -> Table:
    counts: Counter[str] = Counter()
    for one in snapshots:
        counts.update(one.operations)
    ranked = counts.most_common()
    rows = [(name, str(count)) for name, count in ranked[:MOST_ROWS]]
    if rest := ranked[MOST_ROWS:]:
        rows.append((f"({len(rest)} others)", str(sum(count for _, count in rest))))
    return Table(f"operations on devices: {counts.total()}", ("operation", "runs"), rows, frozenset({"runs"}))


def memory_of(one: DeviceSnapshot, kind: str) -> str:
    """Peak use of a kind of memory: in all banks together, and in each."""
    use = one.memory.get(kind)
    if use is None or not use.peak_per_bank:
        return "-"
    return f"{amount(use.peak)} ({amount(use.peak_per_bank)} of {amount(use.bytes_per_bank)} a bank)"


#: The rows of the device table. A device is a column: most programs open one, and its figures are words.
FIGURES: tuple[tuple[str, Callable[[DeviceSnapshot], str]], ...] = (
    ("operations", lambda one: str(one.operations_run)),
    ("programs cached", lambda one: str(one.programs_cached)),
    ("computing", lambda one: duration(one.busy_host_seconds)),
    ("tensors alive at the end", lambda one: str(one.tensors_alive)),
    ("peak L1", lambda one: memory_of(one, "L1")),
    ("peak DRAM", lambda one: memory_of(one, "DRAM")),
)


def device_name(one: DeviceSnapshot) -> str:
    return one.board if len(one.chips) == 1 else f"{one.board} {'x'.join(map(str, one.mesh_shape))}"


def device_table(snapshots: Iterable[DeviceSnapshot]) -> Table:
    found = list(snapshots)
    shown = found[-MOST_DEVICES:]
    rows = [(what, *(figure(one) for one in shown)) for what, figure in FIGURES]
    title = "devices" if shown == found else f"devices: the last {len(shown)} of {len(found)}"
    return Table(title, ("", *map(device_name, shown)), rows)


def show_summary(seconds: float) -> None:
    """The end of `tessera run`."""
    found = devices()
    print()
    if not found:
        print(f"tessera: the script opened no device; it took {duration(seconds)}")
        return
    show(operation_table(found))
    show(device_table(found))
    print(f"took {duration(seconds)}, of which {duration(sum(one.busy_host_seconds for one in found))} computing for the device")
