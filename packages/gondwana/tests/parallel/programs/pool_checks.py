"""Pools whose workers are the ranks of the job, each check by all ranks. Prints one JSON line per check."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import numpy as np
import pool_cases
from checks import raises, run_checks

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.teams import world

sys.path.insert(0, str(Path(__file__).parents[5] / "examples"))
import parameter_study

ready: list[str] = []


def prepare(text):
    ready.append(text)


def prepared():
    return list(ready)


def refuse(error=None):
    raise error or RuntimeError("no")


def used_cpu():
    return time.process_time()


def check_every_case():
    for name, case in pool_cases.CASES.items():
        reached = []
        with gw.WorkerPool() as pool:
            reached.append("start")
            case(pool)
            reached.append("end")
        assert reached == (["start", "end"] if world.rank == 0 else []), name


def check_all_ranks_continue_behind_the_pool():
    with gw.WorkerPool(initializer=prepare, initargs=("ready",)) as pool:
        found = list(pool.map(abs, range(-10, 0)))
        for executor in (pool, pool.with_time_limit(60)):
            assert executor.submit(prepared).result(60)[-1] == "ready"
        assert pool.workers == max(1, world.size - 1)
    assert world.bcast(found if world.rank == 0 else None) == list(range(10, 0, -1))


class Around:
    """A manager that enters a pool."""

    def __init__(self):
        self.pool = gw.WorkerPool()

    def __enter__(self):
        return self.pool.__enter__()

    def __exit__(self, *error):
        return self.pool.__exit__(*error)


@contextlib.contextmanager
def generated():
    with gw.WorkerPool() as pool:
        yield pool


def check_the_body_is_that_of_rank_0():
    for make in (gw.WorkerPool, Around, generated):
        reached = []
        with make() as pool:
            try:
                reached.append(pool.submit(abs, -1).result(60))
            except:  # noqa: E722
                reached.append("except")
            finally:
                reached.append("finally")
        assert reached == ([1, "finally"] if world.rank == 0 else []), make
    reached, pool = [], gw.WorkerPool()
    with contextlib.ExitStack() as stack:
        reached.append(stack.enter_context(pool).submit(abs, -1).result(60))
    assert reached == ([1] if world.rank == 0 else [])
    with pool:  # once more
        reached.append(raises(gw.PoolClosedError, pool.submit, abs))
    assert len(reached) == (2 if world.rank == 0 else 0)


def check_a_debugger_goes_on():
    def trace(frame, event, argument):
        return None

    sys.settrace(trace)
    with gw.WorkerPool() as pool: assert pool.submit(abs, -1).result(60) == 1  # fmt: skip  # noqa: E701
    after, _ = sys.gettrace(), sys.settrace(None)
    assert after is trace


def check_a_pool_that_is_not_used():
    with gw.WorkerPool():
        pass


def check_an_error_in_the_body_is_that_of_rank_0():
    caught = ""
    try:
        with gw.WorkerPool() as pool:
            pool.submit(abs, -1).result(60)
            raise KeyError("mine")
    except KeyError as error:
        caught = str(error)
    assert caught == ("'mine'" if world.rank == 0 else "")


def check_what_is_refused():
    if world.size > 1:
        assert "give no number here" in raises(UsageError, gw.WorkerPool, 2)
        pool = gw.WorkerPool()
        with pool:
            assert "start the job with more ranks" in raises(UsageError, pool.add, 1)
        assert "inside its `with` statement" in raises(UsageError, pool.submit, abs, -1)
    with gw.WorkerPool() as pool:
        last = pool.submit(abs, -1)
        pool.shutdown()
        assert last.result() == 1
        assert "is shut down" in raises(gw.PoolClosedError, pool.submit, abs, -1)


def check_a_failing_initializer_breaks_the_pool():
    if world.size == 1:
        assert raises(RuntimeError, gw.WorkerPool, initializer=refuse) == "no"
        return
    with gw.WorkerPool(initializer=refuse) as pool:
        error = ""
        try:
            pool.submit(abs, -1).result(60)
        except gw.PoolBrokenError as broken:
            error = str(broken)
        assert "initializer of rank" in error
        assert "RuntimeError('no')" in error
    for base in pool_cases.BASE_ERRORS:
        with gw.WorkerPool(initializer=refuse, initargs=(base,)) as pool:
            try:
                cause = pool.submit(abs, -1).exception(60).__cause__
            except gw.PoolBrokenError as broken:
                cause = broken.__cause__
            assert type(cause) is type(base)


def check_idle_ranks_sleep():
    if world.size == 1:
        return
    with gw.WorkerPool() as pool:
        before = pool.submit(used_cpu).result(60)
        time.sleep(1.0)
        # Another rank may have answered before: then this one has slept since it is here.
        assert pool.submit(used_cpu).result(60) - before < 0.05 or world.size > 2


def check_the_example_of_a_parameter_study():
    """Few sweeps as in Python, and many in equilibrium, where theory has the magnetisation."""
    n, sweeps, temperatures = 6, 2, [0.5, 2.5, 50.0]
    few = parameter_study.study(temperatures, n, sweeps)
    many = parameter_study.study([1.8, 2.0], 32, 2000)
    assert (few is None, many is None) == (world.rank > 0, world.rank > 0)
    for temperature, (found, last) in zip(temperatures, few or (), strict=False):
        spins = np.ones((n, n), int)
        for sweep in range(sweeps):
            for x, y in sorted(np.ndindex(n, n), key=lambda place: sum(place) % 2):
                around = sum(spins[(x + i) % n, (y + j) % n] for i, j in ((1, 0), (-1, 0), (0, 1), (0, -1)))
                if 0.5 + 0.5 * gw.random(42, (x, y), sweep) < np.exp(-2 / temperature * spins[x, y] * around):
                    spins[x, y] *= -1
        assert np.array_equal(last, spins), temperature
        assert abs(found - abs(spins.mean())) < 1e-15, temperature
    for temperature, (found, _) in zip([1.8, 2.0], many or (), strict=False):
        exact = (1 - np.sinh(2 / temperature) ** -4) ** (1 / 8)
        assert abs(found - exact) < 5e-3, (found, exact)


if __name__ == "__main__":
    run_checks(globals())
