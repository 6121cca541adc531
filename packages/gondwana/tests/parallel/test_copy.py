"""`copy`, `put` and `get` in jobs of their own: notifications that fail, copies that are not waited for, settings."""

from __future__ import annotations

import pytest

from support import jobs

pytestmark = pytest.mark.parallel


def notify_a_function_that_fails() -> None:
    import numpy as np

    import gondwana as gw

    def fail(word: str) -> None:
        raise ValueError(f"cannot use what has come: {word}")

    there = gw.Segment(gw.world, 8).pointer(1, float)
    if gw.world.rank == 0:
        gw.copy(np.ones(1), there, notify=(fail, "ones")).wait()
    gw.quiesce(gw.world)
    gw.world.barrier()


@pytest.mark.parametrize("per_node", ["1", "2"])
def test_a_notification_that_fails_ends_the_job(per_node: str) -> None:
    outcome = jobs.run_ranks(2, notify_a_function_that_fails, variables={"GONDWANA_RANKS_PER_NODE": per_node})
    assert outcome.status != 0
    assert "cannot use what has come: ones" in outcome.stderr


def copy_without_waiting() -> None:
    """What programs may not do, and what they get then."""
    import numpy as np

    import gondwana as gw

    segment = gw.Segment(gw.world, 1 << 16)
    here, there = np.full(1000, 3.0), segment.pointer(dtype=float)
    early = gw.copy(here, there)
    print("read early:", bool((there.local(1000) == 3.0).all()))
    here[:] = 7.0
    early.wait()
    print("source changed early:", bool((there.local(1000) == 3.0).all()))
    here[:] = 5.0
    late = gw.copy(here, there)
    late.source.wait()
    here[:] = 0.0
    late.wait()
    print("as promised:", bool((there.local(1000) == 5.0).all()))
    order = []
    for number in range(40):
        gw.put(number, segment.pointer(dtype=int) + number).add_done_callback(lambda _, n=number: order.append(n))
    while len(order) < 40:
        gw.progress()
    print("in order:", order == sorted(order))


def test_late_copies_reveal_who_does_not_wait() -> None:
    usual = jobs.run_ranks(1, copy_without_waiting)
    assert usual.stdout.splitlines() == [
        "read early: True", "source changed early: True", "as promised: True", "in order: True",
    ]  # fmt: skip
    late = jobs.run_ranks(1, copy_without_waiting, variables={"GONDWANA_DEBUG_COPY": "9"})
    assert late.stdout.splitlines() == [
        "read early: False", "source changed early: False", "as promised: True", "in order: False",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"GONDWANA_COPY_PATH": "nonsense"}, "GONDWANA_COPY_PATH: a path of copies called 'nonsense'"),
        ({"GONDWANA_COPY_PATH": "driver"}, "the path driver is forced (by paths.force or GONDWANA_COPY_PATH)"),
        ({"GONDWANA_DEBUG_COPY": "much"}, "GONDWANA_DEBUG_COPY='much'"),
    ],
)
def test_the_environment_is_obeyed_or_refused(variables: dict[str, str], message: str) -> None:
    outcome = jobs.run_ranks(1, copy_without_waiting, variables=variables)
    assert outcome.status != 0
    assert message in outcome.stderr
