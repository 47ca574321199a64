"""Golden functions under official argument names.

Overloads of one operation call the same operand by different names. A golden function names its operands once; `operands` makes it answer to all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Golden = Callable[..., Any]

FIRST = ("input_tensor_a", "input_a", "input_tensor", "input", "predicate", "elements")
SECOND = (
    "input_tensor_b",
    "input_b",
    "other_tensor",
    "value",
    "scalar",
    "exponent",
    "end",
    "weight",
    "value1",
    "bias",
    "true_value",
    "test_elements",
)
THIRD = ("input_tensor_c", "input_c", "value2", "scalar", "weight", "false_value", "value")
GRAD = ("grad_tensor",)


def operands(*places: tuple[str, ...]) -> Callable[[Golden], Golden]:
    """Let the leading arguments be given by any of these names; the rest is passed on."""

    def declare(golden: Golden) -> Golden:
        @functools.wraps(golden)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = list(args)
            for names in places[len(given) :]:
                name = next((n for n in names if n in kwargs), None)
                if name is None:
                    break
                given.append(kwargs.pop(name))
            return golden(*given, **kwargs)

        return call

    return declare


one = operands(FIRST)
two = operands(FIRST, SECOND)
three = operands(FIRST, SECOND, THIRD)
grad_one = operands(GRAD, FIRST)
grad_two = operands(GRAD, FIRST, SECOND)
grad_three = operands(GRAD, FIRST, SECOND, THIRD)
