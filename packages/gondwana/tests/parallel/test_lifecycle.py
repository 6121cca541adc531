"""A program that leaves work undone says so at its end."""

from __future__ import annotations

import pytest

from support import jobs

pytestmark = pytest.mark.parallel


def test_calls_that_nobody_answered_are_reported_at_the_end() -> None:
    def program() -> None:
        import gondwana as gw

        def never() -> object:
            return gw.Promise().future

        if gw.world.rank == 1:
            gw.rpc(0, never)
        gw.world.barrier()

    outcome = jobs.run_ranks(2, program)
    assert outcome.status == 0, str(outcome)
    assert outcome.stderr.count("\n") == 1, str(outcome)
    assert outcome.stderr.startswith("[rank 1 on ")
    assert "ends with 1 remote calls without a reply: wait for their futures" in outcome.stderr


def test_a_program_that_has_finished_its_work_says_nothing() -> None:
    def program() -> None:
        import gondwana as gw

        gw.rpc(0, abs, -1).result()
        gw.rpc_ff(0, abs, -1)

    outcome = jobs.run_ranks(2, program)
    assert (outcome.status, outcome.stderr) == (0, ""), str(outcome)
