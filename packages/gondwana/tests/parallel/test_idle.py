"""Idle ranks: what they cost while they wait, and that a call to them ends their sleep."""

from __future__ import annotations

import time

import pytest

import gondwana as gw
from gondwana.runtime import idle, progress

pytestmark = [pytest.mark.parallel, pytest.mark.ranks(2)]

WAIT = 1.0
"""Seconds that a rank waits for another one."""


def answer_later() -> gw.Future[str]:
    """A call whose result is there when this rank has made progress for a while."""
    promise: gw.Promise[str] = gw.Promise()
    end = time.monotonic() + WAIT

    def look() -> None:
        if time.monotonic() < end:
            progress.enqueue(look)
        else:
            promise.set_result("now")

    look()
    return promise.future


def cost_of(wait) -> float:
    """The share of a core that a wait takes."""
    wall, used = time.monotonic(), time.process_time()
    wait()
    return (time.process_time() - used) / (time.monotonic() - wall)


def test_a_rank_that_waits_for_a_result_sleeps() -> None:
    if gw.world.rank == 0:
        share = cost_of(gw.rpc(1, answer_later).result)
        assert share < 0.2, share  # 1 if it polled all the time
    else:
        end = time.monotonic() + 1.5 * WAIT
        while time.monotonic() < end:
            gw.progress()
    gw.world.barrier()


def test_a_rank_that_waits_in_a_barrier_sleeps_more_the_longer_it_waits() -> None:
    if gw.world.rank == 0:
        time.sleep(WAIT)
        gw.world.barrier()
    else:
        share = cost_of(gw.world.barrier)
        assert share < 0.5, share


def test_a_call_ends_the_sleep_of_its_rank() -> None:
    arrived = []
    here = gw.DistObject(arrived)
    gw.world.barrier()
    if gw.world.rank == 0:
        polls = 0

        def ready() -> bool:
            nonlocal polls
            polls += 1
            return bool(arrived)

        progress.wait_until(ready, "the call", bell=True)
        assert arrived == ["called"]
    else:
        time.sleep(0.1)
        gw.rpc(0, lambda here: here.value.append("called"), here).result()
    gw.world.barrier()


def test_nobody_sleeps_who_finds_something_when_the_bell_can_be_heard() -> None:
    before = time.monotonic()
    looks = []
    for _ in range(1000):
        idle.sleep(0.9, lambda: looks.append(1) is None)
    assert len(looks) == 1000
    assert time.monotonic() - before < 500  # 900 s if it slept
