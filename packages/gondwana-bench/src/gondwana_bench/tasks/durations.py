"""The benchmark of tasks: every case beside its rivals, in the same rounds."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from statistics import median

import gondwana as gw
from gondwana_bench.disturbance import processor_time
from gondwana_bench.measure import Variant, interleave
from gondwana_bench.panels import measure_on_ranks
from gondwana_bench.rows import Row, beside, both, check_cases, in_microseconds
from gondwana_bench.tasks import between, cases
from gondwana_bench.tasks.cases import Case

COLUMNS = {
    "case": "once", "ours_us": "ours us", "goal_us": "goal us", "ours_per_s": "ours /s",
    "rival": "rival", "rival_us": "rival us", "rival_per_s": "rival /s", "ratio": "ratio",
    "processor_us": "ours CPU us", "rival_processor_us": "rival CPU us",
}  # fmt: skip

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
                yield from rows(case, *sample(case, team, repeat=repeat, batch_seconds=batch_seconds))
    check_cases(names, seen)


def sample(
    case: Case, team: gw.Team, *, repeat: int, discard: int = 0, batch_seconds: float
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Time a case and its rivals in turns, by all ranks or by rank 0 while the others sleep. Collective over team.

    Args:
        case: the case.
        team: all ranks.
        repeat: rounds.
        discard: rounds before those that do not count.
        batch_seconds: length of a batch [s].

    Returns:
        Seconds a call, one sample a round, of "ours" and of each rival; and seconds that processors worked for a call,
        those of all ranks that took part and of processes that they have started. The same on every rank.
    """
    used: dict[str, list[float]] = defaultdict(list)

    def counted(name: str, variant: Variant, calls: int) -> float:
        before = _worked()
        seconds = variant(calls)
        used[name].append((_worked() - before) / calls)
        return seconds

    def processor() -> dict[str, float]:  # every second batch of a variant is timed, the last one, too
        return {name: median(found[: -2 * repeat : -2]) for name, found in used.items()}

    variants = {name: partial(counted, name, variant) for name, variant in (("ours", case.ours), *case.rivals.items())}
    timed = partial(interleave, variants, repeat=repeat, discard=discard, batch_seconds=batch_seconds)
    if case.collective:
        samples = timed(team=team)
        of_ranks = team.allgather(processor())
        return samples, {name: sum(of_rank[name] for of_rank in of_ranks) for name in variants}
    made = (timed(rest_seconds=_PAUSE), processor()) if team.rank == 0 else None
    ended = team.comm.Ibarrier()
    while not ended.Test():
        time.sleep(_PAUSE)
    found: tuple[dict[str, list[float]], dict[str, float]] = team.bcast(made)
    return found


def _worked() -> float:
    """Processor time of this process and of its children [s]."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    alive = sum(processor_time(child.pid or 0) for child in multiprocessing.active_children())
    return time.process_time() + ended.ru_utime + ended.ru_stime + alive


def rows(case: Case, samples: dict[str, list[float]], processor: dict[str, float]) -> list[Row]:
    """Return the rows of a case from the results of `sample`. Local.

    The rates, `ours_per_s` and `rival_per_s`, are the harmonic means over the samples: all calls over all their time.
    """
    rivals: list[str | None] = [*case.rivals] or [None]
    found: list[Row] = []
    for rival in rivals:
        theirs, worked = (None, None) if rival is None else (samples[rival], processor[rival])
        more = both(processor["ours"], worked, "rival_", processor_us=in_microseconds) | {"verified": True}
        compared = beside(theirs, samples["ours"], more=more)
        ours, other = compared["seconds"], compared["rival_seconds"]
        found.append(
            {
                "case": case.name,
                "ours_us": ours["median"] * 1e6,
                "goal_us": case.goal,
                "ours_per_s": 1.0 / ours["mean"],
                "rival": rival,
                "rival_us": other and other["median"] * 1e6,
                "rival_per_s": other and 1.0 / other["mean"],
                **compared,
            }
        )
    return found


if __name__ == "__main__":
    sys.exit(measure_on_ranks("tasks", COLUMNS, measure))
