"""What else ran on the machine while a row was measured: a benchmark under foreign load says so."""

from __future__ import annotations

import os
import resource
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gondwana import Team

TOGETHER = 1e-3
"""Seconds between rows that were measured together, and computed one after the other."""
WINDOW, SHORTEST = 0.5, 0.1
"""Seconds to which a shorter measurement is extended backwards, and without which nothing is said: the system counts
the time of processors in hundredths of a second."""

_TICK = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class _Reading:
    """Of the clocks of this process and its machine [s], and how often it had to leave its processor."""

    time: float
    machine: float
    own: float
    switches: int

    def __sub__(self, other: _Reading) -> _Reading:
        return _Reading(
            self.time - other.time,
            self.machine - other.machine,
            self.own - other.own,
            self.switches - other.switches,
        )


def watched(rows: Iterable[dict[str, Any]], team: Team | None = None) -> Iterator[dict[str, Any]]:
    """Yield rows, each with what disturbed its measurement. Collective over team if one is given, else local.

    `foreign_load` is the number of processors that programs other than this one and its children kept busy on average,
    on the machine with most of it; a hypervisor that took processors away counts. It is that of the last half second
    at least; None if the benchmark has not lasted a tenth of a second. `involuntary_switches` is how often the system
    took a processor from this process and its children, or from all ranks together, in the same time.

    Args:
        rows: measured as they are asked for; those that follow at once have been measured together.
        team: of ranks that measure together.
    """
    starts, found = [_read()], {"foreign_load": None, "involuntary_switches": 0}
    for row in rows:
        now = _read()
        if _slowest(now.time - starts[-1].time, team) > TOGETHER:
            long_ago = [start for start in starts if start.time <= now.time - WINDOW]
            starts = [*long_ago[-1:], *starts[len(long_ago) :]]
            found = _disturbance(now - starts[0], team)
        yield {**row, **({} if "foreign_load" in row else found)}
        starts.append(_read())


def _disturbance(spent: _Reading, team: Team | None) -> dict[str, Any]:
    """What the readings of all ranks say together."""
    mine = (Path("/proc/sys/kernel/random/boot_id").read_text(), spent)  # the same in all containers of a machine
    machines: dict[str, list[_Reading]] = defaultdict(list)
    for machine, of_rank in [mine] if team is None else team.allgather(mine):
        machines[machine].append(of_rank)
    foreign = max(
        (max(one.machine for one in ranks) - sum(one.own for one in ranks)) / max(one.time for one in ranks)
        for ranks in machines.values()
    )
    longest = max(one.time for ranks in machines.values() for one in ranks)
    return {
        "foreign_load": round(max(0.0, foreign), 2) if longest >= SHORTEST else None,
        "involuntary_switches": sum(one.switches for ranks in machines.values() for one in ranks),
    }


def _slowest(seconds: float, team: Team | None) -> float:
    return seconds if team is None else max(team.allgather(seconds))


def _read() -> _Reading:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return _Reading(
        time.perf_counter(), _busy_machine(), _busy_family(os.getpid()), sum(usage.ru_nivcsw for usage in usages)
    )


def _busy_machine() -> float:
    """Seconds that the processors of the machine worked for somebody, or were not given to it."""
    user, nice, system, _, _, *others = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(others)) * _TICK


def _busy_family(pid: int) -> float:
    """Seconds that a process and its descendants worked, those included that have ended."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = folder.joinpath("stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(folder.name)] = int(fields[1])
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    return sum(ticks[process] for process in parents if _descends(process, pid, parents)) * _TICK


def _descends(process: int, ancestor: int, parents: dict[int, int]) -> bool:
    while process != ancestor:
        process = parents.get(process, 0)
        if process == 0:
            return False
    return True
