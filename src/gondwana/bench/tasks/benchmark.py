"""The benchmark of tasks: every case beside its rivals, in the same rounds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict

import gondwana as gw
from gondwana.bench.measure import interleave
from gondwana.bench.panels import measure_on_ranks
from gondwana.bench.rows import Row, check_cases, relative
from gondwana.bench.statistics import summarize
from gondwana.bench.tasks import between, cases
from gondwana.bench.tasks.cases import Case

COLUMNS = {
    "case": "once",
    "ours_us": "ours us",
    "goal_us": "goal us",
    "rival": "rival",
    "rival_us": "rival us",
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
                yield from _rows(case, team, repeat, batch_seconds)
    check_cases(names, seen)


def _rows(case: Case, team: gw.Team, repeat: int, batch_seconds: float) -> list[Row]:
    variants = {"ours": case.ours, **case.rivals}
    if case.collective:
        samples = interleave(variants, repeat=repeat, batch_seconds=batch_seconds, team=team)
        return rows(case, samples)
    made: list[Row] = []
    if team.rank == 0:
        made = rows(case, interleave(variants, repeat=repeat, batch_seconds=batch_seconds, rest_seconds=_PAUSE))
    ended = team.comm.Ibarrier()
    while not ended.Test():
        time.sleep(_PAUSE)
    found: list[Row] = team.bcast(made)
    return found


def rows(case: Case, samples: dict[str, list[float]]) -> list[Row]:
    """Return the rows of a case from seconds a call, one sample a round. Local."""
    ours = summarize(samples["ours"])
    rivals: list[str | None] = [*case.rivals] or [None]
    return [
        {
            "case": case.name,
            "ours_us": ours.median * 1e6,
            "goal_us": case.goal,
            "rival": rival,
            "rival_us": None if rival is None else summarize(samples[rival]).median * 1e6,
            **relative(None if rival is None else samples[rival], samples["ours"]),
            "verified": True,
            "seconds": asdict(ours),
        }
        for rival in rivals
    ]


if __name__ == "__main__":
    sys.exit(measure_on_ranks("tasks", COLUMNS, measure, sys.argv[1:]))
