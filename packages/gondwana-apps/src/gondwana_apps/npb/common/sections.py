"""Time by sections of the timed region, as NPB 3.4 prints it with NPB_TIMER_FLAG."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

import gondwana as gw
from gondwana_apps.timers import Timers

TOTAL, COMPUTING, COMMUNICATING = "total", "totcomp", "totcomm"

COMMUNICATION = frozenset({"comm3", "rcomm", "ncomm", "transpose1_glo", "transpose2_glo", "sync"})
"""The official names of sections that communicate."""

TIMERS = re.compile(r"\b_?sections\(|\bclock\(\)")
"""Pattern of lines that only measure time, which the study did not count."""

_ON = re.compile(r"|[1-9]|on|ON|yes|YES|true|TRUE")
_NOTHING = nullcontext()


class Spread(NamedTuple):
    """Seconds over the ranks."""

    minimum: float
    maximum: float
    average: float


def wanted() -> bool:
    """Return whether the table is requested: by NPB_TIMER_FLAG, without it by a file `timer.flag`. Local."""
    flag = os.environ.get("NPB_TIMER_FLAG")
    return Path("timer.flag").exists() if flag is None else _ON.fullmatch(flag) is not None


class Sections:
    """The timers of a benchmark: `with sections("comm3"): ...` adds to one of them. Local, but for the tables.

    Args:
        team: ranks of the tables.
        names: names of the sections, in the order of the table.
        enabled: whether to measure; if not, a section costs next to nothing.
    """

    def __init__(self, team: gw.Team, names: Sequence[str], enabled: bool) -> None:
        self.enabled = enabled
        self._team = team
        self._names = [TOTAL, *(name for name in names if name not in (TOTAL, COMPUTING, COMMUNICATING))]
        self._timers = Timers()

    def __call__(self, name: str) -> AbstractContextManager[object]:
        """Return the timer of a section, to be used by `with`. Local."""
        return self._timers(name) if self.enabled else _NOTHING

    def add(self, name: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere, as in compiled code. Local."""
        self._timers.seconds[name] += seconds

    def clear(self) -> None:
        """Set all timers to zero. Local."""
        self._timers.seconds.clear()

    def spreads(self, total: float) -> dict[str, Spread]:
        """Compare the ranks. Collective over the team.

        Args:
            total: seconds of this rank in the timed region.

        Returns:
            The spread of each section, in the order of the table, and of communication and of the rest.
        """
        own = {name: self._timers.seconds[name] for name in self._names} | {TOTAL: total}
        communicating = sum(seconds for name, seconds in own.items() if name in COMMUNICATION)
        own |= {COMPUTING: total - communicating, COMMUNICATING: communicating}
        ranks = self._team.allgather(own)
        return {name: _spread([rank[name] for rank in ranks]) for name in own}


def table(spreads: dict[str, Spread], ranks: int) -> list[str]:
    """Return the lines of the official table. Local."""
    width = max(8, *map(len, spreads))
    lines = [f" nprocs = {ranks:5d} {'':{width + 1}} minimum     maximum     average"]
    for number, (name, spread) in enumerate(spreads.items(), 1):
        values = "".join(f"{seconds:12.4f}" for seconds in spread)
        lines.append(f" timer {number:2d}({name:{width}}) :{values}")
    return lines


def _spread(seconds: list[float]) -> Spread:
    return Spread(min(seconds), max(seconds), sum(seconds) / len(seconds))
