"""Teams of threads: barriers, slots, reductions, results, exceptions; one thread, and more threads than cores."""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

import gondwana as gw
from gondwana.compiler.memory_order import current_core, leave_core
from gondwana.errors import KernelError, UsageError
from support import jobs

SIZES = (1, 2, 3, 8)
LINE = 16
"""Words between what different threads write."""


@gw.jit
def who(threads, seen):
    seen[threads.index] += 10 * threads.size + threads.index
    return threads.index, threads.size


@pytest.mark.parametrize("size", SIZES)
def test_every_thread_calls_the_function_once(size: int) -> None:
    seen = np.zeros(size, np.int64)
    assert gw.parallel(who, seen, threads=size) == (0, size)
    assert seen.tolist() == [10 * size + index for index in range(size)]


def test_as_many_threads_as_run_kernels() -> None:
    before = gw.threads()
    gw.set_threads(3)
    try:
        assert gw.parallel(who, np.zeros(3, np.int64)) == (0, 3)
    finally:
        gw.set_threads(before)


@gw.jit
def hold_barriers(threads, rounds, words):
    """Count what a barrier has let a thread see too early or too late."""
    wrong = 0
    for turn in range(rounds):
        words[16 * threads.index] = turn
        threads.barrier()
        for other in range(threads.size):
            wrong += words[16 * other] != turn
        threads.barrier()
    return threads.sum(wrong)


@pytest.mark.parametrize("size", SIZES)
def test_nobody_leaves_a_barrier_before_all_have_come(size: int) -> None:
    assert gw.parallel(hold_barriers, 2000, np.zeros(LINE * size, np.int64), threads=size) == 0


@gw.jit
def pass_messages(threads, rounds, data):
    """A ring: each thread reads what its left neighbour has written, and says so before that is overwritten."""
    left = (threads.index - 1) % threads.size
    written, read, right = threads.index, threads.size + threads.index, (threads.index + 1) % threads.size
    wrong = 0
    for turn in range(1, rounds + 1):
        threads.wait_for(threads.size + right, turn - 1)
        for i in range(8):
            data[threads.index, i] = turn * 100 + threads.index
        threads.publish(written, turn)
        threads.wait_for(left, turn)
        for i in range(8):
            wrong += data[left, i] != turn * 100 + left
        threads.publish(read, turn)
    return threads.sum(wrong)


@pytest.mark.parametrize("size", SIZES)
def test_what_was_written_before_it_is_published_is_seen(size: int) -> None:
    assert gw.parallel(pass_messages, 2000, np.zeros((size, 8)), threads=size, slots=2 * size) == 0


@gw.jit
def draw(threads, done):
    """Take steps of a loop one by one, as they come."""
    own = 0
    while True:
        step = threads.fetch_add(0, 1)
        if step >= len(done):
            break
        done[step] += 1
        own += 1
    return threads.sum(own), threads.fetch_add(np.int32(0), np.uint8(0))


@pytest.mark.parametrize("size", SIZES)
def test_steps_are_drawn_once(size: int) -> None:
    done = np.zeros(5000, np.int64)
    assert gw.parallel(draw, done, threads=size, slots=1) == (5000, 5000 + size)
    assert (done == 1).all()


@gw.jit
def fold(threads, values, rounds, found):
    for turn in range(rounds):
        value = values[threads.index, turn]
        found[threads.index, turn, 0] = threads.sum(value)
        found[threads.index, turn, 1] = threads.min(value)
        if turn % 3 == 0:
            threads.barrier()
        found[threads.index, turn, 2] = threads.max(value)
        found[threads.index, turn, 3] = threads.broadcast(value)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u8", "?"])
def test_reductions_are_those_of_numpy(dtype: str, size: int) -> None:
    values = (np.random.default_rng(3).random((size, 30)) * 200 - (100 if dtype[0] in "fi" else 0)).astype(dtype)
    wide = dtype if dtype[0] == "f" else "u8" if dtype == "u8" else "i8"
    found = np.zeros((size, 30, 4), wide)
    gw.parallel(fold, values, 30, found, threads=size)
    total = np.zeros(30, wide)
    for row in values:  # in the order of the threads
        total += row.astype(wide)
    expected = np.stack([total, *(row.astype(wide) for row in (values.min(0), values.max(0), values[0]))], axis=1)
    assert (found == expected).all()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_nan_is_the_smallest_and_the_largest(place: int) -> None:
    values = np.array([[1.0], [2.0], [3.0]])
    values[place] = np.nan
    found = np.zeros((3, 1, 4))
    gw.parallel(fold, values, 1, found, threads=3)
    assert np.isnan(found[:, 0, :3]).all()


@gw.jit
def cover(threads, first, last, seen):
    start, end = threads.share(first, last)
    for i in range(start, end):
        seen[i] += 1
    return threads.max(end - start) - threads.min(end - start)


@pytest.mark.parametrize(("first", "last"), [(0, 100), (3, 5), (7, 7)])
@pytest.mark.parametrize("size", SIZES)
def test_shares_are_the_range(first: int, last: int, size: int) -> None:
    seen = np.zeros(100, np.int64)
    assert gw.parallel(cover, first, last, seen, threads=size) <= 1
    assert (seen[first:last] == 1).all()
    assert seen.sum() == last - first


@pytest.mark.parametrize("size", SIZES)
def test_a_range_that_ends_before_it_begins_has_empty_shares(size: int) -> None:
    seen = np.zeros(100, np.int64)
    assert gw.parallel(cover, 50, 3, seen, threads=size) == 0
    assert gw.parallel(cover, -3, 4, seen, threads=size) <= 1  # negative indices count from the end
    assert np.flatnonzero(seen).tolist() == [0, 1, 2, 3, 97, 98, 99]


NOT_IN_THE_CACHE = float(time.time_ns())


@gw.jit
def add_in_share(threads, a, b):
    first, last = threads.share(0, len(a))
    for i in range(first, last):
        a[i] += NOT_IN_THE_CACHE * b[i]


def test_loops_over_a_share_load_and_store_whole_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core.codegen import JITCodeLibrary

    codes = []
    finalize = JITCodeLibrary._finalize_final_module

    def record(library: Any) -> None:
        finalize(library)
        codes.append(str(library._final_module))

    monkeypatch.setattr(JITCodeLibrary, "_finalize_final_module", record)
    gw.parallel(add_in_share, np.zeros(8), np.zeros(8))
    [code] = [code for code in codes if "load <" in code]
    assert "store <" in code
    assert "scatter" not in code
    assert "gather" not in code


class Problem(NamedTuple):
    x: Any
    scale: float


@gw.jit
def part_of(threads, problem):
    first, last = threads.share(0, len(problem.x))
    total = 0.0
    for i in range(first, last):
        total += problem.scale * problem.x[i]
    return total


@gw.jit
def scaled(threads, problem, box, text="x", bias=1):
    """Helpers take the team; arguments are those of any compiled function, with defaults."""
    return threads.sum(part_of(threads, problem)) + box[2] + bias + len(text)


def test_helpers_named_tuples_arrays_and_defaults() -> None:
    box = gw.Array.full(gw.RectDomain(0, 4), 0.25)
    problem = Problem(np.ones(1000), 2.0)
    for size in SIZES:
        assert gw.parallel(scaled, problem, box, threads=size) == 2002.25
        assert gw.parallel(scaled, problem, box, "four", 0, threads=size) == 2004.25


@gw.jit
def nothing(threads):
    threads.barrier()


def test_a_function_without_result() -> None:
    assert gw.parallel(nothing, threads=2) is None


class DivergedError(Exception):
    pass


@gw.jit
def fail(threads, whom, how, tight):
    """One thread fails; the others wait for it in the way that `how` says."""
    if threads.index == whom:
        raise DivergedError("diverged")
    if how == 0:
        threads.barrier()
    elif how == 1:
        threads.wait_for(0, 1)
    elif how == 2:
        threads.sum(1.0)
    while tight and threads.size > 1:
        threads.barrier()


@pytest.mark.parametrize("how", [0, 1, 2, 3])
@pytest.mark.parametrize("size", SIZES)
def test_an_exception_of_a_thread_arrives_and_nobody_waits_permanently(size: int, how: int) -> None:
    for whom in {0, size // 2, size - 1}:
        for _ in range(10):
            with pytest.raises(DivergedError, match=r"diverged \(raised in fail\)"):
                gw.parallel(fail, whom, how, how == 3, threads=size)
    assert gw.parallel(who, np.zeros(size, np.int64), threads=size) == (0, size)


@gw.jit
def fail_all(threads):
    raise ZeroDivisionError("all")


def test_all_threads_fail() -> None:
    for size in SIZES:
        with pytest.raises(ZeroDivisionError, match="all"):
            gw.parallel(fail_all, threads=size)


@gw.jit
def desert(threads, how):
    """One thread misses a barrier; or all but one return, and nobody is left to publish."""
    if how == 0 and threads.index != 0:
        threads.barrier()
    if how == 1 and threads.index == 1:
        threads.wait_for(0, 1)


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("how", [0, 1])
def test_a_thread_that_returns_too_early_is_an_error(how: int, size: int) -> None:
    with pytest.raises(RuntimeError, match="has failed or returned"):
        gw.parallel(desert, how, threads=size)


@gw.jit
def wait_alone(threads):
    threads.wait_for(0, 1)


def test_one_thread_cannot_wait_for_itself() -> None:
    with pytest.raises(RuntimeError, match="has failed or returned"):
        gw.parallel(wait_alone, threads=1)


@gw.jit
def leave_early(threads, value):
    """Legal: thread 0 returns while others still read what it has published."""
    if threads.index == 0:
        threads.publish(0, value)
        return 0
    threads.wait_for(0, value)
    return value


def test_who_returns_early_leaves_what_it_published() -> None:
    for size in (2, 3, 8):
        for value in range(1, 50):
            assert gw.parallel(leave_early, value, threads=size) == 0


@gw.jit
def sleep_and_wake(threads, rounds, work):
    """Threads take turns with work long enough for the others to fall asleep."""
    total = 0.0
    for turn in range(rounds):
        if turn % threads.size == threads.index:
            for i in range(work):
                total += (i % 7) * 1e-3
            threads.publish(0, turn + 1)
        threads.wait_for(0, turn + 1)
        threads.barrier()
    return total > 0


@pytest.mark.parametrize("size", [2, 3, 8])
def test_threads_that_sleep_are_woken(size: int) -> None:
    assert gw.parallel(sleep_and_wake, 40, 1_000_000, threads=size)


@gw.jit
def use_slot(threads, which, slot):
    if which == 0:
        threads.publish(slot, 1)
    elif which == 1:
        threads.wait_for(slot, 0)
    else:
        threads.fetch_add(slot, 1)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_slots_that_are_not_there(which: int) -> None:
    for threads, slots, slot in ((1, None, 1), (2, None, 2), (2, 0, 0), (2, 5, 5), (2, 5, -1)):
        with pytest.raises(IndexError, match="no such slot: see slots="):
            gw.parallel(use_slot, which, slot, threads=threads, slots=slots)
    gw.parallel(use_slot, which, 4, threads=2, slots=5)


@gw.jit
def nested(threads):
    gw.parallel(nothing, threads=2)


@gw.jit
def nested_with_arguments(threads, x):
    return gw.parallel(part_of, x)


def test_nested_teams_are_refused() -> None:
    for function, arguments in ((nested, ()), (nested_with_arguments, (np.ones(3),))):
        with pytest.raises(KernelError, match=r"gw\.parallel cannot be called in compiled code"):
            gw.parallel(function, *arguments, threads=2)


@gw.jit
def fraction(threads):
    threads.publish(0.5, 1)


@gw.jit
def sum_of_text(threads):
    threads.sum("a")


@gw.jit
def returns_array(threads, x):
    return x


def test_what_does_not_compile_says_why() -> None:
    with pytest.raises(KernelError, match="publish of a team of threads takes integers, not float64"):
        gw.parallel(fraction, threads=2)
    with pytest.raises(KernelError, match="sum of a team of threads takes a real number"):
        gw.parallel(sum_of_text, threads=2)
    with pytest.raises(KernelError, match="write larger results into an array argument"):
        gw.parallel(returns_array, np.ones(2))


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_illegal_numbers_are_refused(count: Any) -> None:
    with pytest.raises(UsageError, match=r"gw\.parallel\(\.\.\., threads=.*\): give a whole number of threads"):
        gw.parallel(nothing, threads=count)
    if count != 0:
        with pytest.raises(UsageError, match=r"gw\.parallel\(\.\.\., slots=.*\): give a whole number"):
            gw.parallel(nothing, slots=count)


def test_functions_and_arguments_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match=r"decorated with @gw\.jit"):
        gw.parallel(lambda threads: None)
    with pytest.raises(TypeError, match="seen"):
        gw.parallel(who)
    with pytest.raises(RuntimeError, match=r"see gw\.parallel"):
        gw.ThreadTeam().barrier()


def test_teams_of_several_python_threads_take_turns() -> None:
    problems: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                assert gw.parallel(hold_barriers, 10, np.zeros(LINE * 3, np.int64), threads=3) == 0
                assert gw.parallel(hold_barriers, 10, np.zeros(LINE, np.int64), threads=1) == 0
        except BaseException as error:  # a thread's error is shown by the test
            problems.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not problems


SECOND_START = """
import sys
import numpy as np
import gondwana as gw
import team_of_file

print(gw.parallel(team_of_file.total, np.ones(100), threads=2))
print(gw.compilation().compiled, "numba" in sys.modules)
"""
MODULE = """
import gondwana as gw

@gw.jit
def total(threads, x):
    first, last = threads.share(0, len(x))
    part = 0.0
    for i in range(first, last):
        part += x[i]
    return threads.sum(part)
"""


def test_a_second_start_compiles_nothing(tmp_path: Path) -> None:
    (tmp_path / "team_of_file.py").write_text(MODULE)
    (tmp_path / "program.py").write_text(SECOND_START)
    for number in range(2):
        outcome = jobs.run_command([sys.executable, str(tmp_path / "program.py")])
        assert outcome.status == 0, str(outcome)
        total, facts = outcome.stdout.splitlines()
        assert total == "100.0"
        if number:
            assert facts == "0 False"


def leave() -> tuple[int, int]:
    before = current_core()
    leave_core(before)
    return before, current_core()


@pytest.mark.parametrize("alone", [False, True])
def test_a_woken_thread_leaves_a_core_and_keeps_its_choice_of_cores(alone: bool) -> None:
    compiled = numba.njit(leave)

    def visit() -> None:
        own = os.sched_getaffinity(0)  # of this thread
        if alone:
            own = {min(own)}
            os.sched_setaffinity(0, own)
        # The system may move a thread at any time, back to where it was, too.
        places = [compiled() for _ in range(100)]
        assert os.sched_getaffinity(0) == own
        assert {core for pair in places for core in pair} <= own
        assert any(before != after for before, after in places) == (len(own) > 1)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(visit).result()
