"""From torch's FX graphs to ours. torch.export's programs and the traces of derivatives are both FX graphs of ATen overloads, so one
importer reads both: a lookup in the table of operations, with a few overloads that need a hand.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from tessera.graph.formats import OF_DTYPE
from tessera.graph.ir import Epoch, Graph, GraphError, Kind, Node, UnsupportedOperators
from tessera.graph.ops import ATEN, OPS, adapter_of

# In-place overloads that stand for their pure twin; the importer lets later readers of the target read the result.
_IN_PLACE_SUFFIX = "_"
# Overloads that say something about the machine torch runs on, not about values.
_SKIP = {
    "aten._assert_async.msg",
    "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
}
_IGNORED_ATTRS = {"layout", "device", "pin_memory", "memory_format", "non_blocking", "copy", "requires_grad", "generator", "implicit"}


def source_line(node: fx.Node) -> str:
    """The user's line that asked for an operation: the innermost frame outside torch."""
    trace = (node.meta.get("stack_trace") or "").splitlines()
    frames = [
        (trace[i].strip(), trace[i + 1].strip() if i + 1 < len(trace) else "")
        for i in range(len(trace))
        if trace[i].lstrip().startswith("File ")
    ]
    own = [f for f in frames if "/torch/nn/" not in f[0] and "/torch/_" not in f[0]] or frames
    if not own:
        return ""
    where, code = own[-1]
    parts = where.split('"')
    line = where.split("line ", 1)[-1].split(",", 1)[0]
    return f"{parts[1] if len(parts) > 1 else where}:{line}  {code}".rstrip()


def _key(target: Any) -> str:
    return str(target)


def pure(key: str) -> str:
    """The name of the pure twin of an in-place overload: `aten.relu_.default` -> `aten.relu.default`."""
    parts = key.split(".")
    if len(parts) == 3 and parts[1].endswith(_IN_PLACE_SUFFIX) and not parts[1].startswith("__"):
        return f"{parts[0]}.{parts[1][:-1]}.{parts[2]}"
    return key


def is_in_place(target: Any) -> bool:
    return pure(_key(target)) != _key(target)


def is_supported(target: Any) -> bool:
    key = pure(_key(target))
    return target is operator.getitem or key in ATEN or key in _SKIP or key in _BY_HAND


def unsupported(nodes: Any) -> list[tuple[str, str]]:
    """Every overload of an FX graph without a row, once a source line."""
    found: dict[tuple[str, str], None] = {}
    for node in nodes:
        if node.op != "call_function" or is_supported(node.target):
            continue
        found[(_key(node.target).removesuffix(".default"), source_line(node) or "(no source line)")] = None
    return list(found)


class Importer:
    """Adds the nodes of an FX graph to `graph`. `env` says what its placeholders are."""

    def __init__(self, graph: Graph, env: dict[fx.Node, Any], epoch: Epoch = Epoch.FORWARD) -> None:
        self.graph = graph
        self.env = env
        self.epoch = epoch
        self.prefix = ""
        self.tags: dict[str, str] = {}

    def run(self, nodes: Any) -> None:
        missing = unsupported(nodes)
        if missing:
            raise UnsupportedOperators(missing)
        for node in nodes:
            if node.op == "call_function":
                self.env[node] = self.call(node)

    def lookup(self, value: Any) -> Any:
        if isinstance(value, fx.Node):
            return self.env[value]
        if isinstance(value, (list, tuple)):
            return type(value)(self.lookup(v) for v in value)
        return value

    def call(self, node: fx.Node) -> Any:
        if node.target is operator.getitem:
            whole = self.lookup(node.args[0])
            if isinstance(whole, (list, tuple)):
                return whole[node.args[1]]  # type: ignore[index]
            return self.emit("getitem", [whole], {"index": node.args[1]}, node)
        key = _key(node.target)
        if key in _SKIP:
            return None
        args, kwargs = self.lookup(node.args), {k: self.lookup(v) for k, v in node.kwargs.items()}
        by_hand = _BY_HAND.get(pure(key))
        if by_hand is not None:
            return by_hand(self, node, *args, **kwargs)
        inputs, attrs = self.arguments(node, args, kwargs)
        adapt = adapter_of(pure(key))
        if adapt is not None:
            inputs, attrs = adapt(inputs, attrs)
        name = ATEN[pure(key)]
        if name in ("cast", "nop") and self.is_identity(inputs, attrs):
            made: Any = inputs[0]
        else:
            made = self.emit(name, inputs, attrs, node)
        if is_in_place(node.target):
            self.rebind(node.args[0], made)
        return made

    @staticmethod
    def is_identity(inputs: list[Node], attrs: dict[str, Any]) -> bool:
        return attrs.get("dtype") in (None, inputs[0].dtype)

    def rebind(self, target: Any, made: Node) -> None:
        """After `target.op_()` everyone who reads `target` from here on reads the result."""
        old = self.env[target]
        for key, value in self.env.items():
            if value is old:
                self.env[key] = made

    def arguments(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Node], dict[str, Any]]:
        """Tensors in schema order, and every other argument that differs from its default."""
        inputs: list[Node] = []
        attrs: dict[str, Any] = {}
        backward = OPS[ATEN[pure(_key(node.target))]].family == "backward"
        for position, arg in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
            if position < len(args):
                value = args[position]
            elif arg.name in kwargs:
                value = kwargs[arg.name]
            elif backward and _optional_tensor(arg):
                value = None
            else:
                continue
            if position == 0 and isinstance(value, (int, float)) and str(arg.type) == "Tensor":
                value = self.number(node, value)
            if isinstance(value, Node):
                inputs.append(value)
            elif isinstance(value, (list, tuple)) and any(isinstance(v, Node) for v in value):
                if not all(isinstance(v, Node) for v in value):
                    raise GraphError(f"{node.target}: a list that mixes tensors and numbers has no place in a graph with fixed shapes")
                inputs += value
            elif arg.name in _IGNORED_ATTRS:
                continue
            elif (backward and _optional_tensor(arg)) or not (arg.has_default_value() and value == arg.default_value):
                attrs[arg.name] = list(value) if isinstance(value, (list, tuple)) else value
        return inputs, attrs

    def number(self, node: fx.Node, value: float) -> Node:
        """A plain number where a tensor comes first, as a constant of the result's type."""
        dtype = getattr(node.meta.get("val"), "dtype", torch.float32)
        return self.graph.constant(f"{node.name}_number", torch.tensor(value, dtype=dtype), OF_DTYPE.get(dtype, OF_DTYPE[torch.float32]))

    def emit(self, op: str, inputs: list[Node], attrs: dict[str, Any], node: fx.Node | None = None, example: Any = None) -> Node:
        value = example if example is not None else (node.meta.get("val") if node is not None else None)
        if value is None:
            from tessera.graph.ops import infer

            value = infer(op, [(i.shape, i.dtype) for i in inputs], attrs)
        name = self.prefix + (node.name if node is not None else op)
        return self.graph.add(
            make_node(name, op, inputs, attrs, value, self.epoch, source_line(node) if node is not None else "", self.tags)
        )


def _optional_tensor(arg: Any) -> bool:
    return str(arg.type) in ("Optional[Tensor]", "Tensor?")


def make_node(
    name: str,
    op: str,
    inputs: list[Node],
    attrs: dict[str, Any],
    value: Any,
    epoch: Epoch = Epoch.FORWARD,
    source: str = "",
    tags: dict[str, str] | None = None,
) -> Node:
    """A node whose type is that of `value`: a tensor (storage not needed) or a tuple of them."""
    many = isinstance(value, (tuple, list))
    tensors: list[Any] = list(value) if many else [value]
    first = next(t for t in tensors if isinstance(t, torch.Tensor))
    shape = tuple(int(d) for d in first.shape)
    made = Node(
        name, Kind.OP, op, inputs, attrs, shape, first.dtype, OF_DTYPE.get(first.dtype, OF_DTYPE[torch.float32]), epoch, source=source
    )
    made.tags.update(tags or {})
    if many:
        made.parts = tuple(
            Node(f"{name}[{i}]", Kind.OP, "getitem", [], {}, tuple(t.shape), t.dtype, OF_DTYPE.get(t.dtype, OF_DTYPE[torch.float32]))
            for i, t in enumerate(tensors)
            if isinstance(t, torch.Tensor)
        )
    return made


# overloads that need a hand ------------------------------------------------------------------------------------------------


def _index(self: Importer, node: fx.Node, x: Node, indices: list[Node | None]) -> Node:
    places = [i for i, one in enumerate(indices) if one is not None]
    tensors = [one for one in indices if one is not None]
    for one in tensors:
        if one.dtype is torch.bool:
            raise UnsupportedOperators([("indexing with a boolean mask (its result has no fixed shape)", source_line(node))])
    return self.emit("index_tensors", [x, *tensors], {"places": places}, node)


def _index_put(self: Importer, node: fx.Node, x: Node, indices: list[Node | None], values: Node, accumulate: bool = False) -> Node:
    places = [i for i, one in enumerate(indices) if one is not None]
    return self.emit(
        "index_put", [x, *[one for one in indices if one is not None], values], {"places": places, "accumulate": accumulate}, node
    )


def _batch_norm(self: Importer, node: fx.Node, x: Node, weight: Any, bias: Any, mean: Any, var: Any, *rest: Any, **more: Any) -> Node:
    training = rest[0] if rest else more.get("training", False)
    eps = rest[2] if len(rest) > 2 else more.get("eps", 1e-5)
    if training:
        raise GraphError("batch norm in training mode must be made functional before it is imported")
    channels = x.shape[1]
    ones = weight if weight is not None else self.graph.constant(f"{node.name}_weight", torch.ones(channels), x.format)
    zeros = bias if bias is not None else self.graph.constant(f"{node.name}_bias", torch.zeros(channels), x.format)
    return self.emit("batchnorm", [x, ones, zeros, mean, var], {"eps": eps}, node)


def _batch_norm_eval(
    self: Importer, node: fx.Node, x: Node, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Any:
    return (_batch_norm(self, node, x, weight, bias, mean, var, False, momentum, eps), None, None)


def _batch_norm_train(
    self: Importer, node: fx.Node, x: Node, weight: Any, bias: Any, mean: Node, var: Node, training: bool, momentum: float, eps: float
) -> Any:
    channels = x.shape[1]
    ones = weight if weight is not None else self.graph.constant(f"{node.name}_weight", torch.ones(channels), x.format)
    zeros = bias if bias is not None else self.graph.constant(f"{node.name}_bias", torch.zeros(channels), x.format)
    if not training:
        out = self.emit("batchnorm", [x, ones, zeros, mean, var], {"eps": eps}, None)
        return (out, None, None, mean, var)
    return self.emit("batchnorm_train", [x, ones, zeros, mean, var], {"momentum": momentum, "eps": eps}, node)


def _clamp_tensor(self: Importer, node: fx.Node, x: Node, min: Any = None, max: Any = None) -> Node:
    if min is not None:
        x = self.emit("maximum", [x, min], {})
    return self.emit("minimum", [x, max], {}) if max is not None else x


def _layer_norm(
    self: Importer, node: fx.Node, x: Node, shape: list[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Node:
    if weight is None and bias is not None:
        weight = self.graph.constant(f"{node.name}_weight", torch.ones(tuple(shape)), x.format)
    return self.emit("layernorm", [i for i in (x, weight, bias) if i is not None], {"normalized_shape": list(shape), "eps": eps}, node)


def _group_norm(
    self: Importer, node: fx.Node, x: Node, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Node:
    return self.emit("groupnorm", [i for i in (x, weight, bias) if i is not None], {"num_groups": num_groups, "eps": eps}, node)


def _dropout(self: Importer, node: fx.Node, x: Node, p: float, train: bool) -> Node:
    return self.emit("dropout", [x], {"p": p}, node) if train and p > 0 else x


def _scaled_attention(
    self: Importer,
    node: fx.Node,
    q: Node,
    k: Node,
    v: Node,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Node:
    attrs = {n: a for n, a in (("is_causal", is_causal), ("scale", scale), ("enable_gqa", enable_gqa)) if a not in (None, False)}
    return self.emit("attention", [i for i in (q, k, v, attn_mask) if i is not None], attrs, node)


def _where(self: Importer, node: fx.Node, condition: Node, x: Any, y: Any) -> Node:
    attrs = {} if isinstance(x, Node) else {"self": x}
    attrs |= {} if isinstance(y, Node) else {"other": y}
    return self.emit("where", [condition, *[v for v in (x, y) if isinstance(v, Node)]], attrs, node)


def _split(self: Importer, node: fx.Node, x: Node, size: Any, dim: int = 0) -> Any:
    """Splits become slices: a slice is a TM, a tuple is not."""
    dim %= len(x.shape)
    total = x.shape[dim]
    sizes = list(size) if isinstance(size, (list, tuple)) else [min(size, total - start) for start in range(0, total, size)]
    out, start = [], 0
    for one in sizes:
        out.append(self.emit("index", [x], {"dim": dim, "start": start, "stop": start + one, "stride": 1}))
        start += one
    return tuple(out)


def _chunk(self: Importer, node: fx.Node, x: Node, chunks: int, dim: int = 0) -> Any:
    return _split(self, node, x, -(-x.shape[dim] // chunks), dim)


def _unbind(self: Importer, node: fx.Node, x: Node, dim: int = 0) -> Any:
    return tuple(self.emit("select_int", [x], {"dim": dim, "index": i}) for i in range(x.shape[dim]))


def _tensors_to(self: Importer, node: fx.Node, x: Node, other: Node, *_: Any, **__: Any) -> Node:
    return x if x.dtype is other.dtype else self.emit("cast", [x], {"dtype": other.dtype}, node)


def _expand_as(self: Importer, node: fx.Node, x: Node, other: Node) -> Node:
    return self.emit("expand", [x], {"size": list(other.shape)}, node)


def _view_as(self: Importer, node: fx.Node, x: Node, other: Node) -> Node:
    return self.emit("reshape", [x], {"shape": list(other.shape)}, node)


def _drop_nothing(self: Importer, node: fx.Node, x: Node, *_: Any, **__: Any) -> Node:
    return x


def _broadcast_tensors(self: Importer, node: fx.Node, tensors: list[Node]) -> list[Node]:
    shape = list(torch.broadcast_shapes(*[t.shape for t in tensors]))
    return [t if list(t.shape) == shape else self.emit("expand", [t], {"size": shape}) for t in tensors]


_BY_HAND: dict[str, Any] = {
    "aten.index.Tensor": _index,
    "aten.index_put.default": _index_put,
    "aten.batch_norm.default": _batch_norm,
    "aten._native_batch_norm_legit_no_training.default": _batch_norm_eval,
    "aten._native_batch_norm_legit_functional.default": _batch_norm_train,
    "aten.clamp.Tensor": _clamp_tensor,
    "aten.layer_norm.default": _layer_norm,
    "aten.group_norm.default": _group_norm,
    "aten.dropout.default": _dropout,
    "aten.feature_dropout.default": _dropout,
    "aten.scaled_dot_product_attention.default": _scaled_attention,
    "aten.where.ScalarOther": _where,
    "aten.where.ScalarSelf": _where,
    "aten.where.Scalar": _where,
    "aten.where.self": _where,
    "aten.split.Tensor": _split,
    "aten.split.sizes": _split,
    "aten.split_with_sizes.default": _split,
    "aten.chunk.default": _chunk,
    "aten.unbind.int": _unbind,
    "aten.type_as.default": _tensors_to,
    "aten.to.other": _tensors_to,
    "aten.expand_as.default": _expand_as,
    "aten.view_as.default": _view_as,
    "aten.broadcast_tensors.default": _broadcast_tensors,
    "aten.contiguous.default": _drop_nothing,
    "aten.clone.default": _drop_nothing,
    "aten.detach.default": _drop_nothing,
    "aten.detach_.default": _drop_nothing,
    "aten.alias.default": _drop_nothing,
    "aten.lift_fresh_copy.default": _drop_nothing,
    "aten.lift_fresh.default": _drop_nothing,
}
