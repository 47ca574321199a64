"""PyTorch modules through torch.export. Parameters stay inputs of the graph under the names of the module's own state, so they can be
trained, checkpointed and named in a configuration; everything that depends on data, or that has no row, is reported at once.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tessera.graph.formats import OF_DTYPE
from tessera.graph.frontends.aten import Importer, is_in_place, is_supported, pure, unsupported
from tessera.graph.ir import Graph, GraphError, Kind, Node, UnsupportedOperators

_VIEWS = {
    "view",
    "reshape",
    "slice",
    "select",
    "transpose",
    "permute",
    "expand",
    "unsqueeze",
    "squeeze",
    "t",
    "split",
    "chunk",
    "narrow",
    "unbind",
    "alias",
    "detach",
}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """torch.export logs its own failures; ours are exceptions."""
    names = ("torch", "torch.export", "torch._dynamo", "torch._export", "torch.fx")
    levels = [(logging.getLogger(n), logging.getLogger(n).level) for n in names]
    try:
        for logger, _ in levels:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in levels:
            logger.setLevel(level)


@contextlib.contextmanager
def mode(module: nn.Module, training: bool) -> Iterator[None]:
    """The module in training or inference mode for a while; every sub-module gets its own mode back."""
    before = [(m, m.training) for m in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for m, was in before:
            m.training = was


def export(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], training: bool = False) -> Any:
    """The exported program, with every in-place write either harmless or made functional."""
    with mode(module, training), _quiet(), torch.no_grad() if not training else contextlib.nullcontext():
        try:
            program = torch.export.export(module, tuple(args), dict(kwargs), strict=False)
        except Exception as error:
            raise GraphError(_explain(error, module)) from error
        if _needs_functional(program):
            program = program.run_decompositions({})
        return _within_table(program)


def _within_table(program: Any, rounds: int = 3) -> Any:
    """Operators without a row, taken apart by torch's own decompositions where it has any. If that leaves some, all of the model's own
    operators that led to them are reported, under the names the model called them by."""
    own = unsupported(program.graph.nodes)
    for _ in range(rounds):
        missing = {n.target for n in program.graph.nodes if n.op == "call_function" and not is_supported(n.target)}
        known = torch.export.default_decompositions() if missing else {}
        table = {target: known[target] for target in missing if target in known}
        if not table:
            break
        program = program.run_decompositions(table)
    left = unsupported(program.graph.nodes)
    if left:
        lines = {where for _, where in left}
        raise UnsupportedOperators([one for one in own if one[1] in lines] or left)
    return program


def _explain(error: Exception, module: nn.Module) -> str:
    text = str(error)
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    where = [line.strip() for line in text.splitlines() if line.strip().startswith("File ") and "/torch/" not in line]
    hint = (
        "control flow or a shape that depends on the values of a tensor"
        if "data-dependent" in text.lower() or "GuardOnDataDependent" in text
        else "its forward"
    )
    return (
        f"{type(module).__name__} cannot be read as a graph, because of {hint}: {first}"
        + "".join(f"\n  at {line}" for line in where[:5])
        + "\nWrite it with torch operations on tensors of fixed shapes (torch.where instead of `if`), or place it on a CPUDevice."
    )


def _needs_functional(program: Any) -> bool:
    """True if the graph writes into buffers, into views, or normalises by batch statistics."""
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        key = str(node.target)
        if key == "aten.batch_norm.default" and node.args[5]:
            return True
        if key in ("aten.copy_.default", "aten.index_put_.default") or (is_in_place(node.target) and not _harmless(node)):
            return True
    return False


def _harmless(node: Any) -> bool:
    target = node.args[0]
    if target.op != "call_function":
        return False
    names = [str(n.target).split(".")[1] if n.op == "call_function" else "" for n in (target, *target.users)]
    return not any(name in _VIEWS for name in names)


def import_torch(
    module: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "graph",
    training: bool = False,
    dropout: bool = False,
    input_names: Sequence[str] | None = None,
) -> Graph:
    """One forward pass of `module` on inputs like these, as a graph whose inputs are all tensors among `args` and `kwargs`."""
    program = export(module, args, kwargs or {}, training)
    return from_program(program, name, training=training, dropout=dropout, input_names=input_names)


def from_program(
    program: Any, name: str = "graph", *, training: bool = False, dropout: bool = False, input_names: Sequence[str] | None = None
) -> Graph:
    graph = Graph(name)
    env: dict[Any, Any] = {}
    signature = program.graph_signature
    specs = {spec.arg.name: spec for spec in signature.input_specs}
    constants = {**program.constants, **program.state_dict}
    shared: dict[int, Node] = {}
    given = iter(input_names or ())
    for node in program.graph.nodes:
        if node.op == "placeholder":
            env[node] = _placeholder(graph, node, specs[node.name], constants, shared, training, given)
        elif node.op == "get_attr":
            env[node] = _attribute(graph, program.graph_module, node)
    if training and not dropout:
        _without_dropout(program.graph)
    Importer(graph, env).run(list(program.graph.nodes))
    _outputs(graph, program, env)
    return graph


def _placeholder(
    graph: Graph, node: Any, spec: Any, constants: Mapping[str, Any], shared: dict[int, Node], training: bool, given: Iterator[str]
) -> Any:
    kind = spec.kind.name
    value = node.meta.get("val")
    if kind == "USER_INPUT":
        if not isinstance(value, Tensor):
            return getattr(spec.arg, "value", value)
        return graph.source(Kind.INPUT, next(given, node.name), value.shape, value.dtype, OF_DTYPE[value.dtype])
    held = constants[spec.target]
    if isinstance(held, Tensor) and id(held) in shared:
        return shared[id(held)]
    if kind in ("PARAMETER", "BUFFER") and isinstance(held, Tensor) and (kind == "PARAMETER" or (training and held.is_floating_point())):
        made = graph.source(Kind.PARAMETER, spec.target, held.shape, held.dtype, OF_DTYPE[held.dtype], held)
        made.requires_grad = kind == "PARAMETER" and bool(getattr(held, "requires_grad", False))
    elif isinstance(held, Tensor):
        made = graph.source(Kind.CONSTANT, spec.target, held.shape, held.dtype, OF_DTYPE[held.dtype], held.detach())
        if kind == "BUFFER":
            made.tags["buffer"] = spec.target
    else:
        return held
    if isinstance(held, Tensor):
        shared[id(held)] = made
    return made


def _attribute(graph: Graph, module: Any, node: Any) -> Any:
    held = module
    for part in str(node.target).split("."):
        held = getattr(held, part)
    if not isinstance(held, Tensor):
        return held
    return graph.constant(node.name, held.detach(), OF_DTYPE[held.dtype])


def _without_dropout(fx_graph: Any) -> None:
    """Training drops nothing unless it was asked to (`enable_tvm_dropout`), as on the chip."""
    for node in list(fx_graph.nodes):
        key = pure(str(node.target))
        if key == "aten.dropout.default":
            node.args = (node.args[0], 0.0, False)
        elif key == "aten.native_dropout.default":
            for user in list(node.users):
                user.replace_all_uses_with(node.args[0])
                fx_graph.erase_node(user)
            fx_graph.erase_node(node)


def _outputs(graph: Graph, program: Any, env: dict[Any, Any]) -> None:
    result = next(n for n in program.graph.nodes if n.op == "output").args[0]
    for value, spec in zip(result, program.graph_signature.output_specs):
        made = env.get(value) if isinstance(value, torch.fx.Node) else None
        kind = spec.kind.name
        if kind == "BUFFER_MUTATION":
            held = program.state_dict.get(spec.target)
            if made is not None and held is not None and held.is_floating_point() and spec.target in graph:
                graph.updates.append((spec.target, made))
        elif kind == "USER_OUTPUT" and isinstance(made, Node):
            if made.kind is not Kind.OP:
                made = graph.add(Node("output_passthrough", Kind.OP, "nop", [made], {}, made.shape, made.dtype, made.format))
            graph.output(made)
    if not graph.outputs:
        raise GraphError(f"{graph.name}: the module returns no tensor, so there is nothing to compile")
