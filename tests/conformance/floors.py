"""The share of observed rows that must hold: a ratchet, raised when more holds and never lowered.

`sample` is the committed sample of `make test`; `whole` is every row under ../shared/reference, replayed by `make test-all`.
"""

FLOORS: dict[str, dict[str, float]] = {
    "ops": {"sample": 0.0, "whole": 0.0},
    "types": {"sample": 0.0, "whole": 0.0},
    "print": {"sample": 0.0, "whole": 0.0},
    "allocator": {"sample": 0.0, "whole": 0.0},
}
