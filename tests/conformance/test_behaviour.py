"""Observed behaviour of official TT-NN, replayed: at least the share in `floors.py` holds, for each kind of row.

Run with `-s` (or look at a failure) for the breakdown by family.
"""

from pathlib import Path

import pytest
from tests.conformance.floors import FLOORS
from tests.conformance.replayer import Score, read, replay

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "behaviour"
WHOLE = ROOT.parent / "shared" / "reference" / "behaviour"


def must_hold(score: Score, floor: float) -> None:
    print("\n" + "\n".join(score.lines()))
    assert score.share >= floor, f"{score.kind}: {score.share:.4f} of the rows hold, the floor is {floor}; most misses: {score.worst(10)}"


@pytest.mark.parametrize("kind", FLOORS)
def test_sampled_behaviour_holds(kind: str) -> None:
    must_hold(replay(kind, read(SAMPLE / f"{kind}.jsonl")), FLOORS[kind]["sample"])


@pytest.mark.whole
@pytest.mark.skipif(not WHOLE.is_dir(), reason="reference data is not beside this checkout")
@pytest.mark.parametrize("kind", FLOORS)
def test_all_observed_behaviour_holds(kind: str) -> None:
    must_hold(replay(kind, read(WHOLE / f"{kind}.dev.jsonl")), FLOORS[kind]["whole"])


def test_the_sample_covers_every_observed_operation_it_was_drawn_from() -> None:
    operations = {row["op"] for row in read(SAMPLE / "ops.jsonl")}
    assert len(operations) == 524
    assert not any("message" in row.get("error", {}) for row in read(SAMPLE / "ops.jsonl"))
