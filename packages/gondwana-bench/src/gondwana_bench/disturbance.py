"""The load of other programs while a benchmark measured: it is recorded, and disturbed rounds are measured again."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, TypeVar

from gondwana import Team
from gondwana.runtime import cores

T = TypeVar("T")

LIMIT = 0.2
"""Foreign load above which a measurement is disturbed [processors]."""
QUIET_WAIT = "GONDWANA_QUIET_WAIT"
"""The variable with the seconds for which a benchmark waits for a quiet machine, at most."""
TOGETHER = 1e-3
"""Seconds between rows that were measured together, and computed one after the other."""
WINDOW, SHORTEST = 0.5, 0.1
"""Seconds to which a shorter measurement is extended backwards, and below which no load is given: the system counts
the time of processors in hundredths of a second."""

_TICK = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class _Reading:
    """Clocks of this process and its machine [s], and the number of times that it had to leave its processor."""

    time: float
    machine: float
    own: float
    switches: int

    def __sub__(self, other: _Reading) -> _Reading:
        return _Reading(*(mine - its for mine, its in zip(astuple(self), astuple(other), strict=True)))


_left_out = _Reading(0.0, 0.0, 0.0, 0)
"""The times of rounds that were taken again: the clocks of this module stand still meanwhile."""


def watched(rows: Iterable[dict[str, Any]], team: Team | None = None) -> Iterator[dict[str, Any]]:
    """Yield rows, each with the load that disturbed its measurement. Collective over team if one is given, else local.

    `foreign_load` is the number of processors that programs other than this one and its children kept busy on average,
    on the machine with most of it; a hypervisor that took processors away counts. It is that of the last half second
    at least; None if the benchmark has not lasted a tenth of a second. `involuntary_switches` is how often the system
    took a processor from this process and its children, or from all ranks together, in the same time. Rounds that were
    taken again (`undisturbed`) do not count.

    Before the first row the machine is waited for, if `QUIET_WAIT` says so.

    Args:
        rows: rows that are measured as they are asked for; those that follow at once have been measured together.
        team: ranks that measure together.
    """
    _wait_until_quiet(float(os.environ.get(QUIET_WAIT, 0.0)), team)
    starts, found = [_read()], {"foreign_load": None, "involuntary_switches": 0}
    for row in rows:
        now = _read()
        if _slowest(now.time - starts[-1].time, team) > TOGETHER:
            starts = _last(starts, now)
            found = _disturbance(now - starts[0], team)
        yield {**row, **({} if "foreign_load" in row else found)}
        starts.append(_read())


def undisturbed(take: Callable[[int], T], rounds: int, team: Team | None = None) -> list[T]:
    """Take rounds, and again those in which other programs ran. Collective over team if one is given, else local.

    Rounds are judged together until they have lasted half a second, the last ones with those before them. As many are
    taken again as were asked for, at most; a benchmark of less than half a second is left as it is.

    Args:
        take: function that measures the round of a number, and returns the result.
        rounds: number of rounds.
        team: ranks that measure together: they take the same rounds again.
    """
    global _left_out
    found: dict[int, T] = {}
    left, spare = list(range(rounds)), rounds
    starts, group = [_read()], list[int]()
    while left:
        group.append(left.pop(0))
        found[group[-1]] = take(group[-1])
        if left and _slowest(time.perf_counter() - _left_out.time - starts[-1].time, team) < WINDOW:
            continue
        now = _read()
        starts = _last(starts, now)
        load = _disturbance(now - starts[0], team, WINDOW)["foreign_load"] or 0.0
        if load > LIMIT and len(group) <= spare:
            left += group
            spare -= len(group)
            _left_out -= starts[-1] - now
        starts.append(_read())
        group = []
    return [found[number] for number in range(rounds)]


def _wait_until_quiet(seconds: float, team: Team | None) -> None:
    """Wait until other programs have left the machine alone for a second, and say so once."""
    end = time.perf_counter() + seconds
    silent = team is not None and team.rank != 0
    while (left := _slowest(end - time.perf_counter(), team)) > 0.0:
        start = _read()
        time.sleep(min(left, 1.0))
        load = _disturbance(_read() - start, team)["foreign_load"] or 0.0
        if load <= LIMIT:
            return
        if not silent:
            print(f"gondwana: waiting for other programs, which keep {load} processors busy", file=sys.stderr)
        silent = True


def _last(starts: list[_Reading], now: _Reading) -> list[_Reading]:
    """Return the last of the starts that is half a second ago, and those after it; if none is, all."""
    long_ago = [start for start in starts if start.time <= now.time - WINDOW]
    return [*long_ago[-1:], *starts[len(long_ago) :]]


def _disturbance(spent: _Reading, team: Team | None, shortest: float = SHORTEST) -> dict[str, Any]:
    """The disturbance from the readings of all ranks; no load if they are of less than `shortest`."""
    mine = (cores.machine(), spent)
    machines: dict[str, list[_Reading]] = defaultdict(list)
    for machine, of_rank in [mine] if team is None else team.allgather(mine):
        machines[machine].append(of_rank)
    # Where only one rank has measured, rounds that it has taken again are left out of its reading alone.
    shortest_of = {machine: min(ranks, key=lambda one: one.time) for machine, ranks in machines.items()}
    foreign = max(
        (shortest_of[machine].machine - sum(one.own for one in ranks)) / shortest_of[machine].time
        for machine, ranks in machines.items()
    )
    longest = max(one.time for ranks in machines.values() for one in ranks)
    return {
        "foreign_load": round(max(0.0, foreign), 2) if longest >= shortest else None,
        "involuntary_switches": sum(one.switches for ranks in machines.values() for one in ranks),
    }


def _slowest(seconds: float, team: Team | None) -> float:
    return seconds if team is None else max(team.allgather(seconds))


def _read() -> _Reading:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    switches = sum(usage.ru_nivcsw for usage in usages)
    return _Reading(time.perf_counter(), _busy_machine(), busy_family(os.getpid()), switches) - _left_out


def _busy_machine() -> float:
    """Seconds that the processors of the machine worked for any program, or were taken away by a hypervisor."""
    user, nice, system, _, _, *others = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(others)) * _TICK


def busy_family(pid: int) -> float:
    """Return the seconds that a process and its descendants worked, those included that have ended. Local."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = folder.joinpath("stat").read_text().rpartition(")")[2].split()
            own = processor_time(int(folder.name))
        except OSError:  # it has ended
            continue
        parents[int(folder.name)] = int(fields[1])
        seconds[int(folder.name)] = own + sum(map(int, fields[13:15])) * _TICK
    family = {pid}
    while children := {process for process, parent in parents.items() if parent in family} - family:
        family |= children
    return sum(seconds.get(process, 0.0) for process in family)


def processor_time(process: int) -> float:
    """Return the seconds of processor time of a process, by the clock that Linux has for each. Local."""
    return time.clock_gettime(~process << 3 | 2)
