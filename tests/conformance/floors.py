"""The share of observed rows that must hold: a ratchet, raised when more holds and never lowered.

`sample` is the committed sample of `make test`; `whole` is every row under ../shared/reference, replayed by `make test-all`.
"""

FLOORS: dict[str, dict[str, float]] = {
    "ops": {"sample": 0.997, "whole": 0.997},
    "types": {"sample": 0.991, "whole": 0.992},
    "print": {"sample": 1.0, "whole": 1.0},
    "allocator": {"sample": 1.0, "whole": 1.0},
}

#: Names of the official interface that are built, by module and kind: counts that only rise.
BUILT: dict[str, dict[str, int]] = {
    "ttnn": {"class": 100, "enum": 57, "function": 149, "op": 480},
    "ttnn.transformer": {"enum": 1, "op": 17},
    "ttnn.kv_cache": {"op": 2},
    "ttnn.experimental": {"class": 1, "enum": 4, "function": 2, "op": 68},
}
