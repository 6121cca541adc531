"""The heap against a model: a set of byte ranges that never overlap, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.memory.heap import HeapFullError

SIZE = 4000
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 900), st.sampled_from(["u1", "f8", "c16"])), max_size=60)


@given(STEPS)
def test_pieces_never_overlap_and_all_comes_back(steps: list[tuple[bool, int, str]]) -> None:
    heap = gw.Heap(gw.Segment(gw.world, SIZE))
    live: dict[int, tuple[gw.GlobalPtr, int]] = {}
    for allocates, number, dtype in steps:
        if allocates:
            try:
                p = heap.allocate(number, dtype)
            except HeapFullError:
                assert heap.largest < max(1, number * np.dtype(dtype).itemsize)
                continue
            assert p.offset % 64 == 0
            p.check(number)
            for q, length in live.values():
                assert p.offset + max(1, number * p.dtype.itemsize) <= q.offset or q.offset + length <= p.offset
            live[p.offset] = p, max(1, number * p.dtype.itemsize)
        elif live:
            p, _ = live.pop(sorted(live)[number % len(live)])
            heap.free(p)
    for p, _ in live.values():
        heap.free(p)
    assert heap.used == 0
    assert heap.largest == SIZE


def test_mistakes_are_refused() -> None:
    heap = gw.Heap(gw.Segment(gw.world, 256))
    p = heap.allocate(4, float)
    with pytest.raises(UsageError, match="not the start"):
        heap.free(p + 1)
    heap.free(p.cast("u1"))
    with pytest.raises(UsageError, match="not the start"):
        heap.free(p)
    with pytest.raises(UsageError, match="0 or more"):
        heap.allocate(-1)
    with pytest.raises(MemoryError, match=r"257 bytes.*largest free block has 256"):
        heap.allocate(257)
    with pytest.raises(HeapFullError):
        gw.Heap(gw.Segment(gw.world, 0)).allocate(0)
