"""The compiler: passes in order, stopped early at a chosen depth, checked after any of them, and what comes out of it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tessera.graph.executor import Executor
from tessera.graph.formats import DataFormat, MathFidelity
from tessera.graph.ir import Graph
from tessera.graph.passes import AssignFormats, Autograd, Decompose, EraseInverses, FoldConstants, FoldNorms, FusePatterns, Pass
from tessera.graph.passes.formats import PrecisionRule
from tessera.graph.passes.lower import lower
from tessera.graph.passes.netlist import write_netlist
from tessera.graph.passes.optimize import AppendOptimizer
from tessera.graph.passes.place import Chip, Placement, place


class CompileDepth(enum.Enum):
    INIT_COMPILE = 0
    GENERATE_INITIAL_GRAPH = 1
    POST_INITIAL_GRAPH_PASS = 2
    CONSTEVAL_GRAPH = 3
    POST_PATTERN_MATCHER = 4
    OPTIMIZED_GRAPH = 5
    AUTOGRAD = 6
    POST_AUTOGRAD_PASS = 7
    PRE_LOWERING_PASS = 8
    BUDA_GRAPH_PRE_PLACER = 9
    BALANCER_PASS = 10
    PRE_NETLIST_PASS = 11
    GENERATE_NETLIST = 12
    BACKEND_GOLDEN_VERIFY = 13
    FULL = 14

    def to_json(self) -> str:
        return self.name

    @classmethod
    def from_json(cls, text: str) -> CompileDepth:
        return cls[text.rsplit(".", 1)[-1].upper()]


@dataclass(frozen=True)
class Options:
    """Everything a compilation depends on besides the graph. Equal options and graphs give equal netlists."""

    chip: Chip = field(default_factory=Chip)
    training: bool = False
    depth: CompileDepth = CompileDepth.FULL
    default_format: DataFormat | None = None
    fp32_fallback: DataFormat | None = None
    accumulate: DataFormat | None = None
    fidelity: MathFidelity | None = MathFidelity.HiFi3
    precision: tuple[PrecisionRule, ...] = ()
    consteval: bool = True
    fuse: bool = True
    fold_norms: bool = True
    dont_fuse: frozenset[str] = frozenset()
    intermediates: tuple[str, ...] = ()
    epoch_breaks: frozenset[str] = frozenset()
    op_sizes: tuple[tuple[str, tuple[int, int]], ...] = ()
    batch: int = 1  # of one push; tensors carry it as their first dimension
    microbatch: int = 1  # pushes that one run of the netlist's programs takes
    inputs_on_host: bool = True
    outputs_on_host: bool = True
    optimizer: AppendOptimizer | None = None


@dataclass
class Compiled:
    """A compiled model; what lies beyond the depth that was asked for is None."""

    options: Options
    initial: Graph
    graph: Graph
    reached: CompileDepth
    lowered: Graph | None = None
    placement: Placement | None = None
    netlist: str | None = None
    _executor: Executor | None = None

    @property
    def executor(self) -> Executor:
        if self._executor is None:
            self._executor = Executor(self.graph, intermediates=self.options.intermediates)
        return self._executor


Watch = Callable[[CompileDepth, str, Graph], None]


def stages(options: Options) -> list[tuple[CompileDepth, Sequence[Pass]]]:
    """The passes, by the depth after which they are done."""
    d = CompileDepth
    keep = frozenset(options.intermediates)
    norms: list[Pass] = [FoldNorms()] if options.fold_norms and not options.training else []
    fold: list[Pass] = [FoldConstants()] if options.consteval else []
    return [
        (d.POST_INITIAL_GRAPH_PASS, [Decompose()]),
        (d.CONSTEVAL_GRAPH, fold),
        (d.OPTIMIZED_GRAPH, [EraseInverses(keep), *norms]),
        (d.AUTOGRAD, [Autograd()] if options.training else []),
        (d.POST_AUTOGRAD_PASS, [*fold, EraseInverses(keep)] if options.training else []),
        (d.PRE_LOWERING_PASS, [FusePatterns(keep | options.dont_fuse, training=options.training)] if options.fuse else []),
        (
            d.BUDA_GRAPH_PRE_PLACER,
            [AssignFormats(options.default_format, options.fp32_fallback, options.accumulate, options.fidelity, options.precision)],
        ),
    ]


def compile_graph(graph: Graph, options: Options | None = None, watch: Watch | None = None) -> Compiled:
    """Compile `graph` (which is changed). `watch` sees it after every pass; it may raise."""
    options = options or Options()
    initial = graph.copy()
    done = Compiled(options, initial, graph, CompileDepth.GENERATE_INITIAL_GRAPH)
    if watch is not None:
        watch(CompileDepth.GENERATE_INITIAL_GRAPH, "initial", graph)
    for depth, passes in stages(options):
        if depth.value > options.depth.value:
            return done
        for one in passes:
            one.apply(graph)
            if watch is not None:
                watch(depth, one.name, graph)
        done.reached = depth
    whole = graph
    if options.optimizer is not None and graph.gradients:
        whole = graph.copy()
        options.optimizer.apply(whole)
    done.lowered = lower(whole)
    if watch is not None:
        watch(CompileDepth.BUDA_GRAPH_PRE_PLACER, "lower", done.lowered)
    if options.depth.value >= CompileDepth.BALANCER_PASS.value:
        done.placement = place(
            done.lowered,
            options.chip,
            epoch_breaks=options.epoch_breaks,
            op_sizes=dict(options.op_sizes),
            inputs_on_host=options.inputs_on_host,
            outputs_on_host=options.outputs_on_host,
            microbatch=options.microbatch,
        )
        done.reached = CompileDepth.PRE_NETLIST_PASS
    if options.depth.value >= CompileDepth.GENERATE_NETLIST.value and done.placement is not None:
        done.netlist = write_netlist(done.lowered, done.placement, options.microbatch)
        done.reached = options.depth
    return done


def report(done: Compiled) -> dict[str, Any]:
    """Placement, memory by channel and operation counts, as plain data."""
    counts: dict[str, int] = {}
    source = done.lowered if done.lowered is not None else done.graph
    for node in source.ops():
        counts[node.op] = counts.get(node.op, 0) + 1
    placement = done.placement
    return {
        "graph": done.graph.name,
        "depth": done.reached.name,
        "ops": dict(sorted(counts.items())),
        "epochs": placement.epoch_count if placement is not None else 0,
        "placement": placement.table() if placement is not None else [],
        "memory": placement.memory() if placement is not None else {},
    }
