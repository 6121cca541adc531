"""What is made can be made again and again; many more ranks than cores; a program that leaves work undone says so."""

from __future__ import annotations

import pytest

from support import checks, jobs

pytestmark = pytest.mark.parallel


@pytest.mark.ranks(1, 2, 8)
@pytest.mark.ranks(2, ranks_per_node=1)
@checks.checks("lifecycle_checks")
def test_what_comes_and_goes(program: str, name: str) -> None:
    checks.run(program, name)


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
