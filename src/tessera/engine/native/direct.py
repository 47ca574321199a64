"""Which remembered calls the launcher may hand straight to a kernel, without asking an engine function.

Those whose native form would do nothing but call one kernel on operands of the output's own shape, with a bfloat16 result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tessera.engine.choice import USE_NATIVE, EngineFunction
from tessera.native import MODULE

Direct = tuple[Any, ...]


def _product(shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...], attributes: dict[str, Any]) -> Direct | None:
    """A small product of two matrices; what its result looks like is kept to be made again."""
    import torch

    from tessera.engine.native.matmul import is_small

    if (
        len(shapes) != 2
        or min(map(len, shapes)) < 2
        or not attributes["narrow"]
        or any(attributes[w] for w in ("transpose_a", "transpose_b", "activation"))
    ):
        return None
    (*batch, m, k), (*other, rows, n) = shapes
    m *= math.prod(batch)
    if rows != k or any(d != 1 for d in other) or len(other) > len(batch) or not is_small(m, k, n) or not m * k * n:
        return None
    return "matmul", m, k, n, torch.empty(shape, dtype=torch.bfloat16)


def _full_name(compute: EngineFunction) -> str:
    """The family and the function: two families may have functions of one name."""
    return f"{compute.torch.__module__.rpartition('.')[2]}.{compute.__name__}"


def direct_of(compute: Any, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...], attributes: dict[str, Any]) -> Direct | None:
    """(kind, elements, step, ...) for a computation on bfloat16 operands of these shapes into a bfloat16 result of that shape."""
    if MODULE is None or not USE_NATIVE or not isinstance(compute, EngineFunction):
        return None
    name = _full_name(compute)
    if name == "matmul.matmul":
        return _product(shapes, shape, attributes)
    if any(s != shape for s in shapes):
        return None
    from tessera.engine.native import elementwise

    given = {name: value for name, value in attributes.items() if value not in ((), False)}
    volume = math.prod(shape)
    if name == "unary.elementwise_unary" and set(given) == {"program"} and len(shapes) == 1:
        program = given["program"]
        step = elementwise.UNARY.get(program[0][0]) if len(program) == 1 else None
        return None if step is None else ("unary", volume, step)
    step = elementwise.BINARY.get(given.get("op", ""))
    if step is None:
        return None
    if name == "binary.elementwise_binary" and set(given) == {"op"} and len(shapes) == 2:
        return "binary", volume, step
    if name == "binary.elementwise_scalar" and set(given) <= {"op", "scalar", "reflected"} and len(shapes) == 1:
        return "scalar", volume, step, float(attributes["scalar"]), bool(attributes.get("reflected", False))
    return None


def table_of(compute: Any, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...], attributes: dict[str, Any]) -> Direct | None:
    """("table", elements, table) for any other program of steps that look at one element."""
    if MODULE is None or not USE_NATIVE or not isinstance(compute, EngineFunction) or _full_name(compute) != "unary.elementwise_unary":
        return None
    from tessera.engine.native import elementwise
    from tessera.engine.steps import STEPS
    from tessera.engine.unary import table

    program = attributes["program"]
    given = {name for name, value in attributes.items() if value not in ((), False)}
    if shapes != [shape] or given != {"program"} or not all(STEPS[name].local for name, _ in program):
        return None
    if len(program) == 1 and program[0][0] in elementwise.UNARY:
        return None
    return "table", math.prod(shape), table(program)
