"""Remote calls in jobs of their own: errors that end a job, calls at its end, and the memory that many take."""

from __future__ import annotations

import pytest

from support import jobs

pytestmark = pytest.mark.parallel


def failing_call() -> None:
    import gondwana as gw
    from gondwana.teams import world

    if world.rank == 0:
        gw.rpc_ff(1, int, "seven")
    gw.quiesce(world)


def test_an_error_in_a_forgotten_call_ends_the_job() -> None:
    outcome = jobs.run_ranks(2, failing_call, timeout=60)
    assert outcome.status == 1
    assert "[rank 1 on" in outcome.stderr
    assert "ValueError: invalid literal for int()" in outcome.stderr
    assert "sent to rank 1 by rpc_ff" in outcome.stderr


def calls_at_the_end() -> None:
    import gondwana as gw

    def say(text: str) -> None:
        print(text, flush=True)

    if gw.world.rank == 0:
        for rank in range(gw.world.size):
            gw.rpc_ff(rank, say, f"rank {rank} serves until the end")
        gw.rpc(1, len, "abc").result()


def test_a_rank_at_its_end_serves_the_others() -> None:
    outcome = jobs.run_ranks(3, calls_at_the_end, timeout=60)
    assert outcome.status == 0, str(outcome)
    assert "rank 1 serves until the end" in outcome.stdout


def large_flood() -> None:
    import resource
    import sys

    import numpy as np

    import gondwana as gw

    seen = [0, 0]

    def eat(data: np.ndarray, number: int) -> None:
        assert data.nbytes == 2**16
        assert data[0] == data[-1] == number % 251
        seen[0] += 1
        seen[1] += number

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    globals()["eat"] = eat
    eat.__qualname__ = "eat"  # sent by name
    count, data = 20_000, np.zeros(2**16, np.uint8)
    gw.rpc(0, eat, data, 0).result()
    gw.world.barrier()
    seen[:] = [0, 0]
    gw.world.barrier()  # in one barrier alone rank 0 may have served what the other has sent behind it
    before = peak()
    if gw.world.rank == 1:
        for number in range(count):
            data[:] = number % 251
            gw.rpc_ff(0, eat, data, number)
    gw.quiesce(gw.world)
    extra = (peak() - before) * 1024
    assert extra < 32e6, f"{extra / 1e6:.0f} MB"  # of the 1311 MB that were sent
    if gw.world.rank == 0:
        assert seen == [count, sum(range(count))]
        print("all there", file=sys.stderr)


@pytest.mark.parametrize(
    "variables",
    [{}, pytest.param({"GONDWANA_RANKS_PER_NODE": "1"}, marks=pytest.mark.more)],
    ids=["node", "nodes"],
)
def test_twenty_thousand_large_calls_need_little_memory(variables: dict[str, str]) -> None:
    outcome = jobs.run_ranks(2, large_flood, timeout=120, variables=variables)
    assert outcome.status == 0, str(outcome)
    assert "all there" in outcome.stderr


def progress_in_compiled_code() -> None:
    import gondwana as gw

    @gw.jit
    def work(times):
        done = 0
        for _ in range(times):
            done += gw.progress()
        return done

    work(10)  # linked before the ranks know of each other
    gw.world.barrier()
    print(f"rank {gw.world.rank} did {work(10)} things", flush=True)
    gw.world.barrier()


def test_compiled_code_that_knows_of_no_other_rank_makes_progress_between_nodes() -> None:
    outcome = jobs.run_ranks(2, progress_in_compiled_code, timeout=60, variables={"GONDWANA_RANKS_PER_NODE": "1"})
    assert outcome.status == 0, str(outcome)
    assert "rank 1 did 0 things" in outcome.stdout
