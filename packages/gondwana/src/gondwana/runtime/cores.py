"""The cores of this host and the ranks that share them: waiting and threads adapt to both."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gondwana.errors import UsageError
from gondwana.inputs import whole_number
from gondwana.runtime import launcher
from gondwana.runtime.files import text_of
from gondwana.runtime.placement import control_groups

_LOCAL_RANKS = (
    # variables with the number of a rank among those of its host, and with the number of ranks of the host
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    ("SLURM_LOCALID", "SLURM_TASKS_PER_NODE"),
)


@dataclass
class _Host:
    ranks: int = 0
    cores: int = 0
    threads: tuple[frozenset[int], ...] = ()


_host = _Host()


def machine() -> str:
    """Return the identity of this start of the machine: the same in all of its containers, "" if hidden. Local.

    Example:
        >>> from gondwana.runtime import cores
        >>> cores.machine() == cores.machine()
        True
    """
    return text_of("/proc/sys/kernel/random/boot_id")


def own() -> frozenset[int]:
    """Return the cores that this process may use. Local."""
    if _host.threads:  # the main thread alone may be bound to one of them
        return frozenset().union(*_host.threads)
    return frozenset(os.sched_getaffinity(0))


def bind(threads: Sequence[frozenset[int]]) -> None:
    """Bind this process, with all the threads that it has, to the cores of its threads. Local.

    Args:
        threads: the cores of each thread that will run kernels; see `pin`.
    """
    _host.threads = tuple(threads)
    for task in os.listdir("/proc/self/task"):
        unpin(int(task))


def pin(tasks: Sequence[int]) -> None:
    """Bind each of the threads that run kernels to its cores, if this process was bound. Local.

    Args:
        tasks: thread numbers of Linux. If there are more than `bind` was given, they take turns.
    """
    if _host.threads:
        for thread, task in enumerate(tasks):
            os.sched_setaffinity(task, _host.threads[thread % len(_host.threads)])


def unpin(task: int) -> None:
    """Let a thread or process use all cores of this process, not only those of the thread that started it. Local.

    Args:
        task: number of the thread or process in Linux; nothing happens if it has ended.
    """
    if _host.threads:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(task, own())


def count(cores: Collection[int] | None = None) -> int:
    """Return how many cores are worth using: those that a process may use, or fewer if its time is limited. Local.

    Args:
        cores: the cores that the process may use; None: those of this process.
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


def place_among_ranks() -> tuple[int, int]:
    """Return the number of this process among the ranks of its host, and the number of those, by the launcher. Local.

    Raises:
        UsageError: the launcher sets no variables with these numbers.
    """
    launch = launcher.detect()
    if launch is None:
        return 0, 1
    for rank_name, size_name in _LOCAL_RANKS:
        rank, size = whole_number(os.environ.get(rank_name, "")), _number(size_name)
        if rank is not None and size is not None:
            return rank, size
    raise UsageError(
        f"GONDWANA_BIND: {launch.launcher} does not say which ranks share this host; unset it, and bind the ranks "
        "by an option of the launcher"
    )


@functools.cache  # every wait calls it
def _from_launcher() -> int:
    return next((size for _, name in _LOCAL_RANKS if (size := _number(name)) is not None), 1)


def _number(name: str) -> int | None:
    """The number of ranks in a variable; the largest of Slurm's `4(x2),3`: four on two hosts and three on one."""
    sizes = [whole_number(part.partition("(")[0]) for part in os.environ.get(name, "").split(",")]
    return max((size for size in sizes if size is not None and size > 0), default=None)
