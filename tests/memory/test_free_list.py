"""The free list against a model that is too simple to be wrong."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.memory.free_list import FreeList

BASE, SIZE = 4096, 1 << 16


class Model:
    """First fit over one byte map: every address is looked at."""

    def __init__(self) -> None:
        self.live: dict[int, int] = {}

    def holes(self) -> list[tuple[int, int]]:
        at, found = BASE, []
        for address in sorted(self.live):
            if address > at:
                found.append((at, address - at))
            at = address + self.live[address]
        if at < BASE + SIZE:
            found.append((at, BASE + SIZE - at))
        return found

    def take(self, size: int, top_down: bool) -> int | None:
        for start, room in reversed(self.holes()) if top_down else self.holes():
            if room >= size:
                address = start + room - size if top_down else start
                self.live[address] = size
                return address
        return None


def agree(region: FreeList, model: Model) -> None:
    holes = model.holes()
    assert list(region.free_blocks()) == holes
    assert region.live == model.live
    assert region.allocated == sum(model.live.values())
    assert region.free == sum(size for _, size in holes)
    assert region.largest_free() == max((size for _, size in holes), default=0)
    at = BASE
    for address, size, _ in region.blocks():
        assert address == at
        at += size
    assert at == BASE + SIZE


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9000), st.integers(0, 1 << 20), st.booleans()), max_size=120))
@settings(max_examples=150, deadline=None)
def test_every_address_is_the_models(steps: list[tuple[bool, int, int, bool]]) -> None:
    region, model, order = FreeList(BASE, SIZE), Model(), []
    for is_free, size, which, top_down in steps:
        if is_free and order:
            address = order.pop(which % len(order))
            assert region.give(address) == model.live.pop(address)
        else:
            address = region.take(size, top_down=top_down)
            assert address == model.take(size, top_down)
            if address is not None:
                order.append(address)
        agree(region, model)


def test_a_hundred_thousand_steps_never_overlap_or_leak() -> None:
    rng = random.Random(2)
    for top_down in (False, True):
        region = FreeList(105824, 1393312)
        live: list[int] = []
        taken: dict[int, int] = {}
        refused = 0
        for step in range(50_000):
            if live and rng.random() < 0.5:
                i = rng.randrange(len(live))
                live[i], live[-1] = live[-1], live[i]
                address = live.pop()
                assert region.give(address) == taken.pop(address)
            else:
                size = 32 * rng.choice((1, 2, 3, 34, 64, 128, rng.randrange(1, 2000)))
                address = region.take(size, top_down=top_down)
                if address is None:
                    refused += 1
                    assert region.largest_free() < size
                    continue
                taken[address] = size
                live.append(address)
            if step % 1000 == 0:
                at = region.base
                for address, size, used in region.blocks():
                    assert address == at, "blocks overlap or leave a gap"
                    assert (taken.get(address) == size) is used
                    at += size
                assert at == region.base + region.size
        assert refused, "the run never filled the bank: it says nothing about fragmentation"
        for address in live:
            region.give(address)
        assert list(region.free_blocks()) == [(105824, 1393312)]
        assert region.allocated == 0


def test_the_lower_end_moves_only_over_free_bytes() -> None:
    region = FreeList(1000, 9000)
    address = region.take(1000, top_down=True)
    assert address == 9000
    assert region.shrink_to(4000)
    assert list(region.free_blocks()) == [(4000, 5000)]
    assert not region.shrink_to(9500)
    assert region.shrink_to(9000)
    assert list(region.free_blocks()) == []
    assert region.shrink_to(1000)
    region.give(address)
    assert list(region.free_blocks()) == [(1000, 9000)]
