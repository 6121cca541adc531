"""Interleaved timing of variants of one operation, so that system noise affects all of them alike."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from gondwana import Team, compilation
from gondwana.errors import GondwanaError, UsageError
from gondwana.runtime import collector, cores
from gondwana_bench.disturbance import undisturbed

K = TypeVar("K")
T = TypeVar("T")

WARM_UP = 2
MAX_CALLS = 1_000_000
TRIES = 4
"""Measurements that are begun, if something is compiled during each."""

Variant = Callable[[int], float]
"""Performs the operation a number of times and returns the seconds that this took."""


def timed(call: Callable[[], object]) -> Variant:
    """Return a variant from a Python function that performs the operation once. Local.

    Example:
        >>> timed(lambda: sum(range(100)))(3) > 0.0
        True
    """

    def variant(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - start

    return variant


def in_seconds(loop: Callable[..., int], *arguments: object) -> Callable[..., float]:
    """Return the seconds of a compiled loop, which returns nanoseconds and takes more than these arguments. Local."""
    return lambda *others: loop(*arguments, *others) * 1e-9


def interleave(
    variants: Mapping[str, Variant],
    *,
    repeat: int = 20,
    discard: int = 0,
    batch_seconds: float = 0.02,
    rest_seconds: float = 0.0,
    team: Team | None = None,
    calls: tuple[int, int] | None = None,
    of_ranks: Callable[[Sequence[float]], float] = max,
) -> dict[str, list[float]]:
    """Time every variant in every round. Collective over team if one is given, else local.

    A variant is called a few times first, which compiles what there is to compile. Each sample is then a batch of calls
    that lasts about `batch_seconds`, so that neither the clock nor a sleeping thread counts; a tenth of a batch runs
    untimed before it. The order rotates from round to round, and rounds in which other programs ran are taken again.

    Args:
        variants: variants by name.
        repeat: rounds, at least 1.
        discard: rounds before those, which run alike and do not count.
        batch_seconds: length of a batch [s].
        rest_seconds: pause before each batch [s], for variants with threads: those of the one before go on spinning
            for a while, OpenMP's for tens of milliseconds, and would take the cores of the next.
        team: ranks that call the variants together: they start and end each batch at a barrier, make the same number
            of calls, and the slowest rank's time counts.
        calls: untimed and timed calls of a batch, where a procedure fixes them; None: as many as `batch_seconds` takes.
        of_ranks: statistic of the times of the ranks.

    Returns:
        Seconds a call, one sample a round, by name; the samples of a round have the same index.

    Raises:
        UsageError: no variant or no round.
        GondwanaError: something was compiled while the clock ran, in all of a few tries: the library itself compiles
            the code of a path once it has been used so often that this pays.

    Example:
        >>> samples = interleave({"sum": timed(lambda: sum(range(100)))}, repeat=3, batch_seconds=0.001)
        >>> len(samples["sum"])
        3
    """
    if not variants or repeat < 1:
        raise UsageError(f"{len(variants)} variants and {repeat} rounds: give at least one of each")
    batches = {name: _calls_of(variant, batch_seconds, team, calls) for name, variant in variants.items()}

    def sample(name: str) -> float:
        time.sleep(rest_seconds)
        untimed, number_of_calls = batches[name]
        _batch(variants[name], untimed, team)
        return _batch(variants[name], number_of_calls, team) / number_of_calls

    for _ in range(TRIES):
        before = compilation().compiled
        with collector.paused():
            samples = in_turns({name: partial(sample, name) for name in variants}, repeat, discard=discard, team=team)
        if not any(_over_ranks([compilation().compiled - before], team, max)):
            return {name: _over_ranks(values, team, of_ranks) for name, values in samples.items()}
    raise GondwanaError("a function was compiled while the clock ran: call it with its final arguments before")


def in_turns(
    variants: Mapping[K, Callable[[], T]], repeat: int, *, discard: int = 0, team: Team | None = None
) -> dict[K, list[T]]:
    """Call all variants in every round, in an order that rotates. Collective over team if one is given, else local.

    Rounds in which other programs ran are taken again: see `disturbance.undisturbed`.

    Args:
        variants: measure something once, by name.
        repeat: rounds.
        discard: rounds before those, which do not count.
        team: ranks that call the variants together.

    Returns:
        The results of the variants, one value a round, by name.
    """
    names = list(variants)

    def take(number: int) -> dict[K, T]:
        first = number % len(names)
        return {name: variants[name]() for name in (*names[first:], *names[:first])}

    for number in range(discard):
        take(number)
    rounds = undisturbed(lambda number: take(discard + number), repeat, team)
    return {name: [found[name] for found in rounds] for name in names}


def pin(team: Team) -> None:
    """Bind every rank to a core of its own, if that is possible: two ranks on one core wait for each other. Local."""
    mine = sorted(cores.own())
    if len(mine) >= team.size:
        os.sched_setaffinity(0, {mine[team.rank]})


def _batch(variant: Variant, calls: int, team: Team | None) -> float:
    if team is None:
        return variant(calls)
    team.barrier()
    seconds = variant(calls)
    team.barrier()  # a rank that has finished serves those that have not
    return seconds


def _calls_of(variant: Variant, seconds: float, team: Team | None, given: tuple[int, int] | None) -> tuple[int, int]:
    """Return the untimed and the timed calls of a batch: those given, or as many as take `seconds`."""
    _batch(variant, WARM_UP, team)
    if given is not None:
        return given
    calls = _calls_in_batch(variant, seconds, team)
    return math.ceil(calls / 10), calls


def _calls_in_batch(variant: Variant, seconds: float, team: Team | None) -> int:
    """Return the calls of a batch of `seconds`: doubled until the estimate is based on a tenth of that."""
    calls = 1
    while True:
        elapsed = math.inf
        for _ in range(2):  # the shorter of two, since another program may have interrupted one
            [once] = _over_ranks([_batch(variant, calls, team)], team, max)
            elapsed = min(elapsed, once)
            if elapsed < seconds / 10 and calls < MAX_CALLS:
                break
        else:
            return min(MAX_CALLS, max(1, round(calls * seconds / max(elapsed, 1e-9))))
        calls *= 2


def _over_ranks(values: list[float], team: Team | None, combine: Callable[[Sequence[float]], float]) -> list[float]:
    if team is None:
        return values
    return [combine(of_ranks) for of_ranks in zip(*team.allgather(values), strict=True)]
