"""Graph capture: what operations do, as a graph of functions, tensors and memory.

`begin_graph_capture` attaches an observer, `end_graph_capture` detaches it and answers its nodes; captures nest. With `RunMode.NO_DISPATCH`
nothing runs: the graph says what would happen, which is what compiler writers ask.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from tessera.runtime import observers
from ttnn.graph.capture import Capture, record_of, tensors_of
from ttnn.graph.drawing import pretty_format, pretty_print, visualize, visualize_edge, visualize_node
from ttnn.graph.queries import (
    PeakMemoryUsagePerCore,
    TensorInfo,
    count_intermediate_and_output_tensors,
    extract_calltrace,
    extract_levelized_graph,
    extract_operation_durations,
    extract_output_info,
    extract_output_tensors,
    extract_peak_L1_memory_usage,
    extract_resource_usage_per_core,
    extract_total_duration_from_graph,
)

Node = dict[str, Any]


class RunMode(Enum):
    """Whether operations run while they are captured."""

    NORMAL = 0
    NO_DISPATCH = 1


_captures: list[Capture] = []


class _Switches:
    """What captures that begin from now on also write down."""

    stack_traces = False
    detailed_buffers = False
    python_io = False


def begin_graph_capture(run_mode: RunMode | None = None, *, _internal: bool = False) -> None:
    """Start to capture. With `RunMode.NO_DISPATCH` operations are checked and planned but neither computed nor given memory."""
    from ttnn.config import CONFIG

    mode = RunMode.NORMAL if run_mode is None else run_mode
    if not isinstance(mode, RunMode):
        raise TypeError(f"begin_graph_capture(): incompatible function arguments. run_mode must be a ttnn.graph.RunMode, got {mode!r}")
    stacks = _Switches.stack_traces or CONFIG.enable_graph_python_stack_traces
    made = Capture(mode is RunMode.NORMAL, stack_traces=stacks, records=_Switches.python_io)
    _captures.append(made)
    observers.attach(made)


def _finish() -> Capture:
    if not _captures:
        raise RuntimeError("end_graph_capture: no graph is being captured; begin_graph_capture starts one")
    made = _captures.pop()
    made.finish()
    observers.detach(made)
    return made


def end_graph_capture() -> list[Node]:
    """Stop the last capture that began, and answer its nodes."""
    return _finish().nodes


def end_graph_capture_to_file(report_path: str | os.PathLike[str]) -> dict[str, Any]:
    """The same, written as a report with the devices it speaks of; answers the report."""
    from ttnn.graph.report import write

    return write(_finish(), Path(report_path), detailed=_Switches.detailed_buffers)


@contextmanager
def full_graph_capture(
    report_path: str | os.PathLike[str], *, run_mode: RunMode | None = None, slow_dispatch: bool = True
) -> Iterator[None]:
    """Capture a block, with calls and stack traces, into a report file."""
    before = _Switches.stack_traces, _Switches.python_io
    _Switches.stack_traces = _Switches.python_io = True
    begin_graph_capture(run_mode)
    mine = _captures[-1]
    try:
        yield
    finally:
        _Switches.stack_traces, _Switches.python_io = before
        if mine in _captures:
            end_graph_capture_to_file(report_path)


def is_graph_capture_active() -> bool:
    return bool(_captures)


def track_function_start(function_name: str) -> None:
    """Put a function of the program's own into the graphs being captured, around what it calls."""
    for capture in _captures:
        capture.start(function_name)


def track_function_end() -> None:
    for capture in _captures:
        capture.end()


def enable_python_stack_traces() -> None:
    _Switches.stack_traces = True


def disable_python_stack_traces() -> None:
    _Switches.stack_traces = False


def is_python_stack_trace_enabled() -> bool:
    return _Switches.stack_traces


def enable_detailed_buffer_tracing() -> None:
    _Switches.detailed_buffers = True


def disable_detailed_buffer_tracing() -> None:
    _Switches.detailed_buffers = False


def is_detailed_buffer_tracing_enabled() -> bool:
    return _Switches.detailed_buffers


# -- what Python knows of calls, beside the graph


def enable_python_io_recording() -> None:
    _Switches.python_io = True


def disable_python_io_recording() -> None:
    _Switches.python_io = False


def is_python_io_recording_enabled() -> bool:
    return _Switches.python_io


def record_python_operation(
    name: str, function_args: Sequence[Any], function_kwargs: dict[str, Any], *, record: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Note a call of the program's own; answers the note, which may be filled in later."""
    made = record_of(name, tuple(function_args), dict(function_kwargs), _Switches.stack_traces)
    if record is not None:
        record.update(made)
        return record
    if _captures and _captures[-1].records is not None:
        _captures[-1].records.append(made)
    return made


def append_python_io_record(name: str) -> dict[str, Any]:
    return record_python_operation(name, (), {})


def record_python_operation_error(record: dict[str, Any], error_type: str, error_message: str) -> None:
    record["error"] = {"error_type": error_type, "error_message": error_message}


def store_output_tensor_ids(output_tensor_ids: Sequence[int]) -> None:
    """Say what the last noted call made."""
    if _captures and _captures[-1].records:
        _captures[-1].records[-1]["output_tensor_ids"] = list(output_tensor_ids)


def store_captured_graph(captured_graph_json: str | list[Node]) -> None:
    """Put the graph of one operation beside its note."""
    if _captures and _captures[-1].records:
        given = captured_graph_json
        _captures[-1].records[-1]["captured_graph"] = json.loads(given) if isinstance(given, str) else given


# -- what comparison mode found


_comparisons: dict[str, list[dict[str, Any]]] = {}


def _new_comparison_records_data() -> dict[str, list[dict[str, Any]]]:
    return {"local_tensor_comparison_records": [], "global_tensor_comparison_records": [], "tensors": []}


def record_tensor_comparison_data(
    *,
    local_tensor_comparison_records: Sequence[dict[str, Any]] | None = None,
    global_tensor_comparison_records: Sequence[dict[str, Any]] | None = None,
    tensors: Sequence[dict[str, Any]] | None = None,
) -> None:
    """Keep what was compared, for `comparison_records` and for the file beside a report."""
    data = comparison_records()
    data["local_tensor_comparison_records"] += local_tensor_comparison_records or []
    data["global_tensor_comparison_records"] += global_tensor_comparison_records or []
    data["tensors"] += tensors or []


def comparison_records() -> dict[str, list[dict[str, Any]]]:
    """Everything compared since the last reset."""
    if not _comparisons:
        _comparisons.update(_new_comparison_records_data())
    return _comparisons


def has_comparison_records() -> bool:
    return any(_comparisons.values())


def reset_comparison_records_data() -> None:
    _comparisons.clear()


def import_report(*args: Any, **kwargs: Any) -> Path:
    raise NotImplementedError("ttnn.graph.import_report is not built in Tessera: report databases for ttnn-visualizer come later")


def flush_comparison_records_to_db(report_dir: Any) -> None:
    raise NotImplementedError(
        "ttnn.graph.flush_comparison_records_to_db is not built in Tessera: report databases for ttnn-visualizer come later; "
        "ttnn.graph.comparison_records() answers what was compared"
    )
