"""The official interface: at least as many names are built as `floors.py` says, and what is built can be called as officially written."""

from collections import Counter
from functools import cache

import pytest
from tests.conformance.floors import BUILT

from tessera.cli.coverage import Name, parameters, survey


@cache
def names() -> tuple[Name, ...]:
    return tuple(survey({}))


@pytest.mark.parametrize("module", BUILT)
def test_names_are_built(module: str) -> None:
    built = Counter(name.kind for name in names() if name.module == module and name.built)
    short = {kind: (built[kind], floor) for kind, floor in BUILT[module].items() if built[kind] < floor}
    assert not short, f"{module}: (built, floor) {short}"


def test_every_built_operation_takes_every_official_parameter_by_name() -> None:
    differ = [name.name for name in names() if name.kind == "op" and name.signature is False]
    assert not differ


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("(a: int, b: tuple[int, int] = (1, 2), *, c=None) -> Tensor", ["a", "b", "c"]),
        ("() -> None", []),
        ("(arg: MemoryConfig, /) -> bool", ["arg"]),
        ("(x, *rest, key: Callable[[int], str] = <function f at 0x...>, **words)", ["x", "rest", "key", "words"]),
    ],
)
def test_parameters_are_read_from_a_signature_in_text(signature: str, expected: list[str]) -> None:
    assert parameters(signature) == expected
