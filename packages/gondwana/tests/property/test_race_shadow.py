"""Shadow memory of the race detector against all accesses kept in a list, on random boxes and orders."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given, strategies as st

from gondwana.races.shadow import Access, Histories, Shadow, epoch_of
from gondwana.races.streams import Order, Streams

STREAMS, NBYTES = 3, 96


class Step(NamedTuple):
    """An access to a box by a stream, or an order between two streams."""

    stream: int
    other: int
    write: bool
    item: int
    first: int
    count: int
    stride: int


steps = st.lists(
    st.builds(
        Step,
        stream=st.integers(0, STREAMS - 1),
        other=st.integers(-STREAMS, STREAMS - 1),  # below 0: an access
        write=st.booleans(),
        item=st.sampled_from([2, 4, 8]),
        first=st.integers(0, 4),
        count=st.integers(1, 4),
        stride=st.integers(1, 2),
    ),
    max_size=25,
)


def touched(step: Step) -> set[int]:
    """The bytes that an access touches."""
    starts = (step.item * (step.first + step.stride * index) for index in range(step.count))
    return {byte for start in starts for byte in range(start, start + step.item)}


@given(steps)
def test_conflicts_are_those_of_a_list_of_all_accesses(program: list[Step]) -> None:
    shadow, streams = Shadow(NBYTES, Histories()), Streams()
    for stream in range(STREAMS):
        streams.new(stream)
    accesses: list[tuple[Step, int]] = []
    is_racy = False
    for number, step in enumerate(program):
        if step.other >= 0:
            streams.see(step.stream, streams.posted(step.other), Order("", 0))
            continue
        clock = streams.clock(step.stream)
        expected = {
            (before.stream, before.write)
            for before, then in accesses
            if then > clock[before.stream] and (before.write or step.write) and touched(before) & touched(step)
        }
        epoch = epoch_of(step.stream, streams.now(step.stream), number, atomic=False)
        axes = [(step.count, step.stride * step.item)]
        found = shadow.access(step.first * step.item, step.item, axes, clock, epoch, write=step.write)
        # After the first race on a byte only one of those that took part in it is remembered.
        assert bool(found) == bool(expected) or (is_racy and not found)
        assert {(conflict.before.stream, conflict.wrote) for conflict in found} <= expected
        is_racy = is_racy or bool(expected)
        accesses.append((step, streams.now(step.stream)))


@given(st.integers(0, 2**14 - 1), st.integers(1, 2**31 - 1), st.integers(0, 2**17 - 1), st.booleans())
def test_epochs_say_what_they_were_made_of(stream: int, clock: int, site: int, atomic: bool) -> None:
    epoch = epoch_of(stream, clock, site, atomic=atomic)
    assert 0 < epoch < 2**63
    assert Access.of(epoch) == (stream, clock, site, atomic)
    assert np.int64(epoch) == epoch
