"""Pools of workers over processes that the pool starts."""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pool_cases
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.runtime.supervisor import descendants
from support import jobs

pytestmark = pytest.mark.parallel

PATIENCE = 60


@pytest.fixture(scope="module")
def pool() -> Iterator[gw.WorkerPool]:
    with gw.WorkerPool(3) as started:
        yield started


@pytest.mark.parametrize("name", pool_cases.CASES)
def test_started_workers(pool: gw.WorkerPool, name: str) -> None:
    pool_cases.CASES[name](pool)


def kill_oneself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave() -> None:
    os._exit(3)


def interrupt_oneself() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts the tests in the background ignores it
    signal.raise_signal(signal.SIGINT)


def test_a_lost_worker_fails_its_task_and_is_replaced(pool: gw.WorkerPool) -> None:
    before = pool.workers
    for function, how in (
        (kill_oneself, "was killed by SIGKILL"),
        (leave, "exited with status 3"),
        (interrupt_oneself, "exited with status"),
    ):
        error = pool.submit(function).exception(PATIENCE)
        assert isinstance(error, gw.WorkerLostError)
        assert how in str(error)
        assert f"while it ran {function.__name__}()" in str(error)
    assert list(pool.map(abs, range(-100, 0))) == list(range(100, 0, -1))
    assert pool.workers == before


def wait_a_little(number: int) -> tuple[int, int]:
    time.sleep(0.001 * (number % 10))
    return number, os.getpid()


def test_workers_killed_at_random_moments() -> None:
    """Eight workers on however many cores; each task either has its result or an error that names it."""
    chosen = random.Random(5)
    lost = 0
    with gw.WorkerPool(8) as pool:
        processes = {pool.submit(os.getpid).result(PATIENCE)}
        for kill in range(20):
            futures = [pool.submit(wait_a_little, 40 * kill + number) for number in range(40)]
            time.sleep(chosen.uniform(0, 0.02))
            victim = chosen.choice(sorted(processes))
            os.kill(victim, signal.SIGKILL)
            processes.discard(victim)
            for number, future in enumerate(futures, 40 * kill):
                error = future.exception(PATIENCE)
                if error is None:
                    assert future.result()[0] == number
                    processes.add(future.result()[1])
                else:
                    lost += 1
                    assert isinstance(error, gw.WorkerLostError)
                    assert f"(process {victim}) was killed by SIGKILL" in str(error)
                    assert f"wait_a_little({number})" in str(error)
            processes.discard(victim)
        assert list(pool.pmap(wait_a_little, range(20), retries=3, batch=1))[7][0] == 7
    assert lost <= 20 * 40 // 4, "tasks that a lost worker had not begun are run by others"
    assert not jobs.left_behind(sorted(processes))


def stay_for(number: int, folder: str = "") -> int:
    """Run without end for one of the numbers, the first time if there is a folder."""
    if number == 7:
        with contextlib.suppress(FileExistsError):
            if folder:
                Path(folder, "tried").touch(exist_ok=False)
            pool_cases.stay()
    return number


def test_a_time_limit_is_that_of_one_task(tmp_path: Path) -> None:
    """It begins with the task, and concerns neither those that the worker had run nor those that it was to run next."""
    with gw.WorkerPool(1) as busy, gw.WorkerPool(2) as pool:
        before, workers = busy.submit(time.sleep, 6), pool.workers
        waiting = busy.with_time_limit(5).submit(abs, -1)
        limited = pool.with_time_limit(5)
        futures = [limited.submit(stay_for, number) for number in range(60)]
        retried = limited.pmap(stay_for, range(10), [str(tmp_path)] * 10, retries=1)
        for number, future in enumerate(futures):
            error = future.exception(PATIENCE)
            assert isinstance(error, gw.TimeLimitError) if number == 7 else future.result() == number
        assert list(retried) == list(range(10))
        assert (before.result(PATIENCE), waiting.result(PATIENCE)) == (None, 1)
        assert pool.workers == workers


def fail() -> None:
    raise RuntimeError("no")


def test_a_pool_without_workers_is_broken() -> None:
    for initializer, reason in ((fail, "the initializer of worker"), (kill_oneself, "was killed by SIGKILL")):
        with gw.WorkerPool(2, initializer=initializer) as pool:
            error = None
            try:
                error = pool.submit(abs, -1).exception(PATIENCE)
            except gw.PoolBrokenError as known:
                error = known
            assert isinstance(error, gw.PoolBrokenError)
            assert reason in str(error)


LIMITED = """
import resource, sys
import gondwana as gw
resource.setrlimit(getattr(resource, sys.argv[1]), 2 * (int(sys.argv[2]),))
try:
    with gw.WorkerPool(int(sys.argv[3])) as pool:
        print({str(pool.submit(abs, -1).exception(60)) for _ in range(5)})
except gw.PoolBrokenError as error:
    print(error)
"""
AS_NOBODY = ["setpriv", "--reuid=64321", "--clear-groups", "--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
"""Becomes a user who has no process yet, and may read what the superuser may."""


REFUSED = """
import os, resource, signal
import gondwana as gw
with gw.WorkerPool(1) as pool:
    worker = pool.submit(os.getpid).result(60)
    resource.prlimit(pool._processes._keeper.pid, resource.RLIMIT_NPROC, (1, 1))
    pool.add(1)
    found = pool.submit(abs, -1).result(60)
    while pool.workers > 1:  # until the pool has taken note that the second one is missing
        found = pool.submit(abs, -1).result(60)
    print(found)
    os.kill(worker, signal.SIGKILL)
    try:
        print([pool.submit(abs, -1).exception(60) for _ in range(1000)][-1])
    except gw.PoolBrokenError as error:
        print(error)
"""
"""A pool whose second worker cannot be started, nor one in place of the first."""


@pytest.mark.parametrize(
    ("program", "limit", "workers", "found"),
    [
        (LIMITED, ("RLIMIT_NOFILE", 16), 16, "WorkerPool(16): no worker can be started: Too many open files: "),
        (LIMITED, ("RLIMIT_NPROC", 1), 2, "WorkerPool(2): no worker can be started: Resource temporarily unavailable"),
        (LIMITED, ("RLIMIT_NPROC", 2), 2, "the thread of a pool cannot be started: Resource temporarily unavailable"),
        (REFUSED, ("RLIMIT_NPROC", 1), 1, "1\nworker 3 could not be started: Resource temporarily unavailable: "),
    ],
)
def test_a_worker_that_cannot_start_says_why(program: str, limit: tuple[str, int], workers: int, found: str) -> None:
    if limit[0] == "RLIMIT_NPROC" and os.geteuid():
        pytest.skip("only the superuser can become a user who has no process yet")
    start = AS_NOBODY if limit[0] == "RLIMIT_NPROC" else []
    outcome = jobs.run_command(
        [*start, sys.executable, "-c", program, limit[0], str(limit[1]), str(workers)],
        variables={"HOME": "/", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert outcome.status == 0, str(outcome)
    assert outcome.stdout.startswith(found), str(outcome)
    assert outcome.stdout.count("\n") == 1 + found.count("\n")
    if program == REFUSED:
        assert outcome.stderr.startswith("gondwana: worker 2 could not be started: "), str(outcome)
        assert outcome.stderr.count("\n") == 1, str(outcome)


def test_a_pool_without_an_interpreter_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(gw.PoolBrokenError, match=r"WorkerPool.3.: no worker can be started: /no/python: No such file"):
        gw.WorkerPool(3)


def test_a_pool_whose_interpreter_does_not_work_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("raise KeyboardInterrupt('as from a library without threads')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with gw.WorkerPool(1) as pool:
        try:
            error = pool.submit(abs, -1).exception(PATIENCE)
        except gw.PoolBrokenError as known:
            error = known
    assert isinstance(error, gw.PoolBrokenError)
    assert "keeps the workers (which exited with status 1)" in str(error)


def test_workers_can_be_added_and_the_pool_ends(tmp_path: Path) -> None:
    pool = gw.WorkerPool(1)
    pool.add(2)
    for number in (0, -1):
        with pytest.raises(UsageError, match="give 1 or more"):
            pool.add(number)
        with pytest.raises(UsageError, match="give 1 or more"):
            gw.WorkerPool(number)
    path = tmp_path / "continue"
    held = [pool.submit(pool_cases.hold, str(path)) for _ in range(3)]
    end = time.monotonic() + PATIENCE
    while not all(future.running() for future in held) and time.monotonic() < end:
        time.sleep(0.01)
    assert all(future.running() for future in held), "three workers run three tasks at a time"
    waiting = [pool.submit(abs, -1) for _ in range(5)]
    pool.shutdown(wait=False, cancel_futures=True)
    assert all(future.cancelled() for future in waiting)
    with pytest.raises(gw.PoolClosedError):
        pool.submit(abs, -1)
    path.touch()
    pool.shutdown()
    assert [future.result(PATIENCE) for future in held] == [None] * 3


def test_an_interrupted_pool_ends_its_tasks_at_once() -> None:
    start = time.monotonic()
    pool = gw.WorkerPool(1)
    future = pool.submit(time.sleep, 600)

    def interrupted() -> None:
        with pool:
            while not future.running():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - start < PATIENCE
    assert isinstance(future.exception(), gw.PoolBrokenError)


PROGRAM = """
import os, sys, time
import gondwana as gw

class Case:
    def __init__(self, number): self.number = number
    def __eq__(self, other): return self.number == other.number

SCALE = 10
def scaled(case): return Case(SCALE * case.number)

pool = gw.WorkerPool(2)
assert pool.submit(scaled, Case(3)).result() == Case(30)
SCALE = 100
assert list(pool.pmap(scaled, [Case(1), Case(2)])) == [Case(100), Case(200)]
assert type(pool.submit(scaled, Case(3)).result()) is Case
if "--endless" in sys.argv:
    held = pool.submit(exec, "while True: pass")
    sleeps = pool.submit(time.sleep, 600)
    while not (held.running() and sleeps.running()): time.sleep(0.01)
    print("all run", flush=True)
    time.sleep(600)
if os.fork() == 0: sys.exit(0)  # a copy of this process, which does not end the pool
os.wait()
print(*pool.submit(eval, "os.getppid(), os.getpid()", {"os": os}).result())
"""


def test_what_the_program_defines_reaches_the_workers(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    outcome = jobs.run_command([sys.executable, str(script)], timeout=PATIENCE)
    assert outcome.status == 0, str(outcome)
    assert not jobs.left_behind([int(word) for word in outcome.stdout.split()])


def test_functions_of_modules_that_are_registered_for_it_are_sent_by_value(
    pool: gw.WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.joinpath("only_here.py").write_text("def negative(x):\n    return -x\n")
    monkeypatch.syspath_prepend(tmp_path)
    only_here = importlib.import_module("only_here")
    cloudpickle.register_pickle_by_value(only_here)
    try:
        assert pool.submit(max, [1, 3], key=only_here.negative).result(PATIENCE) == 1
    finally:
        cloudpickle.unregister_pickle_by_value(only_here)
    error = pool.submit(max, [1, 3], key=only_here.negative).exception(PATIENCE)
    assert isinstance(error, ModuleNotFoundError)


def test_workers_end_with_a_pool_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    with jobs.start_command([sys.executable, str(script), "--endless"]) as process:
        assert process.stdout is not None
        process.stdout.readline()
        workers = descendants(process.pid)
        process.kill()
    assert len(workers) == 3, "the process that keeps the workers, and two workers"
    assert not jobs.left_behind(workers, PATIENCE)


def test_idle_workers_use_no_processor_time(pool: gw.WorkerPool) -> None:
    pool.submit(abs, -1).result(PATIENCE)
    before = pool.submit(time.process_time).result(PATIENCE)
    own = time.process_time()
    time.sleep(1.0)
    assert time.process_time() - own < 0.1
    assert pool.submit(time.process_time).result(PATIENCE) - before < 0.05
