"""The bandwidth of memory: STREAM's triad, a = b + s c (J. McCalpin, 1995), on all ranks at once.

As a program it prints the bandwidth of all its ranks together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.runtime import exits
from gondwana_bench import processes
from gondwana_bench.measure import interleave, timed

LENGTH = 1 << 24
"""Elements of each array of a rank: together 400 MB, more than caches hold."""
_REPEAT = 5
_NBYTES = 24
"""Bytes of an element: two read and one written, as STREAM counts."""


@gw.jit
def triad(a: Any, b: Any, c: Any, s: float) -> None:
    """Compute a = b + s c."""
    for place in range(len(a)):
        a[place] = b[place] + s * c[place]


def measure(team: gw.Team, length: int = LENGTH) -> float:
    """Return the GB/s (10^9 bytes) that the ranks reach together, the best of a few rounds. Collective over team.

    Args:
        team: the ranks.
        length: elements of each array of a rank.
    """
    a, b, c = np.zeros(length), np.ones(length), np.full(length, 2.0)
    samples = interleave({"triad": timed(lambda: triad(a, b, c, 3.0))}, repeat=_REPEAT, team=team)
    return team.size * length * _NBYTES / min(samples["triad"]) / 1e9


def run(ranks: int) -> float:
    """Return the bandwidth in GB/s of a number of ranks with one thread each, measured by a job. Local.

    Raises:
        UsageError: the job failed.
    """
    done = processes.run(processes.our_command(ranks, __file__))
    if done.returncode != 0:
        last = processes.last_words(done.stdout, done.stderr)
        raise UsageError(f"the bandwidth of {ranks} ranks cannot be measured (status {done.returncode}): {last}")
    return float(done.stdout)


if __name__ == "__main__":
    exits.install()
    found = measure(gw.world)
    if gw.world.rank == 0:
        print(found)
