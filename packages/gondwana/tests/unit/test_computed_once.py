"""Properties of which there is one value, although several threads ask for it at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import gondwana as gw
from gondwana.calls.inbox import Inbox
from gondwana.memory.segment import Segment
from gondwana.runtime.later import ComputedOnce
from gondwana.teams.team import Team

THREADS = 8


class Computed:
    """A property that is computed while other threads ask for it, as far as they come that far."""

    def __init__(self) -> None:
        self.asked = threading.Barrier(THREADS)
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.calls = 0
        self.fails = False

    @ComputedOnce
    def value(self) -> list[int]:
        """What is computed."""
        self.calls += 1
        self.begun.set()
        assert self.go_on.wait(60)
        if self.fails:
            raise ValueError("computed in vain")
        return [self.calls]

    def ask(self) -> list[int]:
        self.asked.wait(60)
        return self.value


def test_threads_share_one_value() -> None:
    one = Computed()
    with ThreadPoolExecutor(THREADS) as pool:
        asked = [pool.submit(one.ask) for _ in range(THREADS)]
        assert one.begun.wait(60)
        one.go_on.set()
        values = [future.result() for future in asked]
    assert one.calls == 1
    assert all(value is one.value for value in values)
    assert "lock of value" not in vars(one)
    del one.value
    assert one.value == [2]  # anew, as of a segment that has been closed


def test_other_objects_are_not_waited_for() -> None:
    slow, quick = Computed(), Computed()
    quick.go_on.set()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: slow.value)
        assert slow.begun.wait(60)
        assert quick.value == [1]  # while the other one is being computed
        slow.go_on.set()
        assert asked.result() == [1]


def test_errors_are_not_kept() -> None:
    one = Computed()
    one.go_on.set()
    one.fails = True
    for _ in range(2):
        with pytest.raises(ValueError, match="in vain"):
            _ = one.value
    one.fails = False
    assert one.value == [3]


def test_what_has_an_address_or_communicates_is_computed_once() -> None:
    """Compiled code keeps the addresses of tables; ranks that asked twice would wait for others that ask once."""
    shared = [(Segment, "table"), (Inbox, "bells")]
    shared += [(Team, name) for name in ("comm", "_world_ranks", "key", "node", "_lowest_ranks", "leaders")]
    assert [name for owner, name in shared if not isinstance(vars(owner)[name], ComputedOnce)] == []


def test_threads_see_one_table_of_a_segment() -> None:
    for _ in range(20):
        segment, together = gw.Segment(gw.world, 64), threading.Barrier(4)

        def address(segment: gw.Segment = segment, together: threading.Barrier = together) -> int:
            together.wait(60)
            return segment.table_address

        with ThreadPoolExecutor(4) as pool:
            found = {future.result() for future in [pool.submit(address) for _ in range(4)]}
        assert found == {segment.table.ctypes.data}
