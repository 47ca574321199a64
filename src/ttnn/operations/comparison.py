"""The one operation that judges others: Pearson's correlation of what was expected and what came."""

from __future__ import annotations

from typing import Any

from ttnn import comparison
from ttnn.decorators import operation


def _golden(expected: Any, actual: Any) -> float:
    return comparison.pearson(expected, actual)


@operation("ttnn.pearson_correlation_coefficient", golden=_golden, planned=False)
def pearson_correlation_coefficient(expected: Any, actual: Any) -> float:
    """Of torch or TT-NN tensors of one shape, in fp64; 1.0 for equal tensors."""
    return comparison.pearson(expected, actual)
