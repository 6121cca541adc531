"""Comparisons of one way to communicate with another, as rows of the tables of `ping-pong`, `osu` and `collectives`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gondwana import Team
from gondwana_bench.rma.candidates import Candidate, timed_and_checked
from gondwana_bench.rows import Row, beside, columns, in_microseconds, judged

PARITY = 1 / 1.05
"""The goal of compiled code beside C where both call MPI."""
PYTHON_PARITY = 1 / 1.1
"""The goal of Python beside mpi4py."""

COLUMNS = columns("operation size microseconds rival rival_microseconds ratio goal met verified")


@dataclass(frozen=True)
class Pair:
    """A comparison.

    Attributes:
        ours: the way to judge.
        rival: the way to judge it by.
        goal: ours must be at least this fast, relative to the rival.
        sizes: function that returns whether the goal holds for a size [bytes].
        on_node: whether it holds inside a node only.
    """

    ours: str
    rival: str
    goal: float | None = None
    sizes: Callable[[int], bool] = lambda size: True
    on_node: bool = False

    def goal_for(self, team: Team, size: int) -> float | None:
        """Return the goal for a size, or None. Collective over team."""
        inside = team.node_count == 1 or not self.on_node
        return self.goal if inside and self.sizes(size) else None


def rows(
    team: Team, pairs: Sequence[Pair], found: Mapping[str, Candidate], size: int, parts: int = 1, **timing: Any
) -> Iterator[Row]:
    """Time all candidates of the pairs interleaved, check them, and compare. Collective over team.

    Args:
        team: the ranks.
        pairs: the comparisons.
        found: candidates by name; pairs without theirs are left out.
        size: bytes of a message.
        parts: divisor of the seconds of a call.
        timing: options of `measure.interleave`.
    """
    kept = [pair for pair in pairs if pair.ours in found and pair.rival in found]
    used = {name: found[name] for pair in kept for name in (pair.rival, pair.ours)}
    samples, right = timed_and_checked(team, used, **timing)
    seconds = {name: [sample / parts for sample in samples[name]] for name in used}
    for pair in kept:
        compared = beside(seconds[pair.rival], seconds[pair.ours], microseconds=in_microseconds)
        goal = pair.goal_for(team, size)
        yield {
            "operation": pair.ours,
            "rival": pair.rival,
            "size": size,
            "ranks": team.size,
            "nodes": team.node_count,
            **compared,
            **judged(goal, compared["ratio"], "{:.2g} x"),
            "verified": right[pair.ours] and right[pair.rival],
        }
