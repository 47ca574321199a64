"""Predicates on graph nodes, combined with `&`, `|` and `negate()`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


class NodePredicate:
    def __init__(self, test: Callable[[Any], bool], text: str) -> None:
        self.test, self.text = test, text

    def __call__(self, node: Any) -> bool:
        return self.test(node)

    def __and__(self, other: NodePredicate) -> NodePredicate:
        return NodePredicate(lambda n: self(n) and other(n), f"({self.text} & {other.text})")

    def __or__(self, other: NodePredicate) -> NodePredicate:
        return NodePredicate(lambda n: self(n) or other(n), f"({self.text} | {other.text})")

    def negate(self) -> NodePredicate:
        return NodePredicate(lambda n: not self(n), f"~{self.text}")

    def __repr__(self) -> str:
        return self.text


def name_regex(pattern: str) -> NodePredicate:
    compiled = re.compile(pattern)
    return NodePredicate(lambda n: compiled.fullmatch(n.name) is not None, f"name_regex({pattern!r})")


def layer_regex(pattern: str) -> NodePredicate:
    """By the name of the operation that a lowered node came from."""
    compiled = re.compile(pattern)
    return NodePredicate(lambda n: compiled.fullmatch(n.tags.get("original_op_name", n.name)) is not None, f"layer_regex({pattern!r})")


def op_type(name: str) -> NodePredicate:
    return NodePredicate(lambda n: name in (n.op, n.tags.get("original_op_type")), f"op_type({name!r})")
