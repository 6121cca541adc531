"""The benchmark of tasks: every case beside its rivals, in the same rounds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial

import gondwana as gw
from gondwana_bench.measure import interleave
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rows import Row, check_cases, relative
from gondwana_bench.statistics import summarize
from gondwana_bench.tasks import between, cases
from gondwana_bench.tasks.cases import Case

COLUMNS = {
    "case": "once",
    "ours_us": "ours us",
    "goal_us": "goal us",
    "ours_per_s": "ours /s",
    "rival": "rival",
    "rival_us": "rival us",
    "rival_per_s": "rival /s",
    "ratio": "ratio",
}

FAMILIES: list[Callable[[], Iterable[Case]]] = [cases.of_one_rank, between.of_ranks]
"""Each returns some cases; the others of this list are measured after them."""

_PAUSE = 1e-3


def measure(team: gw.Team, *, names: Sequence[str] | None, repeat: int, batch_seconds: float) -> Iterator[Row]:
    """Yield a row for each case and rival. Collective over team.

    Args:
        team: all ranks.
        names: parts of the names of the cases to measure; None: all.
        repeat: rounds.
        batch_seconds: length of a batch [s].

    Raises:
        UsageError: a part is in no name of a case of so many ranks. The cases of other parts have been measured.
    """
    seen: list[str] = []
    for family in FAMILIES:
        for case in family():
            seen.append(case.name)
            if names is None or any(name in case.name for name in names):
                yield from rows(case, sample(case, team, repeat=repeat, batch_seconds=batch_seconds))
    check_cases(names, seen)


def sample(case: Case, team: gw.Team, *, repeat: int, discard: int = 0, batch_seconds: float) -> dict[str, list[float]]:
    """Time a case and its rivals in turns, by all ranks or by rank 0 while the others sleep. Collective over team.

    Args:
        case: what to time.
        team: all ranks.
        repeat: rounds.
        discard: rounds before those that do not count.
        batch_seconds: length of a batch [s].

    Returns:
        Seconds a call, one sample a round, of "ours" and of each rival, the same on every rank.
    """
    variants = {"ours": case.ours, **case.rivals}
    timed = partial(interleave, variants, repeat=repeat, discard=discard, batch_seconds=batch_seconds)
    if case.collective:
        return timed(team=team)
    made = timed(rest_seconds=_PAUSE) if team.rank == 0 else None
    ended = team.comm.Ibarrier()
    while not ended.Test():
        time.sleep(_PAUSE)
    found: dict[str, list[float]] = team.bcast(made)
    return found


def rows(case: Case, samples: dict[str, list[float]]) -> list[Row]:
    """Return the rows of a case from seconds a call, one sample a round. Local.

    The rates, `ours_per_s` and `rival_per_s`, are the harmonic means over the samples: all calls over all their time.
    """
    ours = summarize(samples["ours"])
    rivals: list[str | None] = [*case.rivals] or [None]
    found: list[Row] = []
    for rival in rivals:
        theirs = None if rival is None else summarize(samples[rival])
        found.append(
            {
                "case": case.name,
                "ours_us": ours.median * 1e6,
                "goal_us": case.goal,
                "ours_per_s": 1.0 / ours.mean,
                "rival": rival,
                "rival_us": None if theirs is None else theirs.median * 1e6,
                "rival_per_s": None if theirs is None else 1.0 / theirs.mean,
                **relative(None if rival is None else samples[rival], samples["ours"]),
                "verified": True,
                "seconds": asdict(ours),
                "rival_seconds": None if theirs is None else asdict(theirs),
            }
        )
    return found


if __name__ == "__main__":
    sys.exit(measure_on_ranks("tasks", COLUMNS, measure))
