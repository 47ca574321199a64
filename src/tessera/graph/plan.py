"""A graph made ready to run: one flat Python function, written once.

Each node is one line, `v7 = f7(v3, v5, dim=-1)`: what to call is decided when the plan is built, values are dropped after their last
reader, and nothing else happens between two kernels. Parameters and constants are globals of that function, so new weights are an
assignment. Formats cost nothing where torch's own kernel rounds the same way: bfloat16 kernels compute in fp32 and round once, which is
what a Float16_b edge asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tessera.engine import norm as engine_norm
from tessera.graph import packed
from tessera.graph.formats import FORMATS, DataFormat, is_float, quantize
from tessera.graph.ir import Kind, Node
from tessera.graph.ops import OPS

# Operations that hold a value and change none: their result has the dtype of their input, whatever it is.
_MOVES = {"tm", "join", "split", "nop", "gather", "mask", "pad", "getitem"}
# bfloat16 and float16 kernels that torch does not have on a CPU; these compute in fp32 and round afterwards.
_WIDE_ONLY = {
    "avg_pool3d",
    "erfc",
    "heaviside",
    "vector_norm",
    "linspace",
    "col2im",
    "im2col",
    "einsum_wide",
    "cumprod",
    "quantize",
    "dequantize",
    "requantize",
    "buda_requantize",
}


def held(node: Node, exact: bool = False) -> torch.dtype:
    """The torch dtype a value has at run time."""
    if not node.dtype.is_floating_point:
        return node.dtype
    if exact or not is_float(node.format):
        return torch.float64 if node.dtype is torch.float64 else torch.float32
    return FORMATS[node.format].values


def _is_block(node: Node) -> bool:
    return (
        node.dtype.is_floating_point and is_float(node.format) and (FORMATS[node.format].kind == "block" or node.format is DataFormat.Lf8)
    )


def _within(value: Any, dtype: torch.dtype) -> Any:
    """A number that `dtype` can hold: finite numbers beyond its range become its largest."""
    if isinstance(value, float) and math.isfinite(value) and dtype.is_floating_point:
        limits = torch.finfo(dtype)
        return min(max(value, limits.min), limits.max)
    return value


@dataclass
class Plan:
    """What `build` made: call it with one tensor for each argument; it returns one for each result."""

    name: str
    source: str
    run: Callable[..., tuple[Any, ...]]
    lines: dict[int, Node] = field(default_factory=dict)

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        try:
            return self.run(*args)
        except Exception as error:
            self.annotate(error)
            raise

    def annotate(self, error: Exception) -> None:
        """Say which node was running, and which line of the model asked for it."""
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == f"<plan {self.name}>":
                node = self.lines.get(trace.tb_lineno)
                if node is not None:
                    error.add_note(f"while running {node!r} of {self.name}" + (f", from {node.source}" if node.source else ""))
                return
            trace = trace.tb_next


class Builder:
    """Writes plans that share one namespace, so that they share parameters and constants."""

    def __init__(self, exact: bool = False, pack: bool = False) -> None:
        self.exact = exact
        self.pack = pack  # weights stay as they are, so they may be laid out for their kernels
        self.space: dict[str, Any] = {"quantize": quantize}
        self.globals: dict[str, str] = {}  # node name -> global name
        self.prepared: dict[str, list[tuple[str, Callable[[Tensor], Any]]]] = {}  # parameter -> packed forms derived from it

    # parameters and constants -----------------------------------------------------------------------------------------

    def hold(self, node: Node, value: Tensor) -> None:
        """Give a parameter or constant its value, rounded to its format."""
        name = self.globals.setdefault(node.name, f"p{len(self.globals)}")
        self.space[name] = self.rounded(node, value)
        for derived, prepare in self.prepared.get(node.name, ()):
            self.space[derived] = prepare(self.space[name])

    def rounded(self, node: Node, value: Tensor) -> Tensor:
        value = value.detach()
        if not value.is_floating_point():
            return value.to(node.dtype) if value.dtype is not node.dtype else value
        if self.exact:
            return value.to(held(node, True))
        target = held(node)
        if target in (torch.bfloat16, torch.float16) and value.dtype in (torch.float32, torch.float64):
            limits = torch.finfo(target)
            if value.numel() and not bool((value.abs() <= limits.max).all()):
                value = torch.where(value.isfinite(), value.clamp(limits.min, limits.max), value)
        return quantize(value, node.format) if is_float(node.format) else value

    def value(self, name: str) -> Tensor:
        result: Tensor = self.space[self.globals[name]]
        return result

    # writing ----------------------------------------------------------------------------------------------------------

    def build(self, name: str, nodes: Sequence[Node], arguments: Sequence[Node], results: Sequence[Node]) -> Plan:
        names: dict[Node, str] = {}
        lines: list[str] = []
        where: dict[int, Node] = {}
        for position, node in enumerate(arguments):
            names[node] = f"a{position}"
        lines.append(f"def run({', '.join(names[a] for a in arguments)}):")
        inside = set(nodes)
        last: dict[Node, int] = {}
        order = [n for n in nodes if n.kind in (Kind.OP, Kind.OUTPUT, Kind.QUEUE) and n not in names]
        for index, node in enumerate(order):
            for source in node.inputs:
                last[source] = index
        kept = set(results)
        for node in arguments:
            if entry := self.entry(node, names[node]):
                lines.append(f"    {names[node]} = {entry}")
        for index, node in enumerate(order):
            for source in node.inputs:
                if source not in names:
                    if source.kind in (Kind.CONSTANT, Kind.PARAMETER, Kind.OPTIMIZER):
                        if source.name not in self.globals:
                            self.hold(source, source.value)
                        names[source] = self.globals[source.name]
                    elif source not in inside:
                        raise RuntimeError(f"plan {name}: {node.name} reads {source.name}, which the plan does not compute")
            names[node] = f"v{index}"
            line = f"    v{index} = {self.call(node, names)}"
            where[len(lines) + 1] = node
            dead = [
                names[s]
                for s in dict.fromkeys(node.inputs)
                if last.get(s) == index and s not in kept and s.kind not in (Kind.CONSTANT, Kind.PARAMETER, Kind.OPTIMIZER)
            ]
            if dead:
                line += "; del " + ", ".join(dead)
            lines.append(line)
        for node in results:
            if node not in names:
                if node.name not in self.globals:
                    self.hold(node, node.value)
                names[node] = self.globals[node.name]
        lines.append(f"    return ({''.join(names[r] + ', ' for r in results)})")
        text = "\n".join(lines)
        local: dict[str, Any] = {}
        exec(compile(text, f"<plan {name}>", "exec"), self.space, local)
        return Plan(name, text, local["run"], where)

    def bind(self, value: Any) -> str:
        name = f"c{len(self.space)}"
        self.space[name] = value
        return name

    def entry(self, node: Node, name: str) -> str:
        """How an argument enters: rounded to its format, unless it comes as it is held."""
        if node.kind is Kind.OP or not node.dtype.is_floating_point:
            return ""
        if not self.exact and _is_block(node):
            return f"quantize({name}, {self.bind(node.format)})"
        return f"{name}.to({self.bind(held(node, self.exact))})"

    def literal(self, value: Any) -> str:
        if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
            return repr(value)
        return self.bind(value)

    def operand(self, node: Node, port: int, names: dict[Node, str]) -> str:
        text = names[node.inputs[port]]
        for tm in node.tms.get(port, ()):
            fn = self.bind(OPS[tm.op].fn)
            text = f"{fn}({', '.join([text, *(f'{k}={self.literal(v)}' for k, v in tm.attrs)])})"
        return text

    def call(self, node: Node, names: dict[Node, str]) -> str:
        operands = [self.operand(node, port, names) for port in range(len(node.inputs))]
        if node.kind is not Kind.OP:
            return self.finish(node, operands[0], held(node.inputs[0], self.exact))
        op = OPS[node.op]
        if node.op == "cast":
            return self.cast(node, operands[0])
        out = held(node, self.exact)
        floats = [held(i, self.exact) for i in node.inputs if i.dtype.is_floating_point]
        moves = op.family in _MOVES
        native = (node.op not in _WIDE_ONLY or out is torch.float32) and all(f is floats[0] for f in floats)
        if floats and out.is_floating_point and not moves:
            native = native and floats[0] is out
        compute = floats[0] if native and floats else torch.float32
        if not native:
            operands = [
                f"{text}.float()" if i.dtype.is_floating_point and held(i, self.exact) not in (torch.float32, torch.float64) else text
                for text, i in zip(operands, node.inputs)
            ]
        text = self.kernel(node, operands, compute)
        if node.parts:
            return text
        produced = compute if node.dtype.is_floating_point else node.dtype
        if op.family == "getitem":
            return self.taken(node, text, out)
        if op.family == "make" or (not floats and node.dtype.is_floating_point):
            return self.finish(node, text, torch.float32, certain=False)
        rounded = (
            moves
            and len({i.format for i in node.inputs if i.dtype.is_floating_point}) == 1
            and node.format is next(i.format for i in node.inputs if i.dtype.is_floating_point)
            if floats and node.dtype.is_floating_point
            else False
        )
        return text if rounded else self.finish(node, text, produced)

    def taken(self, node: Node, text: str, out: torch.dtype) -> str:
        """One of several results. All but the first may be statistics that the kernel made for its own derivative, in the precision it chose."""
        whole = node.inputs[0]
        kinds = {held(i, self.exact) for i in whole.inputs if i.dtype.is_floating_point}
        native = kinds <= {out} and whole.op not in _WIDE_ONLY
        if native and node.attrs["index"] > 0:
            return text
        return self.finish(node, text, out if native else torch.float32, certain=native)

    def finish(self, node: Node, text: str, produced: torch.dtype, certain: bool = True) -> str:
        """Round a result to the node's format, where the kernel has not done so."""
        if not node.dtype.is_floating_point or (
            node.kind in (Kind.OUTPUT, Kind.QUEUE) and node.inputs and node.inputs[0].format is node.format
        ):
            return text
        if self.exact:
            return text if certain else f"{text}.to({self.bind(held(node, True))})"
        if _is_block(node):
            return f"quantize({text}, {self.bind(node.format)})"
        return text if certain and produced is held(node) else f"{text}.to({self.bind(held(node))})"

    def cast(self, node: Node, operand: str) -> str:
        target = node.attrs.get("dtype", node.dtype)
        if not target.is_floating_point:
            return f"{operand}.to({self.bind(target)})"
        if not node.inputs[0].dtype.is_floating_point:
            return self.finish(node, f"{operand}.float()", torch.float32)
        return self.finish(node, operand, held(node.inputs[0], self.exact))

    def kernel(self, node: Node, operands: list[str], compute: torch.dtype) -> str:
        if node.op == "getitem":
            return f"{operands[0]}[{node.attrs['index']}]"
        special = _SPECIAL.get(node.op)
        if special is not None:
            made = special(self, node, operands, compute)
            if made is not None:
                return str(made)
        attrs = {k: self._attribute(node, k, v, compute) for k, v in node.attrs.items()}
        fn = self.bind(OPS[node.op].fn)
        return f"{fn}({', '.join([*operands, *(f'{k}={self.literal(v)}' for k, v in attrs.items())])})"

    def _attribute(self, node: Node, key: str, value: Any, compute: torch.dtype) -> Any:
        if isinstance(value, float):
            return _within(value, held(node, self.exact) if OPS[node.op].family == "make" else compute)
        if key == "dtype" and isinstance(value, torch.dtype) and value.is_floating_point and value is not torch.float64:
            return torch.float32 if OPS[node.op].family == "make" else None if OPS[node.op].family in ("reduce", "scan") else compute
        return value


# kernels with a shorter way to the same result -------------------------------------------------------------------------------

_INFIX = {"add": "+", "subtract": "-", "multiply": "*"}


def _infix(builder: Builder, node: Node, operands: list[str], compute: torch.dtype) -> str | None:
    if len(operands) == 2 and not node.attrs:
        return f"{operands[0]} {_INFIX[node.op]} {operands[1]}"
    if len(operands) == 1 and set(node.attrs) == {"other"} and isinstance(node.attrs["other"], (int, float)):
        return f"{operands[0]} {_INFIX[node.op]} {builder.literal(_within(node.attrs['other'], compute))}"
    return None


def _matmul(builder: Builder, node: Node, operands: list[str], compute: torch.dtype) -> str | None:
    made = packed.linear(builder, node, operands, compute)
    if made is not None or node.attrs.get("activation"):
        return made
    if node.attrs.get("transpose_b"):
        if len(operands) == 2 or len(node.inputs[2].shape) == 1:
            return f"{builder.bind(torch.nn.functional.linear)}({', '.join(operands)})"
        return None
    if len(operands) == 2 and not any(i.dtype is torch.int8 for i in node.inputs):
        return f"{builder.bind(torch.matmul)}({', '.join(operands)})"
    return None


def _reshape(builder: Builder, node: Node, operands: list[str], compute: torch.dtype) -> str | None:
    return f"{operands[0]}.reshape({builder.bind(tuple(node.shape))})"


def _norm(function: Callable[..., Any], eps: float) -> Callable[[Builder, Node, list[str], torch.dtype], str | None]:
    """Normalisation in bfloat16 through the engine, which has it natively; the engine's torch form answers in fp32, so the result is cast."""

    def write(builder: Builder, node: Node, operands: list[str], compute: torch.dtype) -> str | None:
        shape = node.attrs.get("normalized_shape") or [node.shape[-1]]
        if compute is not torch.bfloat16 or builder.exact or len(shape) != 1 or node.attrs.get("eps", eps) is None:
            return None
        roles = builder.bind(("weight", "bias")[: len(operands) - 1])
        call = f"{builder.bind(function)}({', '.join(operands)}, epsilon={node.attrs.get('eps', eps)!r}, roles={roles})"
        return f"{call}.to({builder.bind(torch.bfloat16)})"

    return write


_SPECIAL: dict[str, Callable[[Builder, Node, list[str], torch.dtype], str | None]] = {
    "add": _infix,
    "subtract": _infix,
    "multiply": _infix,
    "matmul": _matmul,
    "conv2d": packed.convolution,
    "layernorm": _norm(engine_norm.layer_norm, 1e-5),
    "rms_norm": _norm(engine_norm.rms_norm, 1e-6),
    "reshape": _reshape,
    "flatten": _reshape,
    "unflatten": _reshape,
}
