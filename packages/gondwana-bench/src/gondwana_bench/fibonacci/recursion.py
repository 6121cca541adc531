"""The benchmark of recursive calls: Fibonacci numbers by their definition, called and spawned.

The number is the granularity: from an empty task, n = 0, to 242,785 calls, n = 25. Tasks are spawned on other ranks,
and submitted to a pool of processes.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

import gondwana as gw
from gondwana.errors import UsageError
from gondwana_bench import build
from gondwana_bench.fibonacci.loops import compiled, fibonacci, interpreted, total
from gondwana_bench.measure import Variant, interleave
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rows import Row, beside, columns
from gondwana_bench.tasks.between import by_rank_0, others_asleep
from gondwana_bench.tasks.cases import Case
from gondwana_bench.tasks.children import Children
from gondwana_bench.tasks.durations import sample

NUMBERS = (0, 10, 20, 25)
LARGEST = 40
"""A call takes half a second in C; in Python, half a minute."""

COLUMNS = columns(
    "case n ranks ours_us rival compiler rival_us ratio verified",
    ours_us="ours us", rival_us="rival us", ratio="rival/ours (95 %)",
)  # fmt: skip


class Calls:
    """Calls with one number, by several means, and which of them have returned another number. Local.

    Args:
        n: place of the Fibonacci number.

    Attributes:
        pair: the number twice, as the loops in C and in compiled code take it.
        wrong: names of the means that were wrong.

    Example:
        >>> calls = Calls(10)
        >>> calls.timed("ours", lambda count: 55 * count)(3) > 0.0
        True
        >>> calls.wrong
        set()
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.pair = np.full(2, n)
        self.wrong: set[str] = set()
        self._number = _by_addition(n)

    def timed(self, name: str, total: Callable[[int], int]) -> Variant:
        """Return a variant from a function that makes a number of calls and returns the sum of their results. Local."""

        def variant(count: int) -> float:
            start = time.perf_counter()
            found = total(count)
            seconds = time.perf_counter() - start
            if found != count * self._number:
                self.wrong.add(name)
            return seconds

        return variant


def check(numbers: Sequence[int]) -> None:
    """Check the arguments. Local.

    Raises:
        UsageError: says what was given and what is legal.
    """
    if not numbers or min(numbers) < 0 or max(numbers) > LARGEST:
        raise UsageError(f"--numbers {','.join(map(str, numbers))}: legal are numbers from 0 to {LARGEST}")


def measure(
    team: gw.Team, *, numbers: Sequence[int], called: bool = True, repeat: int, batch_seconds: float
) -> Iterator[Row]:
    """Yield a row for each case, number and rival. Collective over team.

    Args:
        team: all ranks; a single rank spawns nothing.
        numbers: Fibonacci numbers to compute, by their places.
        called: whether calls of rank 0 alone are measured, too.
        repeat: rounds. A tenth as many before them do not count.
        batch_seconds: length of a batch [s].
    """
    check(numbers)
    with Children() as children:
        for n in numbers:
            calls = Calls(n)
            if called:
                yield from _rows(_called(calls), calls, team, repeat, batch_seconds)
            if team.size > 1:
                yield from _rows(_spawned(calls, children), calls, team, repeat, batch_seconds)


def measure_in_pool(workers: int, *, numbers: Sequence[int], repeat: int, batch_seconds: float) -> Iterator[Row]:
    """Yield a row for each number and rival: calls by tasks of a pool, with the wait for each. Local: makes the pool.

    Args:
        workers: workers of each pool; the figure has them as its ranks.
        numbers: Fibonacci numbers to compute, by their places.
        repeat: rounds. A tenth as many before them do not count.
        batch_seconds: length of a batch [s].
    """
    with gw.WorkerPool(workers) as pool, Children(workers) as children:
        for n in numbers:
            calls = Calls(n)
            variants: dict[str, Callable[[int], int]] = {
                "ours": partial(_submitted, pool, n),
                **_rivals_of_tasks(calls, children),
            }
            timed = {name: calls.timed(name, sum_of) for name, sum_of in variants.items()}
            samples = interleave(timed, repeat=repeat, discard=repeat // 10, batch_seconds=batch_seconds)
            yield from rows("pool, submit + result", n, workers, samples, calls.wrong)


def rows(case: str, n: int, ranks: int, samples: Mapping[str, Sequence[float]], wrong: set[str]) -> list[Row]:
    """Return the rows of a case from seconds a call, one sample a round. Local.

    Args:
        case: name of the case.
        n: place of the Fibonacci number.
        ranks: number of ranks that took part, or of workers.
        samples: samples of "ours", and of each rival.
        wrong: names of programs that have returned another number.
    """
    ours, *rivals = samples
    found: list[Row] = []
    for rival in rivals:
        compared = beside(samples[rival], samples[ours], more={"verified": wrong.isdisjoint({ours, rival})})
        found.append(
            {
                "case": case,
                "n": n,
                "ranks": ranks,
                "ours_us": compared["seconds"]["median"] * 1e6,
                "rival": rival,
                "compiler": _compiler(rival),
                "rival_us": compared["rival_seconds"]["median"] * 1e6,
                **compared,
            }
        )
    return found


def _rows(case: Case, calls: Calls, team: gw.Team, repeat: int, batch_seconds: float) -> list[Row]:
    samples, _ = sample(case, team, repeat=repeat, discard=repeat // 10, batch_seconds=batch_seconds)
    return rows(case.name, calls.n, team.size, samples, team.bcast(calls.wrong))


def _called(calls: Calls) -> Case:
    """Calls by a loop of the language itself."""
    return Case(
        "call",
        None,
        calls.timed("ours", lambda count: total(calls.pair, count)),
        {
            **{name: calls.timed(name, sum_of) for name, sum_of in _in_c("C", "fibonacci_calls", calls.pair).items()},
            "Python": calls.timed("Python", lambda count: sum(interpreted(calls.n) for _ in range(count))),
        },
    )


def _spawned(calls: Calls, children: Children) -> Case:
    """Calls by a task of any other rank, one after the other, with the wait for each result."""

    def spawn(count: int) -> int:
        return sum(gw.fetch(gw.spawn(fibonacci, calls.n)) for _ in range(count))

    rivals = _rivals_of_tasks(calls, children)
    asleep = {name: others_asleep(calls.timed(name, sum_of)) for name, sum_of in rivals.items()}
    return Case("spawn + fetch", None, by_rank_0(calls.timed("ours", spawn)), asleep, collective=True)


def _submitted(pool: gw.WorkerPool, n: int, count: int) -> int:
    return sum(pool.submit(fibonacci, n).result() for _ in range(count))


def _rivals_of_tasks(calls: Calls, children: Children) -> dict[str, Callable[[int], int]]:
    """Functions that make a number of calls elsewhere and return the sum, by name."""

    def apply(count: int) -> int:
        return sum(children.apply(compiled, (calls.n,)) for _ in range(count))

    return {**_in_c("pthread in C", "fibonacci_threads", calls.pair), "multiprocessing Pool.apply": apply}


def _in_c(rival: str, name: str, pair: NDArray[np.int64]) -> dict[str, Callable[[int], int]]:
    """A function in C as a rival, by each compiler: a second one is named after a comma."""

    def of(compiler: str) -> Callable[[int], int]:
        function = build.library("fibonacci.c", ["-pthread"], compiler)[name]
        function.restype, function.argtypes = ctypes.c_long, [ctypes.c_void_p, ctypes.c_long]
        return lambda count: int(function(pair.ctypes.data, count))

    return {
        rival if compiler == build.FIRST else f"{rival}, {called}": of(compiler)
        for compiler, called in build.compilers().items()
    }


def _compiler(rival: str) -> str | None:
    """The compiler of a rival in C."""
    first, _, second = rival.partition(", ")
    return (second or build.compilers()[build.FIRST]) if first.endswith("C") else None


def _by_addition(n: int) -> int:
    number, following = 0, 1
    for _ in range(n):
        number, following = following, number + following
    return number


if __name__ == "__main__":
    sys.exit(measure_on_ranks("fib", COLUMNS, measure))
