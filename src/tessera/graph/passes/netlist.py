"""The netlist: what would be loaded onto the chip, as the YAML its runtime reads. Text is written by hand, because its layout is part of the
contract: one line a queue and an operation, groups in a fixed order, and the same bytes for the same model.
"""

from __future__ import annotations

from typing import Any

from tessera.graph.formats import DataFormat
from tessera.graph.ir import Epoch, Graph, Node
from tessera.graph.ops import OPS
from tessera.graph.passes.place import Placed, Placement, Queue

_QUEUE_ORDER = ("input", "output", "parameter", "constant", "epoch_to_epoch", "accumulator")


def _flow(value: Any) -> str:
    """A value in YAML flow style."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_flow(v) for v in value) + "]"
    if isinstance(value, float):
        return repr(value)
    return str(value)


def _queue(queue: Queue, chip_id: int) -> dict[str, Any]:
    b = queue.block
    line: dict[str, Any] = {
        "input": queue.source,
        "type": queue.kind,
        "entries": queue.entries,
        "grid_size": list(b.grid),
        "t": b.t,
        "mblock": list(b.mblock),
        "ublock": list(b.ublock),
        "ublock_order": "r",
        "tile_dim": [32, 32],
        "df": queue.format.name,
        "target_device": chip_id,
        "loc": queue.location,
    }
    line[queue.location] = [_Pair(c, a) for c, a in queue.addresses] if queue.location == "dram" else [_Hex(a) for _, a in queue.addresses]
    return line


class _Pair:
    def __init__(self, channel: int, address: int) -> None:
        self.text = f"[{channel}, 0x{address:x}]"

    def __str__(self) -> str:
        return self.text


class _Hex:
    def __init__(self, address: int) -> None:
        self.text = f"0x{address:x}"

    def __str__(self) -> str:
        return self.text


def _source_name(node: Node, source: Node, placement: Placement) -> str:
    """What an operation reads: the producer itself in the same epoch, or the queue between."""
    own, other = placement.ops[node.name], placement.ops.get(source.name)
    if other is None or other.epoch == own.epoch:
        return source.name
    if node.epoch is Epoch.OPTIMIZER and source.name in placement.accumulators:
        return placement.accumulators[source.name]
    return f"e2e_{source.name}_0"


def _tm(op: str, attrs: dict[str, Any]) -> str:
    """A manipulation as the netlist writes it; broadcasts count tiles."""
    if op == "broadcast":
        axis = {-1: "c", -2: "r", -3: "z"}.get(attrs["dim"], "w")
        count = -(-attrs["shape"] // 32) if axis in "rc" else attrs["shape"]
        return f"broadcast: {{{axis}: {count}}}"
    if op in ("hslice", "hstack", "vslice", "vstack"):
        return f"{op}: {attrs.get('slices', -1)}"
    if op == "transpose":
        return "transpose"
    return f"{op}: {_flow(list(attrs.values()))}"


def _op(placed: Placed, placement: Placement, fused: dict[str, int]) -> dict[str, Any]:
    node, b = placed.node, placed.block
    row = OPS[node.op]
    line: dict[str, Any] = {
        "type": "fused_op" if node.op == "fused_op" else row.netlist_type,
        "grid_loc": list(placed.at),
        "grid_size": list(b.grid),
        "inputs": [_source_name(node, s, placement) for s in node.inputs],
    }
    accumulate = node.accumulate or node.format
    line |= {
        "t": b.t,
        "mblock": list(b.mblock),
        "ublock": list(b.ublock),
        "tile_dim": [32, 32],
        "buf_size_mb": placed.buffers,
        "ublock_order": "r",
        "in_df": [_df(s.format) for s in node.inputs],
        "out_df": _df(node.format),
        "intermed_df": _df(node.intermediate or node.format),
        "acc_df": _df(accumulate),
        "math_fidelity": node.fidelity.name if node.fidelity is not None else "HiFi3",
    }
    for port, tms in sorted(node.tms.items()):
        if tms:
            line[f"input_{port}_tms"] = "[" + ", ".join(_tm(t.op, dict(t.attrs)) for t in tms) + "]"
    attributes = _attributes(node, placed, fused)
    if attributes:
        line["attributes"] = attributes
    return line


def _df(fmt: DataFormat) -> str:
    return fmt.name


def _attributes(node: Node, placed: Placed, fused: dict[str, int]) -> dict[str, Any]:
    if node.op == "matmul":
        made: dict[str, Any] = {"m_k": placed.k[0], "u_kt": placed.k[1]}
        if len(node.inputs) > 2:
            made["bias"] = True
        if node.attrs.get("transpose_b"):
            made["transpose"] = True
        if node.attrs.get("activation"):
            made["sfpu_op"] = node.attrs["activation"]
        return made
    if node.op == "fused_op":
        return {"fused_op_id": fused[node.name]}
    if node.op.startswith("reduce_"):
        dim = node.attrs.get("dim", -1)
        last = dim[-1] if isinstance(dim, (list, tuple)) and dim else dim
        rank = len(node.inputs[0].shape)
        axis = {-1: "c", -2: "r", -3: "z"}.get(last - rank if isinstance(last, int) and last >= 0 else last, "w")
        return {"dim": axis, "type": node.op.removeprefix("reduce_")}
    return {
        k: v
        for k, v in node.attrs.items()
        if isinstance(v, (bool, int, float)) or (isinstance(v, list) and all(isinstance(i, int) for i in v))
    }


def _epoch_name(placement: Placement, epoch: int) -> str:
    return f"{placement.epoch_kinds[epoch].value}_{epoch}_0_temporal_epoch_{epoch}"


def write_netlist(graph: Graph, placement: Placement, microbatch: int = 1) -> str:
    out: list[str] = [f"# {graph.name}", "devices:", f"  arch: {placement.chip.arch}", "", "queues:"]
    for group in _QUEUE_ORDER:
        members = [q for q in placement.queues.values() if q.group == group]
        if not members:
            continue
        out += ["", f"  # {group}"]
        out += [f"  {_key(q.name)}: {_flow(_queue(q, 0))}" for q in members]
    fused = {p.node.name: i for i, p in enumerate(p for p in placement.ops.values() if p.node.op == "fused_op")}
    out += ["", "graphs:"]
    for epoch in range(placement.epoch_count):
        out += [f"  {_epoch_name(placement, epoch)}:", "    target_device: 0", f"    input_count: {microbatch}"]
        out += [f"    {_key(p.node.name)}: {_flow(_op(p, placement, fused))}" for p in placement.ops.values() if p.epoch == epoch]
    out += ["", "programs:"]
    for phase in Epoch:
        epochs = [e for e, kind in enumerate(placement.epoch_kinds) if kind is phase]
        if epochs:
            out += _program(graph, placement, phase, epochs, microbatch)
    out += ["", "fused_ops:" + ("" if fused else " {}")]
    for placed in placement.ops.values():
        if placed.node.op == "fused_op":
            out += _fused(placed.node, fused[placed.node.name])
    return "\n".join(out) + "\n"


def _key(name: str) -> str:
    return name


def _fused(node: Node, number: int) -> list[str]:
    lines = [f"  {number}:", f"    inputs: {len(node.inputs)}", "    intermediates: 0", "    schedules:", "      -"]
    for step, (name, op, refs, attrs) in enumerate(node.attrs["program"]):
        reads = [f"input{r}" if r >= 0 else "dest" if r == -step else node.attrs["program"][-1 - r][0] for r in refs]
        last = step == len(node.attrs["program"]) - 1
        line: dict[str, Any] = {"type": OPS[op].netlist_type, "inputs": reads, "output": "output" if last else "dest"}
        plain = {k: v for k, v in attrs.items() if isinstance(v, (bool, int, float))}
        if plain:
            line["attributes"] = plain
        lines.append(f"        - {_key(name)}: {_flow(line)}")
    return lines


def _program(graph: Graph, placement: Placement, phase: Epoch, epochs: list[int], microbatch: int) -> list[str]:
    """A loop over microbatches that executes the phase's epochs and moves the pointers of the queues they read."""
    reads: dict[int, list[Queue]] = {}
    for epoch in epochs:
        names: dict[str, None] = {}
        for placed in placement.ops.values():
            if placed.epoch == epoch:
                for source in placed.node.inputs:
                    names[_source_name(placed.node, source, placement)] = None
        reads[epoch] = [placement.queues[n] for n in names if n in placement.queues]
    moving = list(dict.fromkeys(q.name for epoch in epochs for q in reads[epoch] if q.kind == "queue"))
    number = {name: i for i, name in enumerate(moving)}
    lines = [f"  - run_{phase.value}_0:"]
    lines.append(f"    - var: {{$c_microbatch_size: {microbatch}, $c_one: 1, $c_zero: 0}}")
    if moving:
        pointers = ", ".join(f"$gptr_q{i}: 0, $lptr_q{i}: 0" for i in number.values())
        lines.append(f"    - staticvar: {{{pointers}}}")
    lines.append("    - param: [$p_loop_count" + (", $p_zero_grad" if phase is Epoch.BACKWARD else "") + "]")
    lines.append("    - loop: $p_loop_count")
    for epoch in epochs:
        settings: list[str] = []
        for queue in reads[epoch]:
            if queue.kind == "queue":
                i = number[queue.name]
                settings.append(
                    f"{_key(queue.name)}: {{prologue: false, epilogue: false, zero: False, rd_ptr_local: $lptr_q{i}, rd_ptr_global: $gptr_q{i}}}"
                )
            else:
                settings.append(
                    f"{_key(queue.name)}: {{prologue: true, epilogue: false, zero: False, rd_ptr_global: $c_zero, wr_ptr_global: $c_zero}}"
                )
        if phase is Epoch.BACKWARD:
            for queue in placement.queues.values():
                if queue.group == "accumulator" and placement.ops[queue.source].epoch == epoch:
                    settings.append(
                        f"{_key(queue.name)}: {{prologue: true, epilogue: true, zero: $p_zero_grad, rd_ptr_global: $c_zero, wr_ptr_global: $c_zero}}"
                    )
        lines.append(f"    -   execute: {{graph_name: {_epoch_name(placement, epoch)}, queue_settings: {{{', '.join(settings)}}}}}")
        for queue in reads[epoch]:
            if queue.kind == "queue":
                i = number[queue.name]
                wrap = queue.entries * 2
                lines.append(f"    -   varinst: [$gptr_q{i}, incwrap, $c_microbatch_size, {wrap}]")
                lines.append(f"    -   varinst: [$lptr_q{i}, incwrap, $c_microbatch_size, {wrap}]")
    lines.append("    - endloop")
    return lines
