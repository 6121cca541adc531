"""The cores of this host and the ranks that share them: waiting and threads adapt to both."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection
from dataclasses import dataclass

from gondwana.inputs import whole_number
from gondwana.runtime import control_groups

_LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PALS_LOCAL_SIZE", "SLURM_TASKS_PER_NODE")


@dataclass
class _Host:
    ranks: int = 0
    cores: int = 0


_host = _Host()


def own() -> frozenset[int]:
    """Return the cores that this process may use. Local."""
    return frozenset(os.sched_getaffinity(0))


def count(cores: Collection[int] | None = None) -> int:
    """Return how many cores are worth using: those that a process may use, or fewer if its time is limited. Local.

    Args:
        cores: those that the process may use; None: those of this one.
    """
    available = len(own() if cores is None else cores)
    limit = control_groups.processors()
    return available if limit is None else min(available, limit)


def share(of_ranks: Collection[frozenset[int]]) -> None:
    """Record the cores of all ranks of this host. Local.

    Launchers may bind each rank to cores of its own; the host then offers the union of them.
    """
    _host.ranks = len(of_ranks)
    _host.cores = count(frozenset().union(*of_ranks))


def ranks() -> int:
    """Return how many ranks share this host: the launcher's number until the world has connected. Local."""
    return _host.ranks or _from_launcher()


def crowded(threads: int = 1) -> bool:
    """Return whether the threads of all ranks outnumber the cores, so that waiting should yield at once. Local."""
    return ranks() > 1 and threads * ranks() > (_host.cores or count())


@functools.cache  # waits ask for it
def _from_launcher() -> int:
    for name in _LOCAL_RANKS:
        digits = os.environ.get(name, "").partition("(")[0]
        count = whole_number(digits)
        if count is not None and count > 0:
            return count
    return 1
